package streamable_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/streamable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is a server behind the seam that does what the test says.
type script struct {
	open   func(ctx context.Context, c exchange.Client) error // nil: agrees
	call   func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error)
	server exchange.Server
	done   chan struct{} // given out by Done; nil: cannot end by itself

	mu      sync.Mutex
	clients []exchange.Client // as opened
	notes   []string          // methods of notifications received
	closed  int
}

func (s *script) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	if s.open != nil {
		if err := s.open(ctx, c); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, c)
	return &scripted{s: s}, nil
}

// last returns the client opened last.
func (s *script) last() exchange.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[len(s.clients)-1]
}

func (s *script) closes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *script) noted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.notes)
}

type scripted struct {
	s    *script
	once sync.Once
}

func (x *scripted) Server() exchange.Server { return x.s.server }

func (x *scripted) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if req.Sent != nil {
		req.Sent()
	}
	if x.s.call == nil {
		return result(`{"method":"` + req.Method + `"}`), nil
	}
	return x.s.call(ctx, req, back)
}

func (x *scripted) Notify(_ context.Context, note exchange.Request) error {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	x.s.notes = append(x.s.notes, note.Method)
	return nil
}

func (x *scripted) Done() <-chan struct{} { return x.s.done }

func (x *scripted) Close() error {
	x.once.Do(func() {
		x.s.mu.Lock()
		defer x.s.mu.Unlock()
		x.s.closed++
	})
	return nil
}

func result(raw string) exchange.Response { return exchange.Response{Result: []byte(raw)} }

// wait is a call that ends only with its ctx.
func wait(ctx context.Context, _ exchange.Request, _ exchange.Peer) (exchange.Response, error) {
	<-ctx.Done()
	return exchange.Response{}, context.Cause(ctx)
}

// A bed is a front with a script behind it and an HTTP client before it, in a bubble of its own time.
type bed struct {
	t      testing.TB
	script *script
	front  *streamable.Front
	http   *memhttp.Server
	client *http.Client

	mu   sync.Mutex
	seen []exchange.Observation
}

// inBubble runs f in a synctest bubble.
func inBubble(t *testing.T, s *script, o streamable.Options, f func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newBed(t, s, o)) })
}

func newBed(t testing.TB, s *script, o streamable.Options) *bed {
	b := &bed{t: t, script: s}
	o.Observe = func(x exchange.Observation) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.seen = append(b.seen, x)
	}
	b.front = streamable.New(s, &o)
	b.http = memhttp.New(t, b.front)
	b.client = b.http.Client()
	t.Cleanup(func() { b.front.Close() })
	return b
}

// observed reports how often something was observed; an empty detail stands for any.
func (b *bed) observed(kind, detail string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, o := range b.seen {
		if o.Kind == kind && (detail == "" || o.Detail == detail) {
			n++
		}
	}
	return n
}

const both = "application/json, text/event-stream"

// do sends a request with the given headers ("Name: value"), which come after the usual ones of a POST and
// replace them; an empty value removes one.
func (b *bed) do(ctx context.Context, method, body string, headers ...string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, b.http.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", both)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
		if value == "" {
			req.Header.Del(name)
		}
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// A reply is a whole response.
type reply struct {
	status int
	header http.Header
	body   string
}

func (b *bed) send(method, body string, headers ...string) reply {
	b.t.Helper()
	return read(b.t, b.do(b.t.Context(), method, body, headers...))
}

func (b *bed) post(body string, headers ...string) reply {
	b.t.Helper()
	return b.send(http.MethodPost, body, headers...)
}

func read(t testing.TB, resp *http.Response) reply {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read body: %v", err)
	}
	return reply{resp.StatusCode, resp.Header, plain(string(body))}
}

var tags = regexp.MustCompile(`(?m)^id: [A-Z2-7]{6}\.`)

// plain returns events with the random part of their ids replaced.
func plain(s string) string { return tags.ReplaceAllString(s, "id: TAG.") }

func initialize(revision string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + revision +
		`","capabilities":{"roots":{},"elicitation":{}},"clientInfo":{"name":"test","version":"1"}}}`
}

// session opens a session and returns the header that names it.
func (b *bed) session(revision string) string {
	b.t.Helper()
	r := b.post(initialize(revision))
	id := r.header.Get("Mcp-Session-Id")
	if r.status != http.StatusOK || id == "" {
		b.t.Fatalf("initialize: status %d, session %q, body %s", r.status, id, r.body)
	}
	return "Mcp-Session-Id: " + id
}

// A listener reads events as they come.
type listener struct {
	t    testing.TB
	resp *http.Response
	r    *bufio.Reader
	stop context.CancelFunc
}

// open sends a request whose answer is a stream to be read event by event.
func (b *bed) open(method, body string, headers ...string) *listener {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	resp := b.do(ctx, method, body, headers...)
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		b.t.Fatalf("%s: status %d, type %s: %s", method, resp.StatusCode, got, body)
	}
	b.t.Cleanup(stop)
	return &listener{b.t, resp, bufio.NewReader(resp.Body), stop}
}

// listen opens the GET stream.
func (b *bed) listen(session string, headers ...string) *listener {
	b.t.Helper()
	return b.open(http.MethodGet, "", append([]string{session, "Accept: text/event-stream"}, headers...)...)
}

// event returns the next block, comments and all, as it came but for the blank line; "" at the end.
func (l *listener) raw() string {
	l.t.Helper()
	var s strings.Builder
	for {
		line, err := l.r.ReadString('\n')
		if err == io.EOF && line == "" && s.Len() == 0 {
			return ""
		}
		if err != nil {
			l.t.Fatalf("read stream: %v after %q", err, s.String()+line)
		}
		if line == "\n" {
			return s.String()
		}
		s.WriteString(line)
	}
}

// event returns the next event that is no comment, with the random part of its id replaced.
func (l *listener) event() string {
	l.t.Helper()
	for {
		s := l.raw()
		if !strings.HasPrefix(s, ":") {
			return plain(s)
		}
	}
}

// id returns the event id in the next event that is no comment.
func (l *listener) id() string {
	l.t.Helper()
	for {
		s := l.raw()
		if s == "" || strings.HasPrefix(s, ":") {
			if s == "" {
				l.t.Fatal("stream ended")
			}
			continue
		}
		for line := range strings.Lines(s) {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				return strings.TrimSpace(id)
			}
		}
		l.t.Fatalf("event without id: %q", s)
	}
}

func message(id, data string) string {
	s := "event: message\n"
	if id != "" {
		s += "id: " + id + "\n"
	}
	return s + "data: " + data + "\n"
}

// modern returns a 2026-07-28 request and its headers.
func modern(id, method, params string) (string, []string) {
	claim := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}`
	if params != "" {
		claim = params + "," + claim
	}
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + claim + `}}`
	headers := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: " + method}
	if _, name, ok := strings.Cut(params, `"name":"`); ok {
		name, _, _ = strings.Cut(name, `"`)
		headers = append(headers, "Mcp-Name: "+name)
	}
	return body, headers
}

func (b *bed) postModern(id, method, params string, headers ...string) reply {
	b.t.Helper()
	body, h := modern(id, method, params)
	return b.post(body, append(h, headers...)...)
}

func note(method, params string) exchange.Request {
	return exchange.Request{Method: method, Params: []byte(params)}
}

var legacyServer = exchange.Server{
	Revision: negotiate.Rev20251125, Served: negotiate.All,
	Initialize: []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}`),
}

func want(t testing.TB, what string, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
