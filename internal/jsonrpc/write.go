package jsonrpc

// AppendRequest appends a request to dst. id is a raw token; nil params are left out.
func AppendRequest(dst, id []byte, method string, params []byte) []byte { panic("not built") }

// AppendNotification appends a notification to dst; nil params are left out.
func AppendNotification(dst []byte, method string, params []byte) []byte { panic("not built") }

// AppendResult appends a successful response to dst. A nil result is written as {}.
func AppendResult(dst, id, result []byte) []byte { panic("not built") }

// AppendError appends an error response to dst; with a nil id it has no id member (translation.md 2).
func AppendError(dst, id []byte, e *Error) []byte { panic("not built") }
