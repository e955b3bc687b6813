package jsonrpc

import (
	"slices"
	"strconv"
)

// What a message takes beside what its caller gives, at most; in an error object also the names and the code. They are
// reserved at once: growing step by step costs two or three allocations a message.
const (
	envelopeBytes = len(`{"jsonrpc":"2.0","id":,"method":"","params":}`)
	faultBytes    = len(`{"code":-2147483648,"message":"","data":}`)
)

// AppendRequest appends a request to dst. id is a raw token, never nil; nil params are left out.
func AppendRequest(dst, id []byte, method string, params []byte) []byte {
	dst = slices.Grow(dst, envelopeBytes+len(id)+len(method)+len(params))
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"method":`...)
	return appendCall(dst, method, params)
}

// AppendNotification appends a notification to dst; nil params are left out.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = slices.Grow(dst, envelopeBytes+len(method)+len(params))
	dst = append(dst, `{"jsonrpc":"2.0","method":`...)
	return appendCall(dst, method, params)
}

func appendCall(dst []byte, method string, params []byte) []byte {
	dst = appendQuote(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// AppendResult appends a successful response to dst. id is a raw token, never nil. A nil result is
// written as {}.
func AppendResult(dst, id, result []byte) []byte {
	dst = slices.Grow(dst, envelopeBytes+len(id)+len(result))
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":`...)
	if result == nil {
		return append(dst, `{}}`...)
	}
	dst = append(dst, result...)
	return append(dst, '}')
}

// AppendError appends an error response to dst; with a nil id it has no id member (translation.md 2).
func AppendError(dst, id []byte, e *Error) []byte {
	dst = slices.Grow(dst, envelopeBytes+len(id)+faultBytes+len(e.Message)+len(e.Data)+len(e.Raw))
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if id != nil {
		dst = append(dst, `"id":`...)
		dst = append(dst, id...)
		dst = append(dst, ',')
	}
	dst = append(dst, `"error":`...)
	dst = appendFault(dst, e)
	return append(dst, '}')
}

// appendFault appends the error object.
func appendFault(dst []byte, e *Error) []byte {
	if e.Raw != nil {
		return append(dst, e.Raw...)
	}
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = appendQuote(dst, e.Message)
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, '}')
}

// readError reads a checked error object. A code that is not written as an integer, or that int
// cannot hold, reads as 0, a message that is not a string as empty.
func readError(raw []byte) *Error {
	e := &Error{Data: Get(raw, "data"), Raw: raw}
	e.Message, _ = String(Get(raw, "message"))
	if code, err := strconv.Atoi(string(Get(raw, "code"))); err == nil {
		e.Code = code
	}
	return e
}
