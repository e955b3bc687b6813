package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// Every framing of the endpoint and of messages means the same (R02, R26; WHATWG HTML, Interpreting an event stream).
func TestSSEFraming(t *testing.T) {
	const data = "data: /messages?session=1"
	for name, test := range map[string]struct{ start, frame string }{
		"usual":               {},
		"CRLF":                {"event: endpoint\r\n" + data + "\r\n\r\n", "event: message\r\ndata: %s\r\n\r\n"},
		"CR":                  {"event: endpoint\r" + data + "\r\r", "event: message\rdata: %s\r\r"},
		"mixed":               {"event: endpoint\r" + data + "\n\r\n", "event: message\r\ndata: %s\r\r\n"},
		"BOM":                 {"\ufeffevent: endpoint\n" + data + "\n\n", ""},
		"comments":            {": hello\n\n:\n\nevent: endpoint\n: more\n" + data + "\n\n", ": ping\n\nevent: message\n: x\ndata: %s\n\n: ping\n\n"},
		"ids and retry":       {"retry: 3000\n\nid: 7\nevent: endpoint\n" + data + "\n\n", "id: 8\nretry: 1\nevent: message\ndata: %s\n\n"},
		"data first":          {data + "\nevent: endpoint\n\n", "data: %s\nevent: message\n\n"},
		"no space":            {"event:endpoint\ndata:/messages?session=1\n\n", "event:message\ndata:%s\n\n"},
		"unnamed messages":    {"", "data: %s\n\n"},
		"other events":        {"event: hello\ndata: x\n\nevent: endpoint\n" + data + "\n\n", "event: ping\ndata: x\n\nevent: message\ndata: %s\n\n"},
		"noise (R29)":         {"", "data: starting up\n\ndata:\n\ndata: {broken\n\ndata: 42\n\ndata: {}\n\nevent: message\ndata: %s\n\n"},
		"data on many lines":  {"", "event: message\ndata: \ndata: %s\ndata: \n\n"},
		"absolute":            {"event: endpoint\ndata: http://" + memhttp.Host + "/messages?session=1\n\n", ""},
		"relative to the URL": {"event: endpoint\ndata: messages?session=1\n\n", ""},
		"moved later":         {"event: endpoint\ndata: /messages?session=0\n\nevent: endpoint\n" + data + "\n\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sseScript{start: test.start, frame: test.frame}
			s.call = func(x *sseTalk, w http.ResponseWriter, h *hit) {
				w.WriteHeader(http.StatusAccepted)
				x.say(`{"jsonrpc":"2.0","id":%s,"result":{"at":%q,"text":"a`+"\u2028b\u2029c\u0085"+`d"}}`, h.m.ID, h.URL)
			}
			inSSE(t, s, nil, func(t *testing.T, up *upstream.Upstream) {
				start := time.Now()
				text, err := call(openSSE(t, up), "tools/call", `{}`, nil).wait()
				equal(t, "error", err, nil)
				equal(t, "result (R27)", text, `{"at":"/messages?session=1","text":"a`+"\u2028b\u2029c\u0085"+`d"}`)
				equal(t, "took", since(start), 0)
			})
		})
	}
}

// Streams that are none, and endpoints that are not to be used.
func TestSSEUnavailable(t *testing.T) {
	answer := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	silent := func(w http.ResponseWriter, r *http.Request) {
		events(w)(": hello\n\n")
		<-r.Context().Done()
	}
	for name, test := range map[string]struct {
		h      http.Handler
		reason string
		took   time.Duration
	}{
		"other origin":       {&sseScript{start: "event: endpoint\ndata: " + elsewhere + "/messages\n\n"}, exchange.ReasonUnavailable, 0},
		"other scheme":       {&sseScript{start: "event: endpoint\ndata: https://" + memhttp.Host + "/messages\n\n"}, exchange.ReasonUnavailable, 0},
		"network path":       {&sseScript{start: "event: endpoint\ndata: //other.example/messages\n\n"}, exchange.ReasonUnavailable, 0},
		"empty endpoint":     {&sseScript{start: "event: endpoint\ndata:\n\n"}, exchange.ReasonUnavailable, 0},
		"unreadable":         {&sseScript{start: "event: endpoint\ndata: http://[::1\n\n"}, exchange.ReasonUnavailable, 0},
		"end":                {answer(200, "text/event-stream", ": bye\n\n"), exchange.ReasonUnavailable, 0},
		"no stream":          {answer(200, "text/html", "<html>"), exchange.ReasonUnavailable, 0},
		"404":                {answer(404, "text/plain", "no"), exchange.ReasonUnavailable, 0},
		"401":                {answer(401, "text/plain", "no"), exchange.ReasonAuth, 0},
		"503":                {answer(503, "text/plain", "no"), exchange.ReasonBusy, 0},
		"redirect elsewhere": {http.RedirectHandler(elsewhere+"/sse", http.StatusTemporaryRedirect), exchange.ReasonUnavailable, 0},
		"silence":            {http.HandlerFunc(silent), exchange.ReasonTimeout, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			o := &upstream.Options{Era: "legacy", HTTP: &upstream.HTTPOptions{ResponseTimeout: 10 * time.Second}}
			inSSE(t, test.h, o, func(t *testing.T, up *upstream.Upstream) {
				start := time.Now()
				_, err := up.Open(t.Context(), legacyClient(negotiate.Rev20241105, nil))
				equal(t, "reason", reason(err), test.reason)
				equal(t, "took", since(start), test.took)
			})
		})
	}
}

func TestSSEAllowedOrigin(t *testing.T) {
	s := &sseScript{start: "event: endpoint\ndata: " + elsewhere + "/messages?session=1\n\n"}
	inSSE(t, s, &upstream.Options{HTTP: &upstream.HTTPOptions{AllowOtherOrigin: true}}, func(t *testing.T, up *upstream.Upstream) {
		_, err := call(openSSE(t, up), "tools/call", `{}`, nil).wait()
		equal(t, "error", err, nil)
	})
}

// The response to a POST may come at any time, with any status that is a success, and may hold the answer.
func TestSSEAnswers(t *testing.T) {
	result := func(h *hit) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"x":1}}`, h.m.ID) }
	for name, test := range map[string]struct {
		call func(x *sseTalk, w http.ResponseWriter, h *hit)
		want string // the result or error; a reason if it begins with one
	}{
		"202 before": {func(x *sseTalk, w http.ResponseWriter, h *hit) { w.WriteHeader(202); x.say("%s", result(h)) }, `{"x":1}`},
		"202 after": {func(x *sseTalk, w http.ResponseWriter, h *hit) {
			x.say("%s", result(h))
			time.Sleep(time.Second)
			w.WriteHeader(202)
		}, `{"x":1}`},
		"204":           {func(x *sseTalk, w http.ResponseWriter, h *hit) { w.WriteHeader(204); x.say("%s", result(h)) }, `{"x":1}`},
		"200 with text": {func(x *sseTalk, w http.ResponseWriter, h *hit) { wrote(w, "Accepted"); x.say("%s", result(h)) }, `{"x":1}`},
		"body":          {func(_ *sseTalk, w http.ResponseWriter, h *hit) { _, _ = w.Write([]byte(result(h))) }, `{"x":1}`},
		"body twice": {func(x *sseTalk, w http.ResponseWriter, h *hit) {
			_, _ = w.Write([]byte(result(h)))
			x.say("%s", result(h))
		}, `{"x":1}`},
		"echo of request": {func(x *sseTalk, w http.ResponseWriter, h *hit) { _, _ = w.Write(h.body); x.say("%s", result(h)) }, `{"x":1}`},
		"error in 400":    {func(_ *sseTalk, w http.ResponseWriter, h *hit) { refuse(w, h, 400, "", `{"code":-5,"message":"m"}`) }, `{"code":-5,"message":"m"}`},
		"error in 404":    {func(_ *sseTalk, w http.ResponseWriter, h *hit) { refuse(w, h, 404, "", `{"code":-5,"message":"m"}`) }, `{"code":-5,"message":"m"}`},
		"loose error": {func(_ *sseTalk, w http.ResponseWriter, h *hit) {
			refuse(w, h, 400, "null", `{"code":-6,"message":"m"}`)
		}, `{"code":-6,"message":"m"}`},
		"loose in 503": {func(_ *sseTalk, w http.ResponseWriter, h *hit) {
			refuse(w, h, 503, "null", `{"code":-6,"message":"m"}`)
		}, exchange.ReasonBusy},
		"400": {func(_ *sseTalk, w http.ResponseWriter, _ *hit) { w.WriteHeader(400) }, exchange.ReasonUnavailable},
		"500": {func(_ *sseTalk, w http.ResponseWriter, _ *hit) { w.WriteHeader(500) }, exchange.ReasonUnavailable},
		"401": {func(_ *sseTalk, w http.ResponseWriter, _ *hit) { w.WriteHeader(401) }, exchange.ReasonAuth},
		"429": {func(_ *sseTalk, w http.ResponseWriter, _ *hit) { w.WriteHeader(429) }, exchange.ReasonBusy},
		"redirect": {func(_ *sseTalk, w http.ResponseWriter, h *hit) {
			http.Redirect(w, h.Request, elsewhere, http.StatusTemporaryRedirect)
		}, exchange.ReasonUnavailable},
		"404":           {func(_ *sseTalk, w http.ResponseWriter, _ *hit) { w.WriteHeader(404) }, exchange.ReasonLost},
		"410":           {func(_ *sseTalk, w http.ResponseWriter, _ *hit) { w.WriteHeader(410) }, exchange.ReasonLost},
		"hung up (R39)": {func(*sseTalk, http.ResponseWriter, *hit) { panic(http.ErrAbortHandler) }, exchange.ReasonStreamLost},
		"malformed (R39)": {func(x *sseTalk, w http.ResponseWriter, h *hit) {
			w.WriteHeader(202)
			x.say(`{"jsonrpc":"2.0","id":%s}`, h.m.ID)
		}, exchange.ReasonInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sseScript{call: test.call}
			inSSE(t, s, nil, func(t *testing.T, up *upstream.Upstream) {
				sess := openSSE(t, up)
				start := time.Now()
				text, err := call(sess, "tools/call", `{}`, nil).wait()
				if err != nil {
					text = reason(err)
				}
				equal(t, "answer", text, test.want)
				equal(t, "took", since(start), 0)
				equal(t, "sent", s.posted(), "server/discover initialize notifications/initialized tools/call")
				synctest.Wait()
				select {
				case <-sess.Done():
					equal(t, "done with", test.want, exchange.ReasonLost)
				default:
				}
			})
		})
	}
}

// A server that responds to a POST only with the answer still hears what belongs to the call: answers to its questions, and
// cancellations.
func TestSSELateResponses(t *testing.T) {
	asked := make(map[string]chan struct{})
	var mu sync.Mutex
	s := &sseScript{}
	s.call = func(x *sseTalk, w http.ResponseWriter, h *hit) {
		if h.name() != "tools/call" {
			mu.Lock()
			if c := asked[h.name()]; c != nil {
				close(c)
				delete(asked, h.name())
			}
			mu.Unlock()
			w.WriteHeader(http.StatusAccepted)
			return
		}
		name, answer := "notifications/cancelled", make(chan struct{})
		if strings.Contains(string(h.m.Params), "ask") {
			name = "response"
			x.say(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
		}
		mu.Lock()
		asked[name] = answer
		mu.Unlock()
		<-answer
		x.say(`{"jsonrpc":"2.0","id":%s,"result":{"heard":%q}}`, h.m.ID, name)
		w.WriteHeader(http.StatusOK)
	}
	inSSE(t, s, nil, func(t *testing.T, up *upstream.Upstream) {
		sess := openSSE(t, up)
		peer := &exchangetest.Peer{Answer: func(context.Context, exchange.Request) (exchange.Response, error) {
			return exchange.Response{Result: []byte(`{"roots":[]}`)}, nil
		}}
		start := time.Now()
		text, err := call(sess, "tools/call", `{"name":"ask"}`, peer).wait()
		equal(t, "error", err, nil)
		equal(t, "result", text, `{"heard":"response"}`)
		if took := since(start); took > time.Second {
			t.Errorf("took %v", took)
		}
		p := call(sess, "tools/call", `{"name":"wait"}`, peer)
		time.Sleep(time.Minute) // longer than a POST may take that nobody needs
		p.cancel(&exchange.CancelError{})
		if _, err := p.wait(); err == nil {
			t.Error("cancelled call: got no error")
		}
		synctest.Wait()
		if got := s.posted(); !strings.HasSuffix(got, "tools/call response tools/call notifications/cancelled") {
			t.Errorf("posted %s", got)
		}
	})
}

// A POST that hangs holds up what follows for a bounded time and the stream not at all.
func TestSSEHungPosts(t *testing.T) {
	s := &sseScript{}
	s.call = func(x *sseTalk, w http.ResponseWriter, h *hit) {
		switch h.name() {
		case "hang", "notifications/hang":
			<-h.Context().Done()
			return
		}
		w.WriteHeader(http.StatusAccepted)
		x.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, h.m.ID)
	}
	o := &upstream.Options{HTTP: &upstream.HTTPOptions{MaxPosts: 2, CallTimeout: time.Minute}}
	var bounds []string
	o.Bound = func(name string) { bounds = append(bounds, name) }
	inSSE(t, s, o, func(t *testing.T, up *upstream.Upstream) {
		sess := openSSE(t, up)
		start := time.Now()
		if err := sess.Notify(t.Context(), exchange.Request{Method: "notifications/hang"}); err != nil {
			t.Error(err)
		}
		_, err := call(sess, "tools/call", `{}`, nil).wait()
		equal(t, "after a note", fmt.Sprint(since(start), err), "5s <nil>")
		start = time.Now()
		first := call(sess, "hang", `{}`, nil)
		synctest.Wait()
		_, err = call(sess, "tools/call", `{}`, nil).wait()
		equal(t, "after a request", fmt.Sprint(since(start), err), "250ms <nil>")
		synctest.Wait() // an answer may be faster than the end of its POST
		second := call(sess, "hang", `{}`, nil)
		time.Sleep(time.Second)
		_, err = call(sess, "tools/call", `{}`, nil).wait()
		equal(t, "one too many", reason(err), exchange.ReasonBusy)
		equal(t, "bounds", fmt.Sprint(bounds), "[posts]")
		for _, p := range []*pending{first, second} {
			_, err := p.wait()
			equal(t, "hung call", reason(err), exchange.ReasonTimeout)
		}
		time.Sleep(time.Minute) // for the two to be let go
		_, err = call(sess, "tools/call", `{}`, nil).wait()
		equal(t, "afterwards", err, nil)
	})
}

// TestSSESilence: a stream without a byte ends where a timeout says so; comments are bytes.
func TestSSESilence(t *testing.T) {
	s := &sseScript{}
	inSSE(t, s, &upstream.Options{HTTP: &upstream.HTTPOptions{StreamTimeout: time.Minute}}, func(t *testing.T, up *upstream.Upstream) {
		sess := openSSE(t, up)
		for range 3 {
			time.Sleep(50 * time.Second)
			s.talks[0].out <- ": ping\n\n"
		}
		synctest.Wait()
		select {
		case <-sess.Done():
			t.Fatal("ended though the server spoke")
		default:
		}
		start := time.Now()
		<-sess.Done()
		equal(t, "took", since(start), time.Minute)
	})
}

// An answer over the limit fails its call, wherever in it the id stands (R25).
func TestSSEOversize(t *testing.T) {
	for _, format := range []string{`{"jsonrpc":"2.0","id":%s,"result":{"x":"%s"}}`, `{"result":{"y":"%[2]s"},"jsonrpc":"2.0","id":%[1]s}`} {
		for _, frame := range []string{"event: message\ndata: %s\n\n", "data: %s\r\nevent: message\r\n\r\n"} {
			s := &sseScript{frame: frame}
			s.call = func(x *sseTalk, w http.ResponseWriter, h *hit) {
				w.WriteHeader(http.StatusAccepted)
				if h.name() == "large" {
					x.say(format, h.m.ID, strings.Repeat("x", 1<<20))
				} else if h.name() == "small" {
					x.say(format, h.m.ID, "x")
				}
			}
			inSSE(t, s, &upstream.Options{MaxMessageBytes: 100_000}, func(t *testing.T, up *upstream.Upstream) {
				sess := openSSE(t, up)
				other := call(sess, "other", `{}`, nil)
				_, err := call(sess, "large", `{}`, nil).wait()
				equal(t, "large", reason(err), exchange.ReasonInvalid)
				_, err = call(sess, "small", `{}`, nil).wait()
				equal(t, "small", err, nil)
				other.cancel(errors.New("enough"))
				_, err = other.wait()
				equal(t, "other", reason(err), "enough")
			})
		}
	}
}

// Fifty sessions in mid-call, and the server stops: all calls are answered at once, and new ones once it is back.
func TestSSEServerStops(t *testing.T) {
	s := &sseScript{}
	s.call = func(x *sseTalk, w http.ResponseWriter, h *hit) {
		w.WriteHeader(http.StatusAccepted)
		if h.name() == "echo" {
			x.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, h.m.ID)
		}
	}
	var down bool
	var mu sync.Mutex
	gate := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		refuse := down
		mu.Unlock()
		if refuse {
			panic(http.ErrAbortHandler)
		}
		s.ServeHTTP(w, r)
	})
	inSSE(t, gate, nil, func(t *testing.T, up *upstream.Upstream) {
		var calls []*pending
		for range 50 {
			calls = append(calls, call(openSSE(t, up), "wait", `{}`, nil))
			synctest.Wait()
		}
		equal(t, "streams", s.streams(), 50)
		mu.Lock()
		down = true
		mu.Unlock()
		start := time.Now()
		for _, x := range s.talks {
			x.over()
		}
		for _, p := range calls {
			_, err := p.wait()
			equal(t, "reason", reason(err), exchange.ReasonLost)
		}
		if took := since(start); took > time.Second {
			t.Errorf("took %v", took)
		}
		for range 5 {
			if _, err := up.Open(t.Context(), legacyClient(negotiate.Rev20241105, nil)); reason(err) != exchange.ReasonUnavailable && reason(err) != exchange.ReasonStreamLost {
				t.Errorf("Open while the server is down: got %v", err)
			}
		}
		mu.Lock()
		down = false
		mu.Unlock()
		time.Sleep(maxBackOff)
		_, err := call(openSSE(t, up), "echo", `{}`, nil).wait()
		equal(t, "afterwards", err, nil)
	})
}

// maxBackOff is the longest pause after failed starts.
const maxBackOff = 10 * time.Second
