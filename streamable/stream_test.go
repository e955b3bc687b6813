package streamable_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/streamable"
)

const callOne = `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"slow"}}`

// stepped is a call that says a note for every text it is given, and ends with a result when steps is closed.
func stepped(steps <-chan string) func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
	return func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
		for {
			select {
			case text, ok := <-steps:
				if !ok {
					return result(`{"done":true}`), nil
				}
				if err := back.Notify(ctx, note("notifications/progress", `{"n":"`+text+`"}`)); err != nil {
					return exchange.Response{}, err
				}
			case <-ctx.Done():
				return exchange.Response{}, context.Cause(ctx)
			}
		}
	}
}

func progress(text string) string {
	return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":"` + text + `"}}`
}

const doneFive = `{"jsonrpc":"2.0","id":5,"result":{"done":true}}`

// R28: the event without data is for 2025-11-25 only; event ids are for revisions with resumption.
func TestPrimingEvent(t *testing.T) {
	for _, c := range []struct{ revision, want string }{
		{"2024-11-05", message("", progress("a")) + "\n" + message("", doneFive) + "\n"},
		{"2025-03-26", message("TAG.2.1", progress("a")) + "\n" + message("TAG.2.2", doneFive) + "\n"},
		{"2025-06-18", message("TAG.2.1", progress("a")) + "\n" + message("TAG.2.2", doneFive) + "\n"},
		{"2025-11-25", "id: TAG.2.0\ndata: \n\n" + message("TAG.2.1", progress("a")) + "\n" + message("TAG.2.2", doneFive) + "\n"},
	} {
		t.Run(c.revision, func(t *testing.T) {
			inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
				steps := make(chan string, 1)
				steps <- "a"
				close(steps)
				b.script.call = stepped(steps)
				want(t, "stream", b.post(callOne, b.session(c.revision)).body, c.want)
			})
		})
	}
}

// The header is sent before the server has said anything.
func TestHeaderGoesOutAtOnce(t *testing.T) {
	inBubble(t, &script{call: wait}, streamable.Options{}, func(t *testing.T, b *bed) {
		s := b.session("2025-11-25")
		start := time.Now()
		l := b.open(http.MethodPost, callOne, s)
		want(t, "first event", l.event(), "id: TAG.2.0\ndata: \n")
		if d := time.Since(start); d != 0 {
			t.Errorf("came after %v", d)
		}
		for name, v := range map[string]string{"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"} {
			want(t, name, l.resp.Header.Get(name), v)
		}
	})
}

// R08: the newest GET gets everything, the frozen one before it ends and harms nobody.
func TestNewestGETStreamWins(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		s := b.session("2025-06-18")
		old := b.listen(s)
		begun := time.Now()
		fresh := b.listen(s)
		if err := b.script.last().Back.Notify(t.Context(), note("notifications/message", `{}`)); err != nil {
			t.Fatal(err)
		}
		want(t, "new stream", fresh.event(), message("TAG.0.1", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
		want(t, "old stream", old.event(), "")
		if d := time.Since(begun); d != 0 {
			t.Errorf("the old stream ended after %v", d)
		}
	})
}

// R32: a silent stream of any kind gets comments.
func TestKeepAlive(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{KeepAlive: 5 * time.Second}, func(t *testing.T, b *bed) {
		b.script.call = func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			time.Sleep(20 * time.Second)
			return result(`{"done":true}`), nil
		}
		s := b.session("2025-06-18")
		get := b.listen(s)
		body, headers := modern("5", "tools/call", `"name":"slow"`)
		for name, l := range map[string]*listener{
			"call":      b.open(http.MethodPost, callOne, s),
			"stateless": b.open(http.MethodPost, body, headers...),
		} {
			n := 0
			got := l.raw()
			for ; got == ": keep-alive\n"; got = l.raw() {
				n++
			}
			if n < 3 || n > 4 { // from 4.5 to 5 s apart; of the stateless stream the first interval is a late choice
				t.Errorf("%s: %d comments in 20 s", name, n)
			}
			if !strings.Contains(got, `"done":true`) {
				t.Errorf("%s: got %q after the comments", name, got)
			}
		}
		want(t, "GET", get.raw(), ": keep-alive\n")
		r := b.post(callOne, s, "Accept: application/json")
		want(t, "JSON", r.body, doneFive)
	})
}

// R34, and R49 (a): the call goes on without its client, and one stream is resumed without the others.
func TestResumption(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		x, y := make(chan string), make(chan string)
		b.script.call = func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			if strings.Contains(string(req.Params), "slow") {
				return stepped(x)(ctx, req, back)
			}
			return stepped(y)(ctx, req, back)
		}
		s := b.session("2025-06-18")
		other := b.session("2025-06-18")
		get := b.listen(s)
		lx := b.open(http.MethodPost, callOne, s)
		ly := b.open(http.MethodPost, `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"y"}}`, s)
		x <- "x1"
		y <- "y1"
		x <- "x2"
		last := lx.id()
		lx.stop()
		synctest.Wait()
		x <- "x3"
		y <- "y2"
		synctest.Wait()

		again := b.listen(s, "Last-Event-ID: "+last)
		want(t, "replayed", again.event(), message("TAG.2.2", progress("x2")))
		want(t, "replayed", again.event(), message("TAG.2.3", progress("x3")))
		x <- "x4"
		want(t, "live", again.event(), message("TAG.2.4", progress("x4")))
		close(x)
		want(t, "response", again.event(), message("TAG.2.5", doneFive))
		want(t, "end", again.event(), "")

		want(t, "other stream", ly.event(), message("TAG.3.1", progress("y1")))
		want(t, "other stream", ly.event(), message("TAG.3.2", progress("y2")))
		close(y)

		// A finished exchange can be had again, the priming position included.
		if r := b.send(http.MethodGet, "", s, "Last-Event-ID: "+strings.TrimSuffix(last, "1")+"4"); r.body != message("TAG.2.5", doneFive)+"\n" {
			t.Errorf("finished exchange: got %d %q", r.status, r.body)
		}
		// Ids of nobody, of another session and of no stream of this one.
		for _, id := range []string{"nonsense", "AAAAAA.2.1", ""} {
			l := b.listen(s, "Last-Event-ID: "+id)
			_ = b.script.clients[0].Back.Notify(t.Context(), note("notifications/message", `{"to":"`+id+`"}`))
			if got := l.event(); !strings.Contains(got, `"to":"`+id+`"`) {
				t.Errorf("Last-Event-ID %q: got %q, want a fresh stream", id, got)
			}
		}
		if r := b.send(http.MethodGet, "", s, "Last-Event-ID: "+strings.Replace(last, ".2.1", ".9.1", 1)); r.status != 400 || !strings.Contains(r.body, "replay_gap") {
			t.Errorf("unknown POST stream: got %d %s", r.status, r.body)
		}
		foreign := b.listen(other, "Last-Event-ID: "+last)
		_ = b.script.clients[1].Back.Notify(t.Context(), note("notifications/message", `{"to":"other"}`))
		want(t, "foreign id", foreign.event(), message("TAG.0.1", `{"jsonrpc":"2.0","method":"notifications/message","params":{"to":"other"}}`))
		get.stop()
	})
}

func TestStandingStreamIsResumed(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		s := b.session("2025-06-18")
		l := b.listen(s)
		back := b.script.last().Back
		for i := range 3 {
			_ = back.Notify(t.Context(), note("notifications/message", fmt.Sprintf(`{"i":%d}`, i)))
		}
		first := l.id()
		l.stop()
		synctest.Wait()
		again := b.listen(s, "Last-Event-ID: "+first)
		for i := 1; i < 3; i++ {
			want(t, "replayed", again.event(), message(fmt.Sprintf("TAG.0.%d", i+1), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"i":%d}}`, i)))
		}
	})
}

func TestReplayIsBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		o    streamable.Options
		wait time.Duration
		ok   bool
	}{
		{"within", streamable.Options{}, 4 * time.Minute, true},
		{"events", streamable.Options{ReplayEvents: 3}, 0, false},
		{"bytes", streamable.Options{ReplayBytes: 500}, 0, false},
		{"age", streamable.Options{}, 6 * time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, &script{}, c.o, func(t *testing.T, b *bed) {
				steps := make(chan string)
				b.script.call = stepped(steps)
				s := b.session("2025-06-18")
				l := b.open(http.MethodPost, callOne, s)
				steps <- "0"
				first := l.id()
				l.stop()
				synctest.Wait()
				for i := range 5 {
					steps <- fmt.Sprint(i)
				}
				close(steps)
				synctest.Wait()
				time.Sleep(c.wait)
				r := b.send(http.MethodGet, "", s, "Last-Event-ID: "+first)
				if ok := r.status == 200 && strings.HasSuffix(r.body, doneFive+"\n\n") && strings.Count(r.body, "id:") == 6; ok != c.ok {
					t.Errorf("got %d %s", r.status, r.body)
				}
				if c.ok != (r.status == 200) {
					t.Errorf("got %d", r.status)
				}
			})
		})
	}
}

func TestFinishedExchangesAreBounded(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{ReplayStreams: 2}, func(t *testing.T, b *bed) {
		s := b.session("2025-11-25")
		var ids []string
		for range 3 {
			l := b.open(http.MethodPost, `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`, s)
			ids = append(ids, l.id())
			l.event()
		}
		synctest.Wait() // an answer arrives a moment before its exchange counts as finished
		for i, status := range []int{400, 200, 200} {
			if r := b.send(http.MethodGet, "", s, "Last-Event-ID: "+ids[i]); r.status != status {
				t.Errorf("exchange %d: got %d, want %d", i, r.status, status)
			}
		}
	})
}

// What is kept is let go of in time, also when nobody comes for it.
func TestKeptStreamsAreTidied(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{ReplayBytes: 2000}, func(t *testing.T, b *bed) {
		s := b.session("2025-06-18")
		l := b.listen(s)
		_ = b.script.last().Back.Notify(t.Context(), note("notifications/message", `{}`))
		l.event()
		for range 50 {
			b.post(`{"jsonrpc":"2.0","id":5,"method":"tools/list"}`, s)
		}
		_, streams, bytes := b.front.Held()
		if bytes < 1500 || bytes > 2500 || streams < 5 || streams > 20 {
			t.Errorf("kept %d streams with %d bytes, of at most about 2000", streams, bytes)
		}
		steps := make(chan string)
		b.script.call = stepped(steps)
		call := b.open(http.MethodPost, callOne, s)
		steps <- "a"
		call.event()
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if _, streams, bytes := b.front.Held(); streams != 1 || bytes != 0 {
			t.Errorf("after 6 minutes: kept %d streams with %d bytes, want the one in flight and nothing in it", streams, bytes)
		}
		close(steps)
		want(t, "response", call.event(), message("TAG.52.2", doneFive))
	})
}

func TestHeldNotificationsAreBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		o    streamable.Options
		want int
	}{{"count", streamable.Options{ReplayEvents: 7}, 7}, {"bytes", streamable.Options{StreamBytes: 1000}, 12}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, &script{}, c.o, func(t *testing.T, b *bed) {
				b.session("2025-06-18")
				kept := 0
				for range 50 {
					if b.script.last().Back.Notify(t.Context(), note("notifications/message", `{"data":"0123456789"}`)) == nil {
						kept++
					}
				}
				if kept != c.want {
					t.Errorf("kept %d, want %d", kept, c.want)
				}
			})
		})
	}
}

// R35: the stream of a reader that does not read is cut at its bound; the session recovers and nobody
// else waits.
func TestSlowReaderIsCutOff(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{StreamBytes: 64 << 10}, func(t *testing.T, b *bed) {
		slow := b.session("2025-06-18")
		l := b.listen(slow)
		back := b.script.last().Back
		fast := b.session("2025-06-18")
		kib := note("notifications/message", `{"data":"`+strings.Repeat("x", 1024)+`"}`)
		for i := range 20_000 {
			_ = back.Notify(t.Context(), kib) // may be told that nobody is there
			if i%1000 == 0 {
				if r := b.post(`{"jsonrpc":"2.0","id":5,"method":"tools/list"}`, fast); r.status != 200 {
					t.Fatalf("other client: got %d", r.status)
				}
			}
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		if n := b.observed(exchange.SeenDropped, exchange.ReasonStreamCut); n != 1 {
			t.Errorf("cuts observed: %d, want 1", n)
		}
		if n, err := io.Copy(io.Discard, l.resp.Body); err == nil || n > 4<<20 {
			t.Errorf("the slow stream ended with %v after %d bytes", err, n)
		}
		again := b.listen(slow)
		_ = back.Notify(t.Context(), note("notifications/tools/list_changed", `{"after":1}`))
		for got := again.event(); !strings.Contains(got, `"after":1`); got = again.event() {
			if got == "" {
				t.Fatal("the new stream ended")
			}
		}
	})
}

// R35: a response is not lost with the stream that was too slow for it, and one message may be larger than the bound.
func TestResponseSurvivesTheCut(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{StreamBytes: 4096}, func(t *testing.T, b *bed) {
		large := strings.Repeat("y", 300<<10)
		b.script.call = func(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
			for range 3 {
				_ = back.Notify(ctx, note("notifications/progress", `"`+large+`"`))
				time.Sleep(time.Second)
			}
			return result(`"` + large + `"`), nil
		}
		s := b.session("2025-11-25")
		l := b.open(http.MethodPost, callOne, s)
		id := l.id()
		time.Sleep(5 * time.Second)
		if n := b.observed(exchange.SeenDropped, exchange.ReasonStreamCut); n != 1 {
			t.Fatalf("cuts observed: %d, want 1", n)
		}
		_, err := io.Copy(io.Discard, l.resp.Body)
		if err == nil {
			t.Error("the slow stream ended as if it were complete")
		}
		r := b.send(http.MethodGet, "", s, "Last-Event-ID: "+strings.TrimSuffix(id, "0")+"3")
		want(t, "resumed", r.body, message("TAG.2.4", `{"jsonrpc":"2.0","id":5,"result":"`+large+`"}`)+"\n")
	})
}

// R30: timeouts of the server do not end streams.
func TestStreamOutlivesServerTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		f := streamable.New(s, nil)
		t.Cleanup(func() { f.Close() })
		hs := memhttp.NewWith(t, f, &memhttp.Options{Server: func(hs *http.Server) {
			hs.ReadTimeout, hs.WriteTimeout, hs.IdleTimeout = 2*time.Second, 3*time.Second, 4*time.Second
		}})
		b := &bed{t: t, script: s, front: f, http: hs, client: hs.Client()}
		s.call = func(_ context.Context, _ exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			time.Sleep(time.Minute)
			return result(`{"done":true}`), nil
		}
		id := b.session("2025-06-18")
		get := b.listen(id)
		want(t, "call", b.post(callOne, id).body[len(": keep-alive\n\n")*4:], message("TAG.2.1", doneFive)+"\n")
		want(t, "JSON call", b.post(callOne, id, "Accept: application/json").body, doneFive)
		if r := b.postModern("5", "tools/call", `"name":"slow"`); !strings.HasSuffix(r.body, message("", doneFive)+"\n") {
			t.Errorf("stateless call: got %s", r.body)
		}
		_ = s.clients[0].Back.Notify(t.Context(), note("notifications/message", `{}`))
		want(t, "GET", get.event(), message("TAG.0.1", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
	})
}

// Level-triggered notifications wait for a GET stream as one each, others for a while.
func TestWithoutAGETStream(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
		s := b.session("2025-06-18")
		back := b.script.last().Back
		tell := func(method, params string) error { return back.Notify(t.Context(), note(method, params)) }
		_ = tell("notifications/message", `{"old":1}`)
		time.Sleep(20 * time.Second)
		_ = tell("notifications/message", `{"new":1}`)
		for range 3 {
			_ = tell("notifications/tools/list_changed", `{}`)
			_ = tell("notifications/resources/updated", `{"uri":"a:b"}`)
		}
		for i := range 300 {
			err := tell("notifications/resources/updated", fmt.Sprintf(`{"uri":"n:%d"}`, i))
			if dropped := i >= 254; dropped != (err != nil) { // with the two before it 256 are remembered
				t.Errorf("URI %d: %v", i, err)
			}
		}
		time.Sleep(15 * time.Second)
		l := b.listen(s)
		want(t, "1st", l.event(), message("TAG.0.1", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`))
		want(t, "2nd", l.event(), message("TAG.0.2", `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}`))
		for range 254 {
			l.event()
		}
		want(t, "last", l.event(), message("TAG.0.257", `{"jsonrpc":"2.0","method":"notifications/message","params":{"new":1}}`))
		if n := b.observed(exchange.SeenDropped, exchange.ReasonNoChannel); n != 1 {
			t.Errorf("held notifications dropped: %d, want 1", n)
		}
	})
}

func TestQuestionWithoutALink(t *testing.T) {
	ask := exchange.Request{Method: "roots/list"}
	const asked = `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`
	answer := func(b *bed, s string) {
		if r := b.post(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`, s); r.status != 202 {
			b.t.Errorf("answer: got %d", r.status)
		}
	}
	type outcome struct {
		resp exchange.Response
		err  error
	}
	start := func(b *bed) <-chan outcome {
		got := make(chan outcome, 1)
		back := b.script.last().Back
		go func() {
			resp, err := back.Call(context.Background(), ask)
			got <- outcome{resp, err}
		}()
		return got
	}
	t.Run("GET stream", func(t *testing.T) {
		inBubble(t, &script{call: wait}, streamable.Options{}, func(t *testing.T, b *bed) {
			s := b.session("2025-06-18")
			call := b.open(http.MethodPost, callOne, s)
			l := b.listen(s)
			got := start(b)
			want(t, "question", l.event(), message("TAG.0.1", asked))
			answer(b, s)
			if o := <-got; string(o.resp.Result) != `{"roots":[]}` {
				t.Errorf("got %+v", o)
			}
			call.stop()
		})
	})
	t.Run("stream of a call", func(t *testing.T) {
		inBubble(t, &script{call: wait}, streamable.Options{}, func(t *testing.T, b *bed) {
			s := b.session("2025-06-18")
			call := b.open(http.MethodPost, callOne, s)
			got := start(b)
			want(t, "question", call.event(), message("TAG.2.1", asked))
			answer(b, s)
			<-got
		})
	})
	t.Run("later GET stream", func(t *testing.T) {
		inBubble(t, &script{call: wait}, streamable.Options{JSONResponses: true}, func(t *testing.T, b *bed) {
			s := b.session("2025-06-18")
			call := make(chan reply)
			go func() { call <- b.post(callOne, s) }() // answered with JSON: no stream of its own
			synctest.Wait()
			got := start(b)
			time.Sleep(29 * time.Second)
			l := b.listen(s)
			want(t, "question", l.event(), message("TAG.0.1", asked))
			answer(b, s)
			<-got
			b.send(http.MethodDelete, "", s)
			<-call
		})
	})
	t.Run("session ends", func(t *testing.T) {
		inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
			s := b.session("2025-06-18")
			begun := time.Now()
			got := start(b)
			synctest.Wait()
			b.send(http.MethodDelete, "", s)
			if o := <-got; o.err == nil || time.Since(begun) != 0 {
				t.Errorf("got %v after %v", o.err, time.Since(begun))
			}
		})
	})
	t.Run("nowhere", func(t *testing.T) {
		inBubble(t, &script{}, streamable.Options{}, func(t *testing.T, b *bed) {
			b.session("2025-06-18")
			begun := time.Now()
			o := <-start(b)
			if o.err == nil || !strings.Contains(o.err.Error(), exchange.ReasonNoChannel) || time.Since(begun) != 30*time.Second {
				t.Errorf("got %v after %v", o.err, time.Since(begun))
			}
		})
	})
}

// What belongs to a call goes on its stream; with plain JSON it goes to the GET stream, the response not.
func TestJSONResponses(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{JSONResponses: true}, func(t *testing.T, b *bed) {
		steps := make(chan string, 1)
		b.script.call = stepped(steps)
		r := b.post(initialize("2025-06-18"))
		want(t, "type of initialize", r.header.Get("Content-Type"), typeJSON)
		s := "Mcp-Session-Id: " + r.header.Get("Mcp-Session-Id")
		l := b.listen(s)
		steps <- "a"
		close(steps)
		r = b.post(callOne, s)
		want(t, "body", r.body, doneFive)
		want(t, "GET", l.event(), message("TAG.0.1", progress("a")))
		r = b.post(callOne, s, "Accept: text/event-stream")
		want(t, "stream only", r.body, message("TAG.1.1", doneFive)+"\n")
	})
}

func TestLargeMessages(t *testing.T) {
	inBubble(t, &script{}, streamable.Options{MaxBodyBytes: 4 << 20}, func(t *testing.T, b *bed) {
		b.script.call = func(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
			return exchange.Response{Result: req.Params}, nil
		}
		s := b.session("2025-06-18")
		big := bytes.Repeat([]byte("z"), 2<<20)
		r := b.post(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":["`+string(big)+`"]}`, s)
		if !strings.HasSuffix(r.body, `z"]}`+"\n\n") || len(r.body) < 2<<20 {
			t.Errorf("got %d bytes", len(r.body))
		}
	})
}
