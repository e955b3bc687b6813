package upstream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A member is a session of the pool. It is the standing stream of that session: what the server says
// without a link to a call comes here.
type member struct {
	p    *pool
	key  poolKey
	id   uint64
	sess exchange.Session
	done <-chan struct{} // nil: it cannot end by itself

	since time.Time   // idle since; the mutex of the pool guards it
	heard atomic.Bool // it ends after a call that went well

	mu    sync.Mutex
	used  bool                     // has served a call
	level int                      // the server's log level, as sent last; 0: none
	lease *lease                   // the call that has the session for itself
	calls map[*sharedCall]struct{} // suspendable calls in flight
}

func (m *member) lost() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// A settler is a session that can tell when the server has done with what was cancelled.
type settler interface {
	// settled waits until every cancelled call has been answered and reports whether that was before ctx ended.
	settled(ctx context.Context) bool
}

// finish gives a member back after a call that ended with err. After a cancelled call the server may still
// be at work, and what it asks would be taken for the next caller's: the session ends unless the answer
// to that call comes in time (translation.md 7.3.6).
func (p *pool) finish(m *member, err error) {
	if m.key.single() {
		m.heard.Store(err == nil)
		p.put(m, false)
		return
	}
	if err == nil {
		p.put(m, true)
		return
	}
	s, ok := m.sess.(settler)
	if !ok || !p.spawn(func() { p.put(m, p.settled(s)) }) { // bounded by ghostLife
		p.put(m, false)
	}
}

func (p *pool) settled(s settler) bool {
	ctx, cancel := context.WithTimeout(p.ctx, ghostLife)
	defer cancel()
	return s.settled(ctx)
}

// A lease is the peer of a call that has a session for itself.
type lease struct {
	back  exchange.Peer // nil: nobody
	level int           // log messages from here on, 0: none
}

// Call asks the client of the call.
func (l *lease) Call(ctx context.Context, req exchange.Request) (exchange.Response, error) {
	if l.back == nil {
		return refuseQuestion(req.Method, false), nil
	}
	return l.back.Call(ctx, req)
}

// Notify tells the client of the call.
func (l *lease) Notify(ctx context.Context, note exchange.Request) error {
	if l.back == nil || !audible(note, l.level) {
		return nil
	}
	return l.back.Notify(ctx, note)
}

// callAlone makes a call on a member that was acquired.
func (m *member) callAlone(ctx context.Context, req exchange.Request, back exchange.Peer, level int) (exchange.Response, error) {
	l := &lease{back: back, level: level}
	if err := m.announce(ctx); err != nil {
		return exchange.Response{}, err
	}
	m.setLease(l)
	defer m.setLease(nil)
	if err := m.raise(ctx, level); err != nil {
		return exchange.Response{}, err
	}
	return m.sess.Call(ctx, req, l)
}

// announce tells the server of a session with roots that they may be another client's now
// (translation.md 12).
func (m *member) announce(ctx context.Context) error {
	m.mu.Lock()
	again := m.used
	m.used = true
	m.mu.Unlock()
	if !again || !m.key.class.has(capRoots) {
		return nil
	}
	return m.sess.Notify(ctx, exchange.Request{Method: "notifications/roots/list_changed"})
}

func (m *member) setLease(l *lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lease = l
}

// A sharedCall is the peer of a call on a session that others use too.
type sharedCall struct {
	m           *member
	method      string
	ctx         context.Context // of this running exchange
	back        exchange.Peer   // nil: nobody
	level       int
	suspendable bool
}

// callShared makes a call on a session that others use too.
func (m *member) callShared(ctx context.Context, req exchange.Request, back exchange.Peer, level int) (resp exchange.Response, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &sharedCall{m: m, method: req.Method, ctx: ctx, back: back, level: level, suspendable: suspendable(req.Method)}
	m.mu.Lock()
	if c.suspendable {
		if m.calls == nil {
			m.calls = make(map[*sharedCall]struct{})
		}
		m.calls[c] = struct{}{}
	}
	m.mu.Unlock()
	defer func() { m.retire(c, err) }()
	if err := m.announce(ctx); err != nil {
		return exchange.Response{}, err
	}
	if m.p.linked {
		if err := m.raise(ctx, level); err != nil {
			return exchange.Response{}, err
		}
	}
	return m.sess.Call(ctx, req, c)
}

// retire takes a call out that has ended with err. One that was cancelled, by its client or for its time, counts on until
// the server has done with it: what it still asks would be taken for a question of the call beside it.
func (m *member) retire(c *sharedCall, err error) {
	if err != nil {
		s, ok := m.sess.(settler)
		if ok && m.p.spawn(func() { m.p.settled(s); m.remove(c) }) { // bounded by ghostLife
			return
		}
	}
	m.remove(c)
}

func (m *member) remove(c *sharedCall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.calls, c)
}

// suspendable reports whether a client may be asked during a request (translation.md 7.3.9).
func suspendable(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// Call is asked what the session takes to be about this call. Only where the server says so it is.
func (c *sharedCall) Call(ctx context.Context, req exchange.Request) (exchange.Response, error) {
	if !c.m.p.linked {
		return c.m.Call(ctx, req)
	}
	if c.back == nil || !c.suspendable {
		return refuseQuestion(req.Method, false), nil
	}
	return c.back.Call(ctx, req)
}

func (c *sharedCall) attribute() exchange.Peer {
	if !c.m.p.linked {
		return c.m.attribute()
	}
	return c
}

// Notify passes on what is certainly about this call: its progress, and what came with it.
func (c *sharedCall) Notify(ctx context.Context, note exchange.Request) error {
	if !c.m.p.linked && note.Method == methodMessage {
		c.m.p.o.dropped(note.Method)
		return nil
	}
	if c.back == nil || !c.m.p.linked && note.Method != "notifications/progress" || !audible(note, c.level) {
		return nil
	}
	return c.back.Notify(ctx, note)
}

// Call is asked what belongs to no call that the session knows of.
func (m *member) Call(ctx context.Context, req exchange.Request) (exchange.Response, error) {
	return m.attribute().Call(ctx, req)
}

// attribute returns who is asked what belongs to no call that the session knows of. Whose question it is is certain
// when one call is in flight that may be interrupted; its client learns of it and decides. Otherwise it is refused
// (translation.md 7.3.8, 7.3.10).
func (m *member) attribute() exchange.Peer {
	l, only, count := m.attribution()
	switch {
	case l != nil:
		return l
	case count == 0:
		return nobody{roots: m.p.o.StaticRoots}
	case count != 1 || only.back == nil || only.ctx.Err() != nil:
		return nobody{several: count > 1}
	}
	return soleCall{only}
}

// A soleCall is the peer of the one call that a question can belong to.
type soleCall struct{ *sharedCall }

func (c soleCall) Call(ctx context.Context, req exchange.Request) (exchange.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	defer stop()
	return c.back.Call(ctx, req)
}

// nobody refuses questions.
type nobody struct {
	several bool
	roots   []byte // that are told all the same; nil: none
}

func (n nobody) Call(_ context.Context, req exchange.Request) (exchange.Response, error) {
	if n.roots != nil && req.Method == "roots/list" {
		return exchange.Response{Result: jsonrpc.Set(nil, n.roots, "roots")}, nil
	}
	return refuseQuestion(req.Method, n.several), nil
}

func (nobody) Notify(context.Context, exchange.Request) error { return nil }

// attribution returns the call that has the session for itself, or how many share it that may be
// interrupted and one of these.
func (m *member) attribution() (l *lease, one *sharedCall, count int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.calls {
		one = c
	}
	return m.lease, one, len(m.calls)
}

// refuseQuestion answers a question that nobody is asked: -32602, or -32601 where the server should not
// know of the method because the capability was not declared.
func refuseQuestion(method string, undeclared bool) exchange.Response {
	code := jsonrpc.CodeInvalidParams
	if undeclared && method != "elicitation/create" {
		code = jsonrpc.CodeMethodNotFound
	}
	return exchange.Response{Error: jsonrpc.Errorf(code, "there is no request that this can belong to")}
}

// Notify hands on what belongs to no call: changes to everybody of the principal who listens, the end of an elicitation to the
// call that has the session, or when that is over to those who listen, for its client waits for it between two calls. The rest is
// nobody's.
func (m *member) Notify(ctx context.Context, note exchange.Request) error {
	switch {
	case note.Method == "notifications/resources/updated", strings.HasSuffix(note.Method, "/list_changed"):
		return m.p.fan(ctx, m.key.principal, note)
	case note.Method == "notifications/elicitation/complete":
		m.mu.Lock()
		l := m.lease
		m.mu.Unlock()
		if l != nil {
			return l.Notify(ctx, note)
		}
		return m.p.fan(ctx, m.key.principal, note)
	case note.Method == methodMessage:
		m.p.o.dropped(note.Method)
	}
	return nil
}

const methodMessage = "notifications/message"

// Log levels of the protocol, quietest last; their places count from 1.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// levelOf returns the place of a raw level, 0 if it is none.
func levelOf(raw []byte) int {
	s, _ := jsonrpc.String(raw)
	return slices.Index(logLevels, s) + 1
}

// audible reports whether a client that asked for log messages from level on gets the note.
func audible(note exchange.Request, level int) bool {
	if note.Method != methodMessage {
		return true
	}
	return level != 0 && levelOf(jsonrpc.Get(note.Params, "level")) >= level
}

// raise makes the server as talkative as level asks (translation.md 6.5). A server that will not is left alone.
func (m *member) raise(ctx context.Context, level int) error {
	m.mu.Lock()
	enough := level == 0 || m.level != 0 && m.level <= level
	m.mu.Unlock()
	if enough || jsonrpc.Get(m.sess.Server().Capabilities, "logging") == nil {
		return nil
	}
	params := jsonrpc.Set(nil, jsonrpc.Quote(logLevels[level-1]), "level")
	if _, err := m.sess.Call(ctx, exchange.Request{Method: methodSetLevel, Params: params}, nil); err != nil {
		if f, ok := errors.AsType[*exchange.Failure](err); ok && f.Reason == exchange.ReasonInvalid {
			return nil
		}
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.level = level
	return nil
}

const methodSetLevel = "logging/setLevel"
