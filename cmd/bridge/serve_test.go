package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A running is one bridge serve in this process, with the demo server behind it, on real sockets.
type running struct {
	base    string
	signals chan os.Signal
	ended   chan error
	state   string
}

// startServe starts serve with the arguments on free ports and reads the URL off its screen.
func startServe(t *testing.T, args ...string) *running {
	t.Helper()
	if testing.Short() {
		t.Skip("uses real sockets and time")
	}
	r := &running{signals: make(chan os.Signal, 2), ended: make(chan error, 1), state: filepath.Join(isolate(t), "bridge")}
	c, err := parse(t, append([]string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	screen, w := io.Pipe()
	go func() {
		err := serve(c, w, slog.New(slog.DiscardHandler), r.signals)
		w.Close()
		r.ended <- err
	}()
	lines := bufio.NewScanner(screen)
	for r.base == "" && lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) > 2 && f[0] == "Streamable" {
			r.base = strings.TrimSuffix(f[2], "/mcp")
		}
	}
	go io.Copy(io.Discard, screen) // ends when serve has
	t.Cleanup(func() { r.stop(t) })
	return r
}

// stop ends serve as SIGTERM does and reports how.
func (r *running) stop(t *testing.T) {
	t.Helper()
	if r.ended == nil {
		return
	}
	r.signals <- syscall.SIGTERM
	if err := <-r.ended; err != nil {
		t.Errorf("serve ended with %v", err)
	}
	r.ended = nil
	http.DefaultClient.CloseIdleConnections()
}

// post sends a message with further headers, NAME VALUE by turns.
func (r *running) post(t *testing.T, path, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// A message is what the tests look at in a JSON-RPC message.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct{ Progress float64 }
	Result struct {
		ResultType    string
		InputRequests map[string]json.RawMessage
		RequestState  string
		Content       []struct{ Text string }
	}
	Error *struct{ Message string }
}

// next returns the next message of a stream, or the only one of a JSON body.
func next(t *testing.T, body *bufio.Reader) message {
	t.Helper()
	for {
		line, err := body.ReadString('\n')
		text := strings.TrimSpace(strings.TrimPrefix(line, "data:"))
		if strings.HasPrefix(text, "{") {
			var m message
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			return m
		}
		if err != nil {
			t.Fatalf("no further message: %v", err)
		}
	}
}

const (
	initialize  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"raw-client","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	callSlow    = `{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"slow","arguments":{"steps":2,"seconds":0.02},"_meta":{"progressToken":"p"}}}`
	callAsk     = `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"ask","arguments":{}}}`
	answer      = `"result":{"action":"accept","content":{"name":"Ada"}}}`
)

// checkSlow reads two notes of progress and the result.
func checkSlow(t *testing.T, body *bufio.Reader) {
	t.Helper()
	for want := 1.0; want <= 2; want++ {
		if m := next(t, body); m.Method != "notifications/progress" || m.Params.Progress != want {
			t.Errorf("got %+v, want progress %v", m, want)
		}
	}
	if m := next(t, body); string(m.ID) != `"s"` || len(m.Result.Content) != 1 || m.Result.Content[0].Text != "2 steps in 0.02 s" {
		t.Errorf("result of slow: got %+v", m)
	}
}

func checkGreeting(t *testing.T, m message) {
	t.Helper()
	if len(m.Result.Content) != 1 || m.Result.Content[0].Text != "Hello, Ada." {
		t.Errorf("result of ask: got %+v", m)
	}
}

func TestDemoInASession(t *testing.T) {
	for _, path := range []string{"/mcp", "/sse"} {
		t.Run(path, func(t *testing.T) {
			r := startServe(t)
			res := r.post(t, path, initialize)
			session := []string{"Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-06-18"}
			if m := next(t, bufio.NewReader(res.Body)); string(m.ID) != "1" || session[1] == "" {
				t.Fatalf("initialize: got %+v in session %q", m, session[1])
			}
			if res := r.post(t, path, initialized, session...); res.StatusCode != http.StatusAccepted {
				t.Fatalf("initialized: got %s", res.Status)
			}
			checkSlow(t, bufio.NewReader(r.post(t, path, callSlow, session...).Body))
			asked := bufio.NewReader(r.post(t, path, callAsk, session...).Body)
			question := next(t, asked)
			if question.Method != "elicitation/create" {
				t.Fatalf("got %+v, want a question", question)
			}
			if res := r.post(t, path, `{"jsonrpc":"2.0","id":`+string(question.ID)+`,`+answer, session...); res.StatusCode != http.StatusAccepted {
				t.Fatalf("answer: got %s", res.Status)
			}
			checkGreeting(t, next(t, asked))
		})
	}
}

// stateless returns a 2026-07-28 message with further params.
func stateless(id, method, params, meta string) string {
	return `{"jsonrpc":"2.0","id":"` + id + `","method":"` + method + `","params":{` + params + `"_meta":{` + meta +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw-client","version":"2"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`
}

func TestDemoStateless(t *testing.T) {
	r := startServe(t)
	call := func(name string) []string {
		return []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name}
	}
	res := r.post(t, "/mcp", stateless("s", "tools/call", `"name":"slow","arguments":{"steps":2,"seconds":0.02},`, `"progressToken":"p",`), call("slow")...)
	checkSlow(t, bufio.NewReader(res.Body))

	first := next(t, bufio.NewReader(r.post(t, "/mcp", stateless("a", "tools/call", `"name":"ask","arguments":{},`, ""), call("ask")...).Body))
	if first.Result.ResultType != "input_required" || first.Result.InputRequests["name"] == nil {
		t.Fatalf("got %+v, want a question", first)
	}
	retry := `"name":"ask","arguments":{},"inputResponses":{"name":{"action":"accept","content":{"name":"Ada"}}},`
	if first.Result.RequestState != "" {
		state, err := json.Marshal(first.Result.RequestState)
		if err != nil {
			t.Fatal(err)
		}
		retry += `"requestState":` + string(state) + `,`
	}
	checkGreeting(t, next(t, bufio.NewReader(r.post(t, "/mcp", stateless("b", "tools/call", retry, ""), call("ask")...).Body)))
}

// What was served is in the report afterwards, transport and revision in columns of their own.
func TestReportAfterwards(t *testing.T) {
	r := startServe(t)
	res := r.post(t, "/mcp", initialize)
	io.Copy(io.Discard, res.Body)
	r.stop(t)
	var stdout, stderr bytes.Buffer
	if code := run([]string{"report", "--state", r.state, "--output", "json"}, &stdout, &stderr); code != exitInsufficient { // so short a time proves nothing
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var report struct {
		Clients []struct{ Name, Transport, Requested, Negotiated string }
	}
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	want := struct{ Name, Transport, Requested, Negotiated string }{"raw-client", "streamable_http", "2025-06-18", "2025-06-18"}
	if len(report.Clients) != 1 || report.Clients[0] != want {
		t.Errorf("got %+v, want %+v", report.Clients, want)
	}
}

// A stream that is open does not keep serve from ending, and a call in flight is cut when its time is over.
func TestShutdownInTime(t *testing.T) {
	r := startServe(t, "--shutdown-timeout", "200ms")
	stream, err := http.Get(r.base + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	res := r.post(t, "/mcp", initialize)
	io.Copy(io.Discard, res.Body)
	session := []string{"Mcp-Session-Id", res.Header.Get("Mcp-Session-Id")}
	r.post(t, "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","arguments":{"seconds":60}}}`, session...)
	began := time.Now()
	r.stop(t)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// A signal that comes twice within a moment is one signal; a later one is a second.
func TestRepeatedSignal(t *testing.T) {
	tests := []struct {
		name  string
		after []time.Duration // of the further signals
		want  bool
	}{
		{"none", nil, false},
		{"the same from two senders", []time.Duration{time.Millisecond}, false},
		{"a second", []time.Duration{sameSignal + time.Millisecond}, true},
		{"both", []time.Duration{time.Millisecond, time.Second}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals := make(chan os.Signal, 2)
				second := repeated(t.Context(), signals)
				for _, after := range tt.after {
					time.AfterFunc(after, func() { signals <- os.Interrupt })
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				got := false
				select {
				case <-second:
					got = true
				default:
				}
				if got != tt.want {
					t.Errorf("got %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestAddressInUse(t *testing.T) {
	isolate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, flag := range []string{"--listen", "--admin"} {
		var stdout, stderr bytes.Buffer
		other := map[string]string{"--listen": "--admin", "--admin": "--listen"}[flag]
		code := run([]string{"serve", flag, l.Addr().String(), other, "127.0.0.1:0"}, &stdout, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), "choose another address with "+flag) {
			t.Errorf("got exit code %d: %s", code, &stderr)
		}
	}
}

// With a file of tokens callers are asked who they are, from the first request on.
func TestServeWithTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	// The hash of "token".
	if err := os.WriteFile(file, []byte("alice sha256:3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startServe(t, "--auth-token-file", file)
	for token, want := range map[string]int{"": http.StatusUnauthorized, "Bearer other": http.StatusUnauthorized, "Bearer token": http.StatusOK} {
		var header []string
		if token != "" {
			header = []string{"Authorization", token}
		}
		res := r.post(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, header...)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%q: got %d, want %d", token, res.StatusCode, want)
		}
	}
}
