package streamable

import (
	"context"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/sse"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// callStream answers a request with an event stream. The head goes out after Options.Grace at the latest. The call does not
// end with the connection: the stream goes on collecting.
func (s *session) callStream(c *carrier, m *jsonrpc.Message) {
	st := s.newStream(c)
	st.counted = true
	s.core.Handle(m, st)
	c.grace = s.f.o.Grace
	s.carry(c, st)
}

// carry writes a POST stream, priming event first (2025-11-25 basic/transports, Sending Messages to
// the Server, point 6): its id is that of the event before the first.
func (s *session) carry(c *carrier, st *stream) {
	c.startStream()
	if s.prime(c, st, 0) {
		s.write(c, st)
	}
}

// prime writes an event without data whose id is that of the event after which a POST stream goes on, to those that know
// what that is, and says when its connection is to be released. It reports false when the client is gone.
func (s *session) prime(c *carrier, st *stream, after uint64) bool {
	if !s.core.Revision().Has(negotiate.PrimingEvent) {
		return true
	}
	e := sse.Event{ID: st.eventID(after)}
	if s.f.o.PollAfter > 0 {
		e.Retry = s.f.o.Retry
		c.release(time.Now().Add(s.f.o.PollAfter))
	}
	buf := takeBuffer()
	defer giveBuffer(buf)
	if err := c.write(sse.AppendEvent(*buf, e)); err != nil {
		st.detach(c)
		return false
	}
	return true
}

func (s *session) write(c *carrier, st *stream) {
	if err := c.carry(st); err != nil {
		s.f.o.Logger.Debug("stream left", "session", s.core.Describe(), "err", err)
	}
}

// callJSON answers a request with one JSON text. What else belongs to the exchange goes to the GET stream.
func (s *session) callJSON(c *carrier, m *jsonrpc.Message) {
	reply := &jsonReply{f: s.f, standing: &s.standing, response: make(chan []byte, 1)}
	s.core.Handle(m, reply)
	select {
	case msg := <-reply.response:
		c.response(msg)
	case <-c.gone: // the call runs on, and its answer is lost with the connection
	}
}

// response answers with one response. nil stands for that of a cancelled call: nothing is to be said.
func (c *carrier) response(msg []byte) {
	if msg == nil {
		c.accepted()
		return
	}
	c.json(http.StatusOK, msg)
}

// A jsonReply is the reply of a request whose answer is plain JSON.
type jsonReply struct {
	f        *Front
	standing *standing
	response chan []byte // capacity 1
}

func (j *jsonReply) Notify(method string, msg []byte) error { return j.standing.Notify(method, msg) }

func (j *jsonReply) Ask(ctx context.Context, msg []byte) error { return j.standing.Ask(ctx, msg) }

func (j *jsonReply) Finish(msg []byte) {
	j.response <- msg
	j.f.end()
}
