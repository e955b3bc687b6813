package translate_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/translate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A child is a handshake-era server on a wire of lines. It answers the handshake and keeps what else it reads; the test plays the rest.
type child struct {
	mu    sync.Mutex
	conns []net.Conn
	lines []string // "connection: line", without probes and handshakes
	on    func(conn net.Conn, m *jsonrpc.Message)
	wg    sync.WaitGroup
}

func (c *child) dial(context.Context) (io.ReadWriteCloser, error) {
	ours, theirs := net.Pipe()
	c.mu.Lock()
	c.conns = append(c.conns, theirs)
	n := len(c.conns)
	c.mu.Unlock()
	c.wg.Go(func() { c.serve(n, theirs) })
	return ours, nil
}

func (c *child) serve(n int, conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			c.note(n, "closed")
			return
		}
		m, refusal := jsonrpc.Scan(line)
		if refusal != nil {
			c.note(n, "malformed "+string(line))
			continue
		}
		switch m.Method {
		case "server/discover":
			say(conn, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		case "initialize":
			say(conn, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":%s,"serverInfo":{"name":"s","version":"1"}}}`, m.ID, legacyCapabilities)
		case "notifications/initialized":
		default:
			c.note(n, strings.TrimSpace(string(line)))
			if c.on != nil {
				c.on(conn, &m)
			}
		}
	}
}

func (c *child) note(n int, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf("%d: %s", n, line))
}

// read returns what was read so far.
func (c *child) read() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}

func (c *child) newest() net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conns[len(c.conns)-1]
}

func say(conn net.Conn, format string, args ...any) {
	_, _ = fmt.Fprintf(conn, format+"\n", args...) // the bridge may have gone
}

// onWire puts the bridge with the real pool in front of a child.
func onWire(t *testing.T, f func(t *testing.T, c *child, d *desk)) {
	t.Helper()
	onWireWith(t, upstream.Options{}, f)
}

func onWireWith(t *testing.T, o upstream.Options, f func(t *testing.T, c *child, d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &child{}
		up := upstream.Pipe(c.dial, &o)
		h := translate.Handler(up, nil)
		defer func() {
			closeHandler(t, h)
			if err := up.Close(); err != nil {
				t.Error(err)
			}
			c.wg.Wait()
		}()
		d := newDesk(t, h)
		d.caps = `{"elicitation":{}}` // a session that had nobody's roots serves one call only
		f(t, c, d)
	})
}

// asks makes the child ask for the branch when its tool is called, and answer when it has been.
func (c *child) asks() {
	var id string
	c.on = func(conn net.Conn, m *jsonrpc.Message) {
		switch {
		case m.Method == "tools/call":
			id = string(m.ID)
			say(conn, `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":%s}`, branchForm)
		case string(m.Result) == accepted:
			say(conn, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"deployed"}]}}`, id)
		}
	}
}

// The child sees one call, never two.
func TestWireSuspendedCall(t *testing.T) {
	onWire(t, func(t *testing.T, c *child, d *desk) {
		c.asks()
		r := d.round("tools/call", deploy)
		time.Sleep(time.Minute)
		r = d.round("tools/call", r.retry(deploy, ""))
		equal(t, "text", textOf(d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`))), "deployed")
		lines := strings.Split(c.read(), "\n")
		last := lines[len(lines)-1]
		equal(t, "answer", last[strings.Index(last, ": ")+2:], `{"jsonrpc":"2.0","id":"q","result":`+accepted+`}`)
		equal(t, "calls", strings.Count(c.read(), "tools/call"), 1)
	})
}

// At the end of its time the child hears that the call is cancelled, then that nobody answered, and its session is not used again.
func TestWireExpiry(t *testing.T) {
	onWire(t, func(t *testing.T, c *child, d *desk) {
		c.asks()
		d.round("tools/call", deploy)
		before := c.read()
		time.Sleep(601 * time.Second)
		got := strings.TrimPrefix(c.read(), before+"\n")
		conn, id := wireIDs(t, before)
		want := conn + `: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"the client did not answer"}}` + "\n" +
			conn + `: {"jsonrpc":"2.0","id":"q","result":{"action":"cancel"}}`
		equal(t, "cancelled, then answered", got, want)
		time.Sleep(6 * time.Second)
		equal(t, "then", strings.TrimPrefix(c.read(), before+"\n"), want+"\n"+conn+": closed")
	})
}

// wireIDs returns the connection and the id of the last line, which is a request.
func wireIDs(t *testing.T, lines string) (conn, id string) {
	t.Helper()
	all := strings.Split(lines, "\n")
	conn, text, _ := strings.Cut(all[len(all)-1], ": ")
	return conn, string(jsonrpc.Get([]byte(text), "id"))
}

func TestWireClientLeaves(t *testing.T) {
	onWire(t, func(t *testing.T, c *child, d *desk) {
		c.on = func(conn net.Conn, m *jsonrpc.Message) {
			if m.Method == "tools/call" {
				time.AfterFunc(time.Second, func() {
					say(conn, `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":%s}`, branchForm)
				})
			}
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second+10*time.Millisecond, &exchange.CancelError{Reason: "gone"})
		defer cancel()
		equal(t, "answer", shown(d.ask(ctx, "tools/call", deploy)), "failed: cancelled by the caller: gone")
		got := c.read()
		cancelled, answered := strings.Index(got, "notifications/cancelled"), strings.Index(got, `"id":"q","result":{"action":"cancel"}`)
		if cancelled < 0 || answered < cancelled {
			t.Errorf("got\n%s\nwant the cancellation, then the answer", got)
		}
	})
}

func TestWireChildDies(t *testing.T) {
	onWire(t, func(t *testing.T, c *child, d *desk) {
		c.asks()
		r := d.round("tools/call", deploy)
		c.newest().Close()
		synctest.Wait()
		got := d.show("tools/call", r.retry(deploy, `{"1.1":`+accepted+`}`))
		equal(t, "answer", strings.HasPrefix(got, "failed: upstream_lost"), true)
		equal(t, "calls", strings.Count(c.read(), "tools/call"), 1)
	})
}

// Two calls that may be asked have a session each, so that every question has one owner.
func TestWireQuestionsOfTwoCalls(t *testing.T) {
	onWire(t, func(t *testing.T, c *child, d *desk) {
		c.on = func(conn net.Conn, m *jsonrpc.Message) {
			if m.Method == "tools/call" {
				name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name"))
				say(conn, `{"jsonrpc":"2.0","id":"%s","method":"elicitation/create","params":%s}`, name, strings.Replace(branchForm, "Which", name, 1))
			}
		}
		got := make(chan string, 2)
		for _, name := range []string{"red", "blue"} {
			go func() {
				r := d.round("tools/call", `{"name":"`+name+`"}`)
				got <- fmt.Sprint(strings.Contains(r.requests, name+" branch"))
			}()
		}
		equal(t, "own questions", <-got+" "+<-got, "true true")
	})
}

// In a full pool the oldest suspended call makes room once it has waited, though the server says nothing of the end of it.
func TestWireFullPool(t *testing.T) {
	onWireWith(t, upstream.Options{MaxLeases: 1}, func(t *testing.T, c *child, d *desk) {
		c.asks()
		old := d.round("tools/call", deploy)
		start := time.Now()
		equal(t, "too early", d.show("tools/call", deploy), "failed: upstream_busy")
		equal(t, "waited", time.Since(start), 5*time.Second)
		time.Sleep(30 * time.Second)
		d.round("tools/call", deploy)
		equal(t, "the oldest", d.show("tools/call", old.retry(deploy, "")), "error -32602 state_expired")
	})
}

func TestWireListen(t *testing.T) {
	onWire(t, func(t *testing.T, c *child, d *desk) {
		c.on = func(conn net.Conn, m *jsonrpc.Message) {
			if m.Method == "resources/subscribe" {
				say(conn, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			}
		}
		s := listen(t, d.h, "", `{"toolsListChanged":true,"resourceSubscriptions":["a:1"]}`)
		equal(t, "acknowledged", strings.Join(told(&s.back), " "), ack+`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:1"]}}`)
		say(c.newest(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		say(c.newest(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1"}}`)
		time.Sleep(time.Second)
		equal(t, "told", s.heard(), "notifications/tools/list_changed \nnotifications/resources/updated {\"uri\":\"a:1\"}")
		c.newest().Close() // the server restarts
		time.Sleep(time.Minute)
		equal(t, "subscribed", strings.Count(c.read(), "resources/subscribe"), 2)
		equal(t, "told again", strings.Count(s.heard(), "updated"), 2)
		s.leave()
		<-s.ended
	})
}

// The level is raised on the session that serves the call.
func TestWireLogLevel(t *testing.T) {
	onWire(t, func(t *testing.T, c *child, d *desk) {
		c.on = func(conn net.Conn, m *jsonrpc.Message) {
			if m.Method == "tools/call" {
				say(conn, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"quiet"}}`)
				say(conn, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"loud"}}`)
			}
			say(conn, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
		}
		d.meta = `,"io.modelcontextprotocol/logLevel":"warning"`
		d.show("tools/call", deploy)
		lines := strings.Split(c.read(), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], `"logging/setLevel","params":{"level":"warning"}`) || lines[0][:3] != lines[1][:3] {
			t.Errorf("got %q", lines)
		}
		equal(t, "told", strings.Join(told(d.back), " "), `notifications/message {"level":"error","data":"loud"}`)
	})
}

// A server that wants a URL to be visited remembers it in the session in which it said so: the retry goes there, though another
// session was used last, and as soon as the server has reported the visit (translation.md 7.6).
func TestWireURLVisited(t *testing.T) {
	onWire(t, func(t *testing.T, c *child, d *desk) {
		d.caps = `{"elicitation":{"url":{}}}`
		var asked net.Conn
		wait := make(chan struct{})
		c.on = func(conn net.Conn, m *jsonrpc.Message) {
			switch {
			case m.Method != "tools/call":
			case is(m, "wait"):
				id := string(m.ID)
				go func() {
					<-wait
					say(conn, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
				}()
			case asked == nil:
				asked = conn
				say(conn, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://a.example/e","message":"Go"}]}}}`, m.ID)
			default:
				say(conn, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%v"}]}}`, m.ID, conn == asked)
			}
		}
		// Two sessions: one asks for the URL while the other is in use, and goes back to the pool before it.
		first := make(chan string, 1)
		go func() { first <- d.show("tools/call", `{"name":"wait"}`) }()
		c.read()
		r := d.round("tools/call", deploy)
		close(wait)
		<-first
		time.AfterFunc(time.Second, func() {
			say(asked, `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e"}}`)
		})
		start := time.Now()
		got := d.show("tools/call", r.retry(deploy, `{"1.1":{"action":"accept"}}`))
		equal(t, "on the session that asked", textOf(got), "true")
		equal(t, "time", time.Since(start), time.Second)
	})
}

// is reports whether m is a call of the tool.
func is(m *jsonrpc.Message, tool string) bool {
	name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name"))
	return name == tool
}

// A session that has ended is no need: the retry goes to another one.
func TestWireURLVisitedAfterTheSession(t *testing.T) {
	onWire(t, func(t *testing.T, c *child, d *desk) {
		d.caps = `{"elicitation":{"url":{}}}`
		refused := false
		c.on = func(conn net.Conn, m *jsonrpc.Message) {
			if m.Method != "tools/call" {
				return
			}
			if refused {
				say(conn, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"linked"}]}}`, m.ID)
				return
			}
			refused = true
			say(conn, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://a.example/e","message":"Go"}]}}}`, m.ID)
			time.AfterFunc(time.Second, func() { conn.Close() })
		}
		r := d.round("tools/call", deploy)
		time.Sleep(time.Minute)
		equal(t, "text", textOf(d.show("tools/call", r.retry(deploy, `{"1.1":{"action":"accept"}}`))), "linked")
	})
}
