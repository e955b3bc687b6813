package translate

import (
	"crypto/rand"
	"fmt"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// question applies T3, T10 and T11 to the params of a request of the server's. ok is false if the client's revision
// has no words for it.
func (p *payload) question(method string, params []byte) (out []byte, ok bool) {
	switch method {
	case "sampling/createMessage":
		return p.messages(params, p.samplingMessage), true
	case "elicitation/create":
		if p.client.Has(negotiate.TitledEnums) {
			return params, true
		}
		return untitledForm(params)
	}
	return params, true
}

// samplingMessage is T11 with T3: a SamplingMessage, or several joined by commas, nil for none.
func (p *payload) samplingMessage(m []byte) []byte {
	old := jsonrpc.Get(m, "content")
	switch {
	case jsonrpc.IsObject(old):
		return setChanged(m, p.samplingBlock(old), old, "content")
	case !jsonrpc.IsArray(old):
		return m
	case p.client.Has(negotiate.SamplingTools):
		return setChanged(m, mapElements(old, p.samplingBlock), old, "content")
	}
	frame := jsonrpc.Set(m, []byte("0"), "content") // m may be large, and is read once
	var out []byte
	jsonrpc.Elements(old, func(b []byte) bool {
		if out == nil {
			out = make([]byte, 0, len(m)+len(frame))
		} else {
			out = append(out, ',')
		}
		out = append(out, jsonrpc.Set(frame, p.samplingBlock(b), "content")...)
		return true
	})
	return out
}

// untitledForm is T10: ElicitRequestFormParams with titled choices as enum and enumNames. ok is false for a
// field of several choices, which revisions without titles cannot express.
func untitledForm(params []byte) (out []byte, ok bool) {
	schema := jsonrpc.Get(params, "requestedSchema")
	if !mayHave(schema, "oneOf") && !mayHave(schema, "array") {
		return params, true
	}
	ok = true
	fields := jsonrpc.Get(schema, "properties")
	plain := mapMembers(fields, func(field []byte) []byte {
		ok = ok && !is(jsonrpc.Get(field, "type"), "array")
		return untitledField(field)
	})
	if !ok || same(plain, fields) {
		return params, ok
	}
	return jsonrpc.Set(params, plain, "requestedSchema", "properties"), true
}

// untitledField returns a TitledSingleSelectEnumSchema as an EnumSchema of 2025-06-18; other fields as they are.
func untitledField(field []byte) []byte {
	choices := jsonrpc.Get(field, "oneOf")
	if !jsonrpc.IsArray(choices) {
		return field
	}
	values, names := []byte{'['}, []byte{'['}
	complete := true
	jsonrpc.Elements(choices, func(choice []byte) bool {
		value, name := jsonrpc.Get(choice, "const"), jsonrpc.Get(choice, "title")
		if len(value) == 0 || value[0] != '"' {
			complete = false
			return false
		}
		if len(name) == 0 || name[0] != '"' {
			name = value
		}
		if len(values) > 1 {
			values, names = append(values, ','), append(names, ',')
		}
		values, names = append(values, value...), append(names, name...)
		return true
	})
	if !complete {
		return field
	}
	field = jsonrpc.Set(jsonrpc.Delete(field, "oneOf"), append(values, ']'), "enum")
	return jsonrpc.Set(field, append(names, ']'), "enumNames")
}

// withElicitationID is T12 towards a handshake-era client: ElicitRequestURLParams with a fresh id.
func withElicitationID(params []byte) (out []byte, id string) {
	id = newUUID()
	return jsonrpc.Set(params, jsonrpc.Quote(id), "elicitationId"), id
}

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
