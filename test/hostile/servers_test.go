package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// A server is an HTTP server behind the bridge that plays by the book but for one thing. It keeps the headers of all requests.
type server struct {
	*httptest.Server

	mu   sync.Mutex
	hits []*http.Request
}

// serve starts a server that is closed when the test ends. What is wrong with it comes first: it returns false where the book goes on.
func serve(t *testing.T, modern bool, wrong func(http.ResponseWriter, *http.Request, message) bool) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a request that is cut off has no method, and no answer
		var m message
		_ = json.Unmarshal(body, &m)
		s.mu.Lock()
		s.hits = append(s.hits, r)
		s.mu.Unlock()
		if wrong(w, r, m) {
			return
		}
		s.byTheBook(w, r, m, modern)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *server) byTheBook(w http.ResponseWriter, r *http.Request, m message, modern bool) {
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "server/discover" && modern:
		say(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)
	case m.Method == "initialize" && !modern:
		w.Header().Set("Mcp-Session-Id", "of-the-server")
		say(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)
	case m.Method == "tools/list":
		say(w, m, `{"resultType":"complete","tools":[{"name":"echo","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}`)
	case m.Method == "tools/call":
		say(w, m, `{"resultType":"complete","content":[{"type":"text","text":"{\"a\":1}"}]}`)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
	}
}

func say(w http.ResponseWriter, m message, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// requests returns the requests so far.
func (s *server) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.hits)
}

// bomb is 256 MiB of zeros, compressed to a thousandth.
func bomb() []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(make([]byte, 1<<20)) // to memory
	_ = w.Close()
	return bytes.Repeat(b.Bytes(), 256) // members of one gzip file (RFC 1952, section 2.2)
}

// A server that answers one call in some hostile way gives that call an error within bounded time and memory; nothing of what it said
// gets to the client as a header or an event, no request goes anywhere else, and the next call is served. Bounds of endless answers:
// TestEndlessAnswers of upstream; of redirects and endpoint events: TestRedirects, TestResolveEndpoint.
func TestHostileAnswers(t *testing.T) {
	zeros := bomb()
	var trapped sync.Map
	trap := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { trapped.Store(r.Method+" "+r.URL.Path, true) }))
	defer trap.Close()
	raw := func(w http.ResponseWriter, text string) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, text) // the bridge may have enough
	}
	stream := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
	}
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, message){
		"gzip bomb that nobody asked for": func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zeros)
		},
		"gzip bomb as events": func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zeros)
		},
		"redirect elsewhere": func(w http.ResponseWriter, r *http.Request, _ message) {
			http.Redirect(w, r, trap.URL+"/stolen", http.StatusTemporaryRedirect)
		},
		"redirect to a file": func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusPermanentRedirect)
		},
		"redirect with another user": func(w http.ResponseWriter, r *http.Request, _ message) {
			w.Header().Set("Location", "http://u:p@"+strings.TrimPrefix(trap.URL, "http://")+"/stolen")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		"redirect to itself": func(w http.ResponseWriter, r *http.Request, _ message) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		},
		"two answers in one": func(w http.ResponseWriter, _ *http.Request, m message) {
			raw(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		},
		"conflicting lengths": func(w http.ResponseWriter, _ *http.Request, _ message) {
			raw(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}")
		},
		"endless interim answers": func(w http.ResponseWriter, _ *http.Request, _ message) {
			raw(w, strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 10_000))
		},
		"switch of protocols": func(w http.ResponseWriter, _ *http.Request, _ message) {
			raw(w, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: evil\r\nConnection: Upgrade\r\n\r\n")
		},
		"status that is none": func(w http.ResponseWriter, _ *http.Request, _ message) { raw(w, "HTTP/1.1 -1 EVIL\r\n\r\n") },
		"something else":      func(w http.ResponseWriter, _ *http.Request, _ message) { raw(w, "SSH-2.0-OpenSSH_9.9\r\n") },
		"answer to another id": func(w http.ResponseWriter, _ *http.Request, m message) {
			m.ID = []byte(`"EVIL"`)
			say(w, m, `{"EVIL":1}`)
		},
		"answer without an id": func(w http.ResponseWriter, _ *http.Request, m message) {
			m.ID = []byte(`null`)
			say(w, m, `{"EVIL":1}`)
		},
		"request as the answer": func(w http.ResponseWriter, _ *http.Request, m message) { say(w, m, `{},"method":"EVIL"`) },
		"events of others": func(w http.ResponseWriter, _ *http.Request, _ message) {
			stream(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"EVIL\",\"result\":{}}\n\nevent: endpoint\ndata: "+trap.URL+"/stolen\n\n")
		},
		"page": func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<script>EVIL</script>")
		},
		"gone in the body": func(w http.ResponseWriter, _ *http.Request, _ message) {
			raw(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{\"jsonrpc\"")
		},
		"busy for ages": func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Retry-After", "99999999999999999999")
			w.WriteHeader(429)
		},
		"busy since long ago": func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Retry-After", "-5")
			w.WriteHeader(503)
		},
		"challenge that nobody passes on": func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Www-Authenticate", `Bearer EVIL="`+strings.Repeat("x", 100<<10)+`"`)
			w.WriteHeader(401)
		},
		"headers for the client": func(w http.ResponseWriter, _ *http.Request, _ message) {
			for _, name := range []string{"Set-Cookie", "Access-Control-Allow-Origin", "Mcp-Session-Id", "Location", "Refresh", "X-Evil"} {
				w.Header().Set(name, "EVIL")
			}
			w.WriteHeader(500)
			fmt.Fprint(w, "EVIL")
		},
	} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, modern %v", name, modern), func(t *testing.T) {
				t.Parallel()
				s := serve(t, modern, func(w http.ResponseWriter, r *http.Request, m message) bool {
					hostile := m.Method == "tools/call" && m.Params.Name == "hostile"
					if hostile {
						answer(w, r, m)
					}
					return hostile
				})
				b := start(t, "--upstream", s.URL+"/mcp")
				checkHostileAnswer(t, b)
			})
		}
	}
	t.Cleanup(func() {
		trapped.Range(func(what, _ any) bool { t.Errorf("somebody else was asked: %s", what); return true })
	})
}

func checkHostileAnswer(t *testing.T, b *bed) {
	t.Helper()
	session := b.session(t)
	b.do(t, "POST", "/mcp", tool("1", "echo", "{}"), session...)
	before, began := b.Usage(t), time.Now()
	modern := harness.Request("7", "tools/call", harness.Modern(`"name":"hostile","arguments":{}`))
	for _, call := range []struct {
		body   string
		header []string
	}{{tool("7", "hostile", "{}"), append(session, "Accept", "application/json")}, {modern, modernHeader("hostile")}} {
		a := b.do(t, "POST", "/mcp", call.body, call.header...)
		if !strings.Contains(a.body, `"id":7,"error":{"code":`) || strings.Contains(a.body, "EVIL") {
			t.Errorf("got %d %.300s, want an error", a.status, a.body)
		}
		for name, values := range a.header {
			if strings.Contains(strings.Join(values, " "), "EVIL") || name == "Location" || name == "Set-Cookie" {
				t.Errorf("the client got %s: %.300v", name, values)
			}
		}
		if after := a.header.Get("Retry-After"); after != "" && (len(after) > 4 || after[0] == '-') {
			t.Errorf("the client is told to wait for %q", after)
		}
	}
	if took := time.Since(began); took > limit/2 {
		t.Errorf("took %v", took)
	}
	if grown := b.Usage(t).Resident - before.Resident; grown > memory(192) {
		t.Errorf("takes %d MiB", grown>>20)
	}
	if a := b.do(t, "POST", "/mcp", tool("1", "echo", `{"a":1}`), b.session(t)...); a.status != 200 || !strings.Contains(a.body, `{\"a\":1}`) {
		t.Errorf("the next call: got %d %s", a.status, a.body)
	}
}

// An HTTP+SSE server names an endpoint elsewhere: the bridge posts there never, and its client is told within bounded time.
func TestHostileEndpoints(t *testing.T) {
	var trapped sync.Map
	trap := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { trapped.Store(r.Method+" "+r.URL.Path, true) }))
	defer trap.Close()
	elsewhere := strings.TrimPrefix(trap.URL, "http://")
	for name, endpoint := range map[string]string{
		"another origin": trap.URL + "/stolen", "without a scheme": "//" + elsewhere + "/stolen", "backslashes": `\\` + elsewhere + `\stolen`,
		"user": "http://localhost@" + elsewhere + "/stolen", "script": "javascript:alert(1)", "file": "file:///etc/passwd", "data": "data:text/plain,x",
		"line end": "/messages%0d%0aHost:%20evil", "control": "/mess\x01ages", "empty": "", "long": "/" + strings.Repeat("a", 2<<20), "https": "https://" + elsewhere + "/stolen",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			posted := make(chan string, 100)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					if r.URL.Path != "/sse" {
						posted <- r.Method + " " + r.RequestURI + " " + r.Host + fmt.Sprint(r.Header)
					}
					w.WriteHeader(http.StatusNotFound)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", endpoint)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(limit):
				}
			}))
			t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
			b := start(t, "--upstream", s.URL+"/sse")
			a := b.do(t, "POST", "/mcp", harness.Request("1", "initialize", harness.Initialize("c", "2025-11-25")))
			if !strings.Contains(a.body, `"error":{`) || strings.Contains(a.body, "stolen") {
				t.Errorf("got %d %s, want an error", a.status, a.body)
			}
			b.end(t)
			close(posted)
			for p := range posted { // to the server's own origin it may
				if strings.ContainsAny(p, "\r\n") || strings.Contains(p, " evil") {
					t.Errorf("posted to %q", p)
				}
			}
		})
	}
	t.Cleanup(func() {
		trapped.Range(func(what, _ any) bool { t.Errorf("somebody else was asked: %s", what); return true })
	})
}

// Names and schemas of tools are no way into the headers that are written to a 2026-07-28 server: what makes no header is left out, and
// what is one stays below Mcp-Param- (2026-07-28 streamable HTTP, Request Metadata).
func TestHostileToolNames(t *testing.T) {
	annotations := []string{"X\r\nEvil: 1", "X: y", "", " ", "Content-Length", "../Host", "Ü", "a\x00b", strings.Repeat("a", 200), "Good"}
	names := []string{"plain", "with\r\nEvil: 1", "größe", "=?base64?RXZpbA==?=", " blank ", "\x00", strings.Repeat("n", 8<<10), `"quote"`, "../../admin", "a,b"}
	var tools []string
	for i, name := range names {
		tools = append(tools, fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object","properties":{"p":{"type":"string","x-mcp-header":%s}}}}`, quoted(name), quoted(annotations[i])))
	}
	s := serve(t, true, func(w http.ResponseWriter, _ *http.Request, m message) bool {
		if m.Method != "tools/list" {
			return false
		}
		say(w, m, `{"resultType":"complete","tools":[`+strings.Join(tools, ",")+`],"ttlMs":0,"cacheScope":"private"}`)
		return true
	})
	b := start(t, "--upstream", s.URL+"/mcp")
	session := b.session(t)
	if a := b.do(t, "POST", "/mcp", harness.Request("1", "tools/list", "{}"), session...); a.status != 200 {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	for _, name := range names {
		for _, value := range []string{"v", "a\r\nEvil: 1", "ü", "\x00", strings.Repeat("v", 100<<10)} {
			params := fmt.Sprintf(`{"name":%s,"arguments":{"p":%s}}`, quoted(name), quoted(value))
			a := b.do(t, "POST", "/mcp", harness.Request("2", "tools/call", params), append(session, "Accept", "application/json")...)
			if a.status != 200 || !strings.Contains(a.body, `"id":2,`) {
				t.Errorf("%.40q with %.40q: got %d %.300s", name, value, a.status, a.body)
			}
		}
	}
	known := []string{"Accept", "Content-Type", "Content-Length", "User-Agent", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-Good", "Mcp-Param-Content-Length", "Mcp-Param-A" + strings.Repeat("a", 199), "Accept-Encoding"}
	calls := 0
	for _, r := range s.requests() {
		for name, values := range r.Header {
			if !slices.Contains(known, name) || len(values) != 1 {
				t.Errorf("the server got %s: %.200q", name, values)
			}
			if strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
				t.Errorf("the server got %s: %q", name, values)
			}
		}
		if r.Header.Get("Mcp-Method") == "tools/call" {
			calls++
		}
	}
	if calls == 0 {
		t.Error("no call reached the server")
	}
}
