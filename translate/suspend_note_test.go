package translate_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/translate"
)

func TestProgressOfOtherMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			for _, note := range []exchange.Request{
				{Method: "notifications/progress", Params: []byte(`{"progressToken":3,"progress":1}`)},
				{Method: "notifications/message", Params: []byte(`{"level":"error","data":1}`)},
				{Method: "notifications/tools/list_changed"},
				{Method: "notifications/x/unknown"},
			} {
				_ = back.Notify(ctx, note)
			}
			return exchange.Response{Result: []byte(`{"tools":[]}`)}, nil
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		d.meta = `,"progressToken":3`
		d.show("tools/list", "{}")
		equal(t, "told", strings.Join(told(d.back), " "), `notifications/progress {"progressToken":3,"progress":1}`)
	})
}

// Blocks that no revision of MCP has are shown to the client's model as text (T3).
func TestUnknownBlockInAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			return back.Call(ctx, exchange.Request{Method: "sampling/createMessage", Params: []byte(`{"messages":[{"role":"user","content":{"type":"smell","of":"tea"}}],"maxTokens":5}`)})
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		r := d.round("tools/call", deploy)
		equal(t, "asked", strings.Contains(r.requests, `"content":{"type":"text","text":"{\"type\":\"smell\",\"of\":\"tea\"}"}`), true)
	})
}

// A slowPeer takes its time to hand a note over.
type slowPeer struct {
	exchangetest.Peer
	told chan time.Time
}

func (p *slowPeer) Notify(context.Context, exchange.Request) error {
	time.Sleep(time.Second)
	p.told <- time.Now()
	return nil
}

// What was said before the client is asked is heard before (architecture.md 3, contract 5).
func TestNotesComeBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			go elicits(ctx, back, "?")
			time.Sleep(time.Millisecond)
			_ = back.Notify(ctx, exchange.Request{Method: "notifications/progress", Params: []byte(`{"progressToken":3,"progress":1}`)})
			<-ctx.Done()
			return exchange.Response{}, context.Cause(ctx)
		})
		d := newDesk(t, legacyHandler(t, up, nil))
		d.meta = `,"progressToken":3`
		s, err := d.h.Open(t.Context(), exchange.Client{Revision: negotiate.Rev20260728, Capabilities: []byte(d.caps)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		back := &slowPeer{told: make(chan time.Time, 1)}
		if _, err := s.Call(t.Context(), exchange.Request{Method: "tools/call", Params: d.with(deploy)}, back); err != nil {
			t.Fatal(err)
		}
		equal(t, "notes handed over before the answer", len(back.told), 1)
	})
}

// Log messages during a suspension are nobody's; that they are dropped is reported (translation.md 7.3.3).
func TestDroppedLogMessagesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newLegacy(t, func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			say := func() {
				_ = back.Notify(ctx, exchange.Request{Method: "notifications/message", Params: []byte(`{"level":"error","data":1}`)})
				_ = back.Notify(ctx, exchange.Request{Method: "notifications/progress", Params: []byte(`{"progressToken":3,"progress":1}`)})
			}
			say()
			go func() {
				time.Sleep(time.Second) // the client has been asked by then
				say()
				say()
			}()
			elicits(ctx, back, "?")
			return text("done")
		})
		var seen []exchange.Observation
		h := legacyHandler(t, up, &translate.Options{Observe: func(o exchange.Observation) { seen = append(seen, o) }})
		d := newDesk(t, h)
		d.meta = `,"io.modelcontextprotocol/logLevel":"info"`
		r := d.round("tools/call", deploy)
		time.Sleep(2 * time.Second)
		d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`))
		equal(t, "told", strings.Join(told(d.back), " "), `notifications/message {"level":"error","data":1}`)
		equal(t, "reported", len(seen), 2)
		for _, o := range seen {
			equal(t, "report", o.Kind+" "+o.Detail, exchange.SeenDropped+" notifications/message")
		}
	})
}
