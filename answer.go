package bridge

import (
	"mime"
	"net/http"
	"strings"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A note is a small answer of the bridge itself to a request that is none of MCP. Empty fields are left out.
type note struct {
	Error     string
	Successor string // absolute URL
	Data      []byte // raw JSON object with further members
}

func (n note) json() []byte {
	out := []byte("{}")
	for _, m := range []struct{ name, value string }{{"error", n.Error}, {"successor", n.Successor}} {
		if m.value != "" {
			out = jsonrpc.Set(out, jsonrpc.Quote(m.value), m.name)
		}
	}
	jsonrpc.Members(n.Data, func(name string, value []byte) bool {
		out = jsonrpc.Set(out, value, name)
		return true
	})
	return append(out, '\n')
}

// answer writes n as JSON to a client that prefers it and as its sentence to any other.
func answer(w http.ResponseWriter, r *http.Request, status int, n note) {
	body, contentType := []byte(n.Error+"\n"), "text/plain; charset=utf-8"
	if prefersJSON(r) {
		body, contentType = n.json(), "application/json"
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // nobody to tell: the client went away
}

// prefersJSON reports whether Accept names JSON and not text. Weights are not looked at: both forms say the same.
func prefersJSON(r *http.Request) bool {
	named := false
	for item := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		t, _, err := mime.ParseMediaType(item)
		switch {
		case err != nil:
		case t == "application/json":
			named = true
		case t == "text/plain" || t == "text/html":
			return false
		}
	}
	return named
}
