package streamable

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// batch serves an array (2025-03-26 basic/index, Batching; translation.md 2).
func (f *Front) batch(c *carrier, r *http.Request, text []byte, in form) {
	elems, err := jsonrpc.Split(text)
	if err != nil {
		c.refuse(r, nil, malformed(err))
		return
	}
	if rev, _ := negotiate.Parse(r.Header.Get(negotiate.HeaderVersion)); rev.Has(negotiate.RequestMeta) && r.Header.Get(negotiate.HeaderSession) == "" {
		c.refuse(r, nil, refusedModernBatch)
		return
	}
	s, x := f.sessionOf(r)
	if x != nil {
		c.refuse(r, nil, x)
		return
	}
	defer s.release()
	if !s.core.Revision().Has(negotiate.Batching) {
		c.refuse(r, nil, refusedBatch)
		return
	}
	plain := !in.stream || f.o.JSONResponses && in.json
	b := &batch{s: s, c: c, in: in, plain: plain, wake: make(chan struct{}, 1)}
	if x := b.scan(elems); x != nil {
		c.refuse(r, nil, x)
		return
	}
	if x := f.openStream(s); x != nil {
		c.refuse(r, nil, x)
		return
	}
	defer f.closeStream(s)
	if x := b.admitAll(); x != nil {
		b.drop()
		c.refuse(r, nil, x)
		return
	}
	silent := len(b.order) == 0 && !b.hasRequests()
	b.start()
	if silent {
		c.accepted()
		return
	}
	b.write()
}

// A batch gathers the answers to the requests of one array. As long as nothing else is said they wait for
// each other and become one array; otherwise they go on a stream, each as soon as it is there.
type batch struct {
	s        *session
	c        *carrier
	in       form
	plain    bool               // the answer is an array in any case; what else is said goes to the GET stream
	messages []*jsonrpc.Message // nil where an element is malformed
	admitted []bool
	wake     chan struct{} // capacity 1

	mu      sync.Mutex
	answers [][]byte // by element; nil: none yet, or none at all
	order   []int    // elements answered, in order of completion
	pending int
	stream  *stream // nil until the answers go on one
	gone    bool    // nobody will take the array
	spills  []spill // to be settled when mu is not held
}

// connected reports whether the client still waits for the answers.
func (b *batch) connected() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stream == nil && !b.gone || b.stream != nil && b.stream.connected()
}

// scan reads the elements. A malformed one is answered by an error of its own.
func (b *batch) scan(elems [][]byte) *refusal {
	b.messages = make([]*jsonrpc.Message, len(elems))
	b.admitted = make([]bool, len(elems))
	b.answers = make([][]byte, len(elems))
	for i, text := range elems {
		m, err := jsonrpc.Scan(text)
		if m.Method == "initialize" || negotiate.ReadClaim(m.Meta).Present() {
			return refusedBatchElement
		}
		if err != nil {
			b.answers[i] = jsonrpc.AppendError(nil, m.ID, malformed(err).err)
			b.order = append(b.order, i)
			continue
		}
		b.messages[i] = &m
	}
	return nil
}

// admitAll counts the requests in, or says why not.
func (b *batch) admitAll() *refusal {
	for i, m := range b.messages {
		if m == nil || m.Kind != jsonrpc.Request {
			continue
		}
		if x := b.s.f.begin(); x != nil {
			return x
		}
		b.admitted[i] = true
		b.pending++
	}
	return nil
}

// drop counts out what was admitted.
func (b *batch) drop() {
	for _, ok := range b.admitted {
		if ok {
			b.s.f.end()
		}
	}
}

func (b *batch) start() {
	for i, m := range b.messages {
		switch {
		case m == nil:
		case m.Kind == jsonrpc.Request:
			b.s.core.Handle(m, &element{b, i})
		default:
			b.s.core.Handle(m, nil)
		}
	}
}

// write writes the answer: one array when all answers are there before anything else is said, else a stream.
func (b *batch) write() {
	var late <-chan time.Time
	if !b.plain {
		timer := time.NewTimer(min(lateChoice, b.s.f.o.KeepAlive))
		defer timer.Stop()
		late = timer.C
	}
	for b.waiting() {
		select {
		case <-b.wake:
		case <-late:
			b.open()
		case <-b.c.gone:
			b.leave()
			return
		}
	}
	if !b.in.json {
		b.open()
	}
	b.mu.Lock()
	st := b.stream
	b.mu.Unlock()
	if st != nil {
		b.s.carry(b.c, st)
		return
	}
	b.c.array(b.answers)
}

func (b *batch) hasRequests() bool {
	for _, ok := range b.admitted {
		if ok {
			return true
		}
	}
	return false
}

// waiting reports whether it is still open what the answer will be.
func (b *batch) waiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pending > 0 && b.stream == nil
}

// leave is the end of the exchange when its client has gone. A stream that began meanwhile goes on without it.
func (b *batch) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	if b.stream != nil {
		b.stream.detach(b.c)
	}
}

// open begins the stream.
func (b *batch) open() {
	b.mu.Lock()
	b.begin()
	b.unlock()
}

// begin begins the stream, unless it has, with the answers there are. The caller holds mu.
func (b *batch) begin() {
	if b.stream != nil || b.gone {
		return
	}
	b.stream = b.s.newStream(b.c)
	for _, i := range b.order {
		_ = b.put(b.answers[i], false) // a stream just made takes what it gets
	}
	if b.pending == 0 {
		_ = b.put(nil, true)
	}
	b.signal()
}

func (b *batch) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// An element is the reply of one request of a batch. What is said during it begins the stream.
type element struct {
	b *batch
	i int
}

func (e *element) Notify(method string, msg []byte) error {
	if e.b.plain {
		return e.b.s.standing.Notify(method, msg)
	}
	return e.b.say(msg)
}

func (e *element) Ask(ctx context.Context, msg []byte) error {
	if e.b.plain {
		return e.b.s.standing.Ask(ctx, msg)
	}
	return e.b.say(msg)
}

func (e *element) Finish(msg []byte) {
	b := e.b
	b.room(msg)
	b.mu.Lock()
	b.pending--
	if msg != nil {
		b.answers[e.i] = msg
		b.order = append(b.order, e.i)
	}
	last := b.pending == 0
	if b.stream != nil && (msg != nil || last) {
		_ = b.put(msg, last) // it fails only after the end of the session
	}
	b.signal()
	b.unlock()
	b.s.f.end()
}

// say puts a message that is no answer on the stream.
func (b *batch) say(msg []byte) error {
	b.room(msg)
	b.mu.Lock()
	defer b.unlock()
	b.begin()
	if b.stream == nil {
		return errEnded
	}
	return b.put(msg, false)
}

// room waits until there is room for msg on the stream.
func (b *batch) room(msg []byte) {
	b.mu.Lock()
	st := b.stream
	b.mu.Unlock()
	if st != nil {
		st.room(len(msg))
	}
}

// put puts msg on the stream. The caller holds mu.
func (b *batch) put(msg []byte, last bool) error {
	sp := b.stream.put(msg, last, answer{})
	b.spills = append(b.spills, sp)
	if last {
		b.s.retire(b.stream)
	}
	return sp.err
}

// unlock unlocks mu and settles what was put meanwhile.
func (b *batch) unlock() {
	spills, st := b.spills, b.stream
	b.spills = nil
	b.mu.Unlock()
	for _, sp := range spills {
		st.settle(sp)
	}
}

// array answers with the answers there are, in the order of the requests; 202 if there is none, because
// all requests were cancelled.
func (c *carrier) array(answers [][]byte) {
	var there [][]byte
	for _, a := range answers {
		if a != nil {
			there = append(there, a)
		}
	}
	if len(there) == 0 {
		c.accepted()
		return
	}
	c.json(http.StatusOK, append(append([]byte{'['}, bytes.Join(there, []byte{','})...), ']'))
}
