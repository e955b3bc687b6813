package bridge

import (
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/retire"
)

// metaRetirement is the key of what an initialize result says about the retirement (retirement.md R7): an object as the data of
// a refusal has it.
const metaRetirement = "io.github.mcp-dualstack/retirement"

// tombstoneEnd is how long a stream stays after everything on it has been refused: long enough for the answer to be read
// (retirement.md 6, closed).
const tombstoneEnd = 5 * time.Second

// request returns the refusal of a request on a legacy stream, nil if it is served, and how much later the stream ends, zero
// if it stays. c is who asks, fresh that there is no conversation.
func (t *retirement) request(r *http.Request, method string, c exchange.Client, fresh bool) (*exchange.Error, time.Duration) {
	s := t.state()
	if !s.Stage.Reached(retire.Warn) {
		return nil, 0
	}
	point := retire.AtRequest
	if method == "initialize" || method == "server/discover" {
		point = retire.AtInitialize
	}
	d := t.decide(s, point, c, fresh)
	if !d.Refuse {
		if d.WouldRefuse && (method == "initialize" || fresh && point == retire.AtRequest) { // once for each conversation
			t.seen(exchange.SeenWouldRefuse, point, d, c)
		}
		return nil, 0
	}
	t.seen(exchange.SeenRefused, point, d, c)
	end := time.Duration(0)
	if fresh && s.Stage.Reached(retire.Closed) {
		end = tombstoneEnd
	}
	return refusal(s, d, t.links(r)), end
}

// greeting returns how the result of initialize is changed from warn on: a member of _meta for programs, and the notice in the
// instructions if the operator wants that. nil: not at all.
func (t *retirement) greeting(r *http.Request) func([]byte) []byte {
	s := t.state()
	if !s.Stage.Reached(retire.Warn) {
		return nil
	}
	l := t.links(r)
	coming := retire.Decision{Stage: s.Stage}
	return func(result []byte) []byte {
		result = jsonrpc.Set(result, s.Data(coming, l), "_meta", metaRetirement)
		if !t.s.Retirement.Instructions {
			return result
		}
		text := s.Sentence(coming, l)
		if old, ok := jsonrpc.String(jsonrpc.Get(result, "instructions")); ok && old != "" {
			text = old + "\n\n" + text
		}
		return jsonrpc.Set(result, jsonrpc.Quote(text), "instructions")
	}
}

// notice returns the params of the log notification that tells a client of the retirement (2025-11-25 schema,
// LoggingMessageNotification), nil outside warn and brownout.
func (t *retirement) notice(r *http.Request) []byte {
	s := t.state()
	if s.Stage != retire.Warn && s.Stage != retire.Brownout {
		return nil
	}
	text := s.Sentence(retire.Decision{Stage: s.Stage}, t.links(r))
	params := jsonrpc.Set(nil, jsonrpc.Quote("warning"), "level")
	params = jsonrpc.Set(params, jsonrpc.Quote(loggerName), "logger")
	return jsonrpc.Set(params, jsonrpc.Quote(text), "data")
}

// loggerName is who speaks in log notifications of the bridge itself.
const loggerName = "mcp-dualstack-bridge"
