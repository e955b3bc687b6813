package translate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/schematest"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A stateless handler stands for a network of 2026-07-28: to its client it is a modern server, and each of its requests opens
// a session of next with what the envelope says.
type stateless struct{ next exchange.Handler }

func (h stateless) Open(ctx context.Context, _ exchange.Client) (exchange.Session, error) {
	s, err := h.next.Open(ctx, exchange.Client{Revision: negotiate.Rev20260728})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return &statelessSession{h.next, s.Server()}, nil
}

type statelessSession struct {
	next   exchange.Handler
	server exchange.Server
}

func (s *statelessSession) Server() exchange.Server                        { return s.server }
func (s *statelessSession) Notify(context.Context, exchange.Request) error { return nil }
func (s *statelessSession) Done() <-chan struct{}                          { return nil }
func (s *statelessSession) Close() error                                   { return nil }

func (s *statelessSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	claim := negotiate.ReadClaim(jsonrpc.Get(req.Params, "_meta"))
	up, err := s.next.Open(ctx, exchange.Client{Revision: negotiate.Rev20260728, Info: claim.Info, Capabilities: claim.Capabilities})
	if err != nil {
		return exchange.Response{}, err
	}
	defer up.Close()
	return up.Call(ctx, req, back)
}

// A play is one call of a random tool by a random user, and what both saw of it.
type play struct {
	steps  []byte        // what the tool does, a byte each
	cancel time.Duration // after which the user takes the call back; 0: never

	mu       sync.Mutex
	answers  []string // to the tool's questions, in the order of the steps
	asked    map[string]int
	begun    int
	sent     []string // progress values
	progress []string // progress values that the user heard
	outcome  string
	over     string // cause of the end of the tool's ctx, if it saw one
}

const maxSteps = 8 // asking no more often than a call may have rounds

// tool does the steps: it asks one thing or two at once, takes a question back, tells of progress, works.
func (p *play) tool(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
	p.mu.Lock()
	p.begun++
	p.mu.Unlock()
	for i, b := range p.steps {
		var said string
		switch b % 7 {
		case 0:
			said = p.ask(ctx, back, i, "elicitation/create", strings.Replace(branchForm, "Which", fmt.Sprintf("%d Which", i), 1))
		case 1:
			said = p.ask(ctx, back, i, "roots/list", "")
		case 2:
			said = p.both(ctx, back, i)
		case 3:
			// Half a second off the user's times, which the bridge adds some milliseconds to.
			taken, cancel := context.WithTimeout(ctx, time.Duration(b/7%5)*time.Second+time.Second/2)
			said = p.ask(taken, back, i, "elicitation/create", strings.Replace(branchForm, "Which", fmt.Sprintf("%d Which", i), 1))
			if taken.Err() != nil {
				said = "taken back"
				time.Sleep(5 * time.Second) // the bridge hears of it only when the user has answered
			}
			cancel()
		case 4, 5:
			p.tell(back, i)
		case 6:
			select {
			case <-time.After(time.Duration(b) * 10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			p.mu.Lock()
			p.over = context.Cause(ctx).Error()
			p.mu.Unlock()
			return exchange.Response{}, context.Cause(ctx)
		}
		p.mu.Lock()
		p.answers = append(p.answers, said)
		p.mu.Unlock()
	}
	return p.end()
}

// end is an error, a failed result or a good one, by the last step.
func (p *play) end() (exchange.Response, error) {
	last := byte(0)
	if len(p.steps) > 0 {
		last = p.steps[len(p.steps)-1]
	}
	switch last / 7 % 4 {
	case 0:
		return exchange.Response{Error: &exchange.Error{Code: -32603, Message: "no", Data: []byte(`{"n":1.0}`)}}, nil
	case 1:
		return exchange.Response{Result: []byte(`{"isError":true,"content":[],"x":{"y":[1.50]}}`)}, nil
	case 2:
		return exchange.Response{Result: []byte(`{"content":[{"type":"text","text":"a\u0041"}],"structuredContent":{"n":25.0},"_meta":{"k":1}}`)}, nil
	}
	return text(fmt.Sprint(p.answers))
}

func (p *play) ask(ctx context.Context, back exchange.Peer, i int, method, params string) string {
	req := exchange.Request{Method: method}
	if params != "" {
		req.Params = []byte(params)
	}
	resp, err := back.Call(ctx, req)
	return shown(resp, err)
}

func (p *play) both(ctx context.Context, back exchange.Peer, i int) string {
	var a, b string
	var wg sync.WaitGroup
	wg.Go(func() {
		a = p.ask(ctx, back, i, "sampling/createMessage", fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":"%d?"}}],"maxTokens":5}`, i))
	})
	wg.Go(func() {
		b = p.ask(ctx, back, i, "elicitation/create", strings.Replace(branchForm, "Which", fmt.Sprintf("%d Which", i), 1))
	})
	wg.Wait()
	return a + " " + b
}

func (p *play) tell(back exchange.Peer, i int) {
	value := fmt.Sprintf("%d.5", i)
	p.mu.Lock()
	p.sent = append(p.sent, value)
	p.mu.Unlock()
	_ = back.Notify(context.Background(), exchange.Request{Method: "notifications/progress", Params: []byte(`{"progressToken":"t","progress":` + value + `}`)})
}

// Call is the user being asked: it takes its time and accepts, declines or fails by what it is asked.
func (p *play) Call(ctx context.Context, req exchange.Request) (exchange.Response, error) {
	if req.Sent != nil {
		req.Sent()
	}
	p.mu.Lock()
	params := req.Params
	if params == nil {
		params = []byte("{}") // the same to JSON-RPC
	}
	p.asked[req.Method+" "+string(params)]++
	p.mu.Unlock()
	n := 0
	for _, c := range req.Params {
		n += int(c)
	}
	select {
	case <-time.After(time.Duration(n%5) * time.Second):
	case <-ctx.Done():
		return exchange.Response{}, context.Cause(ctx)
	}
	switch {
	case req.Method == "roots/list":
		return exchange.Response{Result: []byte(`{"roots":[{"uri":"file:///r"}],"x":1.0}`)}, nil
	case req.Method == "sampling/createMessage":
		return exchange.Response{Result: []byte(`{"role":"assistant","content":{"type":"text","text":"y"},"model":"m"}`)}, nil
	case n%3 == 0:
		return exchange.Response{Result: []byte(`{"action":"decline"}`)}, nil
	}
	return exchange.Response{Result: []byte(accepted)}, nil
}

// Notify is the user being told.
func (p *play) Notify(_ context.Context, note exchange.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if string(jsonrpc.Get(note.Params, "progressToken")) != `"t"` {
		p.progress = append(p.progress, "another token")
	}
	p.progress = append(p.progress, string(jsonrpc.Get(note.Params, "progress")))
	return nil
}

// run plays the call through h, which has the tool behind it.
func (p *play) run(t *testing.T, handler func(up exchange.Handler) exchange.Handler, schemas *schematest.Schemas) {
	p.asked = make(map[string]int)
	up := newLegacy(t, p.tool)
	up.schemas = schemas
	s, err := handler(up).Open(t.Context(), exchange.Client{
		Revision: negotiate.Rev20251125, Requested: "2025-11-25", Capabilities: []byte(allCapabilities), Info: []byte(`{"name":"c","version":"1"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if p.cancel > 0 {
		stop := time.AfterFunc(p.cancel, func() { cancel(&exchange.CancelError{Reason: "enough"}) })
		defer stop.Stop()
	}
	resp, err := s.Call(ctx, exchange.Request{Method: "tools/call", Params: []byte(`{"name":"t","arguments":{"n":25.0},"_meta":{"progressToken":"t"}}`)}, p)
	if err == nil && schemas != nil {
		schemas.Response(t, negotiate.Rev20251125, "tools/call", resp)
	}
	p.outcome = shown(resp, err)
	if resp.Error != nil {
		p.outcome = string(jsonrpc.AppendError(nil, []byte("1"), resp.Error))
	}
	time.Sleep(time.Hour) // a suspended call learns of the end when its time is up
}

// sameAsDirect plays a script with the tool itself and through two bridges, and compares what both ends saw.
func sameAsDirect(t *testing.T, steps []byte, cancel time.Duration, schemas *schematest.Schemas) {
	synctest.Test(t, func(t *testing.T) {
		steps = steps[:min(len(steps), maxSteps)]
		direct := &play{steps: steps, cancel: cancel}
		direct.run(t, func(up exchange.Handler) exchange.Handler { return up }, nil)
		bridged := &play{steps: steps, cancel: cancel}
		bridged.run(t, func(up exchange.Handler) exchange.Handler {
			return legacyHandler(t, stateless{legacyHandler(t, up, nil)}, nil)
		}, schemas)
		equal(t, "calls of the tool", bridged.begun, direct.begun)
		if !isSubsequence(bridged.progress, direct.sent) {
			t.Errorf("progress: got %v of %v", bridged.progress, direct.sent)
		}
		if cancel > 0 {
			direct.sameEnd(t, bridged)
			return
		}
		equal(t, "outcome", bridged.outcome, direct.outcome)
		equal(t, "answers", fmt.Sprint(bridged.answers), fmt.Sprint(direct.answers))
		equal(t, "asked", fmt.Sprint(bridged.asked), fmt.Sprint(direct.asked))
	})
}

// sameEnd compares plays that may have been cancelled. The bridge takes its time between rounds, so that either end may be
// further than the other; but who is cancelled is told so, and who is not ends alike.
func (p *play) sameEnd(t *testing.T, bridged *play) {
	t.Helper()
	if bridged.outcome != p.outcome && !strings.HasPrefix(bridged.outcome, "failed: cancelled") {
		t.Errorf("outcome: got %s, want %s or the cancellation", bridged.outcome, p.outcome)
	}
	if strings.HasPrefix(bridged.outcome, "failed: cancelled") && len(bridged.answers) < len(bridged.steps) && bridged.over == "" {
		t.Errorf("the tool did not hear of the cancellation after %v", bridged.answers)
	}
}

// isSubsequence reports whether part is all with elements left out.
func isSubsequence(part, all []string) bool {
	for _, s := range all {
		if len(part) > 0 && part[0] == s {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// Drive over suspend over a legacy server behaves as that server (architecture.md 3).
func FuzzDriveOverSuspend(f *testing.F) {
	for i := range 7 {
		f.Add([]byte{byte(i), byte(i + 14)}, uint16(0))
		f.Add([]byte{4, byte(i), 5, byte(i + 21)}, uint16(i*300))
	}
	f.Fuzz(func(t *testing.T, steps []byte, cancel uint16) {
		sameAsDirect(t, steps, time.Duration(cancel)*time.Millisecond, nil)
	})
}

func TestDriveOverSuspend(t *testing.T) {
	schemas := schematest.Load(t)
	random := rand.New(rand.NewPCG(4, 2026))
	for i := range 300 {
		steps := make([]byte, random.IntN(maxSteps+1))
		for j := range steps {
			steps[j] = byte(random.IntN(256))
		}
		cancel := time.Duration(0)
		if i%3 == 0 {
			cancel = time.Duration(random.IntN(20000)) * time.Millisecond
		}
		sameAsDirect(t, steps, cancel, schemas)
		if t.Failed() {
			t.Fatalf("script %d: steps %v, cancel %v", i, steps, cancel)
		}
	}
}
