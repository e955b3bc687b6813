package translate

import (
	"github.com/mcp-dualstack/bridge/exchange"
)

// newSuspend returns the session of a modern client with the legacy server of s (translation.md 7.1 to 7.3).
func newSuspend(_ *handler, _ exchange.Client, s exchange.Session) (exchange.Session, error) {
	_ = s.Close()
	return nil, exchange.Fail(exchange.ReasonEra, nil)
}
