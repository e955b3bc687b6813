package main

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-dualstack/bridge/test/load/scan"
)

const (
	kindSH  = "sh"  // Streamable HTTP, sessions, 2025-11-25
	kindSL  = "sl"  // Streamable HTTP, stateless, 2026-07-28
	kindSSE = "sse" // HTTP+SSE, 2024-11-05; 2025-06-18 where the client can be asked
)

// stats of one run. Everything after errors must be zero for a correct bridge.
type stats struct {
	mu        sync.Mutex
	lat       []int64 // ns
	bytes     atomic.Int64
	notes     atomic.Int64
	rounds    atomic.Int64
	errors    atomic.Int64 // transport or HTTP errors
	lost      atomic.Int64 // no answer within the timeout
	dup       atomic.Int64 // answered again after an answer
	misrouted atomic.Int64 // carries another session's payload
	wrong     atomic.Int64 // own payload, but damaged or an error result
	unknown   atomic.Int64 // an id that was never sent, or unreadable
	badNotes  atomic.Int64 // progress out of order, missing or foreign; a round missing
	firstErr  atomic.Value
}

func (s *stats) err(e error) {
	s.errors.Add(1)
	s.firstErr.CompareAndSwap(nil, e.Error())
}

// A session is one client.
type session struct {
	n    int
	kind string
	ep   endpoint
	st   *stats
	head string // of a POST, without Content-Length
	call string // of a tools/call, by callHead
	sid  string
	next atomic.Int64
	run  string
	asks bool // the client says that it can be asked

	answering sync.Mutex
	answers   *conn // what answers to questions are posted on

	// HTTP+SSE only.
	stream  *conn
	mu      sync.Mutex
	pend    map[int64]*call
	closed  chan struct{}
	note    func(method string)
	stalled bool
}

const accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"

func (s *session) setHeads(path string) {
	s.head = "POST " + path + " HTTP/1.1\r\nHost: " + s.ep.host + "\r\n" + accept
	switch s.kind {
	case kindSH:
		if s.sid != "" {
			s.head += "Mcp-Session-Id: " + s.sid + "\r\n"
		}
		s.head += "MCP-Protocol-Version: 2025-11-25\r\n"
	case kindSL:
		s.head += "MCP-Protocol-Version: 2026-07-28\r\n"
	}
}

func (s *session) callHead(tool string) string {
	if s.kind != kindSL {
		return s.head
	}
	if s.call == "" {
		s.call = s.head + "Mcp-Method: tools/call\r\nMcp-Name: " + tool + "\r\n"
	}
	return s.call
}

func (s *session) capabilities() string {
	if s.asks {
		return `{"elicitation":{}}`
	}
	return `{}`
}

func (s *session) initialize(version string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"load","version":"1"}}}`,
		version, s.capabilities())
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// open does the handshake of the kind; c is the connection for POSTs.
func (s *session) open(c *conn, timeout time.Duration) error {
	s.closed = make(chan struct{})
	s.setHeads(s.ep.path)
	switch s.kind {
	case kindSH:
		return s.openSession(c, timeout)
	case kindSSE:
		return s.openLegacy(c, timeout)
	}
	return nil
}

func (s *session) openSession(c *conn, timeout time.Duration) error {
	h := "POST " + s.ep.path + " HTTP/1.1\r\nHost: " + s.ep.host + "\r\n" + accept
	ok := false
	r, err := c.post(h, s.initialize("2025-11-25"), timeout, func(m []byte) { ok = ok || scan.Envelope(m).Result != nil })
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if !ok || r.status != 200 {
		return fmt.Errorf("initialize: status %d", r.status)
	}
	s.sid = r.session
	s.setHeads(s.ep.path)
	return s.initialized(c, timeout)
}

func (s *session) initialized(c *conn, timeout time.Duration) error {
	r, err := c.post(s.head, []byte(initialized), timeout, nil)
	if err == nil && r.status/100 != 2 {
		err = fmt.Errorf("status %d", r.status)
	}
	if err != nil {
		return fmt.Errorf("initialized: %w", err)
	}
	return nil
}

func (s *session) shut(c *conn) {
	if s.kind == kindSH && s.sid != "" {
		c.write("DELETE "+s.ep.path+" HTTP/1.1\r\nHost: "+s.ep.host+"\r\nMcp-Session-Id: "+s.sid+"\r\nMCP-Protocol-Version: 2025-11-25\r\n", nil, 2*time.Second)
		if c.nc != nil {
			c.readHead()
		}
	}
	if s.stream != nil {
		s.stream.shut()
	}
	s.answering.Lock()
	defer s.answering.Unlock()
	if s.answers != nil {
		s.answers.shut()
	}
}

// answer says yes to a question that came as a request.
func (s *session) answer(id []byte) {
	s.st.rounds.Add(1)
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, yes)
	go func() { // ends with its POST; the timeout bounds it
		s.answering.Lock()
		defer s.answering.Unlock()
		if s.answers == nil {
			s.answers = newConn(s.ep.host)
		}
		r, err := s.answers.post(s.head, body, 10*time.Second, nil)
		if err == nil && r.status/100 != 2 {
			err = fmt.Errorf("status %d", r.status)
		}
		if err != nil {
			s.st.err(fmt.Errorf("answer: %w", err))
		}
	}()
}

const yes = `{"action":"accept","content":{"n":1}}`

// check compares a reply with its call.
func (s *session) check(cl *call, e scan.Env, msg []byte) bool {
	if e.Result == nil {
		s.st.wrong.Add(1)
		s.st.firstErr.CompareAndSwap(nil, "error reply: "+string(msg[:min(len(msg), 200)]))
		return false
	}
	if cl.token == nil {
		return true
	}
	_, rest, ok := bytes.Cut(msg, cl.token)
	if !ok || len(rest) <= len(cl.pad) || rest[len(cl.pad)] != '"' || !bytes.Equal(rest[:len(cl.pad)], cl.pad) {
		s.st.wrong.Add(1)
		s.st.firstErr.CompareAndSwap(nil, "damaged reply: "+string(msg[:min(len(msg), 200)]))
		return false
	}
	return true
}

var errStreamClosed = errors.New("stream closed")
