package legacy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/legacy"
	"github.com/mcp-dualstack/bridge/negotiate"
)

func TestRefusedMessages(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	typed := func(s string) []string { return []string{"Content-Type", s} }
	for _, c := range []struct {
		name   string
		query  string // instead of the session's; "": the session's
		body   string
		header []string
		status int
		code   string
		id     string // raw, "" for none
	}{
		{"no session", "?", list, nil, 400, "-32600", ""},
		{"an empty session", "?sessionId=", list, nil, 400, "-32600", ""},
		{"unknown session", "?sessionId=nope", list, nil, 404, "-32600", ""},
		{"unknown session and a bad body", "?sessionId=nope", `{`, nil, 404, "-32600", ""},
		{"text", "", list, typed("text/plain"), 415, "-32600", ""},
		{"another charset", "", list, typed("application/json; charset=latin1"), 415, "-32600", ""},
		{"no content type", "", list, typed(""), 415, "-32600", ""},
		{"empty body", "", "", nil, 400, "-32700", ""},
		{"no JSON", "", `{"jsonrpc":`, nil, 400, "-32700", ""},
		{"two values", "", list + list, nil, 400, "-32700", ""},
		{"invalid UTF-8", "", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", nil, 400, "-32700", ""},
		{"too deep", "", `{"jsonrpc":"2.0","id":1,"method":"x","params":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, nil, 400, "-32700", ""},
		{"too large", "", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 5000) + `"}`, nil, 413, "-32700", ""},
		{"not an object", "", `7`, nil, 400, "-32600", ""},
		{"null id", "", `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, nil, 400, "-32600", ""},
		{"true id", "", `{"jsonrpc":"2.0","id":true,"method":"tools/list"}`, nil, 400, "-32600", ""},
		{"array id", "", `{"jsonrpc":"2.0","id":[1],"method":"tools/list"}`, nil, 400, "-32600", ""},
		{"object id", "", `{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, nil, 400, "-32600", ""},
		{"fractional id", "", `{"jsonrpc":"2.0","id":1.0,"method":"tools/list"}`, nil, 400, "-32600", ""},
		{"exponent id", "", `{"jsonrpc":"2.0","id":1e2,"method":"tools/list"}`, nil, 400, "-32600", ""},
		{"duplicate id", "", `{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}`, nil, 400, "-32600", ""},
		{"duplicate method", "", `{"jsonrpc":"2.0","id":"x","method":"a","method":"b"}`, nil, 400, "-32600", `"x"`},
		{"another version", "", `{"jsonrpc":"1.0","id":01,"method":"a"}`, nil, 400, "-32700", ""},
		{"no version", "", `{"id":9007199254740993,"method":"a"}`, nil, 400, "-32600", "9007199254740993"},
		{"method and result", "", `{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, nil, 400, "-32600", ""},
		{"batch where there is none", "", `[` + list + `]`, nil, 400, "-32600", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen log
				h := &script{}
				_, s := serve(t, h, &legacy.Options{MaxBodyBytes: 4096, Observe: seen.observe})
				cl := connect(t, s).begin()
				to := cl.post
				if c.query != "" {
					to = s.URL + "/messages" + c.query
				}
				status, body := post(t, cl.http, to, c.body, c.header...)
				if status != c.status {
					t.Errorf("got status %d, want %d", status, c.status)
				}
				if got := string(jsonrpc.Get([]byte(body), "error", "code")); got != c.code {
					t.Errorf("got code %s, want %s", got, c.code)
				}
				if got := string(jsonrpc.Get([]byte(body), "id")); got != c.id {
					t.Errorf("got id %s, want %s", got, c.id)
				}
				if reasonOf(body) == "" {
					t.Errorf("got %s without a reason", body)
				}
				if got := len(seen.kind(exchange.SeenRefused)); got != 1 {
					t.Errorf("observed %d refusals, want 1", got)
				}
				// Nothing of it shows on the stream, and the next good request works.
				cl.ok(`{"jsonrpc":"2.0","id":77,"method":"tools/list"}`)
				cl.want(`{"jsonrpc":"2.0","id":77,"result":{}}`)
			})
		})
	}
}

func TestContentTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := serve(t, &script{}, nil)
		c := connect(t, s).begin()
		for _, kind := range []string{"application/json;charset=UTF-8", "Application/JSON", " application/json ; charset=\"utf-8\"", "application/json;", "application/json; charset=utf8"} {
			if status, body := c.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Content-Type", kind, "Accept", "text/html"); status != 202 {
				t.Errorf("%s: got %d %s, want 202", kind, status, body)
			}
			c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		}
	})
}

func TestMethodsAndAccept(t *testing.T) {
	for _, c := range []struct {
		name, method, path, accept string
		status                     int
		allow                      string
	}{
		{"POST to the stream", "POST", "/sse", "", 405, "GET"},
		{"HEAD of the stream", "HEAD", "/sse", "", 405, "GET"},
		{"GET of the messages", "GET", "/messages", "", 405, "POST"},
		{"DELETE of the messages", "DELETE", "/messages", "", 405, "POST"},
		{"JSON only", "GET", "/sse", "application/json", 406, ""},
		{"refused by weight", "GET", "/sse", "application/json, text/event-stream; q=0.0", 406, ""},
		{"a page", "GET", "/sse", "text/html", 406, ""},
		{"everything", "GET", "/sse", "*/*", 200, ""},
		{"all text", "GET", "/sse", "text/*;q=0.1", 200, ""},
		{"both", "GET", "/sse", "application/json, Text/Event-Stream;q=0.5", 200, ""},
		{"nothing said", "GET", "/sse", "", 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, s := serve(t, &script{}, nil)
				req, _ := http.NewRequestWithContext(t.Context(), c.method, s.URL+c.path, nil)
				if c.accept != "" {
					req.Header.Set("Accept", c.accept)
				}
				resp, err := s.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if resp.StatusCode != c.status || resp.Header.Get("Allow") != c.allow {
					t.Errorf("got %d and Allow %q, want %d and %q", resp.StatusCode, resp.Header.Get("Allow"), c.status, c.allow)
				}
			})
		})
	}
}

// Reports R12 and R13: an id comes back as the same text, and 1 and "1" are two ids.
func TestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := serve(t, &script{}, nil)
		c := connect(t, s).begin()
		for _, id := range []string{`"1"`, `1`, `""`, `"007"`, `"1e3"`, `0`, `-5`, `9007199254740993`, `18446744073709551615`, `"\u00e9\/"`} {
			c.ok(`{"jsonrpc":"2.0","id":` + id + `,"method":"x","params":{"n":1.10,"big":12345678901234567890}}`)
			c.want(`{"jsonrpc":"2.0","id":` + id + `,"result":{"n":1.10,"big":12345678901234567890}}`)
		}
	})
}

// Report R43: 202, no body, no JSON content type.
func TestAcceptedHasNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := serve(t, &script{}, nil)
		c := connect(t, s).begin()
		for _, body := range []string{
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`,
			`{"jsonrpc":"2.0","method":"cancelled"}`,
			`{"jsonrpc":"2.0","id":99,"result":{}}`,
		} {
			req, _ := http.NewRequest(http.MethodPost, c.post, strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			resp, err := c.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 202 || len(got) != 0 || resp.ContentLength != 0 || resp.Header.Get("Content-Type") != "" {
				t.Errorf("%s: got %d %q, length %d, type %q, want a bare 202", body, resp.StatusCode, got, resp.ContentLength, resp.Header.Get("Content-Type"))
			}
		}
		c.ok(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		c.want(`{"jsonrpc":"2.0","id":1,"result":{}}`) // none of them was answered on the stream
	})
}

func TestBatches(t *testing.T) {
	const (
		ping = `{"jsonrpc":"2.0","id":"p","method":"ping"}`
		list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
		note = `{"jsonrpc":"2.0","method":"notifications/x"}`
	)
	batch := func(elems ...string) string { return "[" + strings.Join(elems, ",") + "]" }
	for _, c := range []struct {
		name     string
		revision string
		body     string
		status   int
		want     int // answers on the stream
	}{
		{"allowed", "2025-03-26", batch(ping, list, note), 202, 2},
		{"tolerated", "2024-11-05", batch(ping, list, note), 202, 2},
		{"notifications only", "2025-03-26", batch(note, note), 202, 0},
		{"gone", "2025-06-18", batch(ping), 400, 0},
		{"gone for good", "2025-11-25", batch(ping), 400, 0},
		{"empty", "2025-03-26", "[]", 400, 0},
		{"64", "2025-03-26", batch(strings.Split(strings.Repeat(ping+"\n", 64), "\n")[:64]...), 202, 64},
		{"65", "2025-03-26", batch(strings.Split(strings.Repeat(ping+"\n", 65), "\n")[:65]...), 400, 0},
		{"with initialize", "2025-03-26", batch(ping, initialize("2025-03-26")), 400, 0},
		{"with a claim", "2025-03-26", batch(ping, `{"jsonrpc":"2.0","id":3,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`), 400, 0},
		{"with a fault", "2025-03-26", batch(ping, `{"jsonrpc":"2.0","id":5,"method":"x","params":7}`, list), 202, 3},
		{"with a fault that nobody could be told of", "2025-03-26", batch(ping, `{"jsonrpc":"2.0","id":null,"method":"x"}`), 202, 1},
		{"nothing but faults", "2025-03-26", batch(`{"jsonrpc":"2.0","id":5,"method":"x","params":7}`, `7`), 400, 0},
		{"with a malformed initialize", "2025-03-26", batch(ping, `{"jsonrpc":"2.0","id":5,"method":"initialize","params":7}`), 400, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, s := serve(t, &script{}, nil)
				cl := connect(t, s)
				cl.ok(initialize(c.revision))
				cl.next()
				if status, body := cl.send(c.body); status != c.status {
					t.Errorf("got %d %s, want %d", status, body, c.status)
				}
				synctest.Wait()
				cl.ok(`{"jsonrpc":"2.0","id":"end","method":"ping"}`)
				got := 0
				for cl.next() != `{"jsonrpc":"2.0","id":"end","result":{}}` {
					got++
				}
				if got != c.want {
					t.Errorf("got %d answers, want %d", got, c.want)
				}
			})
		})
	}
}

func TestBatchBeforeTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := serve(t, &script{}, nil)
		if status, _ := connect(t, s).send(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`); status != 400 {
			t.Errorf("got %d, want 400", status)
		}
	})
}

// Report R47: somebody else's session is as unknown as one that never was.
func TestForeignSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{}
		_, s := serve(t, h, &legacy.Options{Principal: func(r *http.Request) string { return r.Header.Get("X-Caller") }})
		c := connect(t, s, "X-Caller", "a")
		for _, caller := range []string{"b", ""} {
			if status, body := c.send(initialize("2025-06-18"), "X-Caller", caller); status != 404 || reasonOf(body) != negotiate.ReasonUnknownSession {
				t.Errorf("caller %q: got %d %s, want 404", caller, status, body)
			}
		}
		c.ok(initialize("2025-06-18"), "X-Caller", "a")
		c.want(initialized)
		if got := h.clients(); len(got) != 1 || got[0].Principal != "a" {
			t.Errorf("opened for %+v, want once for a", got)
		}
	})
}

// Whatever is posted, the front takes it or says what is wrong with it, and goes on.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"a/b":1}}}`, `{"jsonrpc":"2.0","id":null,"method":"x"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]`, `[]`, `{"jsonrpc":"2.0","id":"e","result":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "\xff", `{"jsonrpc":"2.0","id":1,"error":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, s := serve(t, &script{}, nil)
		c := connect(t, s)
		c.ok(initialize("2025-03-26"))
		c.next()
		status, answer := c.send(string(body))
		switch status {
		case 202:
			if answer != "" {
				t.Errorf("202 with %q", answer)
			}
		case 400:
			if _, err := jsonrpc.Scan([]byte(answer)); err != nil || jsonrpc.Get([]byte(answer), "error", "code") == nil {
				t.Errorf("400 with %q, want a JSON-RPC error", answer)
			}
		default:
			t.Errorf("got %d", status)
		}
		c.ok(`{"jsonrpc":"2.0","id":"the end","method":"ping"}`)
		for got := c.next(); got != `{"jsonrpc":"2.0","id":"the end","result":{}}`; got = c.next() {
			if _, err := jsonrpc.Scan([]byte(got)); err != nil || status != 202 {
				t.Fatalf("on the stream: %q (%v) after %d", got, err, status)
			}
		}
	})
}
