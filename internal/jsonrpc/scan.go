package jsonrpc

// Scan reads the envelope of one message by translation.md section 2.
//
// It checks the whole text: one JSON value and nothing after it, UTF-8 (escaped lone surrogates
// pass), nesting of at most [MaxDepth]; violations are [CodeParse]. It refuses with
// [CodeInvalidRequest]: a value that is not an object; a jsonrpc member other than "2.0"; an id
// that is null, a boolean, an array, an object, or a number with fraction or exponent (for a
// request: an error response may have a null id, which reads as none); a duplicate of a top-level
// member known to JSON-RPC, or one whose name differs from it in case only; method together with
// result or error; none of the three; a params that is neither object nor array nor null; and a duplicate
// inside params of _meta, name, uri, taskId, protocolVersion, capabilities, requestState or
// inputResponses, or inside _meta of a key the bridge decides by (progressToken and keys that
// start with io.modelcontextprotocol/). Duplicates anywhere else are payload.
//
// The message may be partly filled when err is not nil: ID is set if it could be read as a valid id with
// certainty, so that the refusal can carry it.
func Scan(text []byte) (m Message, err *Error) { panic("not built") }

// IsArray reports whether text is a JSON array by its first character.
func IsArray(text []byte) bool { panic("not built") }

// Split returns the elements of a JSON array, each a slice of text. It refuses what [Scan] refuses
// with CodeParse, and with CodeInvalidRequest an empty array and one of more than [MaxBatch] elements.
func Split(text []byte) (elems [][]byte, err *Error) { panic("not built") }
