package hostile

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// post is the text of a POST to /mcp whose connection is closed afterwards.
func post(header, body string) string {
	return fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"+
		"Accept: application/json\r\n%sContent-Length: %d\r\n\r\n%s", header, len(body), body)
}

// Headers that two readers could understand in two ways are refused, and nothing of such a request reaches the server; a second request
// that hides in the first is never answered (RFC 9112, 5 and 6.3, 11.2).
func TestSmuggledHeaders(t *testing.T) {
	b := start(t)
	mine, other := b.session(t)[1], b.session(t)[1]
	const marked = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"m":"SMUGGLED"}}}`
	hidden := "GET /retirement HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	usual := "Mcp-Session-Id: " + mine + "\r\n"
	chunked := func(header, body string) string {
		return "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n" + usual + header + "\r\n" + body
	}
	passing := strings.Replace(marked, "SMUGGLED", "passing", 1)
	harmless := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(passing), passing)
	pieces := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(marked), marked)
	for _, tt := range []struct {
		name, text string
		want       string // statuses
	}{
		{"two sessions", post(usual+"Mcp-Session-Id: "+other+"\r\n", marked), "400"},
		{"one session twice", post(usual+usual, marked), "400"},
		{"sessions in a list", post("Mcp-Session-Id: "+mine+", "+other+"\r\n", marked), "404"},
		{"session with a bare CR", post("Mcp-Session-Id: "+mine+"\rX: y\r\n", marked), "400"},
		{"session with NUL", post("Mcp-Session-Id: "+mine+"\x00\r\n", marked), "400"},
		{"blank before the colon", post("Mcp-Session-Id : "+mine+"\r\n", marked), "400"},
		{"folded line, read as one (RFC 9112, 5.2)", post("Mcp-Session-Id:\r\n "+mine+"\r\n", passing), "200"},
		{"folded line after a value, read as one", post(usual+" "+other+"\r\n", marked), "404"},
		{"name with a blank", post("Mcp Session Id: "+mine+"\r\n", marked), "400"},
		{"two versions", post(usual+"MCP-Protocol-Version: 2025-11-25\r\nMCP-Protocol-Version: 2025-06-18\r\n", marked), "400"},
		{"two Hosts", post("Host: evil.test\r\n"+usual, marked), "400"},
		{"no Host", "POST /mcp HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "400"},
		{"Host of two", strings.Replace(post(usual, marked), "Host: localhost", "Host: localhost, evil.test", 1), "400"},
		{"foreign Host in the target", strings.Replace(post(usual, marked), "POST /mcp", "POST http://evil.test/mcp", 1), "403"},
		{"two types", post("Content-Type: text/plain\r\n"+usual, marked), "415"},
		{"two lengths", chunked(fmt.Sprintf("Content-Length: 3\r\nContent-Length: %d\r\n", len(marked)), marked+hidden), "400"},
		{"length with a sign", chunked(fmt.Sprintf("Content-Length: +%d\r\n", len(marked)), marked+hidden), "400"},
		{"lengths in a list", chunked(fmt.Sprintf("Content-Length: 3, %d\r\n", len(marked)), marked+hidden), "400"},
		{"negative length", chunked("Content-Length: -1\r\n", marked+hidden), "400"},
		{"length beyond 64 bits", chunked("Content-Length: 18446744073709551620\r\n", marked+hidden), "400"},
		{"length and chunks: the chunks count, and nothing after them (6.1)",
			chunked(fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n", len(harmless)+len(hidden)), harmless+hidden), "200"},
		{"length before chunks", chunked("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", harmless+hidden), "200"},
		{"chunked twice", chunked("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", pieces+hidden), "501"},
		{"another coding", chunked("Transfer-Encoding: gzip, chunked\r\n", pieces+hidden), "501"},
		{"coding with a tab", chunked("Transfer-Encoding:\x0bchunked\r\n", pieces+hidden), "400"},
		{"chunk of a negative size", chunked("Transfer-Encoding: chunked\r\n", "-1\r\n"+hidden), "400"},
		{"chunk of a huge size", chunked("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"+hidden), "400"},
		{"chunk without an end", chunked("Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%sXX", len(marked), marked)+hidden), "400"},
		{"LF alone in a chunk size", chunked("Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\n%s\r\n0\r\n\r\n", len(marked), marked)+hidden), "400"},
		{"chunked in HTTP/1.0", strings.Replace(chunked("Transfer-Encoding: chunked\r\n", pieces+hidden), "HTTP/1.1", "HTTP/1.0", 1), "400"},
		{"trailer with a session", chunked("Transfer-Encoding: chunked\r\nConnection: close\r\nTrailer: Mcp-Session-Id\r\n",
			strings.TrimSuffix(harmless, "\r\n")+"Mcp-Session-Id: "+other+"\r\n\r\n"), "200"},
		{"too many headers", post(strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 100)+usual, marked), "431"},
		{"method with a line end", "PO\nST /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"},
		{"upgrade to HTTP/2", post("Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"+usual, passing), "200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := b.raw(t, tt.text)
			if s := statuses(got); len(s) != 1 || s[0] != tt.want {
				t.Errorf("got %v, want %s: %.400q", s, tt.want, got)
			}
		})
	}
	if got := heard(t, b.record); strings.Contains(got, "SMUGGLED") {
		t.Errorf("a refused request reached the server:\n%s", got)
	}
	b.honest(t)
}

// What is no path of the bridge is none in whatever spelling, and no spelling gets around the checks of a route.
func TestPaths(t *testing.T) {
	b := start(t)
	get := func(target string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	}
	for _, tt := range []struct {
		name, text string
		want       string
	}{
		{"dot segments", get("/mcp/../retirement"), "404"},
		{"escaped dots", get("/%2e%2e/retirement"), "404"},
		{"dots escaped once", get("/a/.%2e/retirement"), "404"},
		{"dots escaped twice", get("/%252e%252e/retirement"), "404"},
		{"escaped slash", get("/mcp%2f..%2fretirement"), "404"},
		{"backslash", get(`/a\..\retirement`), "404"},
		{"escaped letters are the path", get("/%72etirement"), "200"},
		{"slashes before it are the path", get("//retirement"), "200"},
		{"another host in front of the path", get("//evil.test/retirement"), "404"},
		{"NUL", get("/retirement%00"), "404"},
		{"NUL that is not escaped", get("/retirement\x00"), "400"},
		{"line end that is escaped", get("/retirement%0d%0aX-Evil:%20y"), "404"},
		{"bad escape", get("/retirement%zz"), "400"},
		{"overlong UTF-8", get("/%c0%afretirement"), "404"},
		{"semicolon", get("/retirement;x=y"), "404"},
		{"fragment", get("/retirement#x"), "404"},
		{"query with a line end", get("/retirement?a=%0d%0aX-Evil:%20y"), "200"},
		{"longer than the header may be", get("/" + strings.Repeat("a", 200<<10)), "431"},
		{"long", get("/" + strings.Repeat("a", 30<<10)), "404"},
		{"whole URL of this host", get("http://localhost/retirement"), "200"},
		{"whole URL of another host", get("http://evil.test/retirement"), "403"},
		{"whole URL of a file", get("file:///etc/passwd"), "404"},
		{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "200"},
		{"asterisk, GET", get("*"), "404"},
		{"a proxy's method", "CONNECT evil.test:443 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "403"},
		{"TRACE", "TRACE /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: secret=1\r\n\r\n", "405"},
		{"no leading slash", get("retirement"), "400"},
		{"admin on the clients' listener", get("/admin/"), "404"},
		{"metrics on the clients' listener", get("/metrics"), "404"},
		{"profiles on the clients' listener", get("/debug/pprof/"), "404"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := b.raw(t, tt.text)
			if s := statuses(got); len(s) != 1 || s[0] != tt.want {
				t.Errorf("got %v, want %s: %.400q", s, tt.want, got)
			}
			head, _, _ := strings.Cut(got, "\r\n\r\n")
			if strings.Contains(head, "X-Evil") || strings.Contains(got, "secret=1") || strings.Contains(head, "\r\nLocation:") {
				t.Errorf("something of the request came back: %.400q", got)
			}
		})
	}
}

// JSON that two parsers could understand in two ways is refused on every route, and nothing of it reaches the server.
func TestSmuggledJSON(t *testing.T) {
	b := start(t)
	session, s := b.session(t), b.legacy(t)
	routes := []struct {
		name, path string
		header     []string
	}{{"session", "/mcp", session}, {"stateless", "/mcp", modernHeader("echo")}, {"legacy", s.post, nil}}
	const envelope = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	const echo = `"params":{"name":"echo","arguments":{"m":"SMUGGLED"},` + envelope + `}`
	for _, tt := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"method twice", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call",` + echo + `}`, 400, "-32600"},
		{"method escaped the second time", `{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"tools/call",` + echo + `}`, 400, "-32600"},
		{"params twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{},` + echo + `}`, 400, "-32600"},
		{"id twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call",` + echo + `}`, 400, "-32600"},
		{"name twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ping","name":"echo","arguments":{"m":"SMUGGLED"},` + envelope + `}}`, 400, "-32600"},
		{"method in another case", `{"jsonrpc":"2.0","id":1,"Method":"tools/call",` + echo + `}`, 400, "-32600"},
		{"all in another case", `{"JSONRPC":"2.0","ID":1,"METHOD":"tools/call",` + echo + `}`, 400, "-32600"},
		{"two values", `{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"tools/call",` + echo + `}`, 400, "-32700"},
		{"two values on lines", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/call",` + echo + `}`, 400, "-32700"},
		{"comment", `{"jsonrpc":"2.0",/*x*/"id":1,"method":"tools/call",` + echo + `}`, 400, "-32700"},
		{"comma at the end", `{"jsonrpc":"2.0","id":1,"method":"tools/call",` + echo + `,}`, 400, "-32700"},
		{"NUL after it", `{"jsonrpc":"2.0","id":1,"method":"tools/call",` + echo + "}\x00", 400, "-32700"},
		{"NUL in a string", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\x00\"," + echo + `}`, 400, "-32700"},
		{"line end in a string", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/\ncall\"," + echo + `}`, 400, "-32700"},
		{"byte order mark", "\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"tools/call",` + echo + `}`, 400, "-32700"},
		{"UTF-16", "\xff\xfe{\x00}\x00", 400, "-32700"},
		{"NaN as id", `{"jsonrpc":"2.0","id":NaN,"method":"tools/call",` + echo + `}`, 400, "-32700"},
		{"hexadecimal id", `{"jsonrpc":"2.0","id":0x1,"method":"tools/call",` + echo + `}`, 400, "-32700"},
		{"id that overflows", `{"jsonrpc":"2.0","id":1e999999,"method":"tools/call",` + echo + `}`, 400, "-32600"},
		{"a hundred thousand levels", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":` + strings.Repeat(`{"a":`, 100_000) + `"SMUGGLED"` + strings.Repeat("}", 100_000) + `}}`, 400, "-32700"},
		{"a million brackets", strings.Repeat("[", 1_000_000), 400, "-32700"},
		{"body longer than may be", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"SMUGGLED` + strings.Repeat("x", 9<<20) + `"}}`, 413, "-32700"},
		{"message for another method in the id", `{"jsonrpc":"2.0","id":{"method":"tools/call"},"method":"tools/call",` + echo + `}`, 400, "-32600"},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{},` + echo + `}`, 400, "-32600"},
	} {
		for _, route := range routes {
			t.Run(tt.name+", "+route.name, func(t *testing.T) {
				a := b.do(t, "POST", route.path, tt.body, route.header...)
				if a.status != tt.status || !strings.Contains(a.body, `"code":`+tt.code+`,`) {
					t.Errorf("got %d %.300s, want %d and %s", a.status, a.body, tt.status, tt.code)
				}
			})
		}
	}
	if got := heard(t, b.record); strings.Contains(got, "SMUGGLED") {
		t.Errorf("a refused message reached the server: %.2000s", got)
	}
	// A huge number and a name in many spellings are the payload's own business: they arrive as they were sent.
	const odd = `{"n":123456789012345678901234567890.5e+300,"N":-0.0,"n":1E400,"\u006e":0}`
	if a := b.do(t, "POST", "/mcp", tool("1", "echo", odd), session...); a.status != 200 || !strings.Contains(heard(t, b.record), `"arguments":`+odd) {
		t.Errorf("got %d %s; the server has %s", a.status, a.body, heard(t, b.record))
	}
	b.honest(t)
}

// Every route that there is refuses a foreign Host and Origin, also under another path, before it looks at anything else (report R45).
func TestForeignHostOnEveryRoute(t *testing.T) {
	b := start(t)
	session, s := b.session(t), b.legacy(t)
	for _, path := range []string{"/mcp", "/sse", s.post, "/retirement", "/", "/nothing", "/.well-known/oauth-protected-resource"} {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT"} {
			for _, foreign := range []string{"Host: evil.test", "Host: 127.0.0.1.evil.test", "Host: localhost\r\nOrigin: http://evil.test", "Host: localhost\r\nOrigin: null"} {
				got := b.raw(t, method+" "+path+" HTTP/1.1\r\n"+foreign+"\r\nConnection: close\r\nMcp-Session-Id: "+session[1]+
					"\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n")
				if !slices.Equal(statuses(got), []string{"403"}) || strings.Contains(strings.ToLower(got), "access-control-allow") {
					t.Errorf("%s %s with %q: got %.300q", method, path, foreign, got)
				}
			}
		}
	}
}

// Session ids and stream ids that were guessed, cut, extended or taken from the other transport find nothing, and do not show whether
// there is something (R05; those of another principal: TestOtherPrincipals of the root).
func TestGuessedSessions(t *testing.T) {
	b := start(t)
	id := b.session(t)[1]
	s := b.legacy(t)
	target, err := url.Parse(s.post)
	if err != nil {
		t.Fatal(err)
	}
	query := target.Query()
	legacyID := query.Get("sessionId")
	list := harness.Request("1", "tools/list", "{}")
	guesses := map[string]string{
		"nothing like it": "x", "one off": id[:len(id)-1] + string(id[len(id)-1]^1), "cut": id[:len(id)-1], "half": id[:len(id)/2], "longer": id + "A", "twice": id + id,
		"lower case": strings.ToLower(id), "of the legacy stream": legacyID, "wildcard": "*", "SQL": "' OR 1=1 --", "path": "../" + id, "long": strings.Repeat("A", 8<<10),
	}
	var body string // of every refusal, the same
	for name, guess := range guesses {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			a := b.do(t, method, "/mcp", map[string]string{"POST": list}[method], "Mcp-Session-Id", guess)
			if a.status != 404 {
				t.Errorf("%s %s: got %d %s", method, name, a.status, a.body)
			}
			if body = cmpOr(body, a.body); a.body != body && method == "POST" {
				t.Errorf("%s: the answer shows what is wrong: %s", name, a.body)
			}
		}
	}
	guesses["of the legacy stream"] = id
	for name, guess := range guesses {
		if name == "lower case" || name == "one off" || name == "cut" || name == "half" || name == "longer" || name == "twice" || name == "path" {
			guess = map[string]string{"lower case": strings.ToLower(legacyID), "one off": legacyID[:len(legacyID)-1] + "~", "cut": legacyID[:len(legacyID)-1],
				"half": legacyID[:len(legacyID)/2], "longer": legacyID + "A", "twice": legacyID + legacyID, "path": "../" + legacyID}[name]
		}
		if a := b.do(t, "POST", target.Path+"?sessionId="+url.QueryEscape(guess), list); a.status != 404 {
			t.Errorf("legacy, %s: got %d %s", name, a.status, a.body)
		}
	}
	for name, target := range map[string]string{
		"two sessions": s.post + "&sessionId=" + id, "the same twice": s.post + "&sessionId=" + legacyID, "another case": strings.Replace(s.post, "sessionId", "SESSIONID", 1),
	} {
		if a := b.do(t, "POST", target, list); a.status != 400 && a.status != 404 {
			t.Errorf("legacy, %s: got %d %s", name, a.status, a.body)
		}
	}
	if got := heard(t, b.record); strings.Contains(got, "tools/list") {
		t.Errorf("the server was asked: %s", got)
	}
	b.accepted(t, s, tool("1", "echo", `{}`)) // and nothing of all that is on the stream
	if m := s.message(t); string(m.ID) != "1" || m.Text() != "{}" {
		t.Errorf("got %+v", m)
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
