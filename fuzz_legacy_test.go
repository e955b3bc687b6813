//go:build !nolegacy

package bridge_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
)

// FuzzBridge throws whatever bytes at the listener of a running bridge, and cuts the connection after some of them. One honest
// client of each era must go on being answered, and the heap must stay bounded. A panic of the bridge ends the process of the fuzzer.
func FuzzBridge(f *testing.F) {
	for _, seed := range thrown {
		f.Add([]byte(seed), uint16(len(seed)))
		f.Add([]byte(seed), uint16(len(seed)/2))
	}
	var b *besieged
	var once sync.Once
	f.Cleanup(func() { b.close() })
	f.Fuzz(func(t *testing.T, raw []byte, cut uint16) {
		once.Do(func() { b = newBesieged(t) })
		b.throw(t, raw[:min(len(raw), int(cut))])
		b.honest(t)
		b.bounded(t)
	})
}

const thrownInit = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"f","version":"1"}}}`

const thrownModern = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

func thrownPost(path, headers, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", path, headers, len(body), body)
}

// thrown are what a mutation starts from: one of each kind of request, and what is wrong with HTTP itself.
var thrown = []string{
	"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
	"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: {S}\r\nLast-Event-ID: a-1\r\n\r\n",
	"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {S}\r\n\r\n",
	"OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\n\r\n",
	"HEAD /retirement HTTP/1.1\r\nHost: localhost\r\n\r\n",
	thrownPost("/mcp", "", thrownInit),
	thrownPost("/sse", "", thrownInit),
	thrownPost("/mcp", "Mcp-Session-Id: {S}\r\nMCP-Protocol-Version: 2025-06-18\r\n", `[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","method":"x"}]`),
	thrownPost("/mcp", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n", thrownModern),
	thrownPost("/mcp", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: =?base64?ZWNobw==?=\r\nMcp-Param-X: 1\r\n", thrownModern),
	thrownPost("/messages?sessionId=x", "", `{"jsonrpc":"2.0","id":1,"result":{}}`),
	thrownPost("/messages", "X-Forwarded-Prefix: /a\r\nX-Forwarded-For: 1.2.3.4\r\n", `{}`),
	"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n",
	"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"GET //mcp/../sse%2f HTTP/1.0\r\n\r\nGET /mcp HTTP/1.1\r\nHost: evil.test\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
}

// besieged is a bridge and its honest clients.
type besieged struct {
	bridge   *bridge.Bridge
	srv      *httptest.Server
	rounds   int
	session  string        // of the client of 2025-11-25
	attacker string        // a session that stands for {S} in what is thrown
	post     string        // where the legacy client posts
	events   *bufio.Reader // of the legacy client's stream
	stream   io.Closer     // what they come from
}

func newBesieged(tb testing.TB) *besieged {
	b, err := bridge.New(&server{}, &bridge.Options{BodyTimeout: time.Second})
	if err != nil {
		tb.Fatal(err)
	}
	s := &besieged{bridge: b, srv: httptest.NewUnstartedServer(b)}
	s.srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of what is thrown
	s.srv.Start()
	resp, body := s.send(tb, "/mcp", nil, strings.Replace(thrownInit, "2025-06-18", "2025-11-25", 1))
	if s.session = resp.Header.Get("Mcp-Session-Id"); s.session == "" {
		tb.Fatalf("no session: %s", body)
	}
	stream, err := http.Get(s.srv.URL + "/sse")
	if err != nil {
		tb.Fatal(err)
	}
	s.events, s.stream = bufio.NewReader(stream.Body), stream.Body
	s.post = s.data(tb)
	s.send(tb, s.post, nil, strings.Replace(thrownInit, "2025-06-18", "2024-11-05", 1))
	s.data(tb)
	return s
}

func (s *besieged) close() {
	if s == nil {
		return
	}
	_ = s.stream.Close()
	_ = s.bridge.Close() // of a memory ledger and a server that cannot fail
	s.srv.CloseClientConnections()
	s.srv.Close()
	http.DefaultClient.CloseIdleConnections()
}

// send posts a message and returns the answer.
func (s *besieged) send(tb testing.TB, path string, h http.Header, body string) (*http.Response, string) {
	tb.Helper()
	if !strings.Contains(path, "://") {
		path = s.srv.URL + path
	}
	req, err := http.NewRequest(http.MethodPost, path, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	req.Header = h.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatalf("an honest client got no answer: %v", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatalf("an honest client's answer was cut: %v", err)
	}
	return resp, string(text)
}

// data returns the data of the next event of the legacy stream.
func (s *besieged) data(tb testing.TB) string {
	tb.Helper()
	for {
		line, err := s.events.ReadString('\n')
		if err != nil {
			tb.Fatalf("the honest legacy stream ended: %v", err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return strings.TrimSpace(data)
		}
	}
}

// throw writes raw to a connection of its own, ends its half of it and reads until the bridge has said something or nothing more.
func (s *besieged) throw(t *testing.T, raw []byte) {
	if s.rounds%50 == 0 {
		resp, _ := s.send(t, "/mcp", nil, thrownInit)
		s.attacker = resp.Header.Get("Mcp-Session-Id") // none while all are taken
	}
	raw = bytes.ReplaceAll(raw, []byte("{S}"), []byte(s.attacker))
	conn, err := net.Dial("tcp", s.srv.Listener.Addr().String())
	if err != nil {
		t.Fatalf("the bridge takes no connections: %v", err)
	}
	defer conn.Close()
	if _, err := conn.Write(raw); err != nil {
		return // cut by the bridge, which it may
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second)) // a bound; the bridge answers or cuts long before
	_, _ = conn.Read(make([]byte, 64))                        // what it says to that is its own business
}

// honest makes one call of each era and checks its answer.
func (s *besieged) honest(t *testing.T) {
	s.rounds++
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"n%d","arguments":{}}}`, s.rounds, s.rounds)
	id := fmt.Sprintf(`"id":%d`, s.rounds)
	if resp, body := s.send(t, "/mcp", http.Header{"Mcp-Session-Id": {s.session}}, call); resp.StatusCode != http.StatusOK || !strings.Contains(body, id) || strings.Contains(body, `"error"`) {
		t.Errorf("session client: got %d %s", resp.StatusCode, body)
	}
	modern := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"echo"}}
	if resp, body := s.send(t, "/mcp", modern, thrownModern); resp.StatusCode != http.StatusOK || strings.Contains(body, `"error"`) {
		t.Errorf("stateless client: got %d %s", resp.StatusCode, body)
	}
	if resp, body := s.send(t, s.post, nil, call); resp.StatusCode != http.StatusAccepted {
		t.Errorf("legacy client: got %d %s", resp.StatusCode, body)
	}
	if got := s.data(t); !strings.Contains(got, id) || strings.Contains(got, `"error"`) {
		t.Errorf("legacy client: got %s, want %s", got, id)
	}
}

// maxBesiegedHeap bounds the heap, in bytes: the sessions that attackers may open, and their streams.
const maxBesiegedHeap = 256 << 20

func (s *besieged) bounded(t *testing.T) {
	if s.rounds%1000 != 0 {
		return
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > maxBesiegedHeap {
		t.Errorf("the heap has %d MiB after %d rounds", m.HeapAlloc>>20, s.rounds)
	}
}
