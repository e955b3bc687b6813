package main

import (
	"bytes"
	"strconv"

	"github.com/mcp-dualstack/bridge/test/load/scan"
)

const tools = `{"tools":[` +
	`{"name":"echo","description":"return the text","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}},` +
	`{"name":"progress","description":"emit steps progress notifications","inputSchema":{"type":"object","properties":{"steps":{"type":"integer"}}}},` +
	`{"name":"ask","description":"ask the user rounds times","inputSchema":{"type":"object","properties":{"rounds":{"type":"integer"}}}},` +
	`{"name":"notify","description":"broadcast tools/list_changed","inputSchema":{"type":"object"}}]`

// A caller is where a message came from. emit sends what belongs to the call; it is nil where there is no stream for it.
// all tells every open stream.
type caller struct {
	emit func([]byte)
	all  func([]byte)
}

// handle answers one message. It returns nil for what gets no answer, and for a call whose answer goes through emit later.
func handle(msg []byte, from caller) []byte {
	e := scan.Envelope(msg)
	if e.Method == nil && e.ID != nil {
		answered(e.ID)
		return nil
	}
	if e.ID == nil || e.Method == nil {
		return nil
	}
	modern := isModern(e)
	out := make([]byte, 0, len(e.Params)+160)
	out = append(out, `{"jsonrpc":"2.0","id":`...)
	out = append(out, e.ID...)
	switch string(e.Method) {
	case "initialize":
		if !speaksLegacy() {
			return append(out, `,"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28"]}}}`...)
		}
		return initialized(out, scan.Get(e.Params, "protocolVersion"))
	case "server/discover":
		if speaksModern() {
			return append(out, `,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"upstream","version":"1"}},"ttlMs":0,"cacheScope":"private"}}`...)
		}
	case "ping":
		return append(out, `,"result":{}}`...)
	case "tools/list":
		out = append(out, `,"result":`...)
		out = append(out, tools...)
		if modern {
			out = append(out, `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`...)
		}
		return append(out, `}}`...)
	case "tools/call":
		return call(out, e, modern, from)
	}
	return append(out, `,"error":{"code":-32601,"message":"method not found"}}`...)
}

func isModern(e scan.Env) bool {
	return bytes.Contains(e.Params, []byte(`protocolVersion":"2026-07-28"`)) && string(e.Method) != "initialize"
}

func initialized(out, version []byte) []byte {
	if version == nil || string(version) == `"2026-07-28"` {
		version = []byte(`"2025-11-25"`)
	}
	out = append(out, `,"result":{"protocolVersion":`...)
	out = append(out, version...)
	return append(out, `,"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"upstream","version":"1"}}}`...)
}

// call runs a tool; out holds the answer up to its id.
func call(out []byte, e scan.Env, modern bool, from caller) []byte {
	var name, args, meta, state []byte
	scan.Each(e.Params, func(k, v []byte) bool {
		switch string(k) {
		case "name":
			name = scan.Unquote(v)
		case "arguments":
			args = v
		case "_meta":
			meta = v
		case "requestState":
			state = scan.Unquote(v)
		}
		return true
	})
	text := []byte(`"ok"`)
	switch string(name) {
	case "echo":
		if t := scan.Get(args, "text"); t != nil {
			text = t
		}
	case "progress":
		progress(scan.Get(meta, "progressToken"), number(scan.Get(args, "steps")), from.emit)
	case "ask":
		rounds := number(scan.Get(args, "rounds"))
		if modern {
			if at := number(state); at < rounds {
				return inputRequired(out, at+1)
			}
		} else if from.emit != nil && rounds > 0 {
			ask(append([]byte(nil), finish(out, text, false)...), rounds, from.emit)
			return nil
		}
	case "notify":
		from.all([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
	}
	return finish(out, text, modern)
}

func number(b []byte) int {
	n, _ := strconv.Atoi(string(b)) // absent is 0
	return n
}

func finish(out, text []byte, modern bool) []byte {
	out = append(out, `,"result":{"content":[{"type":"text","text":`...)
	out = append(out, text...)
	out = append(out, `}]`...)
	if modern {
		out = append(out, `,"resultType":"complete"`...)
	}
	return append(out, `}}`...)
}

func progress(token []byte, steps int, emit func([]byte)) {
	if token == nil || emit == nil {
		return
	}
	for i := 1; i <= steps; i++ {
		p := append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), token...)
		p = append(p, `,"progress":`...)
		p = strconv.AppendInt(p, int64(i), 10)
		p = append(p, `,"total":`...)
		p = strconv.AppendInt(p, int64(steps), 10)
		emit(append(p, `}}`...))
	}
}
