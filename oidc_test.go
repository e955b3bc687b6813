package bridge_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/internal/issuertest"
)

// With tokens of an issuer, through the whole bridge: who is let in, and what happens to what a token has opened when it expires
// (reports R46 and R47; 2025-11-25 authorization, Token Handling).
func TestIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuertest.New(t)
		h := newHouse(t, &server{}, &bridge.Options{
			Auth: bridge.Auth{Issuer: i.URL, IssuerTransport: i.Client().Transport, Scopes: []string{"mcp"}}, PublicURL: "http://127.0.0.1:8420",
		})
		at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
		own := h.srv.URL + "/mcp"
		token := func(claims ...any) string {
			all := map[string]any{"aud": own, "scope": "mcp"}
			for n := 0; n+1 < len(claims); n += 2 {
				all[claims[n].(string)] = claims[n+1]
			}
			return i.Token(t, all)
		}
		for _, tt := range []struct {
			name, token string
			status      int
		}{
			{"valid", token(), 200},
			{"for the SSE path", token("aud", h.srv.URL+"/sse"), 200},
			{"for the root", token("aud", []string{h.srv.URL + "/", "x"}), 200},
			{"expired", token("exp", at(-time.Hour)), 401},
			{"wrong audience", token("aud", "https://other.test/mcp"), 401},
			{"wrong issuer", token("iss", "https://other.test"), 401},
			{"without the scope", token("scope", "other"), 403},
		} {
			if res := h.do(tt.token, "POST", "/mcp", initialize); res.StatusCode != tt.status {
				body, _ := io.ReadAll(res.Body)
				t.Errorf("%s: got %d %s, want %d", tt.name, res.StatusCode, body, tt.status)
			}
		}
		before := token()
		i.Rotate(t, "k2")
		time.Sleep(11 * time.Second)
		if res := h.do(token(), "POST", "/mcp", initialize); res.StatusCode != 200 {
			t.Errorf("rotated key: got %d", res.StatusCode)
		}
		synctest.Wait() // the new keys are handed out a moment before they are kept
		if res := h.do(before, "POST", "/mcp", initialize); res.StatusCode != 401 {
			t.Errorf("the key before: got %d, want 401", res.StatusCode)
		}
	})
}

func TestTokenExpiresInTheMiddle(t *testing.T) {
	if !bridge.LegacyBuilt {
		t.Skip("needs the HTTP+SSE transport")
	}
	synctest.Test(t, func(t *testing.T) {
		i := issuertest.New(t)
		h := newHouse(t, &server{}, &bridge.Options{Auth: bridge.Auth{Issuer: i.URL, Audience: []string{"test"}, IssuerTransport: i.Client().Transport}})
		short := i.Token(t, map[string]any{"exp": time.Now().Add(10 * time.Minute).Unix()})
		session := h.session(short)
		legacy := readStream(h.do(short, "GET", "/sse", "").Body)
		if res := h.do(short, "POST", legacy.field("data"), initialize); res.StatusCode != 202 {
			t.Fatalf("initialize: %d", res.StatusCode)
		}
		streams := map[string]*reader{
			"legacy":   legacy,
			"standing": readStream(h.do(short, "GET", "/mcp", "", "Mcp-Session-Id", session).Body),
			"listen":   readStream(h.do(short, "POST", "/mcp", modernListen, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen").Body),
		}
		time.Sleep(11*time.Minute - time.Second) // with the skew of a minute
		for name, s := range streams {
			if s.over() {
				t.Errorf("the %s stream has ended before its token", name)
			}
		}
		time.Sleep(2 * time.Second)
		for name, s := range streams {
			if !s.over() {
				t.Errorf("the %s stream goes on after its token", name)
			}
		}
		for path, header := range map[string][]string{"/mcp": {"Mcp-Session-Id", session}, legacy.field("data"): nil} {
			if res := h.do(short, "POST", path, list, header...); res.StatusCode != 401 || !strings.Contains(res.Header.Get("Www-Authenticate"), "invalid_token") {
				t.Errorf("%s with the old token: got %d", path, res.StatusCode)
			}
		}
		// The same user with a new token goes on where the old one left off; another user does not.
		fresh, other := i.Token(t, nil), i.Token(t, map[string]any{"sub": "bob"})
		if res := h.do(other, "POST", "/mcp", list, "Mcp-Session-Id", session); res.StatusCode != 404 {
			t.Errorf("another user: got %d, want 404", res.StatusCode)
		}
		if res := h.do(fresh, "POST", "/mcp", list, "Mcp-Session-Id", session); res.StatusCode != 200 {
			t.Errorf("the session with a new token: got %d", res.StatusCode)
		}
		again := readStream(h.do(fresh, "GET", "/sse", "", "Last-Event-ID", legacy.field("id")).Body)
		if res := h.do(fresh, "POST", again.field("data"), list); res.StatusCode != 202 || !strings.Contains(again.text(), `"id":7,"result"`) {
			t.Errorf("the legacy session with a new token: got %d\n%s", res.StatusCode, again.text())
		}
	})
}
