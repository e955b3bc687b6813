package streamable

import (
	"context"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/sse"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// callStream answers a request with an event stream. The header goes out at once. The call does not
// end with the connection: the stream goes on collecting.
func (s *session) callStream(c *carrier, m *jsonrpc.Message) {
	st := s.newStream(c)
	st.counted = true
	s.core.Handle(m, st)
	s.carry(c, st)
}

// carry writes a POST stream, priming event first (2025-11-25 basic/transports, Sending Messages to
// the Server, point 6): its id is that of the event before the first.
func (s *session) carry(c *carrier, st *stream) {
	c.startStream()
	s.write(c, st, 0)
}

// write writes a stream from the event after that number. A POST stream begins with the priming event, also when it
// is resumed: some clients forget the id they came back with, and would not find back from another disconnect.
func (s *session) write(c *carrier, st *stream, after uint64) {
	if st.number != 0 && s.core.Revision().Has(negotiate.PrimingEvent) {
		prime := sse.Event{ID: st.eventID(after)}
		if s.f.o.PollAfter > 0 {
			prime.Retry = s.f.o.Retry
			c.release(time.Now().Add(s.f.o.PollAfter))
		}
		buf := takeBuffer()
		err := c.write(sse.AppendEvent(*buf, prime))
		giveBuffer(buf)
		if err != nil {
			st.detach(c)
			return
		}
	}
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
