//go:build !nolegacy

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/mcp-dualstack/bridge/internal/memhttp"
)

// fetch makes one request and reads the whole answer.
func (w *world) fetch(srv *memhttp.Server, method, path, body string, head map[string]string) (*http.Response, string) {
	w.t.Helper()
	res := w.open(srv, method, path, body, head)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	w.fatal(err)
	return res, string(text)
}

// open makes one request. path may be a URL.
func (w *world) open(srv *memhttp.Server, method, path, body string, head map[string]string) *http.Response {
	w.t.Helper()
	if strings.HasPrefix(path, "/") {
		path = srv.URL + path
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(body))
	w.fatal(err)
	for k, v := range head {
		req.Header.Set(k, v)
	}
	res, err := srv.Client().Do(req)
	w.fatal(err)
	return res
}

// shownHeaders are those of an answer that the guide shows, in order.
var shownHeaders = []string{"Allow", "Content-Type", "Deprecation", "Sunset", "Link", "Access-Control-Expose-Headers", "Retry-After"}

// curl makes the request of a curl command line and shows it with its answer as curl -i does, less some headers. Of a stream it shows
// the first event.
func (w *world) curl(block, line string) {
	w.t.Helper()
	method, body, to := http.MethodGet, "", ""
	head := map[string]string{"User-Agent": "curl/8.14.1", "Accept": "*/*"}
	words := shellWords(line)
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "-i", "-iN":
		case "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			head[name] = value
		case "-d":
			i++
			method, body = http.MethodPost, words[i]
		default:
			to = words[i]
		}
	}
	res := w.open(w.srv, method, to, body, head)
	defer res.Body.Close()
	var b strings.Builder
	if strings.Contains(line, " -i") {
		fmt.Fprintf(&b, "HTTP/1.1 %s\n", res.Status)
		for _, name := range shownHeaders {
			for _, v := range res.Header.Values(name) {
				fmt.Fprintf(&b, "%s: %s\n", name, v)
			}
		}
		b.WriteString("\n")
	}
	r := bufio.NewReader(res.Body)
	for {
		part, err := r.ReadString('\n')
		b.WriteString(part)
		if err == io.EOF || strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") && part == "\n" {
			break
		}
		w.fatal(err)
	}
	w.show(block, "$ "+line+"\n"+withoutIDs(b.String()))
}

// withoutIDs replaces the ids of sessions, which are random.
func withoutIDs(text string) string {
	return regexp.MustCompile(`sessionId=[^"\s]+`).ReplaceAllString(text, "sessionId=...")
}

// An oldTalk is a stream of HTTP+SSE and the client that has it.
type oldTalk struct {
	w      *world
	p      program
	srv    *memhttp.Server
	body   io.Closer
	stream *bufio.Reader
	to     string
	ids    int
	record strings.Builder // what was said, as the guide shows it
}

// headers are what every request of p has.
func (p program) headers(more ...string) map[string]string {
	head := map[string]string{"User-Agent": p.agent, "X-Forwarded-For": p.address, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	for i := 0; i+1 < len(more); i += 2 {
		head[more[i]] = more[i+1]
	}
	return head
}

// connect opens the stream.
func (w *world) connect(p program) *oldTalk { w.t.Helper(); return w.connectTo(w.srv, p) }

func (w *world) connectTo(srv *memhttp.Server, p program) *oldTalk {
	w.t.Helper()
	res := w.open(srv, http.MethodGet, "/sse", "", p.headers("Accept", "text/event-stream"))
	if res.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: GET /sse: %s", p.name, res.Status)
	}
	o := &oldTalk{w: w, p: p, srv: srv, body: res.Body, stream: bufio.NewReader(res.Body)}
	base, err := url.Parse(srv.URL + "/sse")
	w.fatal(err)
	to, err := base.Parse(o.hear())
	w.fatal(err)
	o.to = to.String()
	o.record.Reset()
	fmt.Fprintln(&o.record, "GET /sse 200")
	return o
}

// hear returns the data of the next event, empty at the end of the stream.
func (o *oldTalk) hear() string {
	o.w.t.Helper()
	for {
		line, err := o.stream.ReadString('\n')
		if err != nil {
			fmt.Fprintln(&o.record, "(the stream ends)")
			return ""
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			fmt.Fprint(&o.record, "<- ", data)
			return strings.TrimSpace(data)
		}
	}
}

// say posts a message and returns the status.
func (o *oldTalk) say(message string) int {
	o.w.t.Helper()
	res, body := o.w.fetch(o.srv, http.MethodPost, o.to, message, o.p.headers())
	fmt.Fprintf(&o.record, "-> %s\n", message)
	if res.StatusCode != http.StatusAccepted {
		fmt.Fprintf(&o.record, "   %s %s\n", res.Status, strings.TrimSpace(body))
	}
	return res.StatusCode
}

func (o *oldTalk) initialize() string {
	o.w.t.Helper()
	o.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":%s}}`, o.p.asks, o.p.info()))
	answer := o.hear()
	if strings.Contains(answer, `"result"`) {
		o.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return answer
}

// call makes a call and returns its answer. A notification that comes before is passed over.
func (o *oldTalk) call() string {
	o.w.t.Helper()
	o.ids++
	o.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"stock"}}`, o.ids))
	for {
		answer := o.hear()
		if answer == "" || strings.Contains(answer, fmt.Sprintf(`"id":%d,`, o.ids)) {
			return answer
		}
	}
}

func (o *oldTalk) leave() { o.w.t.Helper(); o.w.fatal(o.body.Close()) }

// streamable lets p make calls in a session of Streamable HTTP on a path.
func (w *world) streamable(p program, path string, calls int) {
	w.t.Helper()
	res, body := w.fetch(w.srv, http.MethodPost, path,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":%s}}`, p.asks, p.info()), p.headers())
	session := res.Header.Get("Mcp-Session-Id")
	if session == "" {
		w.t.Fatalf("%s: initialize on %s: %s %s", p.name, path, res.Status, body)
	}
	head := p.headers("Mcp-Session-Id", session, "Mcp-Protocol-Version", p.asks)
	w.fetch(w.srv, http.MethodPost, path, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, head)
	for i := range calls {
		if res, body := w.fetch(w.srv, http.MethodPost, path, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"stock"}}`, i+1), head); res.StatusCode != http.StatusOK {
			w.t.Fatalf("%s: a call: %s %s", p.name, res.Status, body)
		}
	}
	w.fetch(w.srv, http.MethodDelete, path, "", head)
}
