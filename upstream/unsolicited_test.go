package upstream_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/upstream"
)

// Roots that a session of the pool is asked for while no call is in flight are the operator's; nothing else is answered, and
// nothing that may be a call's (translation.md 7.3.10).
func TestStaticRoots(t *testing.T) {
	ask := func(t *testing.T, roots, method string, want string) {
		t.Helper()
		inStub(t, upstream.Options{StaticRoots: []byte(roots)}, nil, func(s *stub) {
			p := call(s.client(modern("a", `{"roots":{}}`)), "tools/list", "", nil)
			<-p.done
			s.said()
			s.wire(0).say(`{"jsonrpc":"2.0","id":"q","method":"` + method + `"}`)
			equal(t, method, s.said(), want)
		})
	}
	ask(t, `[{"uri":"file:///srv"}]`, "roots/list", `0 = {"roots":[{"uri":"file:///srv"}]}`)
	ask(t, `[]`, "roots/list", `0 = {"roots":[]}`)
	ask(t, `[]`, "sampling/createMessage", `0 = error -32602`)
	inStub(t, upstream.Options{}, nil, func(s *stub) {
		p := call(s.client(modern("a", `{"roots":{}}`)), "tools/list", "", nil)
		<-p.done
		s.said()
		s.wire(0).say(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
		equal(t, "without", s.said(), `0 = error -32602`)
	})
	inStub(t, upstream.Options{StaticRoots: []byte(`[]`)}, silently, func(s *stub) {
		sess := s.client(modern("a", `{}`))
		one, two := call(sess, "tools/call", "", nil), call(sess, "tools/call", "", nil)
		s.said()
		s.wire(0).say(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
		equal(t, "during two calls", s.said(), `0 = error -32601`)
		s.wire(0).respond(2, `{}`)
		s.wire(0).respond(3, `{}`)
		<-one.done
		<-two.done
	})
	o := upstream.Options{StaticRoots: []byte(`{}`)}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "static roots") {
		t.Errorf("an object for roots: got %v", err)
	}
}

// The end of an elicitation between two calls is told to those who watch for the principal (translation.md 7.6); during a call
// it is that call's.
func TestEndOfAnElicitation(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e"}}`
	inStub(t, upstream.Options{}, silently, func(s *stub) {
		mine, others, calling := &exchangetest.Peer{}, &exchangetest.Peer{}, &exchangetest.Peer{}
		s.client(watching("a", mine))
		s.client(watching("b", others))
		s.said()
		sess := s.client(modern("a", elicits))
		p := call(sess, "tools/call", "", calling)
		s.said()
		s.wire(2).say(note)
		synctest.Wait()
		equal(t, "heard by the call", len(calling.Notes()), 1)
		equal(t, "heard by watchers during the call", len(mine.Notes()), 0)
		s.wire(2).respond(2, `{}`)
		<-p.done
		s.wire(2).say(note)
		synctest.Wait()
		equal(t, "heard by watchers", len(mine.Notes()), 1)
		equal(t, "heard by others", len(others.Notes()), 0)
		equal(t, "heard by the call after its end", len(calling.Notes()), 1)
	})
}

// What some client may have wanted to hear and nobody is told is reported (translation.md 15).
func TestDroppedNotes(t *testing.T) {
	const message = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error"}}`
	var dropped []string
	o := upstream.Options{Dropped: func(method string) { dropped = append(dropped, method) }}
	inStub(t, o, silently, func(s *stub) {
		peer := &exchangetest.Peer{}
		p := call(s.client(modern("a", `{}`)), "tools/call", `{"_meta":{"io.modelcontextprotocol/logLevel":"debug"}}`, peer)
		s.said()
		s.wire(0).say(message)
		synctest.Wait()
		equal(t, "during a call on a shared session", strings.Join(dropped, " "), "notifications/message")
		s.wire(0).respond(2, `{}`)
		<-p.done
		s.wire(0).say(message)
		synctest.Wait()
		equal(t, "during none", len(dropped), 2)

		s.said()
		alone := call(s.client(modern("a", elicits)), "tools/call", `{"_meta":{"io.modelcontextprotocol/logLevel":"debug"}}`, peer)
		s.said()
		s.wire(1).respond(2, `{}`) // logging/setLevel
		s.said()
		s.wire(1).say(message)
		synctest.Wait()
		equal(t, "told", len(peer.Notes()), 1)
		equal(t, "during a call that has its session for itself", len(dropped), 2)
		s.wire(1).respond(3, `{}`)
		<-alone.done
	})
}
