//go:build !nolegacy

package bridge_test

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
)

// A client that follows the endpoint event is answered on its stream, wherever the bridge is mounted and however the
// URL was spelled.
func TestLegacyEndpoint(t *testing.T) {
	mounted := func(prefix string) func(http.Handler) http.Handler {
		return func(h http.Handler) http.Handler { return http.StripPrefix(prefix, h) }
	}
	straight := func(h http.Handler) http.Handler { return h }
	tests := []struct {
		name  string
		o     bridge.Options
		mount func(http.Handler) http.Handler
		get   string
		want  string // the URL to post to, without the query
	}{
		{"default", bridge.Options{}, straight, "/sse", "http://127.0.0.1:8420/messages"},
		{"slash at the end", bridge.Options{}, straight, "/sse/", "http://127.0.0.1:8420/messages"},
		{"relative", bridge.Options{EndpointURL: "relative"}, straight, "/sse", "http://127.0.0.1:8420/messages"},
		{"relative, slash at the end", bridge.Options{EndpointURL: "relative"}, straight, "/sse/", "http://127.0.0.1:8420/messages"},
		{"mounted", bridge.Options{}, mounted("/tools/a"), "/tools/a/sse", "http://127.0.0.1:8420/tools/a/messages"},
		{"mounted, slash at the end", bridge.Options{}, mounted("/tools/a"), "/tools/a/sse/", "http://127.0.0.1:8420/tools/a/messages"},
		{"mounted, relative", bridge.Options{EndpointURL: "relative"}, mounted("/tools/a"), "/tools/a/sse", "http://127.0.0.1:8420/tools/a/messages"},
		{"mounted, relative, slash at the end", bridge.Options{EndpointURL: "relative"}, mounted("/tools/a"), "/tools/a/sse/", "http://127.0.0.1:8420/tools/a/messages"},
		{"public prefix", bridge.Options{PublicURL: "http://127.0.0.1:8420/tools/a"}, straight, "/tools/a/sse", "http://127.0.0.1:8420/tools/a/messages"},
		{"public prefix, slash at the end", bridge.Options{PublicURL: "http://127.0.0.1:8420/tools/a/"}, straight, "/tools/a/sse", "http://127.0.0.1:8420/tools/a/messages"},
		{"messages on the stream's path", bridge.Options{MessagePath: "/sse"}, straight, "/sse", "http://127.0.0.1:8420/sse"},
		{"old paths", bridge.Options{SSEPath: "/v1/events", MessagePath: "/v1/rpc/in"}, straight, "/v1/events", "http://127.0.0.1:8420/v1/rpc/in"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBridge(t, &server{}, &tt.o)
				srv := memhttp.New(t, tt.mount(b))
				stream, err := srv.Client().Get(srv.URL + tt.get)
				if err != nil {
					t.Fatal(err)
				}
				defer stream.Body.Close()
				events := bufio.NewReader(stream.Body)
				endpoint, err := stream.Request.URL.Parse(data(t, events))
				if err != nil {
					t.Fatal(err)
				}
				if got := (&url.URL{Scheme: endpoint.Scheme, Host: endpoint.Host, Path: endpoint.Path}).String(); got != tt.want {
					t.Errorf("endpoint: got %s, want %s", got, tt.want)
				}
				for _, u := range []string{endpoint.String(), strings.Replace(endpoint.String(), "?", "/?", 1)} {
					res, err := srv.Client().Post(u, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":"p","method":"ping"}`))
					if err != nil {
						t.Fatal(err)
					}
					res.Body.Close()
					if res.StatusCode != http.StatusAccepted {
						t.Fatalf("POST %s: got %s", u, res.Status)
					}
					if got, want := data(t, events), `{"jsonrpc":"2.0","id":"p","result":{}}`; got != want {
						t.Errorf("on the stream: got %s, want %s", got, want)
					}
				}
			})
		})
	}
}

// data returns the data of the next event.
func data(t *testing.T, events *bufio.Reader) string {
	t.Helper()
	for {
		line, err := events.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := strings.CutPrefix(line, "data: "); ok {
			return strings.TrimSpace(d)
		}
	}
}

func TestLegacyMessageOfAnUnknownSession(t *testing.T) {
	for _, path := range []string{"/messages", "/sse"} {
		t.Run(path, func(t *testing.T) {
			b := newBridge(t, &server{}, &bridge.Options{MessagePath: path})
			got := send(t, b, "POST "+path+"?sessionId=nope HTTP/1.1\nHost: localhost\nContent-Type: application/json\n\n"+initialize)
			if !strings.HasPrefix(got, "404\n") {
				t.Errorf("got %s, want 404", got)
			}
		})
	}
}

func TestStatusOpen(t *testing.T) {
	got := send(t, newBridge(t, &server{}, nil), "GET /retirement HTTP/1.1\nHost: localhost:8420")
	if !strings.HasSuffix(got, "\n\n"+`{"stage":"open","successor":"http://localhost:8420/mcp"}`+"\n") {
		t.Errorf("got %s", got)
	}
}
