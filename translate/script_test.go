package translate_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/schematest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/translate"
)

// A script is a server of one revision that answers by a function. What reaches it is recorded and checked against the
// schema of its revision.
type script struct {
	t       testing.TB
	schemas *schematest.Schemas
	server  exchange.Server
	answer  func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error)
	done    chan struct{}

	mu     sync.Mutex
	calls  []exchange.Request
	notes  []string
	opened []exchange.Client
	closed int
}

func (s *script) Open(_ context.Context, c exchange.Client) (exchange.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, c)
	return &scriptSession{s}, nil
}

type scriptSession struct{ *script }

func (s *scriptSession) Server() exchange.Server { return s.server }
func (s *scriptSession) Done() <-chan struct{}   { return s.done }

func (s *scriptSession) Notify(_ context.Context, note exchange.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, note.Method)
	return nil
}

func (s *scriptSession) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

func (s *scriptSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if req.Sent != nil {
		req.Sent()
	}
	if !strings.HasPrefix(req.Method, "x/") {
		s.schemas.Request(s.t, s.server.Revision, req)
	}
	s.mu.Lock()
	s.calls = append(s.calls, req)
	s.mu.Unlock()
	return s.answer(ctx, req, back)
}

// params returns the params of the calls of a method so far.
func (s *script) params(method string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, req := range s.calls {
		if req.Method == method {
			out = append(out, string(req.Params))
		}
	}
	return out
}

const discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},` +
	`"prompts":{},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{},` +
	`"extensions":{"io.modelcontextprotocol/tasks":{},"com.example/x":{"n":1.0}}},"instructions":"ask \u0041",` +
	`"ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv","version":"1.0"}},"x-more":[1.50]}`

// newScript returns a server of 2026-07-28.
func newScript(t testing.TB, answer func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error)) *script {
	t.Helper()
	return &script{t: t, schemas: schematest.Load(t), answer: answer, server: exchange.Server{
		Revision:     negotiate.Rev20260728,
		Info:         []byte(`{"name":"srv","version":"1.0"}`),
		Capabilities: jsonrpc.Get([]byte(discovered), "capabilities"),
		Instructions: jsonrpc.Get([]byte(discovered), "instructions"),
		Discover:     []byte(discovered),
	}}
}

// results answers each method's calls with the results given, one after another; the last one is for all further ones.
func results(method string, texts ...string) func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
	n := 0
	return func(ctx context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
		if req.Method != method {
			return elsewhere(ctx, req)
		}
		text := texts[min(n, len(texts)-1)]
		n++
		return exchange.Response{Result: []byte(text)}, nil
	}
}

// elsewhere answers what a test is not about: a listen lasts, the rest is empty.
func elsewhere(ctx context.Context, req exchange.Request) (exchange.Response, error) {
	if req.Method == "subscriptions/listen" {
		<-ctx.Done()
		return exchange.Response{}, context.Cause(ctx)
	}
	if req.Method == "prompts/list" {
		return exchange.Response{Result: []byte(`{"resultType":"complete","prompts":[],"ttlMs":0,"cacheScope":"private"}`)}, nil
	}
	return exchange.Response{Result: []byte(`{"resultType":"complete"}`)}, nil
}

// A user is a client of one revision. What it is asked, told and answered is checked against the schema of its revision.
type user struct {
	t        testing.TB
	schemas  *schematest.Schemas
	revision negotiate.Revision
	caps     string
	call     exchangetest.Peer // of its calls
	standing exchangetest.Peer
	session  exchange.Session

	mu    sync.Mutex
	asked []exchange.Request
}

const allCapabilities = `{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`

// newUser opens a session as a client of the revision with those capabilities; reply answers what it is asked.
func newUser(t testing.TB, h exchange.Handler, r negotiate.Revision, caps string, reply func(ctx context.Context, req exchange.Request) (exchange.Response, error)) *user {
	t.Helper()
	u := &user{t: t, schemas: schematest.Load(t), revision: r, caps: caps}
	u.call.Answer = func(ctx context.Context, req exchange.Request) (exchange.Response, error) {
		u.schemas.Request(t, r, req)
		u.mu.Lock()
		u.asked = append(u.asked, req)
		u.mu.Unlock()
		if req.Sent != nil {
			req.Sent()
		}
		return reply(ctx, req)
	}
	u.standing.Answer = u.call.Answer
	s, err := h.Open(t.Context(), exchange.Client{
		Revision: r, Requested: r.String(), Capabilities: []byte(caps), Info: []byte(`{"name":"desk","version":"3.1"}`), Back: &u.standing,
	})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	u.session = s
	t.Cleanup(func() { _ = s.Close() })
	if s.Server().Initialize != nil {
		init := jsonrpc.Set(s.Server().Initialize, jsonrpc.Quote(r.String()), "protocolVersion")
		u.schemas.Response(t, r, "initialize", exchange.Response{Result: init})
	}
	return u
}

// ask calls the server and checks what comes back.
func (u *user) ask(method, params string) (exchange.Response, error) {
	u.t.Helper()
	return u.askCtx(u.t.Context(), method, params)
}

func (u *user) askCtx(ctx context.Context, method, params string) (exchange.Response, error) {
	u.t.Helper()
	resp, err := u.session.Call(ctx, exchange.Request{Method: method, Params: []byte(params)}, &u.call)
	if err == nil {
		u.schemas.Response(u.t, u.revision, method, resp)
	}
	for _, note := range u.call.Notes() {
		u.schemas.Request(u.t, u.revision, note)
	}
	return resp, err
}

// must is ask for a result.
func (u *user) must(method, params string) string {
	u.t.Helper()
	resp, err := u.ask(method, params)
	if err != nil || resp.Error != nil {
		u.t.Fatalf("%s: %v, %v", method, resp.Error, err)
	}
	return string(resp.Result)
}

func (u *user) questions() (out []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, req := range u.asked {
		out = append(out, req.Method+" "+string(req.Params))
	}
	return out
}

// told returns what a peer heard, one line each.
func told(p *exchangetest.Peer) (out []string) {
	for _, note := range p.Notes() {
		out = append(out, note.Method+" "+string(note.Params))
	}
	return out
}

func modern(s *script) exchange.Handler { return translate.Handler(s, nil) }

// replies answers each question method with the text given.
func replies(byMethod map[string]string) func(context.Context, exchange.Request) (exchange.Response, error) {
	return func(_ context.Context, req exchange.Request) (exchange.Response, error) {
		if text, ok := byMethod[req.Method]; ok {
			return exchange.Response{Result: []byte(text)}, nil
		}
		return exchange.Response{Error: jsonrpc.Errorf(jsonrpc.CodeInternal, "user said no")}, nil
	}
}

var agreeable = replies(map[string]string{
	"elicitation/create":     `{"action":"accept","content":{"branch":"main","n":1.0}}`,
	"roots/list":             `{"roots":[{"uri":"file:///home"}]}`,
	"sampling/createMessage": `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}`,
})

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}
