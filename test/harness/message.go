package harness

import (
	"encoding/json"
	"fmt"
)

// A Message is one JSON-RPC message as read off the wire. Absent members are nil; ID keeps its text, so that
// 7 and "7" differ.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`
}

// An Error is the error of a JSON-RPC response.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// IsResponse reports whether m answers a request.
func (m Message) IsResponse() bool { return m.Method == "" && m.ID != nil }

// Text returns the text of the first content block of a tools/call result.
func (m Message) Text() string {
	var r struct {
		Content []struct{ Text string }
	}
	if json.Unmarshal(m.Result, &r) != nil || len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// Progress returns the progress of a notifications/progress, 0 for another message.
func (m Message) Progress() int {
	var p struct{ Progress int }
	if m.Method != "notifications/progress" || json.Unmarshal(m.Params, &p) != nil {
		return 0
	}
	return p.Progress
}

// Initialize returns the params of initialize of a client without capabilities.
func Initialize(name, revision string) string {
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":%q,"version":"1"}}`, revision, name)
}

// Request returns the text of a request.
func Request(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
}

// Initialized is the notification that ends the handshake.
const Initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// Modern puts the envelope of a 2026-07-28 request around members of params.
func Modern(members string) string {
	if members != "" {
		members += ","
	}
	return `{` + members + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"streams-modern","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}`
}
