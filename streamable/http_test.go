package streamable_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/streamable"
)

const typeJSON, typeStream = "application/json", "text/event-stream"

// R40.
func TestAcceptVariants(t *testing.T) {
	for _, c := range []struct {
		name   string
		accept []string
		status int
		typ    string
	}{
		{"both", []string{"application/json, text/event-stream"}, 200, typeStream},
		{"other order", []string{"text/event-stream,application/json"}, 200, typeStream},
		{"anything", []string{"*/*"}, 200, typeStream},
		{"application range", []string{"application/*"}, 200, typeJSON},
		{"text range", []string{"text/*"}, 200, typeStream},
		{"json only", []string{"application/json"}, 200, typeJSON},
		{"stream only", []string{"text/event-stream"}, 200, typeStream},
		{"absent", nil, 200, typeStream},
		{"empty", []string{""}, 200, typeStream},
		{"quality", []string{"application/json;q=0.5, text/event-stream ; q=0.1"}, 200, typeStream},
		{"stream refused", []string{"application/json, text/event-stream;q=0"}, 200, typeJSON},
		{"two lines", []string{"application/json", "text/event-stream"}, 200, typeStream},
		{"upper case", []string{"APPLICATION/JSON, TEXT/EVENT-STREAM"}, 200, typeStream},
		{"html", []string{"text/html"}, 406, typeJSON},
		{"everything refused", []string{"*/*;q=0.0"}, 406, typeJSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, &script{}, streamable.Options{})
			req, _ := http.NewRequest(http.MethodPost, b.http.URL, strings.NewReader(initialize("2025-06-18")))
			req.Header["Content-Type"] = []string{"application/json"}
			req.Header["Accept"] = c.accept
			resp, err := b.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			r := read(t, resp)
			if r.status != c.status {
				t.Errorf("got status %d, want %d", r.status, c.status)
			}
			want(t, "type", r.header.Get("Content-Type"), c.typ)
		})
	}
}

func TestAcceptOfGET(t *testing.T) { // R40
	for _, c := range []struct {
		accept string
		status int
	}{{"text/event-stream", 200}, {"*/*", 200}, {"", 200}, {"application/json", 406}, {"text/html", 406}} {
		t.Run(c.accept, func(t *testing.T) {
			b := newBed(t, &script{}, streamable.Options{})
			s := b.session("2025-06-18")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if resp := b.do(ctx, http.MethodGet, "", s, "Accept: "+c.accept); resp.StatusCode != c.status {
				t.Errorf("got %d, want %d", resp.StatusCode, c.status)
			}
		})
	}
}

// R41.
func TestContentTypeSpelling(t *testing.T) {
	for _, c := range []struct {
		typ    string
		status int
	}{
		{"application/json", 200},
		{"application/json;charset=UTF-8", 200},
		{"Application/JSON", 200},
		{`application/json ; charset="utf-8"`, 200},
		{"application/json; charset=iso-8859-1", 415},
		{"text/plain", 415},
		{"application/jsonp", 415},
		{"", 415},
	} {
		t.Run(c.typ, func(t *testing.T) {
			b := newBed(t, &script{}, streamable.Options{})
			if r := b.post(initialize("2025-06-18"), "Content-Type: "+c.typ); r.status != c.status {
				t.Errorf("got %d, want %d: %s", r.status, c.status, r.body)
			}
		})
	}
}

// R33: no stream is no 200, and no challenge.
func TestGETWithoutASession(t *testing.T) {
	b := newBed(t, &script{}, streamable.Options{})
	for _, headers := range [][]string{{"Accept: text/event-stream"}, {"Last-Event-ID: AAAAAA.0.1"}, {"MCP-Protocol-Version: 2025-11-25"}} {
		r := b.send(http.MethodGet, "", headers...)
		if r.status != http.StatusMethodNotAllowed || r.header.Get("Www-Authenticate") != "" {
			t.Errorf("%v: got %d, header %v", headers, r.status, r.header)
		}
		want(t, "Allow", r.header.Get("Allow"), "POST, GET, DELETE")
		if strings.HasPrefix(r.body, "{") {
			t.Errorf("body looks like JSON-RPC: %s", r.body)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodHead} {
		if r := b.send(method, ""); r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") == "" {
			t.Errorf("%s: got %d, Allow %q", method, r.status, r.header.Get("Allow"))
		}
	}
}

// R05, and R31 for what may not mask it.
func TestSessionStatusCodes(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{MaxSessions: 1, IdleTimeout: time.Minute}, func(t *testing.T, b *bed) {
		const list = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
		s := b.session("2025-06-18")
		r := b.post(list)
		want(t, "no session", r.body, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"Invalid request: the Mcp-Session-Id header is missing; initialize first and send the id that the answer carries","data":{"bridge":{"reason":"missing_session"}}}}`)
		if r.status != 400 {
			t.Errorf("no session: got %d, want 400", r.status)
		}
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			if r := b.send(method, list, "Mcp-Session-Id: nope"); r.status != 404 {
				t.Errorf("%s of an unknown session: got %d, want 404", method, r.status)
			}
		}
		if r := b.post(`{"jsonrpc":"2.0","id":7,"result":{}}`); r.status != 400 {
			t.Errorf("response without a session: got %d, want 400", r.status)
		}
		time.Sleep(time.Minute - time.Second)
		if r := b.post(list, s); r.status != 200 {
			t.Errorf("just before expiry: got %d, want 200", r.status)
		}
		time.Sleep(time.Minute)
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			if r := b.send(method, list, s); r.status != 404 {
				t.Errorf("%s after idle expiry: got %d, want 404", method, r.status)
			}
		}
		if n := b.script.closes(); n != 1 {
			t.Errorf("upstream sessions closed: %d, want 1", n)
		}
	})
}

func TestSessionOfAnotherPrincipal(t *testing.T) {
	o := streamable.Options{Principal: func(r *http.Request) string { return r.Header.Get("X-User") }}
	b := newBed(t, &script{}, o)
	r := b.post(initialize("2025-06-18"), "X-User: ann")
	s := "Mcp-Session-Id: " + r.header.Get("Mcp-Session-Id")
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		if r := b.send(method, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, s, "X-User: bob"); r.status != 404 {
			t.Errorf("%s: got %d, want 404", method, r.status)
		}
	}
	if r := b.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, s, "X-User: ann"); r.status != 200 {
		t.Errorf("owner: got %d, want 200", r.status)
	}
	if p := b.script.last().Principal; p != "ann" {
		t.Errorf("principal %q, want ann", p)
	}
}

// R43.
func TestStatusOfNotificationsAndResponses(t *testing.T) {
	b := newBed(t, &script{}, streamable.Options{})
	s := b.session("2025-06-18")
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`,
		`{"jsonrpc":"2.0","method":"cancelled"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`,
	} {
		r := b.post(body, s)
		if r.status != http.StatusAccepted || r.body != "" || r.header.Get("Content-Type") != "" {
			t.Errorf("%s: got %d %q, type %q", body, r.status, r.body, r.header.Get("Content-Type"))
		}
	}
}

// R14, and the other malformed messages of translation.md 2. The next good request works.
func TestMalformedMessages(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		want       string // beginning of the answer
	}{
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,`},
		{"true as id", `{"jsonrpc":"2.0","id":true,"method":"tools/list"}`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,`},
		{"array as id", `{"jsonrpc":"2.0","id":[1],"method":"tools/list"}`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,`},
		{"object as id", `{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,`},
		{"fractional id", `{"jsonrpc":"2.0","id":3.14,"method":"tools/list"}`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,`},
		{"duplicate method", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,`},
		{"no version", `{"id":1,"method":"a"}`, 400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,`},
		{"no JSON", `{`, 400, `{"jsonrpc":"2.0","error":{"code":-32700,`},
		{"empty", ``, 400, `{"jsonrpc":"2.0","error":{"code":-32700,`},
		{"more after it", `{"jsonrpc":"2.0","id":1,"method":"a"}{}`, 400, `{"jsonrpc":"2.0","error":{"code":-32700,`},
		{"no UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", 400, `{"jsonrpc":"2.0","error":{"code":-32700,`},
		{"too deep", strings.Repeat("[", 600) + strings.Repeat("]", 600), 400, `{"jsonrpc":"2.0","error":{"code":-32700,`},
		{"too large", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 2000) + `"}`, 413, `{"jsonrpc":"2.0","error":{"code":-32700,`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, &script{}, streamable.Options{MaxBodyBytes: 2000})
			s := b.session("2025-06-18")
			r := b.post(c.body, s)
			if r.status != c.status || !strings.HasPrefix(r.body, c.want) || !strings.Contains(r.body, `"reason":`) {
				t.Errorf("got %d %s, want %d %s...", r.status, r.body, c.status, c.want)
			}
			if n := b.observed(exchange.SeenRefused, ""); n != 1 {
				t.Errorf("refusals observed: %d, want 1", n)
			}
			if r := b.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, s); r.status != 200 {
				t.Errorf("next request: got %d, want 200", r.status)
			}
		})
	}
}

// R04: every spelling of the path that leads here is served, none redirected.
func TestAnyPathIsServed(t *testing.T) {
	b := newBed(t, &script{}, streamable.Options{})
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return errors.New("redirected") }
	for _, path := range []string{"/mcp", "/mcp/", "//mcp", "/sse"} {
		resp, err := b.client.Post(b.http.URL+path, "application/json", strings.NewReader(initialize("2025-06-18")))
		if err != nil {
			t.Fatal(err)
		}
		if r := read(t, resp); r.status != 200 {
			t.Errorf("%s: got %d, want 200", path, r.status)
		}
	}
}
