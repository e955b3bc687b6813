package bridge_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
)

// slowly sends a body of n bytes of a tool call without an end, and keeps the rest until the test is over.
func (h *house) slowly(path string, n int, header ...string) {
	h.t.Helper()
	body, feed := io.Pipe()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.srv.URL+path, body)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	go func() { // until the test's context ends
		if res, err := h.srv.Client().Do(r); err == nil {
			res.Body.Close()
		}
	}()
	go func() { _, _ = feed.Write([]byte(strings.Repeat(" ", n))) }()
	h.t.Cleanup(func() { feed.Close() })
	synctest.Wait()
}

// Bodies that come at the same time have a bound together: what is over it is refused with 503, before anything of it is read
// where its length is known, and nothing hides that a session is gone (report R05).
func TestBodiesInTotal(t *testing.T) {
	tests := []struct {
		name, path string
		body       string
		header     []string
		status     int
	}{
		{"small", "/mcp", initialize, nil, 200},
		{"large", "/mcp", strings.Repeat(" ", 600<<10) + initialize, nil, 503},
		{"large, of a session", "/mcp", strings.Repeat(" ", 600<<10) + list, []string{"Mcp-Session-Id", "SESSION"}, 503},
		{"large, of a session that is gone", "/mcp", strings.Repeat(" ", 600<<10) + list, []string{"Mcp-Session-Id", "gone"}, 404},
		{"larger than one may be", "/mcp", strings.Repeat(" ", 1100<<10) + list, nil, 413},
		{"large, legacy", "ENDPOINT", strings.Repeat(" ", 600<<10) + list, nil, 503},
		{"large, of a legacy session that is gone", "/messages?sessionId=gone", strings.Repeat(" ", 600<<10) + list, nil, 404},
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &server{}, &bridge.Options{MaxBodyBytes: 1 << 20, MaxBodyBytesInTotal: 1 << 20})
		session := h.session("")
		endpoint := ""
		if bridge.LegacyBuilt {
			endpoint = readStream(h.do("", "GET", "/sse", "").Body).field("data")
		}
		h.slowly("/mcp", 500<<10)
		fill := strings.NewReplacer("SESSION", session, "ENDPOINT", endpoint)
		for _, tt := range tests {
			if strings.Contains(tt.name, "legacy") && !bridge.LegacyBuilt {
				continue
			}
			header := append([]string(nil), tt.header...)
			for i := range header {
				header[i] = fill.Replace(header[i])
			}
			res := h.do("", "POST", fill.Replace(tt.path), tt.body, header...)
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != tt.status || (res.Header.Get("Retry-After") != "") != (tt.status == 503) {
				t.Errorf("%s: got %d %q %s, want %d", tt.name, res.StatusCode, res.Header.Get("Retry-After"), body, tt.status)
			}
		}
		time.Sleep(31 * time.Second) // the slow one has had its time
		synctest.Wait()
		if res := h.do("", "POST", "/mcp", strings.Repeat(" ", 600<<10)+initialize); res.StatusCode != 200 {
			t.Errorf("after it has ended: got %d", res.StatusCode)
		}
	})
}

// Who asks for little is served while the bound is full.
func TestSmallBodiesHaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &server{}, &bridge.Options{MaxBodyBytes: 1 << 20, MaxBodyBytesInTotal: 1 << 20})
		h.slowly("/mcp", 1<<20-10)
		for _, tt := range []struct {
			name   string
			blanks int
			status int
		}{{"small", 0, 200}, {"just small", 15 << 10, 200}, {"not small", 16 << 10, 503}} {
			if res := h.do("", "POST", "/mcp", strings.Repeat(" ", tt.blanks)+initialize); res.StatusCode != tt.status {
				t.Errorf("%s: got %d, want %d", tt.name, res.StatusCode, tt.status)
			}
		}
	})
}

// A body whose length nobody has told is refused when there is no room for more of it.
func TestBodyWithoutALength(t *testing.T) {
	for _, tt := range []struct {
		name, session string
		status        int
	}{{"of a session", "SESSION", 503}, {"of a session that is gone", "gone", 404}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, &server{}, &bridge.Options{MaxBodyBytes: 1 << 20, MaxBodyBytesInTotal: 1 << 20})
				session := h.session("")
				h.slowly("/mcp", 500<<10)
				r, err := http.NewRequestWithContext(t.Context(), "POST", h.srv.URL+"/mcp", io.MultiReader(strings.NewReader(strings.Repeat(" ", 600<<10)+list)))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Mcp-Session-Id", strings.ReplaceAll(tt.session, "SESSION", session))
				res, err := h.srv.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if body, _ := io.ReadAll(res.Body); res.StatusCode != tt.status {
					t.Errorf("got %d %s, want %d", res.StatusCode, body, tt.status)
				}
			})
		})
	}
}

// Params that the server works at count too: a legacy POST is answered at once, and its params stay.
func TestParamsInTotal(t *testing.T) {
	if !bridge.LegacyBuilt {
		t.Skip("needs the HTTP+SSE transport")
	}
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := newHouse(t, &server{call: func(ctx context.Context, _ exchange.Request) (exchange.Response, error) {
			select {
			case <-release:
				return exchange.Response{Result: []byte("{}")}, nil
			case <-ctx.Done():
				return exchange.Response{}, context.Cause(ctx)
			}
		}}, &bridge.Options{MaxBodyBytes: 1 << 20, MaxBodyBytesInTotal: 1 << 20})
		stream := readStream(h.do("", "GET", "/sse", "").Body)
		h.do("", "POST", stream.field("data"), initialize)
		large := strings.ReplaceAll(tool("x"), `{}`, `{"a":"`+strings.Repeat("x", 600<<10)+`"}`)
		if res := h.do("", "POST", stream.field("data"), large); res.StatusCode != 202 {
			t.Errorf("got %d", res.StatusCode)
		}
		synctest.Wait()
		if res := h.do("", "POST", stream.field("data"), large); res.StatusCode != 503 {
			t.Errorf("while the server works at others: got %d, want 503", res.StatusCode)
		}
		close(release)
		synctest.Wait()
		if res := h.do("", "POST", stream.field("data"), large); res.StatusCode != 202 {
			t.Errorf("afterwards: got %d", res.StatusCode)
		}
	})
}

// One caller has so many calls in flight, on the legacy stream by an error there and elsewhere by 429, whatever number of sessions
// they have; others are not affected.
func TestCallsOfAPrincipal(t *testing.T) {
	if !bridge.LegacyBuilt {
		t.Skip("needs the HTTP+SSE transport")
	}
	synctest.Test(t, func(t *testing.T) {
		s := &server{call: func(ctx context.Context, req exchange.Request) (exchange.Response, error) {
			if req.Method == "tools/list" {
				return exchange.Response{Result: []byte(`{"tools":[]}`)}, nil
			}
			<-ctx.Done()
			return exchange.Response{}, context.Cause(ctx)
		}}
		h := newHouse(t, s, &bridge.Options{Auth: bridge.Auth{TokenFile: residents}, PrincipalLimit: bridge.Limit{Calls: 2, Streams: 3}})
		one, two := readStream(h.do("alice", "GET", "/sse", "").Body), readStream(h.do("alice", "GET", "/sse", "").Body)
		for _, s := range []*reader{one, two} {
			h.do("alice", "POST", s.field("data"), initialize)
			synctest.Wait()
			h.do("alice", "POST", s.field("data"), tool("forever"))
			synctest.Wait()
		}
		if res := h.do("alice", "POST", one.field("data"), list); res.StatusCode != 202 || !strings.Contains(one.text(), "too_many_calls") {
			t.Errorf("a third call: got %d\n%s", res.StatusCode, one.text())
		}
		bobs := h.session("bob")
		if res := h.do("bob", "POST", "/mcp", list, "Mcp-Session-Id", bobs); res.StatusCode != 200 {
			t.Errorf("bob: got %d", res.StatusCode)
		}
		if res := h.do("alice", "GET", "/sse", ""); res.StatusCode != 200 {
			t.Errorf("a third stream: got %d", res.StatusCode)
		}
		if res := h.do("alice", "GET", "/sse", ""); res.StatusCode != 429 || res.Header.Get("Retry-After") == "" {
			t.Errorf("a fourth stream: got %d, want 429 and Retry-After", res.StatusCode)
		}
	})
}

// Over its rate a caller is told to wait, but not that a session is there which is gone (report R05).
func TestRateAndUnknownSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, &server{}, &bridge.Options{AddressLimit: bridge.Limit{Rate: 0.01, Burst: 1}})
		session := h.session("")
		for id, want := range map[string]int{session: 429, "gone": 404, "": 429} {
			var header []string
			if id != "" {
				header = []string{"Mcp-Session-Id", id}
			}
			if res := h.do("", "POST", "/mcp", list, header...); res.StatusCode != want || (res.Header.Get("Retry-After") != "") != (want == 429) {
				t.Errorf("session %q: got %d, want %d", id, res.StatusCode, want)
			}
		}
		if bridge.LegacyBuilt {
			if res := h.do("", "POST", "/messages?sessionId=gone", list); res.StatusCode != 404 {
				t.Errorf("legacy session: got %d, want 404", res.StatusCode)
			}
		}
	})
}
