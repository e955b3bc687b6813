package legacy_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/legacy"
)

// A message that is still on its way when its tombstone ends takes no room: neither that of a session nor that of a tombstone.
func TestMessageForAnEndedTombstone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &stage{opening: legacy.Opening{Tombstone: true}} // it refuses nothing: an exempt client
		o := g.options()
		o.MaxSessions, o.MaxTombstones = 1, 1
		_, s := staged(t, &script{}, g, o)
		for range 3 {
			c := connect(t, s)
			body, rest := io.Pipe()
			status := make(chan int, 1)
			go func() {
				req, err := http.NewRequest(http.MethodPost, c.post, body)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				resp, err := c.http.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				status <- resp.StatusCode
			}()
			whole := initialize("2025-06-18")
			_, _ = io.WriteString(rest, whole[:10])
			synctest.Wait()
			c.gone()
			synctest.Wait()
			_, _ = io.WriteString(rest, whole[10:])
			_ = rest.Close()
			if got := <-status; got != http.StatusAccepted {
				t.Errorf("got %d, want 202: the session was there when the message began", got)
			}
		}
		connect(t, s).gone() // a tombstone: there is room for one
		synctest.Wait()
		g.set(func() { g.opening = legacy.Opening{} })
		connect(t, s).begin() // a session: likewise
	})
}

// Who comes back while it is being decided that a session ends with its stream gets it or does not; it ends once.
func TestSessionEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			seen  log
			h     = &script{}
			asked atomic.Int32
			gate  = make(chan struct{})
			o     = named(&seen, legacy.Options{KeepAlive: time.Hour})
			alice = []string{"Authorization", "alice"}
		)
		o.Stage.Stays = func(exchange.Client) bool {
			if asked.Add(1) == 1 {
				<-gate
			}
			return false
		}
		f, s := serve(t, h, o)
		f.WindDown(&legacy.WindDown{Idle: time.Hour, Deadline: time.Now().Add(10 * time.Hour)})
		c, id := open(t, s, alice...)
		c.begin(alice...)
		c.gone()
		synctest.Wait() // the end of the stream waits in Stays
		again, _ := open(t, s, append([]string{"Last-Event-ID", id}, alice...)...)
		close(gate)
		synctest.Wait()
		again.ok(callTen, alice...)
		again.want(answerTen)
		again.gone()
		synctest.Wait()
		if n := h.endings(); n != 1 {
			t.Errorf("the server's session was closed %d times, want once", n)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := f.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
}

// In pass-through mode a client opens its stream without credentials and gets them after a challenge. What such a client has is
// not for the next one whose stream has none yet, wherever that comes from.
func TestAdoptedSessionsAreNotForOthers(t *testing.T) {
	for _, test := range []struct {
		name, who string
		opened    int // sessions of the server's in the end
	}{
		{"its owner", "alice", 1},
		{"somebody else", "bob", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen log
				h := &script{}
				o := named(&seen, legacy.Options{KeepAlive: time.Hour, Reattach: "all"})
				o.Authorization = func(r *http.Request) string { return r.Header.Get("Authorization") }
				_, s := serve(t, h, o)
				agent := []string{"User-Agent", "ua"}
				c, id := open(t, s, agent...)
				c.begin(append(agent, "Authorization", "alice")...)
				c.gone()
				synctest.Wait()
				m := connect(t, s, append(agent, "Last-Event-ID", id)...) // worth nothing without credentials
				m.ok(callTen, append(agent, "Authorization", test.who)...)
				m.want(answerTen)
				opened := h.clients()
				if len(opened) != test.opened || opened[len(opened)-1].Authorization != test.who {
					t.Errorf("%d sessions were opened, the last one with the credentials %q", len(opened), opened[len(opened)-1].Authorization)
				}
			})
		})
	}
}
