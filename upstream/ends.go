package upstream

import (
	"bytes"
	"regexp"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// The ends of a message of which the middle is unknown.
type ends struct {
	id     []byte // raw, nil if it was not found
	method bool   // it is a request or notification
}

// idAtEnd matches the end of a message whose last members are its id and perhaps jsonrpc. What stands right
// before the last brace belongs to the top level, and a quote inside a string has a backslash before it.
var idAtEnd = regexp.MustCompile(`[{,]\s*"id"\s*:\s*(-?\d+|"[^"\\]*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// readEnds finds the id of a message from its beginning (its members up to the first that is
// cut off) and its end. head need not be JSON to its end.
func readEnds(head, tail []byte) ends {
	e := readHead(head)
	if e.id == nil && !e.method {
		if m := idAtEnd.FindSubmatch(tail); m != nil && bytes.HasPrefix(bytes.TrimLeft(head, " \t\r"), []byte("{")) {
			e.id = m[1]
		}
	}
	return e
}

// readHead reads the members that are whole.
func readHead(head []byte) ends {
	var e ends
	jsonrpc.Members(head, func(name string, value []byte) bool {
		switch name {
		case "id":
			e.id = value
		case "method":
			e.method = true
		}
		return true
	})
	return e
}
