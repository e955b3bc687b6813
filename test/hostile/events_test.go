package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// evilTexts are what a server may put into any string: ends of lines and of events in every spelling that some reader knows, and
// the words of the framing itself.
var evilTexts = map[string]string{
	"CR LF":            "a\r\n\r\nevent: endpoint\r\ndata: http://evil.test/\r\n\r\n",
	"LF":               "a\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
	"CR":               "a\r\rid: evil\rretry: 1\rdata: x\r\r",
	"NUL":              "a\x00b\x00",
	"Unicode":          "a\u2028\u2028event: endpoint\u2028data: http://evil.test/\u2029\u0085\v\f\u2028",
	"byte order mark":  "\ufeffdata: x",
	"framing":          "event: endpoint",
	"escape sequences": "\x1b]0;owned\a\x1b[2J\u202e",
}

// quoted returns text as a JSON string with nothing escaped that need not be: U+2028 and its like stand there as they are.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings have JSON
	}
	return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029", `\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
}

// said are the lines of a server that puts text wherever it can.
func said(text string) []string {
	q := quoted(text)
	return []string{
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":` + q + `,"data":{` + q + `:` + q + `}}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1,"message":` + q + `}}`,
		`{"jsonrpc":"2.0","method":` + q + `,"params":{}}`,
		"{\"jsonrpc\":\"2.0\",\r\"method\":\r\r\"notifications/progress\",\"params\":\r{\"progressToken\":$TOKEN,\r\r\"progress\":2,\"message\":" + q + "}\r}\r",
		"{\"jsonrpc\":\"2.0\",\r\r\"result\":{\"content\":[{\"type\":\"text\",\r\r\"text\":" + q + "}]},\"id\":$ID}",
	}
}

// Whatever a server says, an event stream has one event for each message and nothing else: no line end and no word of the framing gets out
// of a message, in any era (report R27; WHATWG HTML, 9.2.5).
func TestEventInjection(t *testing.T) {
	b := start(t)
	session := b.session(t)
	for name, text := range evilTexts {
		arguments := lines(said(text)...)
		params := `"name":"say","arguments":` + arguments
		t.Run("session, "+name, func(t *testing.T) {
			s := b.open(t, "POST", "/mcp", harness.Request("1", "tools/call", `{`+params+`,"_meta":{"progressToken":"p"}}`), session...)
			checkEvents(t, s, text, true)
		})
		t.Run("stateless, "+name, func(t *testing.T) {
			body := harness.Request("1", "tools/call", strings.Replace(harness.Modern(params), `"_meta":{`, `"_meta":{"progressToken":"p","io.modelcontextprotocol/logLevel":"debug",`, 1))
			checkEvents(t, b.open(t, "POST", "/mcp", body, modernHeader("say")...), text, true)
		})
		t.Run("legacy, "+name, func(t *testing.T) {
			s := b.legacy(t)
			b.accepted(t, s, harness.Request("1", "tools/call", `{`+params+`,"_meta":{"progressToken":"p"}}`))
			checkEvents(t, s, text, false)
		})
	}
	b.honest(t)
}

// checkEvents reads the stream up to the response, whose text must be what the server said, and checks every line of it.
func checkEvents(t *testing.T, s *stream, text string, ends bool) {
	t.Helper()
	progress := 0
	for {
		m := s.message(t)
		if m.Method == "notifications/progress" {
			progress++
			var p struct{ Message string }
			if json.Unmarshal(m.Params, &p) != nil || p.Message != text {
				t.Errorf("progress: got %q, want %q", m.Params, text)
			}
		}
		if m.IsResponse() {
			if m.Text() != text {
				t.Errorf("got %q, want %q", m.Text(), text)
			}
			break
		}
	}
	if progress != 2 {
		t.Errorf("got %d progress notifications, want 2", progress)
	}
	if ends {
		if e, err := s.events.Next(); err != io.EOF {
			t.Errorf("after the response: got %+v, %v", e, err)
		}
	}
	checkFraming(t, s.seen.String())
}

// checkFraming checks that each line is one that the bridge writes. What is a line end between the tokens of a message is one between
// data lines: for a reader that is a line end again.
func checkFraming(t *testing.T, seen string) {
	t.Helper()
	if strings.ContainsAny(seen, "\r\x00") {
		t.Errorf("CR or NUL on the stream: %q", seen)
	}
	for i, line := range strings.Split(seen, "\n") {
		switch {
		case line == "", line == "data:", line == "event: message", strings.HasPrefix(line, ":"), strings.HasPrefix(line, "retry: "):
		case strings.HasPrefix(line, "id: ") && !strings.Contains(line, "evil"):
		case i == 0 && line == "event: endpoint":
		case strings.HasPrefix(line, "data: "): // that it makes a message with the others of its event was seen
		default:
			t.Errorf("line %d is nothing that the bridge says: %q", i, line)
		}
	}
}

// A message that a client spreads over lines is one line for the server: nothing in it becomes a message of its own.
func TestLineInjection(t *testing.T) {
	b := start(t)
	const hidden = `{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"echo","arguments":{"m":"HIDDEN"}}}`
	arguments := "{\"a\":\n" + hidden + "\n,\"b\":\r\n" + hidden + "\r,\"c\":\"\u2028" + `\n` + "\"}"
	body := "\n{\"jsonrpc\":\"2.0\"\n,\"id\":\n1,\"method\":\"tools/call\",\n\"params\":\n{\"name\":\"echo\",\n\"arguments\":" + arguments + ",\"_meta\":\n{}}}\n"
	session, s := b.session(t), b.legacy(t)
	if a := b.do(t, "POST", "/mcp", body, session...); a.status != 200 || !strings.Contains(a.body, "HIDDEN") {
		t.Errorf("session: got %d %s", a.status, a.body)
	}
	modern := strings.Replace(body, `"_meta":`+"\n{}", `"_meta":`+"\n"+`{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+"\n"+`"io.modelcontextprotocol/clientCapabilities":{}}`, 1)
	if a := b.do(t, "POST", "/mcp", modern, modernHeader("echo")...); a.status != 200 || !strings.Contains(a.body, "HIDDEN") {
		t.Errorf("stateless: got %d %s", a.status, a.body)
	}
	b.accepted(t, s, body)
	if m := s.message(t); !strings.Contains(m.Text(), "HIDDEN") {
		t.Errorf("legacy: got %s", m.Result)
	}
	calls := 0
	for line := range strings.SplitSeq(strings.TrimSuffix(heard(t, b.record), "\n"), "\n") {
		if !json.Valid([]byte(line)) || strings.HasPrefix(line, hidden) {
			t.Errorf("the server was sent the line %q", line)
		}
		if strings.Contains(line, "HIDDEN") {
			calls++
		}
	}
	if calls != 3 {
		t.Errorf("the server has %d calls, want 3", calls)
	}
}

// A forwarded prefix, host or scheme that a proxy passes on unlooked at is no way into the endpoint event: what it names is on the origin
// that the request came to, or nothing is said of it.
func TestEndpointInjection(t *testing.T) {
	b := start(t, "--trusted-proxy", "127.0.0.1")
	for name, header := range map[string][]string{
		"another host as prefix":         {"X-Forwarded-Prefix", "//evil.test"},
		"another host after a backslash": {"X-Forwarded-Prefix", `/\evil.test`},
		"URL as prefix":                  {"X-Forwarded-Prefix", "http://evil.test/"},
		"script as prefix":               {"X-Forwarded-Prefix", "javascript:alert(1)//"},
		"query as prefix":                {"X-Forwarded-Prefix", "/a?sessionId=x&"},
		"fragment as prefix":             {"X-Forwarded-Prefix", "/a#"},
		"line end as prefix":             {"X-Forwarded-Prefix", "/a%0d%0adata:%20http://evil.test/"},
		"U+2028 as prefix":               {"X-Forwarded-Prefix", "/a\u2028data: http://evil.test/"},
		"dots as prefix":                 {"X-Forwarded-Prefix", "/../.."},
		"user in the host":               {"X-Forwarded-Host", "localhost@evil.test", "X-Forwarded-Proto", "http"},
		"path in the host":               {"X-Forwarded-Host", "evil.test/x?", "X-Forwarded-Proto", "http"},
		"script as scheme":               {"X-Forwarded-Host", "localhost", "X-Forwarded-Proto", "javascript"},
	} {
		t.Run(name, func(t *testing.T) {
			s := b.open(t, "GET", "/sse", "", header...)
			first := s.next(t)
			base, err := url.Parse(b.base + "/sse")
			if err != nil {
				t.Fatal(err)
			}
			endpoint, err := base.Parse(first.Data)
			if err != nil || first.Name != "endpoint" {
				t.Fatalf("got %+v, %v", first, err)
			}
			if !strings.HasPrefix(endpoint.Host, "127.0.0.1") && endpoint.Host != "localhost" || endpoint.Scheme != "http" {
				t.Errorf("the endpoint is elsewhere: %s", endpoint)
			}
			if !strings.HasPrefix(endpoint.Query().Encode(), "sessionId=") || endpoint.Query().Get("sessionId") == "x" || endpoint.Fragment != "" {
				t.Errorf("the endpoint has another query: %s", endpoint)
			}
			if n := bytes.Count(s.seen.Bytes(), []byte("\n")); n != 3 {
				t.Errorf("the event has %d lines: %q", n, s.seen)
			}
			s.resp.Body.Close()
		})
	}
	b.honest(t)
}

// A session of a client that reads nothing but its own stream is not told what the server says to others: names in a message of the
// server that look like another's do not steer it (ids, tokens, subscriptions).
func TestServerCannotAddressOthers(t *testing.T) {
	b := start(t, "--stateless", "--sharing", "shared")
	victim := b.legacy(t)
	b.accepted(t, victim, harness.Request("7", "tools/call", `{"name":"slow","arguments":{},"_meta":{"progressToken":"mine"}}`))
	var text []string
	for id := range 12 {
		for _, form := range []string{"%d", `"%d"`, `"p%d"`} {
			at := fmt.Sprintf(form, id)
			text = append(text, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+at+`,"progress":9,"message":"EVIL"}}`)
		}
	}
	text = append(text, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":9,"message":"EVIL"}}`)
	if a := b.do(t, "POST", "/mcp", tool("1", "say", lines(text...)), b.session(t)...); a.status != 200 {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	if a := b.do(t, "POST", "/mcp", tool("2", "free", `{}`), b.session(t)...); a.status != 200 {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	// The server knows the tokens that it was given, so that it may say anything about them; but what it says with the client's own
	// token or an id of somebody else goes nowhere.
	for {
		m := victim.message(t)
		if m.IsResponse() {
			break
		}
		if !strings.Contains(string(m.Params), `"progressToken":"mine"`) {
			t.Errorf("got %s %s", m.Method, m.Params)
		}
	}
}
