package streamable_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/streamable"
)

// Whatever is posted, the answer has a status of translation.md and, if it is JSON, is JSON; and the
// session goes on.
func FuzzPost(f *testing.F) {
	for _, body := range []string{
		initialize("2025-11-25"), callOne, `[]`, `[` + callOne + `,7]`, `{"jsonrpc":"2.0","id":null,"method":"x"}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, "\xff", `{"a":`,
	} {
		f.Add(body, "2025-03-26", both, "application/json")
	}
	body, _ := modern("1", "tools/call", `"name":"x"`)
	f.Add(body, "2026-07-28", "*/*;q=0.1", "application/json; charset=utf-8")
	f.Fuzz(func(t *testing.T, body, version, accept, contentType string) {
		front := streamable.New(&script{}, &streamable.Options{MaxBodyBytes: 1 << 16})
		defer front.Close()
		post := func(body, session, version, accept, contentType string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
			r.Header.Set("Mcp-Session-Id", session)
			r.Header.Set("MCP-Protocol-Version", version)
			r.Header.Set("Mcp-Method", "tools/call")
			r.Header.Set("Mcp-Name", "x")
			r.Header.Set("Accept", accept)
			r.Header.Set("Content-Type", contentType)
			w := httptest.NewRecorder()
			front.ServeHTTP(w, r)
			return w
		}
		session := post(initialize("2025-03-26"), "", "", both, typeJSON).Header().Get("Mcp-Session-Id")
		w := post(body, session, version, accept, contentType)
		switch w.Code {
		case 200, 202, 400, 404, 406, 413, 415:
		default:
			t.Errorf("status %d", w.Code)
		}
		switch w.Header().Get("Content-Type") {
		case typeJSON:
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("not JSON: %q", w.Body)
			}
		case typeStream:
			for line := range strings.Lines(w.Body.String()) {
				if data, ok := strings.CutPrefix(line, "data: "); ok && !json.Valid([]byte(data)) {
					t.Errorf("not JSON: %q", data)
				}
			}
		default:
			if w.Code != 202 || w.Body.Len() > 0 {
				t.Errorf("status %d, type %q, body %q", w.Code, w.Header().Get("Content-Type"), w.Body)
			}
		}
		if w := post(callOne, session, "2025-03-26", typeJSON, typeJSON); w.Code != 200 || w.Body.String() != `{"jsonrpc":"2.0","id":5,"result":{"method":"tools/call"}}` {
			t.Errorf("next request: %d %s", w.Code, w.Body)
		}
	})
}
