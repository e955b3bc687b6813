package main

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/mcp-dualstack/bridge/test/load/scan"
)

// A call is one tools/call from its first byte to the reply parsed.
type call struct {
	id     int64
	token  []byte // `"r1s3-17|`: must stand in the reply
	pad    []byte // what must follow the token, then a quote
	t0     time.Time
	end    time.Time
	prog   int64 // progress notifications that came
	rounds int64 // input_required answers that came
	state  []byte
	keys   []string // of the inputRequests that the next request answers
	ok     bool
	done   chan struct{}
}

// A work is what one call asks for.
type work struct {
	tool   string
	pad    []byte // echo
	steps  int    // progress
	rounds int    // ask
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"},"io.modelcontextprotocol/clientCapabilities":`

// body builds one tools/call, or its next round where the call has one to answer.
func (s *session) body(buf []byte, w work, cl *call) []byte {
	b := append(buf[:0], `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, cl.id, 10)
	b = append(b, `,"method":"tools/call","params":{`...)
	if s.kind == kindSL || w.steps > 0 {
		b = append(b, `"_meta":{`...)
		if s.kind == kindSL {
			b = append(b, modernMeta...)
			b = append(b, s.capabilities()...)
			if w.steps > 0 {
				b = append(b, ',')
			}
		}
		if w.steps > 0 {
			b = append(b, `"progressToken":`...)
			b = strconv.AppendInt(b, cl.id, 10)
		}
		b = append(b, `},`...)
	}
	if cl.keys != nil {
		b = append(b, `"inputResponses":{`...)
		for i, k := range cl.keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = fmt.Appendf(b, `"%s":%s`, k, yes)
		}
		b = append(b, `},`...)
		if cl.state != nil {
			b = fmt.Appendf(b, `"requestState":%s,`, cl.state)
		}
	}
	b = append(b, `"name":"`...)
	b = append(b, w.tool...)
	b = append(b, `","arguments":{`...)
	switch {
	case w.tool == "echo":
		cl.token = fmt.Appendf(cl.token[:0], `"%ss%d-%d|`, s.run, s.n, cl.id)
		b = append(b, `"text":`...)
		b = append(b, cl.token...)
		b = append(b, w.pad...)
		b = append(b, '"')
		cl.pad = w.pad
	case w.steps > 0:
		b = fmt.Appendf(b, `"steps":%d`, w.steps)
	case w.rounds > 0:
		b = fmt.Appendf(b, `"rounds":%d`, w.rounds)
	}
	return append(b, `}}}`...)
}

// do makes one call on connection c, with all its rounds, and returns its latency and the buffer for the next.
func (s *session) do(c *conn, cl *call, buf []byte, w work, head string, timeout time.Duration) (time.Duration, []byte, bool) {
	cl.ok, cl.prog, cl.rounds, cl.keys, cl.state = false, 0, 0, nil, nil
	cl.id = s.next.Add(1)
	buf = s.body(buf, w, cl)
	if s.kind == kindSSE {
		t, ok := s.doLegacy(c, cl, buf, head, timeout)
		return t, buf, ok
	}
	first := time.Now()
	for {
		ok := s.exchange(c, cl, buf, head, timeout)
		if !ok || cl.keys == nil {
			return cl.end.Sub(first), buf, ok
		}
		s.st.rounds.Add(1)
		cl.rounds++
		cl.id = s.next.Add(1)
		buf = s.body(buf, w, cl)
	}
}

// exchange makes one request of Streamable HTTP. Where the answer is input_required, cl.keys and cl.state say so.
func (s *session) exchange(c *conn, cl *call, payload []byte, head string, timeout time.Duration) bool {
	answers := 0
	cl.keys, cl.state = nil, nil
	r, err := c.post(head, payload, timeout, func(msg []byte) {
		e := scan.Envelope(msg)
		if e.Method != nil {
			if e.ID != nil {
				cl.rounds++
				s.answer(e.ID)
				return
			}
			s.notification(e, func(tok int64) *call {
				if tok == cl.id {
					return cl
				}
				return nil
			})
			return
		}
		id, err := strconv.ParseInt(string(e.ID), 10, 64)
		switch {
		case err != nil:
			s.st.unknown.Add(1)
		case id != cl.id:
			s.st.misrouted.Add(1)
		case e.Result != nil && cl.token != nil && !bytes.Contains(msg, cl.token):
			s.st.misrouted.Add(1)
		default:
			if answers++; answers > 1 {
				s.st.dup.Add(1)
				return
			}
			cl.end = time.Now()
			cl.ok = s.check(cl, e, msg)
			s.st.bytes.Add(int64(len(msg)))
			if s.asks && s.kind == kindSL {
				cl.next(e.Result)
			}
		}
	})
	switch {
	case err != nil && isTimeout(err):
		s.st.lost.Add(1)
	case err != nil:
		s.st.err(err)
	case r.status != 200:
		s.st.err(fmt.Errorf("call: status %d", r.status))
	case answers == 0:
		s.st.lost.Add(1)
	default:
		return cl.ok
	}
	return false
}

// next reads an InputRequiredResult of 2026-07-28; on any other result it leaves the call as it is.
func (cl *call) next(result []byte) {
	if string(scan.Get(result, "resultType")) != `"input_required"` {
		return
	}
	cl.keys = []string{}
	scan.Each(scan.Get(result, "inputRequests"), func(k, _ []byte) bool {
		cl.keys = append(cl.keys, string(k))
		return true
	})
	cl.state = append([]byte(nil), scan.Get(result, "requestState")...)
}

func (s *session) notification(e scan.Env, find func(int64) *call) {
	s.st.notes.Add(1)
	if s.note != nil {
		s.note(string(e.Method))
	}
	if string(e.Method) != "notifications/progress" {
		return
	}
	tok, err := strconv.ParseInt(string(scan.Get(e.Params, "progressToken")), 10, 64)
	cl := find(tok)
	if err != nil || cl == nil {
		s.st.badNotes.Add(1)
		return
	}
	p, _ := strconv.ParseFloat(string(scan.Get(e.Params, "progress")), 64)
	if int64(p) != cl.prog+1 {
		s.st.badNotes.Add(1)
	}
	cl.prog = int64(p)
}
