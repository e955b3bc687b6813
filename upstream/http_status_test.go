package upstream_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A handshake-era server that refuses a request by a bare status means -32601 where no revision of its era has the
// method. Where one has, the status may mean anything.
func TestBareStatusForAnUnknownMethod(t *testing.T) {
	for _, test := range []struct {
		method string
		status int
		code   int    // of the answer
		reason string // of the failure where there is none
	}{
		{"no/such", http.StatusBadRequest, jsonrpc.CodeMethodNotFound, ""},
		{"no/such", http.StatusNotImplemented, jsonrpc.CodeMethodNotFound, ""},
		{"no/such", http.StatusInternalServerError, 0, exchange.ReasonUnavailable},
		{"tools/call", http.StatusBadRequest, 0, exchange.ReasonUnavailable},
	} {
		t.Run(test.method+" "+http.StatusText(test.status), func(t *testing.T) {
			inWeb(t, &upstream.Options{Era: "legacy"}, func(w http.ResponseWriter, h *hit) {
				switch h.name() {
				case "initialize":
					say(w, h, `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)
				case test.method:
					http.Error(w, "Bad Request: unsupported", test.status)
				case "GET":
					w.WriteHeader(http.StatusMethodNotAllowed)
				default:
					w.WriteHeader(http.StatusAccepted)
				}
			}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
				sess, err := r.Open(ctx, legacyClient(negotiate.Rev20250618, nil))
				if err != nil {
					t.Fatal(err)
				}
				defer sess.Close()
				resp, err := sess.Call(ctx, exchange.Request{Method: test.method, Params: []byte("{}")}, nil)
				code := 0
				if resp.Error != nil {
					code = resp.Error.Code
				}
				equal(t, "code", code, test.code)
				equal(t, "failure", reason(err), test.reason)
			})
		})
	}
}
