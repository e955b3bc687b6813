package upstream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

func modern(principal, capabilities string) exchange.Client {
	return exchange.Client{Revision: negotiate.Rev20260728, Principal: principal, Capabilities: []byte(capabilities)}
}

var translated = upstream.Options{}

// A lease that a cancelled call spoiled ends, unless the answer to that call comes within 5 s
// (translation.md 7.3.6).
func TestSpoiledLease(t *testing.T) {
	cancelled := func(s *stub) exchange.Session {
		sess := s.client(modern("a", elicits))
		p := call(sess, "tools/call", "", asker(nil))
		s.wire(0).say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`)
		synctest.Wait()
		p.cancel(&exchange.CancelError{})
		<-p.done
		equal(s.T, "cancelled, then answered", s.said(), "0 tools/call\n0 notifications/cancelled {\"requestId\":2}\n0 = {\"action\":\"cancel\"}")
		return sess
	}
	next := func(s *stub, sess exchange.Session) string {
		p := call(sess, "tools/call", `{"n":1}`, nil)
		said := s.said()
		p.cancel(context.Canceled)
		<-p.done
		return said
	}
	t.Run("no answer", func(t *testing.T) {
		inStub(t, translated, silently, func(s *stub) {
			sess := cancelled(s)
			equal(t, "meanwhile", next(s, sess), `1 tools/call {"n":1}`)
			time.Sleep(ghostLife)
			synctest.Wait()
			equal(t, "ended", s.wire(0).read(), "")
		})
	})
	t.Run("answer in time", func(t *testing.T) {
		inStub(t, translated, silently, func(s *stub) {
			sess := cancelled(s)
			time.Sleep(ghostLife - time.Second)
			s.wire(0).respond(2, `{}`)
			synctest.Wait()
			equal(t, "used again", next(s, sess), `0 tools/call {"n":1}`)
		})
	})
}

const ghostLife = 5 * time.Second

// Roots may be kept by the server: the next client of a session is announced, and without
// authentication there is no next one.
func TestLeaseWithRoots(t *testing.T) {
	inStub(t, translated, nil, func(s *stub) {
		for _, principal := range []string{"a", ""} {
			sess := s.client(modern(principal, `{"roots":{}}`))
			for range 2 {
				call(sess, "tools/list", "", nil)
				synctest.Wait()
			}
		}
		equal(t, "said", s.said(), strings.Join([]string{
			"0 tools/list", "0 notifications/roots/list_changed", "0 tools/list",
			"1 tools/list", "2 tools/list"}, "\n"))
		equal(t, "anonymous session ended", s.wire(1).read(), "")
	})
}

// On a session that calls share, a question goes to the client of the one call that may be interrupted. That client
// decides; with several, and with none, the server is refused (translation.md 7.3.8 to 7.3.10).
func TestQuestionOnASharedSession(t *testing.T) {
	const question = `{"jsonrpc":"2.0","id":"q","method":"%s","params":{}}`
	for _, test := range []struct {
		name    string
		methods []string // in flight; the first is a listening client's
		asked   string
		want    string
	}{
		{"one", []string{"tools/call"}, "sampling/createMessage", `0 = {"action":"accept"}`},
		{"one beside a list", []string{"prompts/get", "tools/list"}, "elicitation/create", `0 = {"action":"accept"}`},
		{"several", []string{"tools/call", "resources/read"}, "sampling/createMessage", "0 = error -32601"},
		{"several, elicitation", []string{"tools/call", "tools/call"}, "elicitation/create", "0 = error -32602"},
		{"a list only", []string{"tools/list"}, "roots/list", "0 = error -32602"},
		{"nothing", nil, "roots/list", "0 = error -32602"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inStub(t, translated, silently, func(s *stub) {
				sess := s.client(modern("a", `{}`))
				var calls []*pending
				for _, method := range test.methods {
					calls = append(calls, call(sess, method, "", accepting()))
					s.said()
				}
				s.wire(0).say(fmt.Sprintf(question, test.asked))
				equal(t, "answer", s.said(), test.want)
				for _, p := range calls {
					p.cancel(context.Canceled)
					<-p.done
				}
			})
		})
	}
}

// The end of a call takes back the question that its client has.
func TestQuestionOfAnEndedSharedCall(t *testing.T) {
	inStub(t, translated, silently, func(s *stub) {
		sess := s.client(modern("a", `{}`))
		call(sess, "tools/call", "", asker(nil))
		s.said()
		list := call(sess, "tools/list", "", nil) // so that the connection does not know whose it is
		s.said()
		s.wire(0).say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`)
		synctest.Wait()
		s.wire(0).respond(2, `{}`)
		equal(t, "answer", s.said(), `0 = {"action":"cancel"}`)
		list.cancel(context.Canceled)
		<-list.done
	})
}

// What a shared session says without a link goes to nobody, but for progress, which has one.
func TestNotesOnASharedSession(t *testing.T) {
	inStub(t, translated, silently, func(s *stub) {
		peer := &exchangetest.Peer{}
		p := call(s.client(modern("a", `{}`)), "tools/call", `{"_meta":{"progressToken":7,"io.modelcontextprotocol/logLevel":"debug"}}`, peer)
		equal(t, "without the level", s.said(), `0 tools/call {"_meta":{"progressToken":"p2"}}`)
		s.wire(0).say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error"}}`,
			`{"jsonrpc":"2.0","method":"notifications/x"}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p2","progress":1}}`)
		s.wire(0).respond(2, `{}`)
		<-p.done
		equal(t, "notes", len(peer.Notes()), 1)
		equal(t, "progress", string(peer.Notes()[0].Params), `{"progressToken":7,"progress":1}`)
	})
}

// Log messages of a lease reach its call from the level on that its request names, or that the client
// has set; the server is made talkative enough first (translation.md 6.5).
func TestLogLevels(t *testing.T) {
	chatty := func(w *wire, _ int, m *jsonrpc.Message) {
		if m.Method == "tools/call" {
			for _, level := range []string{"debug", "info", "error"} {
				w.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + level + `"}}`)
			}
		}
		w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID))
	}
	inStub(t, translated, chatty, func(s *stub) {
		sess := s.client(modern("a", elicits))
		run := func(params string) (said string, notes int) {
			peer := &exchangetest.Peer{}
			p := call(sess, "tools/call", params, peer)
			<-p.done
			return s.said(), len(peer.Notes())
		}
		for _, test := range []struct {
			name, set, params, said string
			notes                   int
		}{
			{"none", "", `{}`, `0 tools/call {}`, 0},
			{"of the request", "", `{"_meta":{"io.modelcontextprotocol/logLevel":"error"}}`, "0 logging/setLevel {\"level\":\"error\"}\n0 tools/call {\"_meta\":{}}", 1},
			{"the same again", "", `{"_meta":{"io.modelcontextprotocol/logLevel":"error"}}`, `0 tools/call {"_meta":{}}`, 1},
			{"of the session", "info", `{}`, "0 logging/setLevel {\"level\":\"info\"}\n0 tools/call {}", 2},
			{"quieter", "error", `{}`, `0 tools/call {}`, 1},
		} {
			if test.set != "" {
				got, err := call(sess, "logging/setLevel", `{"level":"`+test.set+`"}`, nil).wait()
				equal(t, test.name+": answer", got, "{}")
				equal(t, test.name+": error", reason(err), "")
			}
			said, notes := run(test.params)
			equal(t, test.name+": said", said, test.said)
			equal(t, test.name+": notes", notes, test.notes)
		}
		got := call(sess, "logging/setLevel", `{"level":"loud"}`, nil)
		<-got.done
		equal(t, "invalid level", got.resp.Error.Code, jsonrpc.CodeInvalidParams)
	})
}

// The next page of a list comes from the session that made the page before, and from no other.
func TestCursorsNameTheirSession(t *testing.T) {
	pages := func(w *wire, n int, m *jsonrpc.Message) {
		if m.Method == "tools/call" {
			return
		}
		w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"nextCursor":"of %d"}}`, m.ID, n))
	}
	inStub(t, translated, pages, func(s *stub) {
		sess := s.client(modern("a", elicits))
		list := func(cursor string) *pending {
			params := "{}"
			if cursor != "" {
				params = `{"cursor":` + cursor + `}`
			}
			p := call(sess, "tools/list", params, nil)
			return p
		}
		first := list("")
		page, _ := first.wait()
		cursor := string(jsonrpc.Get([]byte(page), "nextCursor"))
		busy := call(sess, "tools/call", "", nil) // takes the session of the first page
		s.said()
		next := list(cursor)
		equal(t, "waits for its session", s.said(), "")
		busy.cancel(context.Canceled)
		<-busy.done
		s.wire(0).respond(3, `{}`)
		<-next.done
		equal(t, "asks it", s.said(), "0 notifications/cancelled {\"requestId\":3}\n0 tools/list {\"cursor\":\"of 0\"}")

		time.Sleep(time.Hour) // no session of the pool lives that long
		p := list(cursor)
		<-p.done
		equal(t, "gone", p.resp.Error.Code, jsonrpc.CodeInvalidParams)
		foreign := list(`"theirs"`)
		<-foreign.done
		equal(t, "a cursor that is not ours passes", s.said(), `1 tools/list {"cursor":"theirs"}`)
	})
}

// may_ask: only the tools of the list have a lease; mask_capabilities: the server never hears of these. Clients
// are told of both.
func TestMayAskAndMask(t *testing.T) {
	inStub(t, upstream.Options{MayAsk: []string{"deploy"}, MaskCapabilities: []string{"sampling", "com.example/x"}}, nil, func(s *stub) {
		sess := s.client(modern("a", `{"elicitation":{},"sampling":{"tools":{}},"extensions":{"com.example/x":{}}}`))
		const note = `"The bridge does not tell this server of these client capabilities, so it cannot use them: sampling, com.example/x.` +
			` Only during these tools can this server ask something of the client: deploy."`
		equal(t, "instructions", string(sess.Server().Instructions), note)
		equal(t, "in the result too", string(jsonrpc.Get(sess.Server().Initialize, "instructions")), note)
		for _, req := range [][2]string{{"tools/list", "{}"}, {"tools/call", `{"name":"other"}`}, {"tools/call", `{"name":"deploy"}`}, {"prompts/get", `{"name":"deploy"}`}} {
			p := call(sess, req[0], req[1], nil)
			<-p.done
		}
		equal(t, "said", s.said(), strings.Join([]string{
			"0 tools/list {}", `0 tools/call {"name":"other"}`, `1 tools/call {"name":"deploy"}`, `0 prompts/get {"name":"deploy"}`}, "\n"))
	})
}

// What the server still asks because of a cancelled call on a shared session is not taken for a question of the call
// beside it, as long as the server has not answered the cancelled one.
func TestQuestionOfACancelledCallOnASharedSession(t *testing.T) {
	inStub(t, translated, silently, func(s *stub) {
		cancelled := call(s.client(modern("a", `{}`)), "tools/call", "", asker(nil))
		s.said()
		cancelled.cancel(context.Canceled)
		<-cancelled.done
		s.said()
		asked := false
		beside := call(s.client(modern("a", `{}`)), "tools/call", "", &exchangetest.Peer{Answer: func(context.Context, exchange.Request) (exchange.Response, error) {
			asked = true
			return exchange.Response{Result: []byte(`{}`)}, nil
		}})
		s.said()
		s.wire(0).say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`)
		synctest.Wait()
		equal(t, "asked", asked, false)
		equal(t, "answer", strings.Contains(s.said(), "-32602"), true)
		beside.cancel(context.Canceled)
		<-beside.done
	})
}
