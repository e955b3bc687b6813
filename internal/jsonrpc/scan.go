package jsonrpc

import (
	"bytes"
	"unicode/utf8"
)

// Scan reads the envelope of one message by translation.md section 2.
//
// It checks the whole text: one JSON value and nothing after it, UTF-8 (escaped lone surrogates
// pass), nesting of at most [MaxDepth]; violations are [CodeParse]. It refuses with
// [CodeInvalidRequest]: a value that is not an object; a jsonrpc member other than "2.0" or none; an
// id that is null, a boolean, an array, an object, or a number with fraction or exponent (an error
// response may have a null id, which reads as none); a successful response without an id; a
// duplicate of a top-level member known to JSON-RPC, or one whose name differs from it in case only;
// method together with result or error, or result with error; none of the three; a method that is
// not a string; an error that is not an object; a params that is neither object nor array nor null;
// and a duplicate inside params of _meta, name, uri, taskId, protocolVersion, capabilities,
// requestState or inputResponses, or inside _meta of a key the bridge decides by (progressToken and
// keys that start with io.modelcontextprotocol/). Duplicates anywhere else are payload.
//
// The message may be partly filled when err is not nil. Raw is set if the text is JSON. ID is set if
// it could be read as a valid id with certainty and the message has no result or error, so that the
// refusal can carry it. Kind is Response if there is a result or error and no method: ID stays nil
// then, for a refusal that carried it would pass for the answer to a request of the peer's own. Who
// wants to know which answer was spoilt uses Get(m.Raw, "id").
func Scan(text []byte) (m Message, err *Error) {
	e := envelope{scanner: scanner{text: text}}
	ascii, clean := survey(text)
	if clean {
		e.swift()
	}
	if !ascii && !utf8.Valid(text) {
		return m, &Error{Code: CodeParse, Message: whyUTF8}
	}
	if !e.read() {
		return m, &Error{Code: CodeParse, Message: e.why}
	}
	m.Raw = e.raw
	if e.raw[0] != '{' {
		return m, &Error{Code: CodeInvalidRequest, Message: "message is not an object"}
	}
	err = e.judge(&m)
	return m, err
}

// The top-level members known to JSON-RPC.
type field uint8

const (
	fieldOther field = iota
	fieldVersion
	fieldID
	fieldMethod
	fieldParams
	fieldResult
	fieldError
	fieldCount
)

var fieldNames = [fieldCount][]byte{nil, []byte("jsonrpc"), []byte("id"), []byte("method"), []byte("params"), []byte("result"), []byte("error")}

// An envelope is the top level of a message while it is read.
type envelope struct {
	scanner

	raw       []byte
	values    [fieldCount][]byte // raw values; nil where absent
	meta      []byte             // params._meta if an object
	refused   string             // the first reason for CodeInvalidRequest found, empty if none
	unclearID bool               // more than one member could be meant as the id
}

// read goes through the whole text. It returns false if that is not one JSON value.
func (e *envelope) read() bool {
	if !e.blanks() {
		return e.fail(whySyntax)
	}
	start := e.pos
	ok := false
	if e.text[start] == '{' {
		ok = e.members()
	} else {
		ok = e.value()
	}
	e.raw = e.since(start)
	return ok && e.end()
}

// members reads the top-level object.
func (e *envelope) members() bool {
	if !e.open() {
		return false
	}
	for first := true; ; first = false {
		name, more := e.member(first)
		if !more {
			return e.why == ""
		}
		f := e.field(name)
		start := e.pos
		ok := false
		if f == fieldParams && e.text[start] == '{' {
			ok = e.params()
		} else {
			ok = e.value()
		}
		if !ok {
			return false
		}
		if f != fieldOther {
			e.values[f] = e.since(start)
		}
	}
}

// field tells which member the raw name means, and refuses a second one and one in other case.
func (e *envelope) field(raw []byte) field {
	name, _ := unquote(raw)
	f := fieldOther
	switch string(name) {
	case "jsonrpc":
		f = fieldVersion
	case "id":
		f = fieldID
	case "method":
		f = fieldMethod
	case "params":
		f = fieldParams
	case "result":
		f = fieldResult
	case "error":
		f = fieldError
	}
	if f == fieldOther {
		e.refuseFolded(name)
		return f
	}
	if e.values[f] != nil {
		e.refuse("duplicate member " + string(fieldNames[f]))
		e.unclearID = e.unclearID || f == fieldID
	}
	return f
}

// refuseFolded refuses a name that a parser without regard to case, encoding/json for one, takes
// for a known one.
func (e *envelope) refuseFolded(name []byte) {
	for f := fieldVersion; f < fieldCount; f++ {
		if bytes.EqualFold(name, fieldNames[f]) {
			e.refuse("member " + string(fieldNames[f]) + " written in another case")
			e.unclearID = e.unclearID || f == fieldID
		}
	}
}

// refuse notes a reason for CodeInvalidRequest; the first one counts.
func (e *envelope) refuse(why string) {
	if e.refused == "" {
		e.refused = why
	}
}

// judge fills m from the members and says whether they make a message.
func (e *envelope) judge(m *Message) *Error {
	answer := e.values[fieldResult] != nil || e.values[fieldError] != nil
	switch {
	case answer && e.values[fieldMethod] == nil:
		m.Kind = Response
	case !answer && isID(e.values[fieldID]) && !e.unclearID:
		m.ID = e.values[fieldID]
	}
	if v, _ := unquote(e.values[fieldVersion]); string(v) != "2.0" {
		e.refuse(`member jsonrpc is not "2.0"`)
	}
	switch first(e.values[fieldParams]) {
	case 0, '{', '[', 'n':
	default:
		e.refuse("params is neither object nor array")
	}
	switch {
	case !answer:
		e.call(m)
	case e.values[fieldMethod] != nil:
		e.refuse("method together with result or error")
	case e.values[fieldResult] != nil && e.values[fieldError] != nil:
		e.refuse("result together with error")
	default:
		e.answer(m)
	}
	if e.refused != "" {
		return &Error{Code: CodeInvalidRequest, Message: e.refused}
	}
	return nil
}

// call fills m as a request or notification.
func (e *envelope) call(m *Message) {
	id, method := e.values[fieldID], e.values[fieldMethod]
	m.Kind = Notification
	if id != nil {
		m.Kind = Request
	}
	if id != nil && !isID(id) {
		e.refuse("id is neither a string nor an integer")
	}
	name, ok := unquote(method)
	switch {
	case method == nil:
		e.refuse("none of method, result and error")
	case !ok:
		e.refuse("method is not a string")
	}
	m.Method = methodName(name)
	if params := e.values[fieldParams]; !IsNull(params) {
		m.Params, m.Meta = params, e.meta
	}
}

// answer fills m as a response.
func (e *envelope) answer(m *Message) {
	id, fault := e.values[fieldID], e.values[fieldError]
	switch {
	case fault != nil && IsNull(id):
		id = nil
	case !isID(id):
		e.refuse("id is neither a string nor an integer")
	}
	if fault != nil && !IsObject(fault) {
		e.refuse("error is not an object")
	}
	if e.refused != "" {
		return
	}
	m.ID, m.Result = id, e.values[fieldResult]
	if fault != nil {
		m.Error = readError(fault)
	}
}

// isID reports whether the raw value may be the id of a request.
func isID(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '"' || integer(raw) == len(raw))
}
