package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/schematest"
	"github.com/mcp-dualstack/bridge/internal/sse"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// The legs of a squareClient.
const (
	legSSE    = "sse"
	legMCP    = "mcp"
	legModern = "modern"
)

// A squareClient is a client of one revision on one transport. It answers what it declared that it answers, and checks everything
// that the bridge says to it against the schema of its revision.
type squareClient struct {
	t       testing.TB
	rev     negotiate.Revision
	leg     string
	base    string
	http    *http.Client
	schemas *schematest.Schemas

	ctx    context.Context // ends what is still open
	cancel context.CancelFunc
	wg     sync.WaitGroup

	endpoint chan string // sse: the message URL
	session  string      // mcp: Mcp-Session-Id

	mu      sync.Mutex
	url     string
	lastID  int
	waiting map[string]*squareWait
	notes   []exchange.Request // notifications so far
	asked   []string           // methods of questions so far
	level   string             // modern: log level of requests
}

type squareWait struct {
	method string
	answer chan exchange.Response
}

func newSquareClient(t testing.TB, rev negotiate.Revision, leg, base string, h *http.Client, schemas *schematest.Schemas) *squareClient {
	c := &squareClient{t: t, rev: rev, leg: leg, base: base, http: h, schemas: schemas,
		endpoint: make(chan string, 1), waiting: map[string]*squareWait{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// close hangs up and waits for the client's own goroutines.
func (c *squareClient) close() {
	c.cancel()
	c.wg.Wait()
}

// capabilities declares everything that the revision knows.
func (c *squareClient) capabilities() string {
	switch {
	case c.rev.Has(negotiate.URLElicitation):
		return `{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`
	case c.rev.Has(negotiate.Elicitation):
		return `{"roots":{},"sampling":{},"elicitation":{}}`
	}
	return `{"roots":{},"sampling":{}}`
}

// open does what a client of the revision does first and returns the server's description of itself.
func (c *squareClient) open() (exchange.Response, error) {
	if c.leg == legModern {
		return c.call("server/discover", `{}`)
	}
	if c.leg == legSSE {
		if err := c.openStream(c.base+"/sse", nil); err != nil {
			return exchange.Response{}, err
		}
		c.url = <-c.endpoint
	} else {
		c.url = c.base + "/mcp"
	}
	resp, err := c.call("initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"square","version":"1"}}`, c.rev, c.capabilities()))
	if err != nil || resp.Error != nil {
		return resp, err
	}
	if err := c.notify("notifications/initialized", ""); err != nil {
		return resp, err
	}
	if c.leg == legMCP {
		err = c.openStream(c.url, http.Header{"Mcp-Session-Id": {c.session}})
	}
	return resp, err
}

// openStream opens a standing stream and reads it until the client closes.
func (c *squareClient) openStream(target string, h http.Header) error {
	req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	for k, v := range h {
		req.Header[k] = v
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return fmt.Errorf("GET %s: %s", target, resp.Status)
	}
	c.wg.Go(func() { // until close
		defer resp.Body.Close()
		c.read(resp.Body, target)
	})
	return nil
}

// read takes the events of a stream.
func (c *squareClient) read(body io.Reader, from string) {
	r := sse.NewReader(body, 1<<20)
	for {
		e, err := r.Next()
		if err != nil {
			return
		}
		switch {
		case e.Name == "endpoint":
			u, err := url.Parse(from)
			if err == nil {
				u, err = u.Parse(string(e.Data))
			}
			if err != nil {
				c.t.Errorf("endpoint event: %v", err)
				return
			}
			c.endpoint <- u.String()
		case len(e.Data) > 0:
			c.take(bytes.Clone(e.Data))
		}
	}
}

// take takes one message.
func (c *squareClient) take(text []byte) {
	m, refusal := jsonrpc.Scan(text)
	if refusal != nil {
		c.t.Errorf("%s client was sent %q: %v", c.rev, text, refusal)
		return
	}
	if m.Kind == jsonrpc.Response {
		c.mu.Lock()
		w := c.waiting[string(m.ID)]
		delete(c.waiting, string(m.ID))
		c.mu.Unlock()
		if w == nil {
			c.t.Errorf("%s client was sent a response that it did not wait for: %s", c.rev, text)
			return
		}
		resp := exchange.Response{Result: m.Result, Error: m.Error}
		c.schemas.Response(c.t, c.rev, w.method, resp)
		w.answer <- resp
		return
	}
	req := exchange.Request{Method: m.Method, Params: m.Params}
	c.schemas.Request(c.t, c.rev, req)
	c.mu.Lock()
	if m.Kind == jsonrpc.Notification {
		c.notes = append(c.notes, req)
	} else {
		c.asked = append(c.asked, m.Method)
	}
	c.mu.Unlock()
	if m.Kind == jsonrpc.Request {
		c.wg.Go(func() {
			resp, err := c.post(jsonrpc.AppendResult(nil, m.ID, answerTo(m.Method)), nil)
			if err == nil {
				resp.Body.Close()
			}
		})
	}
}

// answerTo is what the client answers to a question.
func answerTo(method string) []byte {
	switch method {
	case "roots/list":
		return []byte(`{"roots":[{"uri":"file:///r"}]}`)
	case "sampling/createMessage":
		return []byte(`{"role":"assistant","content":{"type":"text","text":"4"},"model":"m"}`)
	case "elicitation/create":
		return []byte(`{"action":"accept","content":{"branch":"main"}}`)
	}
	return []byte(`{}`)
}

// post posts one message. The caller closes the body.
func (c *squareClient) post(msg []byte, h http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, c.url, bytes.NewReader(msg))
	if err != nil {
		return nil, err
	}
	for k, v := range h {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	return c.http.Do(req)
}

func (c *squareClient) notify(method, params string) error {
	var raw []byte
	if params != "" {
		raw = []byte(params)
	}
	resp, err := c.post(jsonrpc.AppendNotification(nil, method, raw), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("%s: %s", method, resp.Status)
	}
	return nil
}

// begin enters a request among those that wait.
func (c *squareClient) begin(method string) (id string, w *squareWait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	id = fmt.Sprint(c.lastID)
	if c.lastID%2 == 0 {
		id = fmt.Sprintf("%q", "id-"+id)
	}
	w = &squareWait{method: method, answer: make(chan exchange.Response, 1)}
	c.waiting[id] = w
	return id, w
}

// call asks the bridge and answers what it is asked meanwhile. params is a raw object.
func (c *squareClient) call(method, params string) (exchange.Response, error) {
	ctx, cancel := context.WithTimeout(c.ctx, 30*time.Minute) // of fake time: a hang is an error
	defer cancel()
	if c.leg == legModern {
		return c.callRounds(ctx, method, params)
	}
	id, w := c.begin(method)
	resp, err := c.post(jsonrpc.AppendRequest(nil, []byte(id), method, []byte(params)), nil)
	if err != nil {
		return exchange.Response{}, err
	}
	if want := map[string]int{legSSE: http.StatusAccepted, legMCP: http.StatusOK}[c.leg]; resp.StatusCode != want {
		resp.Body.Close()
		return exchange.Response{}, fmt.Errorf("%s: %s", method, resp.Status)
	}
	c.carry(resp)
	if s := resp.Header.Get("Mcp-Session-Id"); s != "" && method == "initialize" {
		c.session = s
	}
	select {
	case r := <-w.answer:
		return r, nil
	case <-ctx.Done():
		return exchange.Response{}, fmt.Errorf("%s %s: no answer", method, params)
	}
}

// carry reads what a POST is answered with.
func (c *squareClient) carry(resp *http.Response) {
	c.wg.Go(func() { // until the response ends
		defer resp.Body.Close()
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			c.read(resp.Body, "")
			return
		}
		if body, err := io.ReadAll(resp.Body); err == nil && len(body) > 0 {
			c.take(body)
		}
	})
}

// callRounds is call of a 2026-07-28 client: it goes on with answers until a result is complete.
func (c *squareClient) callRounds(ctx context.Context, method, params string) (exchange.Response, error) {
	raw := []byte(params)
	for range 8 {
		resp, err := c.callOnce(ctx, method, raw)
		if err != nil || resp.Error != nil {
			return resp, err
		}
		if string(jsonrpc.Get(resp.Result, "resultType")) != `"input_required"` {
			return resp, nil
		}
		answers := []byte("{}")
		jsonrpc.Members(jsonrpc.Get(resp.Result, "inputRequests"), func(key string, q []byte) bool {
			m, _ := jsonrpc.String(jsonrpc.Get(q, "method"))
			c.mu.Lock()
			c.asked = append(c.asked, m)
			c.mu.Unlock()
			answers = jsonrpc.Set(answers, answerTo(m), key)
			return true
		})
		raw = jsonrpc.Set([]byte(params), answers, "inputResponses")
		if state := jsonrpc.Get(resp.Result, "requestState"); state != nil {
			raw = jsonrpc.Set(raw, state, "requestState")
		}
	}
	return exchange.Response{}, errors.New("the bridge asks and asks")
}

func (c *squareClient) callOnce(ctx context.Context, method string, params []byte) (exchange.Response, error) {
	id, w := c.begin(method)
	params = negotiate.WithEnvelope(params, negotiate.Envelope{Version: c.rev, Info: []byte(`{"name":"square","version":"1"}`),
		Capabilities: []byte(c.capabilities()), LogLevel: c.level})
	h := http.Header{"Mcp-Protocol-Version": {c.rev.String()}, "Mcp-Method": {method}}
	for _, member := range []string{"name", "uri"} {
		if name, ok := jsonrpc.String(jsonrpc.Get(params, member)); ok {
			h.Set("Mcp-Name", negotiate.EncodeValue(name))
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/mcp", bytes.NewReader(jsonrpc.AppendRequest(nil, []byte(id), method, params)))
	if err != nil {
		return exchange.Response{}, err
	}
	req.Header = h
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	resp, err := c.http.Do(req)
	if err != nil {
		return exchange.Response{}, err
	}
	c.carry(resp)
	select {
	case r := <-w.answer:
		return r, nil
	case <-ctx.Done():
		return exchange.Response{}, ctx.Err()
	}
}

// drop begins a call of the tool and cancels it in the manner of the revision once begun says that the server has it.
func (c *squareClient) drop(tool string, begun func()) error {
	params := `{"name":"` + tool + `"}`
	if c.leg == legModern {
		ctx, cancel := context.WithCancel(c.ctx)
		defer cancel()
		done := make(chan struct{})
		c.wg.Go(func() {
			defer close(done)
			_, _ = c.callOnce(ctx, "tools/call", []byte(params)) // ends by cancel
		})
		begun()
		cancel()
		<-done
		return nil
	}
	id, _ := c.begin("tools/call")
	resp, err := c.post(jsonrpc.AppendRequest(nil, []byte(id), "tools/call", []byte(params)), nil)
	if err != nil {
		return err
	}
	c.carry(resp)
	begun()
	return c.notify("notifications/cancelled", `{"requestId":`+id+`}`)
}

// heard returns the notifications of the method since the last call of heard or forget.
func (c *squareClient) heard(method string) []exchange.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []exchange.Request
	for _, n := range c.notes {
		if n.Method == method {
			out = append(out, n)
		}
	}
	return out
}

// forget forgets what was heard and asked so far.
func (c *squareClient) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes, c.asked = nil, nil
}
