package streamable

import (
	"strconv"
	"strings"
	"time"

	"github.com/mcp-dualstack/bridge/negotiate"
)

// A finished stream can still be had for a while.
type finished struct {
	*stream
	at    time.Time
	bytes int
}

// newStream returns the stream of a POST, resumable if the revision has that.
func (s *session) newStream(c *carrier) *stream {
	st := newStream(s.f, c)
	st.owner = s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbers++
	st.number = s.numbers
	if s.core.Revision().Has(negotiate.Resumption) {
		st.prefix = s.prefix(st.number)
		s.streams[st.number] = st
	}
	return st
}

// prefix is what ids of events on a stream begin with: "tag.stream.".
func (s *session) prefix(stream uint64) string {
	var space [64]byte
	b := append(append(space[:0], s.tag...), '.')
	return string(append(strconv.AppendUint(b, stream, 10), '.'))
}

// parseEventID reads the id of an event of this session.
func (s *session) parseEventID(id string) (stream, event uint64, ok bool) {
	rest, ok := strings.CutPrefix(id, s.tag+".")
	if !ok {
		return 0, 0, false
	}
	a, b, ok := strings.Cut(rest, ".")
	stream, err1 := strconv.ParseUint(a, 10, 64)
	event, err2 := strconv.ParseUint(b, 10, 64)
	return stream, event, ok && err1 == nil && err2 == nil
}

// stream returns the POST stream of that number, nil if it is not kept.
func (s *session) stream(number uint64) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune(time.Now())
	return s.streams[number]
}

// retire keeps a finished stream for a while.
func (s *session) retire(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[st.number] == nil {
		return
	}
	now := time.Now()
	bytes := st.size()
	s.finished = append(s.finished, finished{st, now, bytes})
	s.kept += bytes
	s.prune(now)
}

// prune lets go of finished streams, oldest first, that are too old, too many or too large together. The
// newest stays whatever its size. The caller holds mu.
func (s *session) prune(now time.Time) {
	o := &s.f.o
	for n := len(s.finished); n > 0; n-- {
		old := s.finished[0]
		over := n > 1 && (n > o.ReplayStreams || s.kept > o.ReplayBytes)
		if !over && now.Sub(old.at) <= o.ReplayAge {
			return
		}
		delete(s.streams, old.number)
		s.kept -= old.bytes
		s.finished[0] = finished{}
		s.finished = s.finished[1:]
	}
}
