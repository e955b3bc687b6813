package streamable_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/streamable"
)

// What no client sends, but a proxy on the way may make of what it sends.
func TestOddHeaders(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		_, mine, _ := strings.Cut(b.session("2025-06-18"), ": ")
		_, other, _ := strings.Cut(b.session("2025-06-18"), ": ")
		for _, c := range []struct {
			name   string
			header http.Header
			want   int
		}{
			{"one id", http.Header{"Mcp-Session-Id": {mine}}, 200},
			{"two ids", http.Header{"Mcp-Session-Id": {mine, other}}, 400},
			{"the same id twice", http.Header{"Mcp-Session-Id": {mine, mine}}, 400},
			{"identity", http.Header{"Mcp-Session-Id": {mine}, "Content-Encoding": {"identity"}}, 200},
			{"gzip", http.Header{"Mcp-Session-Id": {mine}, "Content-Encoding": {"gzip"}}, 415},
		} {
			req, _ := http.NewRequest(http.MethodPost, b.http.URL+"/mcp", strings.NewReader(callOne))
			req.Header = c.header
			req.Header.Set("Content-Type", "application/json")
			resp, err := b.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			r := read(t, resp)
			if r.status != c.want || (c.want == 415) != (r.header.Get("Accept-Encoding") == "identity") {
				t.Errorf("%s: got %d, %v, want %d", c.name, r.status, r.header, c.want)
			}
		}
	})
}

// A client of 2026-07-28 has no session to be told of.
func TestModernBatch(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		r := b.post("["+callOne+"]", "MCP-Protocol-Version: 2026-07-28")
		if r.status != 400 || !strings.Contains(r.body, "no batches") {
			t.Errorf("got %d %s", r.status, r.body)
		}
	})
}
