package streamable

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	core "github.com/mcp-dualstack/bridge/internal/session"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A standing is the outlet for what belongs to no call of a session: the stream that GET opens, and
// what waits while none is open (translation.md 8.2 and 9). It implements the core's Outlet.
type standing struct {
	s      *session
	stream *stream // number zero; one for the life of the session, whoever carries it

	mu      sync.Mutex
	opened  chan struct{} // closed and replaced when a GET stream opens
	changes []change      // level-triggered: the latest of each kind, in order of arrival
	held    []held        // everything else, for HoldTimeout
	bytes   int           // in held
}

// A change is a notification that says what is the case; a later one of the same key stands for both.
type change struct {
	key string // method, or method and URI
	msg []byte
}

// A held notification waits for a stream until its time is up.
type held struct {
	msg   []byte
	until time.Time
}

func (d *standing) init(s *session) {
	d.s = s
	d.stream = newStream(s.f, nil)
	d.stream.owner = s
	d.opened = make(chan struct{})
}

// Notify puts the notification on the GET stream, or keeps it for the next one. That a question is taken back goes where the question
// went.
func (d *standing) Notify(method string, msg []byte) error {
	if method == "notifications/cancelled" && !d.stream.connected() {
		if out := d.suspendable(); out != nil { // where Ask puts questions
			return out.Notify(method, msg)
		}
	}
	d.stream.room(len(msg))
	sp := d.notify(method, msg)
	d.stream.settle(sp)
	return sp.err
}

func (d *standing) notify(method string, msg []byte) spill {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stream.connected() {
		return d.stream.put(msg, false, answer{})
	}
	if key := changeKey(method, msg); key != "" {
		return spill{err: d.coalesce(key, msg)}
	}
	return spill{err: d.hold(msg)}
}

// changeKey returns what a level-triggered notification is about, empty if it is of another kind.
func changeKey(method string, msg []byte) string {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		return method
	case "notifications/resources/updated":
		uri, _ := jsonrpc.String(jsonrpc.Get(msg, "params", "uri"))
		return method + " " + uri
	}
	return ""
}

// coalesce remembers a change. The caller holds mu.
func (d *standing) coalesce(key string, msg []byte) error {
	for i := range d.changes {
		if d.changes[i].key == key {
			d.changes[i].msg = msg
			return nil
		}
	}
	if len(d.changes) >= maxCoalesced && strings.Contains(key, " ") {
		return exchange.Fail(exchange.ReasonNoChannel, nil)
	}
	d.changes = append(d.changes, change{key, msg})
	return nil
}

// hold keeps a notification for a while. The caller holds mu.
func (d *standing) hold(msg []byte) error {
	o := &d.s.f.o
	if len(d.held) >= o.ReplayEvents || d.bytes+len(msg) > o.StreamBytes {
		return exchange.Fail(exchange.ReasonNoChannel, nil)
	}
	d.held = append(d.held, held{msg, time.Now().Add(o.HoldTimeout)})
	d.bytes += len(msg)
	return nil
}

// Ask puts the question on the GET stream, else on that of the oldest call during which a server may ask, else
// waits for a GET stream. The error is a Failure with no_client_channel, or the cause of ctx.
func (d *standing) Ask(ctx context.Context, msg []byte) error {
	d.stream.room(len(msg))
	var timer *time.Timer
	for {
		sp, opened := d.ask(msg)
		if opened == nil {
			d.stream.settle(sp)
			return sp.err
		}
		if out := d.suspendable(); out != nil {
			return out.Ask(ctx, msg)
		}
		if timer == nil {
			timer = time.NewTimer(d.s.f.o.HoldTimeout)
			defer timer.Stop()
		}
		select {
		case <-opened:
		case <-timer.C:
			return exchange.Fail(exchange.ReasonNoChannel, nil)
		case <-d.s.core.Done():
			return exchange.Fail(exchange.ReasonClosed, nil)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// suspendable returns the outlet of the oldest call during which a server may ask and whose client is connected,
// failing that of the oldest that has a stream to be resumed, nil if there is none: the others bring their
// questions here. A call whose client has dropped the connection without a word (mcp-go never cancels, clients.md
// 12) stays in flight, and a question put there would wait for nobody.
func (d *standing) suspendable() core.Outlet {
	if out := d.s.core.Suspendable(connected); out != nil {
		return out
	}
	return d.s.core.Suspendable(hasStream)
}

// hasStream reports whether a call's outlet writes to a stream of its own.
func hasStream(o core.Outlet) bool {
	switch o := o.(type) {
	case *stream:
		return true
	case *element:
		return !o.b.plain
	}
	return false
}

// connected reports whether somebody reads that stream.
func connected(o core.Outlet) bool {
	switch o := o.(type) {
	case *stream:
		return o.connected()
	case *element:
		return !o.b.plain && o.b.connected()
	}
	return false
}

// ask puts the question on the GET stream if one is open; otherwise it returns what is closed when one opens.
func (d *standing) ask(msg []byte) (sp spill, opened <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stream.connected() {
		return sp, d.opened
	}
	return d.stream.put(msg, false, answer{}), nil
}

// attach makes c the carrier of the stream, to begin after an event that is still known, else with what nobody has
// been sent yet, and puts on the stream what waited for it.
func (d *standing) attach(c *carrier, after uint64, resume bool) {
	d.mu.Lock()
	late := d.expire(time.Now())
	more := make([][]byte, 0, len(d.changes)+len(d.held))
	for _, ch := range d.changes {
		more = append(more, ch.msg)
	}
	for _, h := range d.held {
		more = append(more, h.msg)
	}
	if !resume || !d.stream.attachAfter(c, after, more...) {
		d.stream.attach(c, more...)
	}
	d.changes, d.held, d.bytes = nil, nil, 0
	close(d.opened)
	d.opened = make(chan struct{})
	d.mu.Unlock()
	d.report(late)
}

// expire drops what has been held for too long and returns how much that was. The caller holds mu.
func (d *standing) expire(now time.Time) int {
	n := 0
	for n < len(d.held) && !now.Before(d.held[n].until) {
		d.bytes -= len(d.held[n].msg)
		n++
	}
	d.held = d.held[n:]
	return n
}

func (d *standing) report(late int) {
	for range late {
		d.s.f.dropped(d.s, exchange.ReasonNoChannel)
	}
}

func (d *standing) tidy(now time.Time) {
	d.mu.Lock()
	late := d.expire(now)
	d.mu.Unlock()
	d.report(late)
	d.stream.tidy(now)
}

// negotiated is called once the revision is known: it decides whether events have ids.
func (d *standing) negotiated(r negotiate.Revision) {
	if r.Has(negotiate.Resumption) {
		d.stream.setPrefix(d.s.prefix(0))
	}
}

// end ends the stream.
func (d *standing) end() { _ = d.stream.append(nil, true) } // it may have ended before
