package upstream_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// TestR19LateProbeAnswer: a server that is silent when it is probed gets initialize after a bounded wait, and its late answer to the
// probe, whatever that is, does nothing to the session that was opened meanwhile.
func TestR19LateProbeAnswer(t *testing.T) {
	for name, late := range map[string]string{"refused": discoverRefused, "both eras": discoverBoth} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
				ready := make(chan *wire, 2)
				go func() {
					probed := <-made
					probed.read() // and says nothing
					session := <-made
					session.read()
					session.say(initializeResult(1, "2025-06-18"))
					ready <- probed
					ready <- session
				}()
				start := time.Now()
				s, err := up.Open(t.Context(), legacyClient(negotiate.Rev20250618, nil))
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "waited", since(start), 3*time.Second)
				probed, w := <-ready, <-ready
				p := call(s, "tools/list", "", nil)
				w.read() // notifications/initialized
				w.read()
				probed.say(late)
				synctest.Wait()
				w.say(`{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`)
				got, err := p.wait()
				equal(t, "result", got, `{"tools":[]}`)
				equal(t, "error", reason(err), "")
				_ = probed.Close()
				_ = w.Close()
			})
		})
	}
}

// TestR27LineSeparatorsInArguments: U+2028 and its like go to a child as they are, in one line.
func TestR27LineSeparatorsInArguments(t *testing.T) {
	const params = "{\"name\":\"t\",\"arguments\":{\"t\":\"a\u2028b\u2029c\u0085d\\u000be\"}}"
	inBubble(t, nil, func(t *testing.T, up *upstream.Upstream, made chan *wire) {
		s, w := openLegacy(t, up, made, nil)
		p := call(s, "tools/call", params, nil)
		equal(t, "line", w.read(), `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":`+params+`}`)
		w.say(`{"jsonrpc":"2.0","id":3,"result":{}}`)
		_, err := p.wait()
		equal(t, "error", reason(err), "")
	})
}
