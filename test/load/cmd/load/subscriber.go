package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcp-dualstack/bridge/test/load/scan"
)

// raise lifts the descriptor limit as far as it goes: one stream is one
// descriptor here and one in the target.
func raise() {
	var l syscall.Rlimit
	syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	want := syscall.Rlimit{Cur: 1 << 17, Max: 1 << 17}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &want) != nil {
		l.Cur = l.Max
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
	}
}

// A subscriber is one open stream: a legacy stream, a session's GET stream or a
// subscriptions/listen stream.
type subscriber struct {
	s  *session
	st *conn
	up atomic.Bool
	at atomic.Int64 // when the last list_changed came, unix ns
	n  atomic.Int64 // how many came
}

func (b *subscriber) saw(method string) {
	if method == "notifications/tools/list_changed" {
		b.at.Store(time.Now().UnixNano())
		b.n.Add(1)
	}
}

func (b *subscriber) open(o options, ep endpoint, st *stats, n int, post *conn) error {
	s := &session{n: n, kind: o.Kind, ep: ep, st: st, run: "i"}
	b.s = s
	c := newConn(ep.host)
	c.size = 1 << 10
	b.st = c
	s.note = b.saw
	if o.Kind == kindSSE {
		s.stream = c
		if err := s.open(post, 15*time.Second); err != nil {
			return err
		}
		b.up.Store(true)
		go func() { <-s.closed; b.up.Store(false) }()
		return nil
	}
	if err := s.open(post, 15*time.Second); err != nil {
		return err
	}
	var err error
	if o.Kind == kindSH {
		h := "GET " + ep.path + " HTTP/1.1\r\nHost: " + ep.host + "\r\nAccept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n"
		if s.sid != "" {
			h += "Mcp-Session-Id: " + s.sid + "\r\n"
		}
		err = c.write(h, nil, 15*time.Second)
	} else {
		h := s.head + "Mcp-Method: subscriptions/listen\r\n"
		err = c.write(h, []byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{`+modernMeta+`{}},"notifications":{"toolsListChanged":true}}}`), 15*time.Second)
	}
	if err != nil {
		return err
	}
	r, err := c.readHead()
	if err != nil {
		return err
	}
	if r.status != 200 {
		return fmt.Errorf("stream: status %d", r.status)
	}
	c.nc.SetDeadline(time.Time{})
	b.up.Store(true)
	go func() {
		c.events(func(_, data []byte) bool {
			b.saw(string(scan.Envelope(data).Method))
			return false
		})
		b.up.Store(false)
	}()
	return nil
}

// openSubs opens o.C subscribers over a few POST connections.
func openSubs(o options, st *stats) ([]*subscriber, int, string, time.Duration) {
	ep, err := parseURL(o.URL)
	if err != nil {
		return nil, o.C, err.Error(), 0
	}
	subs := make([]*subscriber, o.C)
	var wg sync.WaitGroup
	var i, failed atomic.Int64
	var first atomic.Value
	t0 := time.Now()
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			post := newConn(ep.host)
			defer post.shut()
			for {
				n := int(i.Add(1)) - 1
				if n >= o.C || failed.Load() > 20 || time.Since(t0) > o.T+60*time.Second {
					return
				}
				b := &subscriber{}
				if err := b.open(o, ep, st, n, post); err != nil {
					failed.Add(1)
					first.CompareAndSwap(nil, err.Error())
				}
				subs[n] = b
			}
		}()
	}
	wg.Wait()
	e, _ := first.Load().(string)
	return subs, int(failed.Load()), e, time.Since(t0)
}

func closeSubs(subs []*subscriber) {
	for _, b := range subs {
		if b != nil && b.st != nil {
			b.st.shut()
		}
	}
}

// alive counts the streams that are open.
func alive(subs []*subscriber) (n int) {
	for _, b := range subs {
		if b != nil && b.up.Load() {
			n++
		}
	}
	return
}
