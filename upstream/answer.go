package upstream

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// outcomeOf returns what a response says to the call it answers: itself, or upstream_invalid where no client could read it.
func outcomeOf(m *jsonrpc.Message) outcome {
	if err := usable(m); err != nil {
		return outcome{err: exchange.Fail(exchange.ReasonInvalid, err)}
	}
	return outcome{resp: exchange.Response{Result: m.Result, Error: m.Error}}
}

// usable says what is wrong with a response by which clients would drop it and wait on: a result of MCP is an
// object (all revisions, schema Result), an error has an integer code and a message (JSON-RPC 2.0, section 5.1).
func usable(m *jsonrpc.Message) error {
	if m.Error == nil {
		if !jsonrpc.IsObject(m.Result) {
			return errors.New("the result is not an object")
		}
		return nil
	}
	if _, err := strconv.ParseInt(string(jsonrpc.Get(m.Error.Raw, "code")), 10, 64); err != nil {
		return errors.New("the error has no integer code")
	}
	if _, ok := jsonrpc.String(jsonrpc.Get(m.Error.Raw, "message")); !ok {
		return errors.New("the error has no message")
	}
	return nil
}

// ownID reads a raw id as one of those the connection counts.
func ownID(raw []byte) (id int64, ok bool) {
	id, err := strconv.ParseInt(string(raw), 10, 64)
	return id, err == nil && id > 0
}

// meantID reads an id that is not what was sent but can only mean it: the number as a string, or with a fraction
// of nothing. An answer under it is no answer, but it is the end of the call.
func meantID(raw []byte) (id int64, ok bool) {
	if s, isString := jsonrpc.String(raw); isString {
		return ownID([]byte(s))
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != float64(int64(f)) || f < 1 || f > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// errOtherID is why an answer under a changed id is none.
func errOtherID(raw []byte) error {
	return fmt.Errorf("the answer's id is %.40s, which is not what was sent", raw)
}

// spoiltID returns the id of the call that text was meant to answer although it is no response, if that can be seen:
// JSON-RPC without a method, but with an id of ours. A line of a JSON log may have an id too, but no version.
func spoiltID(raw []byte) (id int64, ok bool) {
	if !jsonrpc.IsObject(raw) || jsonrpc.Get(raw, "jsonrpc") == nil || jsonrpc.Get(raw, "method") != nil {
		return 0, false
	}
	text := jsonrpc.Get(raw, "id")
	if id, ok = ownID(text); !ok {
		id, ok = meantID(text)
	}
	return id, ok
}
