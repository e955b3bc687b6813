package bridge_test

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/schematest"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A squareServer is the server of the matrix test: one that does, in the manner of whatever revision is
// spoken with it, everything the matrix asks for. Handshake eras are asked by requests of the server's own, 2026-07-28 by
// input_required. It checks every request it gets against the schema of the revision spoken.
type squareServer struct {
	t       testing.TB
	served  negotiate.Set
	schemas *schematest.Schemas // nil: nothing is checked

	mu        sync.Mutex
	cancelled int // calls of the tool "block" that were cancelled, on all connections
	executed  map[string]int
}

// serve speaks newline-delimited JSON-RPC on rw until that ends.
func (s *squareServer) serve(rw io.ReadWriteCloser) {
	c := &squareConn{s: s, rw: rw, asked: map[string]chan []byte{}, blocked: map[string]chan struct{}{}, listens: map[string][]byte{}}
	defer c.hangUp()
	r := bufio.NewReader(rw)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		m, refusal := jsonrpc.Scan(line)
		if refusal != nil {
			s.t.Errorf("the server was sent %q: %v", line, refusal)
			return
		}
		c.take(&m)
	}
}

// A squareConn is one connection to a squareServer.
type squareConn struct {
	s  *squareServer
	rw io.ReadWriteCloser

	mu       sync.Mutex
	revision negotiate.Revision // after a handshake
	level    string             // of logging/setLevel
	lastID   int
	over     bool
	asked    map[string]chan []byte
	blocked  map[string]chan struct{} // calls of "block" by raw id
	listens  map[string][]byte        // filters of subscriptions/listen, by raw id
	watched  bool                     // resources/subscribe
}

func (c *squareConn) hangUp() {
	c.rw.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, q := range c.asked {
		close(q)
	}
	for _, b := range c.blocked {
		close(b)
	}
	clear(c.blocked)
}

func (c *squareConn) take(m *jsonrpc.Message) {
	switch {
	case m.Kind == jsonrpc.Response:
		c.mu.Lock()
		q := c.asked[string(m.ID)]
		delete(c.asked, string(m.ID))
		c.mu.Unlock()
		if q == nil {
			return // late: the question has been taken back
		}
		answer := m.Result
		if m.Error != nil {
			answer = m.Error.Raw
		}
		q <- answer
	case m.Method == "notifications/cancelled":
		id := string(jsonrpc.Get(m.Params, "requestId"))
		c.mu.Lock()
		b := c.blocked[id]
		delete(c.blocked, id)
		delete(c.listens, id)
		c.mu.Unlock()
		if b != nil {
			c.s.mu.Lock()
			c.s.cancelled++
			c.s.mu.Unlock()
			close(b)
		}
	case m.Kind == jsonrpc.Request:
		go c.answer(m)
	}
}

func (c *squareConn) write(msg []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.rw.Write(append(msg, '\n')) // the other side may have gone
}

func (c *squareConn) notify(method, params string) {
	c.write(jsonrpc.AppendNotification(nil, method, []byte(params)))
}

// spoken returns the revision of a request, and whether it is served.
func (c *squareConn) spoken(m *jsonrpc.Message) (negotiate.Revision, bool) {
	if claim := negotiate.ReadClaim(m.Meta); claim.Present() {
		version, _ := jsonrpc.String(claim.Version)
		r, _ := negotiate.Parse(version)
		return r, c.s.served.Has(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision, c.revision != negotiate.None
}

func (c *squareConn) answer(m *jsonrpc.Message) {
	if m.Method == "initialize" {
		c.initialize(m)
		return
	}
	r, ok := c.spoken(m)
	if !ok {
		if r.Modern() && c.s.served&negotiate.Modern == 0 {
			c.fail(m, jsonrpc.CodeMethodNotFound, `"no such method before initialize"`, "")
			return
		}
		c.s.t.Errorf("the server was sent %s before a handshake", m.Raw)
		return
	}
	if c.s.schemas != nil && m.Method != "no/such" {
		c.s.schemas.Request(c.s.t, r, exchange.Request{Method: m.Method, Params: m.Params})
	}
	x := &squareCall{squareConn: c, m: m, modern: r.Modern(), rev: r}
	result, fault := x.run()
	switch {
	case fault != "":
		c.write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Raw: []byte(fault)}))
	case result != "":
		c.write(jsonrpc.AppendResult(nil, m.ID, x.dress(result)))
	}
}

func (c *squareConn) fail(m *jsonrpc.Message, code int, message, data string) {
	raw := `{"code":` + strconv.Itoa(code) + `,"message":` + message
	if data != "" {
		raw += `,"data":` + data
	}
	c.write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Raw: []byte(raw + "}")}))
}

const squareInfo = `{"name":"square","version":"1.0"}`

func squareCapabilities(r negotiate.Revision) string {
	caps := `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"logging":{}`
	if r != negotiate.Rev20241105 {
		caps += `,"completions":{}`
	}
	return caps + `}`
}

func (c *squareConn) initialize(m *jsonrpc.Message) {
	if c.s.served&negotiate.Legacy == 0 {
		c.fail(m, jsonrpc.CodeMethodNotFound, `"no handshake here"`, "")
		return
	}
	requested, _ := jsonrpc.String(jsonrpc.Get(m.Params, "protocolVersion"))
	r, _ := negotiate.Parse(requested)
	if !(c.s.served & negotiate.Legacy).Has(r) {
		r = (c.s.served & negotiate.Legacy).Newest()
	}
	c.mu.Lock()
	c.revision = r
	c.mu.Unlock()
	c.write(jsonrpc.AppendResult(nil, m.ID, fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":%s,"serverInfo":%s,"instructions":"be square"}`,
		r, squareCapabilities(r), squareInfo)))
}

// A squareCall is one request being answered.
type squareCall struct {
	*squareConn
	m      *jsonrpc.Message
	modern bool
	rev    negotiate.Revision
}

// dress adds what a result of 2026-07-28 has to have.
func (x *squareCall) dress(result string) []byte {
	raw := []byte(result)
	if !x.modern {
		return raw
	}
	if jsonrpc.Get(raw, "resultType") == nil {
		raw = jsonrpc.Set(raw, []byte(`"complete"`), "resultType")
	}
	switch x.m.Method {
	case "tools/list", "resources/list", "resources/templates/list", "prompts/list", "resources/read", "server/discover":
		if string(jsonrpc.Get(raw, "resultType")) == `"complete"` {
			raw = jsonrpc.Set(raw, []byte("60000"), "ttlMs")
			raw = jsonrpc.Set(raw, []byte(`"private"`), "cacheScope")
		}
	}
	return raw
}

// run carries the request out. Neither result nor fault: there is no answer.
func (x *squareCall) run() (result, fault string) {
	text := func(name string) string { s, _ := jsonrpc.String(jsonrpc.Get(x.m.Params, name)); return s }
	switch x.m.Method {
	case "server/discover":
		if x.s.served&negotiate.Modern == 0 {
			break
		}
		return `{"supportedVersions":` + string(x.s.served.JSON()) + `,"capabilities":` + squareCapabilities(x.rev) +
			`,"instructions":"be square","_meta":{"io.modelcontextprotocol/serverInfo":` + squareInfo + `}}`, ""
	case "ping":
		if !x.modern {
			return `{}`, ""
		}
	case "tools/list":
		return x.tools(), ""
	case "resources/list":
		return `{"resources":[{"uri":"res://a","name":"a","x-size":1.50}]}`, ""
	case "resources/templates/list":
		return `{"resourceTemplates":[{"uriTemplate":"res://{x}","name":"x"}]}`, ""
	case "prompts/list":
		return `{"prompts":[{"name":"p"}]}`, ""
	case "prompts/get":
		return `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"x-extra":25.0}`, ""
	case "completion/complete":
		return `{"completion":{"values":["one","two"]}}`, ""
	case "resources/read":
		if text("uri") == "res://a" {
			return `{"contents":[{"uri":"res://a","text":"A"}]}`, ""
		}
		if x.modern {
			return "", `{"code":-32602,"message":"Resource not found","data":{"uri":"` + text("uri") + `"}}`
		}
		return "", `{"code":-32002,"message":"Resource not found","data":{"uri":"` + text("uri") + `"}}`
	case "logging/setLevel":
		if !x.modern {
			x.mu.Lock()
			x.level = text("level")
			x.mu.Unlock()
			return `{}`, ""
		}
	case "resources/subscribe", "resources/unsubscribe":
		if !x.modern {
			x.mu.Lock()
			x.watched = x.m.Method == "resources/subscribe"
			x.mu.Unlock()
			return `{}`, ""
		}
	case "subscriptions/listen":
		if x.modern {
			x.listen()
			return "", ""
		}
	case "tools/call":
		x.s.mu.Lock()
		x.s.executed[text("name")]++
		x.s.mu.Unlock()
		return x.tool(text("name"))
	}
	return "", `{"code":-32601,"message":"Method not found: ` + x.m.Method + `","data":{"x":1.0}}`
}

// listen acknowledges what it was asked for and leaves the call open.
func (x *squareCall) listen() {
	x.mu.Lock()
	x.listens[string(x.m.ID)] = jsonrpc.Get(x.m.Params, "notifications")
	x.mu.Unlock()
	x.notify("notifications/subscriptions/acknowledged", `{"_meta":{"io.modelcontextprotocol/subscriptionId":`+string(x.m.ID)+
		`},"notifications":`+string(jsonrpc.Get(x.m.Params, "notifications"))+`}`)
}

// tools lists the tools of which the revision knows what they need.
func (x *squareCall) tools() string {
	var b strings.Builder
	b.WriteString(`{"tools":[`)
	for i, t := range squareTools {
		if !toolKnown(t.name, x.rev) {
			continue
		}
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(`{"name":"` + t.name + `","inputSchema":{"type":"object"},"x-unknown":[1.50]}`)
	}
	b.WriteString(`]}`)
	return b.String()
}
