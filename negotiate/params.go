package negotiate

import (
	"net/http"
	"slices"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A Param is one x-mcp-header annotation of a tool's inputSchema (2026-07-28 server/tools, x-mcp-header).
type Param struct {
	Path   []string // member names below arguments
	Header string   // canonical, with the prefix: Mcp-Param-Region
	Type   string   // string, integer or boolean as the schema says
}

const annotation = "x-mcp-header"

// ReadParams returns the annotations of a tool's inputSchema reachable through properties only. ok is false if any
// of them breaks the constraints of the revision; such a tool is not to be offered over HTTP.
//
// The constraints are those of 2026-07-28 streamable-http, Schema Extension: the name is a token of
// RFC 9110, unique without regard to case; the type of the same schema is exactly string, integer or
// boolean (number is not permitted, nor is a list of types); and the annotation sits on a property reached by a
// chain of properties keys only. One anywhere else, below items, anyOf, $defs or a keyword not known here, is a
// fault. A property that happens to be named x-mcp-header is none, and neither is text inside
// default, const, enum or examples.
func ReadParams(inputSchema []byte) (ps []Param, ok bool) {
	if !mayName(inputSchema, annotation) {
		return nil, true
	}
	r := paramReader{ok: true}
	r.schema(inputSchema, nil, true)
	if !r.ok {
		return nil, false
	}
	return r.params, true
}

type paramReader struct {
	params []Param
	ok     bool
}

// schema reads one schema; reachable tells whether path leads to it through properties only.
func (r *paramReader) schema(s []byte, path []string, reachable bool) {
	if !jsonrpc.IsObject(s) {
		return
	}
	annotated := false
	jsonrpc.Members(s, func(name string, v []byte) bool {
		switch name {
		case annotation:
			r.ok = !annotated && reachable && len(path) > 0 && r.add(s, v, path)
			annotated = true
		case "properties":
			r.named(v, path, reachable)
		case "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			r.named(v, nil, false)
		case "default", "const", "enum", "examples":
		default:
			r.nested(v)
		}
		return r.ok
	})
}

// named reads an object whose member names are not keywords and whose values are schemas.
func (r *paramReader) named(obj []byte, path []string, reachable bool) {
	if !jsonrpc.IsObject(obj) {
		return
	}
	jsonrpc.Members(obj, func(name string, v []byte) bool {
		r.schema(v, append(slices.Clip(path), name), reachable)
		return r.ok
	})
}

// nested reads what a keyword other than properties holds: a schema, a list of schemas, or neither.
func (r *paramReader) nested(v []byte) {
	if !jsonrpc.IsArray(v) {
		r.schema(v, nil, false)
		return
	}
	jsonrpc.Elements(v, func(e []byte) bool {
		r.nested(e)
		return r.ok
	})
}

// add takes the annotation with the raw value v of the schema s; false if it breaks a constraint.
func (r *paramReader) add(s, v []byte, path []string) bool {
	name, ok := jsonrpc.String(v)
	if !ok || !isToken(name) {
		return false
	}
	header := http.CanonicalHeaderKey(HeaderParamPrefix + name)
	if slices.ContainsFunc(r.params, func(p Param) bool { return p.Header == header }) {
		return false
	}
	kind, _ := jsonrpc.String(jsonrpc.Get(s, "type"))
	switch kind {
	case "string", "integer", "boolean":
		r.params = append(r.params, Param{Path: path, Header: header, Type: kind})
		return true
	}
	return false
}

// CheckParams compares the Mcp-Param-* fields of h with the arguments by the table of translation.md 11.
// args is the raw arguments object of tools/call, nil when absent. Header fields that no Param claims are ignored.
//
// The error is -32020 (status 400), or -32600 (status 400) when a mirrored argument occurs twice,
// because parsers disagree on which one counts (translation.md 2).
func CheckParams(h http.Header, args []byte, ps []Param) *jsonrpc.Error {
	for _, p := range ps {
		arg, err := p.find(args)
		if err != nil {
			return err
		}
		if err := p.check(h[p.Header], arg); err != nil {
			return err
		}
	}
	return nil
}

// check compares the lines of p's header with its argument, nil for none.
func (p Param) check(lines []string, arg []byte) *jsonrpc.Error {
	if arg == nil {
		if len(lines) > 0 {
			return mismatch("%s header is present, but %s is absent or null", p.Header, p)
		}
		return nil
	}
	want, ok := mirror(arg)
	if !ok {
		return mismatch("%s has no value that a %s header can carry; it must be a string, an integer or a boolean", p, p.Header)
	}
	switch len(lines) {
	case 0:
		return mismatch("the %s header is missing; it must carry %s", p.Header, p)
	case 1:
	default:
		return mismatch("the %s header occurs %d times; send it once", p.Header, len(lines))
	}
	got, ok := DecodeValue(lines[0])
	if !ok {
		return mismatch("%s header value %s is neither visible ASCII nor valid =?base64?...?= of UTF-8", p.Header, quote(lines[0]))
	}
	if got == want {
		return nil
	}
	if isNumber(arg) && sameNumber(got, want) {
		return nil
	}
	return mismatch("%s header value %s does not match body value %s of %s", p.Header, quote(got), quote(want), p)
}

// ParamHeaders returns the Mcp-Param-* fields for the arguments, nil if there are none. args is the
// raw arguments object of tools/call, nil when absent.
//
// The error is -32602 for an argument no legal header exists for: an integer beyond 2^53-1 either
// way, a fraction, an object or an array; and -32600 for a mirrored argument that occurs twice.
func ParamHeaders(args []byte, ps []Param) (http.Header, *jsonrpc.Error) {
	var h http.Header
	for _, p := range ps {
		arg, err := p.find(args)
		if err != nil {
			return nil, err
		}
		if arg == nil {
			continue
		}
		v, ok := mirror(arg)
		if !ok || isNumber(arg) && !isSafe(v) {
			return nil, Refused(jsonrpc.CodeInvalidParams, ReasonUnmirrorable,
				"Invalid params: %s is sent in the %s header and must be a string, a boolean or an integer within 2^53-1", p, p.Header)
		}
		if h == nil {
			h = make(http.Header, len(ps))
		}
		h[p.Header] = []string{EncodeValue(v)}
	}
	return h, nil
}

// String returns where p's argument is, for messages.
func (p Param) String() string {
	s := "arguments"
	for _, name := range p.Path {
		s += "." + name
	}
	return quote(s)
}

// find returns the raw argument p mirrors; nil if it is absent or null. The error is -32600 if a member on the way occurs twice.
func (p Param) find(args []byte) ([]byte, *jsonrpc.Error) {
	for _, want := range p.Path {
		if !jsonrpc.IsObject(args) {
			return nil, nil
		}
		n, next := 0, []byte(nil)
		jsonrpc.Members(args, func(name string, v []byte) bool {
			if name == want {
				n++
				next = v
			}
			return n < 2
		})
		if n > 1 {
			return nil, Refused(jsonrpc.CodeInvalidRequest, ReasonDuplicateArgument,
				"Invalid request: %s occurs twice and is mirrored in the %s header; send it once", p, p.Header)
		}
		args = next
	}
	if jsonrpc.IsNull(args) {
		return nil, nil
	}
	return args, nil
}

// mirror returns the text a raw argument has in a header before encoding; ok is false if it is not a string, an integer or a boolean.
func mirror(arg []byte) (s string, ok bool) {
	switch {
	case isString(arg):
		return jsonrpc.String(arg)
	case isNumber(arg):
		return integerText(string(arg))
	case string(arg) == "true", string(arg) == "false":
		return string(arg), true
	}
	return "", false
}
