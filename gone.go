package bridge

import (
	"context"
	"net/http"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/retire"
)

// goneRoutes answers on the legacy routes where the stage is gone for good: no stream is opened and nothing is asked of the server.
func (t *retirement) goneRoutes() legacyRoutes {
	return legacyRoutes{
		stream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s := t.state()
			t.header(w, r, s)
			t.refuseStream(w, r, s, t.decide(s, retire.AtGet, exchange.Client{}, false))
		}),
		messages: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s := t.state()
			t.header(w, r, s)
			t.refuseMessage(w, r, s, t.decide(s, retire.AtMessage, exchange.Client{}, false))
		}),
		knows:    func(string, string) bool { return false },
		drain:    func(context.Context) error { return nil },
		shutdown: func(context.Context) error { return nil },
		close:    func() error { return nil },
	}
}
