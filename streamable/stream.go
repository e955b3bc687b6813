package streamable

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/sse"
)

// A stream is a sequence of messages for one client: what answers a POST, or the standing stream that
// GET opens. Messages are appended by whoever has them and taken by the one carrier attached; what the
// carrier has not taken waits, and what it has taken stays in the log for a while, for the client that lost the
// connection. Methods may be called concurrently; only append and finish of one goroutine are ordered.
type stream struct {
	f       *Front
	owner   *session // nil for a stateless exchange
	number  uint64   // within the session; zero for the standing stream
	prefix  string   // of event ids; empty: events have no id, and what was taken is not kept
	counted bool     // finish counts a call out

	mu      sync.Mutex
	log     []entry       // oldest first
	first   uint64        // sequence number of log[0]; the first entry ever has 1
	next    uint64        // of the first entry that was not taken
	bytes   int           // in the log, with overhead
	waiting int           // bytes not taken, with overhead
	over    bool          // nothing more comes
	answer  answer        // of a stateless exchange that is over
	carrier *carrier      // nil: nobody is connected
	drained chan struct{} // nil unless somebody waits for the carrier to take something
	waited  time.Duration // for the carrier since it last had everything
}

type entry struct {
	data []byte // nil: an event without data, which only says where the stream is
	at   time.Time
}

// overhead is about what an entry takes beside its text.
const overhead = 64

// cost is what an entry counts against the bounds.
func (e entry) cost() int { return len(e.data) + overhead }

// batchBytes is about how much take returns at a time.
const batchBytes = 32 << 10

// errEnded is what a message gets that comes after the end of its stream.
var errEnded = errors.New("the stream has ended")

// newStream returns a stream with c attached; c may be nil.
func newStream(f *Front, c *carrier) *stream {
	return &stream{f: f, first: 1, next: 1, carrier: c}
}

// Notify appends a notification.
func (st *stream) Notify(_ string, msg []byte) error { return st.append(msg, false) }

// Ask appends a request.
func (st *stream) Ask(_ context.Context, msg []byte) error { return st.append(msg, false) }

// Finish appends the response, nil for none, and ends the stream.
func (st *stream) Finish(msg []byte) { st.finish(msg, answer{}) }

// finish is Finish with what the answer is to look like if it has not begun.
func (st *stream) finish(msg []byte, a answer) {
	st.room(len(msg))
	st.settle(st.put(msg, true, a))
	if st.owner != nil {
		st.owner.retire(st)
	}
	if st.counted {
		st.f.end()
	}
}

// append adds msg. The error is errEnded.
func (st *stream) append(msg []byte, last bool) error {
	st.room(len(msg))
	sp := st.put(msg, last, answer{})
	st.settle(sp)
	return sp.err
}

// patience is how long senders wait altogether for a carrier that is behind. A burst is not to be
// taken for slowness: who reads at all takes megabytes in this time.
const patience = 250 * time.Millisecond

// room waits until there is room for a message of n bytes, or patience is at its end. The caller holds no lock.
func (st *stream) room(n int) {
	st.mu.Lock()
	if st.carrier == nil || st.fits(n+overhead) || st.waited >= patience {
		st.mu.Unlock()
		return
	}
	if st.drained == nil {
		st.drained = make(chan struct{})
	}
	drained, left := st.drained, patience-st.waited
	st.mu.Unlock()
	begun := time.Now()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
	}
	st.mu.Lock()
	st.waited += time.Since(begun)
	st.mu.Unlock()
}

// fits reports whether a message of that cost may wait for the carrier. The caller holds mu.
func (st *stream) fits(cost int) bool {
	return st.waiting == 0 || st.waiting+cost <= st.f.o.StreamBytes
}

// relieve lets those go on that wait for room. The caller holds mu.
func (st *stream) relieve() {
	if st.drained != nil {
		close(st.drained)
		st.drained = nil
	}
}

// A spill is what did not fit when a message was put on a stream.
type spill struct {
	cut  *carrier // cut off for being too slow
	lost int      // entries removed that nobody has taken
	err  error    // errEnded: the message itself
}

// put adds msg, nil for none, and ends the stream if it is the last one. The caller settles the spill when
// it holds no lock.
func (st *stream) put(msg []byte, last bool, a answer) (sp spill) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over {
		return spill{err: errEnded}
	}
	if last {
		st.over, st.answer = true, a
	}
	lonely := st.carrier == nil && st.prefix == "" && st.number != 0 // nobody can ever come for it
	if msg != nil && !lonely {
		sp = st.push(entry{msg, time.Now()})
	}
	if st.carrier != nil {
		if !last {
			st.carrier.assist()
		}
		st.carrier.signal()
	}
	return sp
}

// settle ends the connection that was cut off and reports what was lost.
func (st *stream) settle(sp spill) {
	if sp.cut != nil {
		sp.cut.abort()
		sp.cut.signal()
		st.f.dropped(st.owner, exchange.ReasonStreamCut)
	}
	if sp.lost > 0 {
		st.f.dropped(st.owner, detailLogFull)
	}
}

// detailLogFull says in an observation that a log dropped what nobody had taken.
const detailLogFull = "log_full"

// push adds e to the log within its bounds. The caller holds mu.
func (st *stream) push(e entry) (sp spill) {
	if st.carrier != nil && !st.fits(e.cost()) {
		sp.cut, st.carrier = st.carrier, nil
		st.relieve()
	}
	sp.lost = st.trim(e.at, 1, e.cost())
	st.log = append(st.log, e)
	st.bytes += e.cost()
	st.waiting += e.cost()
	return sp
}

// trim removes the oldest entries until the log is within its bounds with further events and bytes. It stops
// at what the carrier has yet to take. The caller holds mu.
func (st *stream) trim(now time.Time, events, bytes int) (lost int) {
	o := &st.f.o
	for len(st.log) > 0 {
		e := st.log[0]
		taken := st.first < st.next
		full := len(st.log)+events > o.ReplayEvents || st.bytes+bytes > o.ReplayBytes || now.Sub(e.at) > o.ReplayAge
		if !full && (!taken || st.prefix != "") {
			break
		}
		if !taken && st.carrier != nil {
			break
		}
		st.log[0] = entry{}
		st.log = st.log[1:]
		st.first++
		st.bytes -= e.cost()
		if !taken {
			st.next = st.first
			st.waiting -= e.cost()
			lost++
		}
	}
	return lost
}

// What take found beside what it returns.
type streamState uint8

const (
	streamIdle     streamState = iota // nothing more for the moment
	streamMore                        // more is waiting
	streamOver                        // that was the last
	streamReplaced                    // the carrier is not the stream's any more
)

// take appends what waits for c to dst as events, about batchBytes at a time.
func (st *stream) take(c *carrier, dst []byte) ([]byte, streamState) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.carrier != c {
		return dst, streamReplaced
	}
	for i := int(st.next - st.first); i < len(st.log); i++ { // #nosec G115 -- a place in the log
		if len(dst) >= batchBytes {
			if st.waiting <= st.f.o.StreamBytes/2 {
				st.relieve()
			}
			return dst, streamMore
		}
		e := st.log[i]
		name := "message"
		if e.data == nil {
			name = ""
		}
		dst = sse.AppendEvent(dst, sse.Event{Name: name, ID: st.eventID(st.next), Data: e.data})
		st.next++
		st.waiting -= e.cost()
	}
	if st.prefix == "" {
		st.trim(time.Time{}, 0, 0)
	}
	st.relieve()
	st.waited = 0
	if st.over {
		return dst, streamOver
	}
	return dst, streamIdle
}

// mark adds an event without data that c is about to send, and returns its id. It reports false when something else is to be sent
// or c is not the carrier.
func (st *stream) mark(c *carrier) (id string, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.carrier != c || st.over || st.next-st.first < uint64(len(st.log)) {
		return "", false
	}
	e := entry{at: time.Now()}
	st.trim(e.at, 1, e.cost())
	st.log = append(st.log, e)
	st.bytes += e.cost()
	st.next++
	return st.eventID(st.next - 1), true
}

// only returns the message that is both the first and the last of a stream of which nothing was taken;
// begun says that there is a message, or that none will come.
func (st *stream) only() (msg []byte, a answer, ok, begun bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	begun = st.over || len(st.log) > 0
	if st.over && len(st.log) == 1 {
		return st.log[0].data, st.answer, true, begun
	}
	return nil, st.answer, false, begun
}

// isOver reports whether nothing more will come.
func (st *stream) isOver() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.over
}

// used reports whether there has been any message.
func (st *stream) used() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.next > 1 || len(st.log) > 0
}

func (st *stream) eventID(n uint64) string {
	if st.prefix == "" {
		return ""
	}
	var space [64]byte
	return string(strconv.AppendUint(append(space[:0], st.prefix...), n, 10))
}

// attach makes c the carrier, which goes on where the last one stopped. The one before, if any, ends. more
// is added to what waits for c, whatever the bounds.
func (st *stream) attach(c *carrier, more ...[]byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.replace(c, more)
}

// attachAfter makes c the carrier, to begin after the event of that number; false if any that followed is gone.
func (st *stream) attachAfter(c *carrier, n uint64, more ...[]byte) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.trim(time.Now(), 0, 0)
	if n+1 < st.first || n >= st.first+uint64(len(st.log)) {
		return false
	}
	st.next = n + 1
	st.waiting = 0
	for _, e := range st.log[st.next-st.first:] {
		st.waiting += e.cost()
	}
	st.replace(c, more)
	return true
}

// replace ends the carrier there is and makes c the one. The caller holds mu.
func (st *stream) replace(c *carrier, more [][]byte) {
	if st.carrier != nil {
		st.carrier.signal()
	}
	st.carrier, st.waited = c, 0
	st.relieve()
	now := time.Now()
	for _, msg := range more {
		e := entry{msg, now}
		st.log = append(st.log, e)
		st.bytes += e.cost()
		st.waiting += e.cost()
	}
}

// detach takes c off, if it is the carrier.
func (st *stream) detach(c *carrier) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.carrier == c {
		st.carrier = nil
		st.relieve()
	}
}

// connected reports whether a carrier is attached.
func (st *stream) connected() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.carrier != nil
}

// size returns how many bytes the log holds, with overhead.
func (st *stream) size() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.bytes
}

// tidy removes what is too old to be kept.
func (st *stream) tidy(now time.Time) {
	st.mu.Lock()
	lost := st.trim(now, 0, 0)
	st.mu.Unlock()
	st.settle(spill{lost: lost})
}

// setPrefix gives events ids from here on. It is called before anything was taken.
func (st *stream) setPrefix(p string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.prefix = p
}
