package bridge_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	bridge "github.com/mcp-dualstack/bridge"
)

// newBridge returns a bridge in front of s and closes it at the end of the test.
func newBridge(t *testing.T, s *server, o *bridge.Options) *bridge.Bridge {
	t.Helper()
	b, err := bridge.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// send sends a request in the form of HTTP/1.1 text (lines end in \n) and returns the recorded answer in the same form.
func send(t *testing.T, h http.Handler, text string) string {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	head = strings.ReplaceAll(head, "\n", "\r\n") + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", len(body))
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + body)))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "127.0.0.1:9"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var out strings.Builder
	fmt.Fprintf(&out, "%d\n", w.Code)
	for _, k := range slices.Sorted(keys(w.Header())) {
		fmt.Fprintf(&out, "%s: %s\n", k, strings.Join(w.Header()[k], ", "))
	}
	fmt.Fprintf(&out, "\n%s", w.Body)
	return out.String()
}

func keys(h http.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range h {
			if k != "Vary" && !yield(k) { // what the guard says to caches
				return
			}
		}
	}
}

const gonePost = `410
Access-Control-Expose-Headers: Link
Cache-Control: no-store
Content-Type: application/json
Link: <http://localhost:8420/mcp>; rel="successor-version"

`

const goneText = "The HTTP+SSE transport (MCP 2024-11-05) is no longer served here; connect with Streamable HTTP to http://localhost:8420/mcp instead."

func goneBody(id string) string {
	return `{"jsonrpc":"2.0",` + id + `"error":{"code":410,"message":"` + goneText + `","data":{"stage":"gone","successor":"http://localhost:8420/mcp"}}}`
}

// With the legacy routes off they answer as retirement.md 6 says for the stage gone.
func TestGone(t *testing.T) {
	tests := []struct{ name, request, want string }{
		{"GET",
			"GET /sse HTTP/1.1\nHost: localhost:8420\nAccept: text/event-stream",
			`405
Access-Control-Expose-Headers: Link
Allow: POST, GET, DELETE
Cache-Control: no-store
Content-Type: text/plain; charset=utf-8
Link: <http://localhost:8420/mcp>; rel="successor-version"
X-Content-Type-Options: nosniff

` + goneText + "\n"},
		{"GET that prefers JSON, slash at the end",
			"GET /sse/ HTTP/1.1\nHost: localhost:8420\nAccept: application/json, text/event-stream",
			`405
Access-Control-Expose-Headers: Link
Allow: POST, GET, DELETE
Cache-Control: no-store
Content-Type: application/json
Link: <http://localhost:8420/mcp>; rel="successor-version"
X-Content-Type-Options: nosniff

{"error":"` + goneText + `","stage":"gone","successor":"http://localhost:8420/mcp"}
`},
		{"message",
			"POST /messages?sessionId=old HTTP/1.1\nHost: localhost:8420\nContent-Type: application/json\n\n" + `{"jsonrpc":"2.0","id":"a\u00e9","method":"tools/list"}`,
			gonePost + goneBody(`"id":"a\u00e9",`)},
		{"notification",
			"POST /messages?sessionId=old HTTP/1.1\nHost: localhost:8420\n\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			gonePost + goneBody("")},
		{"message that is none",
			"POST /messages HTTP/1.1\nHost: localhost:8420\n\n{",
			gonePost + goneBody("")},
		{"message too long to look for its id",
			"POST /messages HTTP/1.1\nHost: localhost:8420\n\n" + `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 1<<20) + `"}`,
			gonePost + goneBody("")},
		{"another host comes first",
			"GET /sse HTTP/1.1\nHost: evil.test\nAccept: text/event-stream", "403"},
		{"another origin comes first",
			"POST /messages HTTP/1.1\nHost: localhost:8420\nOrigin: http://evil.test\n\n{}", "403"},
		{"status",
			"GET /retirement HTTP/1.1\nHost: localhost:8420",
			"200\nCache-Control: no-store\nContent-Type: application/json\n\n" + `{"stage":"gone","successor":"http://localhost:8420/mcp"}` + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{}
			got := send(t, newBridge(t, s, &bridge.Options{LegacyOff: true}), tt.request)
			if tt.want == "403" {
				got, _, _ = strings.Cut(got, "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			if n := s.opened.Load(); n != 0 {
				t.Errorf("got %d conversations with the server, want none", n)
			}
		})
	}
}

// Where messages are posted to the SSE path itself, the query tells a retired message from a new client.
func TestGoneMessagesOnTheStreamPath(t *testing.T) {
	b := newBridge(t, &server{}, &bridge.Options{LegacyOff: true, MessagePath: "/sse"})
	const body = "Host: localhost:8420\nContent-Type: application/json\nAccept: application/json, text/event-stream\n\n" + initialize
	if got := send(t, b, "POST /sse?sessionId=old HTTP/1.1\n"+body); !strings.HasPrefix(got, "410\n") {
		t.Errorf("message of an old session: got %s", got)
	}
	if got := send(t, b, "POST /sse HTTP/1.1\n"+body); !strings.HasPrefix(got, "200\n") || !strings.Contains(got, "Mcp-Session-Id: ") {
		t.Errorf("initialize of a new client: got %s", got)
	}
}

// The new routes know nothing of a retirement (retirement.md R5).
func TestGoneLeavesStreamableAlone(t *testing.T) {
	for _, path := range []string{"/mcp", "/mcp/", "//mcp", "/sse", "/sse/"} {
		t.Run(path, func(t *testing.T) {
			b := newBridge(t, &server{}, &bridge.Options{LegacyOff: true})
			got := send(t, b, "POST "+path+" HTTP/1.1\nHost: localhost:8420\nContent-Type: application/json\nAccept: application/json, text/event-stream\n\n"+initialize)
			if !strings.HasPrefix(got, "200\n") || !strings.Contains(got, `"protocolVersion":"2025-11-25"`) {
				t.Errorf("initialize: got %s", got)
			}
			for _, header := range []string{"Deprecation", "Sunset", "Link"} {
				if strings.Contains(got, header+": ") {
					t.Errorf("a header of the retirement on a new route: %s", got)
				}
			}
		})
	}
}

func TestGoneSentenceIsShort(t *testing.T) {
	host := strings.Repeat("very-long-name.", 15) + "example.com"
	b := newBridge(t, &server{}, &bridge.Options{LegacyOff: true, PublicURL: "https://" + host + "/tools"})
	got := send(t, b, "GET /sse HTTP/1.1\nHost: localhost")
	_, body, _ := strings.Cut(got, "\n\n")
	if len(body) > 241 || !strings.Contains(body, "the path /tools/mcp") {
		t.Errorf("got %d bytes: %s", len(body), body)
	}
	if !strings.Contains(got, "Link: <https://"+host+"/tools/mcp>") {
		t.Errorf("no link to the successor: %s", got)
	}
}
