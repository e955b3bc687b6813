package upstream_test

import (
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// Nothing that may have run is sent twice; lists, reads and completions go out once more when their
// server ended (R39, translation.md 1.5). Executions are counted at the server.
func TestExecutions(t *testing.T) {
	clients := map[string]exchange.Client{
		"dedicated": legacyClient(negotiate.Rev20250618, nil),
		"shared":    modern("a", `{}`),
		"leased":    modern("a", elicits),
		"modern":    modernClient,
	}
	for _, test := range []struct {
		method, client string
		failure        string // what the server does after it has run the request
		executions     int32
		want           string
	}{
		{"tools/call", "dedicated", "ends", 1, exchange.ReasonLost},
		{"tools/call", "shared", "ends", 1, exchange.ReasonLost},
		{"tools/call", "leased", "ends", 1, exchange.ReasonLost},
		{"tools/call", "modern", "ends", 1, exchange.ReasonLost},
		{"prompts/get", "modern", "ends", 1, exchange.ReasonLost},
		{"unknown/method", "modern", "ends", 1, exchange.ReasonLost},
		{"tools/call", "dedicated", "garbles", 1, exchange.ReasonInvalid},
		{"tools/call", "shared", "garbles", 1, exchange.ReasonInvalid},
		{"tools/call", "leased", "garbles", 1, exchange.ReasonInvalid},
		{"tools/call", "modern", "garbles", 1, exchange.ReasonInvalid},
		{"tools/list", "modern", "garbles", 1, exchange.ReasonInvalid},
		{"tools/list", "dedicated", "ends", 1, exchange.ReasonLost}, // its session is gone
		{"tools/list", "shared", "ends", 2, exchange.ReasonLost},
		{"tools/list", "leased", "ends", 2, exchange.ReasonLost},
		{"resources/read", "modern", "ends", 2, exchange.ReasonLost},
		{"completion/complete", "modern", "ends", 2, exchange.ReasonLost},
		{"tools/list", "modern", "ends once", 2, ""},
		{"resources/read", "shared", "ends once", 2, ""},
	} {
		t.Run(test.method+" "+test.client+" "+test.failure, func(t *testing.T) {
			o := &upstream.Options{Era: "legacy"}
			if test.client == "modern" {
				o.Era = "modern"
			}
			inBothEras(t, o, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
				var executions atomic.Int32
				stop := make(chan struct{})
				done := make(chan struct{})
				go func() {
					defer close(done)
					for {
						select {
						case w := <-made:
							for serveOnce(w, test.method, test.failure, &executions) {
							}
							_ = w.Close()
						case <-stop:
							return
						}
					}
				}()
				s, err := up.Open(t.Context(), clients[test.client])
				if err != nil {
					t.Fatal(err)
				}
				_, err = call(s, test.method, `{}`, nil).wait()
				equal(t, "error", reason(err), test.want)
				equal(t, "executions", executions.Load(), test.executions)
				_ = up.Close()
				close(stop)
				<-done
			})
		})
	}
}

// serveOnce answers one message and returns false when the connection is over.
func serveOnce(w *wire, method, failure string, executions *atomic.Int32) bool {
	line := w.read()
	m, err := jsonrpc.Scan([]byte(line))
	if err != nil {
		return false
	}
	switch m.Method {
	case "server/discover":
		w.say(discoverModern)
	case "initialize":
		w.say(initializeResult(1, "2025-11-25"))
	case method:
		n := executions.Add(1)
		switch {
		case failure == "garbles":
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{},"error":{}}`+"\n", m.ID)
		case failure == "ends" || n == 1:
			return false
		default:
			_, _ = io.WriteString(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", m.ID))
		}
	}
	return true
}
