package hostile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// limit is how long an answer may take: no measure of speed, the machine may be busy.
const limit = 60 * time.Second

// memory returns a bound of so many MiB in bytes. The race detector takes some times as much.
func memory(mib int64) int64 {
	if harness.RaceEnabled {
		mib *= 6
	}
	return mib << 20
}

// A bed is a running bridge.
type bed struct {
	*harness.Process
	addr, base string
	record     string // what its children were sent
}

// start runs bridge serve with the arguments, in front of a child of this package unless they name another server. The
// bridge must end well, and without a panic or a race, when the test does.
func start(tb testing.TB, args ...string) *bed {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starts real processes; not with -short")
	}
	b := &bed{addr: harness.FreeAddr(tb), record: filepath.Join(tb.TempDir(), "record")}
	b.base = "http://" + b.addr
	serve := []string{"serve", "--listen", b.addr}
	if !slices.Contains(args, "--admin") {
		serve = append(serve, "--admin", "off")
	}
	if !slices.Contains(args, "--state") {
		serve = append(serve, "--state", "off")
	}
	serve = append(serve, args...)
	if !slices.Contains(args, "--upstream") && !slices.Contains(args, "--") {
		serve = append(serve, "--", os.Args[0], childWord, b.record)
	}
	b.Process = harness.Start(tb, exec.Command(bridgeProgram, serve...))
	tb.Cleanup(func() { b.end(tb) })
	b.Says(tb, b.base)
	return b
}

func (b *bed) end(tb testing.TB) {
	if !b.Ended() {
		b.Signal(syscall.SIGTERM)
		if code := b.Wait(tb); code != 0 {
			tb.Errorf("exit code after SIGTERM: got %d, want 0", code)
		}
	}
	if log := b.Output(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
		tb.Errorf("the bridge reported a race or a panic")
	}
}

// dial returns a connection that is closed when the test ends.
func (b *bed) dial(tb testing.TB) net.Conn {
	tb.Helper()
	c, err := net.DialTimeout("tcp", b.addr, limit)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(limit)) // of a socket that is open
	return c
}

// raw sends text on a connection of its own and returns all that comes back until the bridge closes it.
func (b *bed) raw(tb testing.TB, text string) string {
	tb.Helper()
	c := b.dial(tb)
	go func() { _, _ = io.WriteString(c, text) }() // the bridge may have answered and gone before it has read everything
	got, err := io.ReadAll(c)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		tb.Errorf("the connection is still open; so far: %.300q", got)
	}
	return string(got)
}

// statuses returns the status codes of the answers in text.
func statuses(text string) []string {
	var out []string
	for rest := text; ; {
		_, after, ok := strings.Cut(rest, "HTTP/1.")
		if !ok || len(after) < 5 {
			return out
		}
		out, rest = append(out, after[2:5]), after
	}
}

// An answer is an HTTP answer that was read to its end, with the text of its body.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request; header has names and values in turn.
func (b *bed) do(tb testing.TB, method, path, body string, header ...string) answer {
	tb.Helper()
	a, err := b.try(tb.Context(), method, path, body, header...)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// try is do for goroutines, which may not end the test.
func (b *bed) try(ctx context.Context, method, path, body string, header ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resp, err := b.send(ctx, method, path, body, header...)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

// send sends a request and returns the answer with its body open.
func (b *bed) send(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, b.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return http.DefaultClient.Do(r)
}

// session opens a session of 2025-11-25 and returns the header that uses it.
func (b *bed) session(tb testing.TB, header ...string) []string {
	tb.Helper()
	a := b.do(tb, "POST", "/mcp", harness.Request("0", "initialize", harness.Initialize("hostile", "2025-11-25")), header...)
	id := a.header.Get("Mcp-Session-Id")
	if a.status != http.StatusOK || id == "" {
		tb.Fatalf("initialize: got %d %s", a.status, a.body)
	}
	h := append([]string{"Mcp-Session-Id", id}, header...)
	if a := b.do(tb, "POST", "/mcp", harness.Initialized, h...); a.status != http.StatusAccepted {
		tb.Fatalf("initialized: got %d %s", a.status, a.body)
	}
	return h
}

// tool returns the text of a call of a tool of the child's.
func tool(id, name, arguments string) string {
	return harness.Request(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
}

// lines returns arguments of the tool say.
func lines(text ...string) string {
	quoted, err := json.Marshal(map[string][]string{"lines": text})
	if err != nil {
		panic(err) // strings have JSON
	}
	return string(quoted)
}

// modernHeader is the header of a tools/call of 2026-07-28.
func modernHeader(name string) []string {
	return []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name}
}

// A stream is an open event stream of which every byte is kept.
type stream struct {
	events *harness.EventReader
	seen   *bytes.Buffer
	resp   *http.Response
	post   string // of a legacy stream: path and query to post to
}

// open opens a stream that is closed when the test ends.
func (b *bed) open(tb testing.TB, method, path, body string, header ...string) *stream {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*limit)
	resp, err := b.send(ctx, method, path, body, header...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { cancel(); resp.Body.Close() })
	s := &stream{resp: resp, seen: new(bytes.Buffer)}
	s.events = harness.NewEventReader(io.TeeReader(bufio.NewReader(resp.Body), s.seen))
	return s
}

// legacy opens a legacy stream and shakes hands.
func (b *bed) legacy(tb testing.TB, header ...string) *stream {
	tb.Helper()
	s := b.open(tb, "GET", "/sse", "", header...)
	first := s.next(tb)
	_, path, ok := strings.Cut(first.Data, b.base)
	if first.Name != "endpoint" || !ok {
		tb.Fatalf("GET /sse: got %d %+v", s.resp.StatusCode, first)
	}
	s.post = path
	b.accepted(tb, s, harness.Request("0", "initialize", harness.Initialize("hostile", "2024-11-05")), header...)
	s.message(tb)
	b.accepted(tb, s, harness.Initialized, header...)
	return s
}

// accepted posts a message of a legacy client.
func (b *bed) accepted(tb testing.TB, s *stream, body string, header ...string) {
	tb.Helper()
	if a := b.do(tb, "POST", s.post, body, header...); a.status != http.StatusAccepted {
		tb.Fatalf("POST %s: got %d %s", s.post, a.status, a.body)
	}
}

// next returns the next event that has a name or data.
func (s *stream) next(tb testing.TB) harness.Event {
	tb.Helper()
	for {
		e, err := s.events.Next()
		if err != nil {
			tb.Fatalf("the stream ended: %v; it had %.2000q", err, s.seen)
		}
		if !e.Comment && e.Data != "" {
			return e
		}
	}
}

// message returns the next event as a message; it must be one named message.
func (s *stream) message(tb testing.TB) harness.Message {
	tb.Helper()
	e := s.next(tb)
	m, err := e.Message()
	if err != nil || e.Name != "message" && e.Name != "" {
		tb.Fatalf("got event %+v, %v", e, err)
	}
	return m
}

// honest makes sure that a client of each era is served.
func (b *bed) honest(tb testing.TB) {
	tb.Helper()
	if a := b.do(tb, "POST", "/mcp", tool("1", "echo", `{"a":1}`), b.session(tb)...); a.status != 200 || !strings.Contains(a.body, `{\"a\":1}`) {
		tb.Errorf("a client with a session: got %d %s", a.status, a.body)
	}
	modern := harness.Request("1", "tools/call", harness.Modern(`"name":"echo","arguments":{"a":2}`))
	if a := b.do(tb, "POST", "/mcp", modern, modernHeader("echo")...); a.status != 200 || !strings.Contains(a.body, `{\"a\":2}`) {
		tb.Errorf("a client of 2026-07-28: got %d %s", a.status, a.body)
	}
	s := b.legacy(tb)
	b.accepted(tb, s, tool("1", "echo", `{"a":3}`))
	if m := s.message(tb); m.Text() != `{"a":3}` {
		tb.Errorf("a client of HTTP+SSE: got %s", m.Result)
	}
	s.resp.Body.Close()
}
