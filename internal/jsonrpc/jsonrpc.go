// Package jsonrpc reads and writes JSON-RPC 2.0 envelopes on raw JSON text.
//
// Params, results, ids and error data are byte slices that alias the text they came in; nothing
// is decoded and encoded again. The rules of what is accepted are translation.md section 2.
package jsonrpc

import "fmt"

// Codes of JSON-RPC 2.0 and of MCP 2026-07-28 (basic/index, Error Codes).
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeResourceNotFound   = -32002 // handshake era only
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
	CodeURLElicitation     = -32042 // 2025-11-25
)

// Limits of translation.md sections 2 and 17.
const (
	MaxDepth = 512 // nesting of arrays and objects
	MaxBatch = 64  // elements
)

// An Error is a JSON-RPC error object.
type Error struct {
	Code    int
	Message string
	Data    []byte // raw JSON, nil when absent

	// Raw is the error object as it came from a peer. When it is set the object is written as
	// these bytes and the fields above are only its reading.
	Raw []byte
}

// Error describes e for a log.
func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Errorf returns an error made here, with a formatted public message.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// A Kind tells requests, notifications and responses apart.
type Kind uint8

// The kinds of message.
const (
	Request      Kind = iota + 1 // method and id
	Notification                 // method, no id
	Response                     // result or error
)

// A Message is the envelope of one JSON-RPC message. The byte fields alias the text it was
// scanned from.
type Message struct {
	Kind   Kind
	ID     []byte // the id's token as written: a string with its quotes, or an integer; nil if absent (a response may have none)
	Method string
	Params []byte // raw object or array; nil when absent or null
	Meta   []byte // raw params._meta when it is an object, else nil
	Result []byte // raw; nil unless a successful response
	Error  *Error // nil unless an error response
	Raw    []byte // the whole text, outer blanks removed
}
