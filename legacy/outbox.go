package legacy

import (
	"errors"
	"slices"
	"sync"
)

// answerRoom is how many times Options.StreamBytes answers may take: the client asked for
// each, and how many can come is bounded by MaxCalls.
const answerRoom = 8

var (
	errOver = errors.New("the stream has ended")
	errCut  = errors.New("the reader is too slow")
)

// An outbox holds the messages that wait to be written to a stream. The message being written is not in it.
type outbox struct {
	max   int           // bytes
	ready chan struct{} // capacity 1: there is something to look at

	mu     sync.Mutex
	queue  [][]byte
	bytes  int // in queue
	closed bool
}

func newOutbox(max int) *outbox { return &outbox{max: max, ready: make(chan struct{}, 1)} }

// push adds a message. It returns errOver after close, and errCut, once, when there is no room: the outbox is closed then.
func (o *outbox) push(msg []byte, answer bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return errOver
	}
	room := o.max
	if answer {
		room *= answerRoom
	}
	if len(o.queue) > 0 && o.bytes+len(msg) > room {
		o.shut()
		return errCut
	}
	o.queue = append(o.queue, msg)
	o.bytes += len(msg)
	o.wake()
	return nil
}

// pop returns the oldest message, nil if there is none.
func (o *outbox) pop() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return nil
	}
	msg := o.queue[0]
	o.queue[0] = nil
	o.queue = o.queue[1:]
	o.bytes -= len(msg)
	if len(o.queue) == 0 {
		o.queue = nil
	}
	return msg
}

// restore puts messages back that were popped and may not have been written.
func (o *outbox) restore(messages [][]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(messages) == 0 {
		return
	}
	o.queue = append(slices.Clone(messages), o.queue...)
	for _, msg := range messages {
		o.bytes += len(msg)
	}
	o.wake()
}

// close drops what is queued and takes no more.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut()
}

func (o *outbox) shut() { o.closed, o.queue, o.bytes = true, nil, 0 }

// wake makes the writer look.
func (o *outbox) wake() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}
