package streamable_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/streamable"
)

// takes returns a server whose calls take that long.
func takes(d time.Duration) *script {
	return &script{call: func(ctx context.Context, _ exchange.Request, _ exchange.Peer) (exchange.Response, error) {
		select {
		case <-time.After(d):
			return result(`{"done":true}`), nil
		case <-ctx.Done():
			return exchange.Response{}, context.Cause(ctx)
		}
	}}
}

// 2025-11-25 basic/transports, Sending Messages to the Server, point 6: the server may close the connection after an
// event with an id, having said with retry when to come back, and the client polls.
func TestPolling(t *testing.T) {
	inBubble(t, takes(45*time.Second), streamable.Options{PollAfter: 10 * time.Second, Retry: 500 * time.Millisecond}, func(t *testing.T, b *bed) {
		s := b.session("2025-11-25")
		begun := time.Now()
		resp := b.do(t.Context(), http.MethodPost, callOne, s)
		body, _ := io.ReadAll(resp.Body)
		at := func(n int) string { return fmt.Sprintf("id: TAG.2.%d\nretry: 500\ndata: \n\n", n) }
		want(t, "POST", plain(string(body)), at(0)+at(1))
		if took := time.Since(begun); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("released after %v, want about 10 s", took)
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(string(body), "id: "), "0\n")
		for poll := 1; ; poll++ {
			time.Sleep(500 * time.Millisecond)
			got := b.send(http.MethodGet, "", s, "Last-Event-ID: "+id+strconv.Itoa(poll))
			if strings.Contains(got.body, "done") {
				want(t, "last poll", got.body, at(poll)+message("TAG.2."+strconv.Itoa(poll+1), doneFive)+"\n")
				id += strconv.Itoa(poll + 1)
				break
			}
			want(t, "poll", got.body, at(poll)+at(poll+1))
			if poll > 10 {
				t.Fatal("no result after 10 polls")
			}
		}
		if took := time.Since(begun); took != 45*time.Second {
			t.Errorf("the result came after %v, want 45 s", took)
		}
		// Once: who has it does not get it again.
		r := b.send(http.MethodGet, "", s, "Last-Event-ID: "+id)
		want(t, "after the result", r.body, "")
	})
}

// R28: an early close is for 2025-11-25 only; and a call that is quick keeps its connection.
func TestNoPolling(t *testing.T) {
	for _, c := range []struct {
		name, revision string
		call           time.Duration
		want           string
	}{
		{"2025-03-26", "2025-03-26", time.Minute, message("TAG.2.1", doneFive) + "\n"},
		{"2025-06-18", "2025-06-18", time.Minute, message("TAG.2.1", doneFive) + "\n"},
		{"quick call", "2025-11-25", 5 * time.Second, "id: TAG.2.0\nretry: 1000\ndata: \n\n" + message("TAG.2.1", doneFive) + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, takes(c.call), streamable.Options{PollAfter: 10 * time.Second, KeepAlive: time.Hour}, func(t *testing.T, b *bed) {
				want(t, "POST", b.post(callOne, b.session(c.revision)).body, c.want)
			})
		})
	}
	t.Run("2026-07-28", func(t *testing.T) {
		inBubble(t, takes(time.Minute), streamable.Options{PollAfter: 10 * time.Second, KeepAlive: time.Hour}, func(t *testing.T, b *bed) {
			body, headers := modern("5", "tools/call", `"name":"x"`)
			want(t, "POST", b.post(body, headers...).body, message("", doneFive)+"\n")
		})
	})
}

// A planned end of a GET stream loses nothing and tells when to come back (R33). It is for clients that know of it (R28).
func TestMaxStreamAge(t *testing.T) {
	o := streamable.Options{MaxStreamAge: time.Hour, KeepAlive: 24 * time.Hour}
	inBubble(t, &script{}, o, func(t *testing.T, b *bed) {
		s := b.session("2025-11-25")
		back := b.script.last().Back
		begun := time.Now()
		want(t, "GET", b.send(http.MethodGet, "", s).body, "id: TAG.0.1\nretry: 1000\ndata: \n\n")
		if age := time.Since(begun); age < 54*time.Minute || age > 62*time.Minute {
			t.Errorf("ended after %v, want an hour less up to a tenth", age)
		}
		if err := back.Notify(t.Context(), note("notifications/message", `{}`)); err != nil {
			t.Error(err)
		}
		want(t, "next GET", b.listen(s).event(), message("TAG.0.2", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
	})
	inBubble(t, &script{}, o, func(t *testing.T, b *bed) {
		l := b.listen(b.session("2025-06-18"))
		time.Sleep(10 * time.Hour)
		_ = b.script.last().Back.Notify(t.Context(), note("notifications/message", `{}`))
		want(t, "GET of 2025-06-18", l.event(), message("TAG.0.1", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
	})
}

// A POST stream is as old as its call.
func TestMaxStreamAgeIsNotForCalls(t *testing.T) {
	inBubble(t, takes(2*time.Hour), streamable.Options{MaxStreamAge: time.Hour, KeepAlive: 24 * time.Hour}, func(t *testing.T, b *bed) {
		want(t, "POST", b.post(callOne, b.session("2025-06-18")).body, message("TAG.2.1", doneFive)+"\n")
	})
}

// R32: no stream is silent for longer than the interval, and streams that began together do not all write at once.
func TestKeepAliveOfManyStreams(t *testing.T) {
	const streams = 50
	inBubble(t, &script{}, streamable.Options{KeepAlive: 20 * time.Second}, func(t *testing.T, b *bed) {
		at := make([][]time.Time, streams)
		begun := time.Now()
		for i := range at {
			l := b.listen(b.session("2025-06-18"))
			go func() {
				for range 5 {
					if l.raw() == "" {
						return
					}
					at[i] = append(at[i], time.Now())
				}
			}()
		}
		time.Sleep(101 * time.Second)
		synctest.Wait()
		moments := make(map[time.Time]int)
		for i, times := range at {
			last := begun
			for _, now := range times {
				if silent := now.Sub(last); silent > 20*time.Second || silent < 18*time.Second {
					t.Errorf("stream %d: silent for %v, want 18 s to 20 s", i, silent)
				}
				moments[now]++
				last = now
			}
			if len(times) != 5 {
				t.Errorf("stream %d: %d comments in 101 s, want 5", i, len(times))
			}
		}
		if len(moments) < 8 {
			t.Errorf("%d streams wrote their comments in %d moments", streams, len(moments))
		}
	})
}
