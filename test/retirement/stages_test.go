package retirement

import (
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/retire"
)

const hello = `[{"type":"text","text":"hello"}]` // what echo says, and nothing more: no word of the retirement is in a tool result

// each runs f for every client that does take part, all at once.
func each(t *testing.T, column string, takes func(kind) bool, f func(*testing.T, kind)) {
	t.Helper()
	for _, k := range published {
		if !takes(k) {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			defer func() { results.set(k.name, column, !t.Failed()) }()
			f(t, k)
		})
	}
}

func all(kind) bool { return true }

// works fails the test unless r is the right result of the step.
func works(t *testing.T, what string, r result) {
	t.Helper()
	if !r.OK {
		t.Fatalf("%s: %s", what, r.Detail)
	}
	if strings.Contains(what, "call") && r.Detail != hello {
		t.Errorf("%s: got %s, want %s", what, r.Detail, hello)
	}
}

// says fails the test unless r is a failure whose text has all the words.
func says(t *testing.T, what string, r result, words ...string) {
	t.Helper()
	if r.OK {
		t.Fatalf("%s: got %q, want an error", what, r.Detail)
	}
	for _, word := range words {
		if !strings.Contains(r.Detail, word) {
			t.Errorf("%s: got %q, want it to name %q", what, r.Detail, word)
		}
	}
	t.Logf("%s: %s", what, r.Detail)
}

// At open, announce and warn everything is served; at warn the client is told once if its server logs.
func TestServed(t *testing.T) {
	for _, stage := range []retire.Stage{retire.Open, retire.Announce, retire.Warn} {
		t.Run(string(stage), func(t *testing.T) {
			b := startBridge(t)
			if stage != retire.Open {
				b.stage(t, stage)
			}
			each(t, string(stage), all, func(t *testing.T, k kind) {
				c := k.start(t, "sse", b.base+"/sse")
				works(t, "connect", c.do("connect"))
				works(t, "call", c.do("call"))
				told := c.do("told").Detail
				if has := strings.Contains(told, b.newURL()); has != (stage == retire.Warn) {
					t.Errorf("told by a log notification: %q", told)
				}
			})
		})
	}
}

// Closed: a client that comes is told where to go, one that is there goes on.
func TestClosed(t *testing.T) {
	b := startBridge(t)
	both(t, "closed", b, func(t *testing.T) { b.stage(t, retire.Closed) }, func(t *testing.T, k kind, live *running) {
		says(t, "connect", k.start(t, "sse", b.base+"/sse").do("connect"), b.newURL())
		works(t, "call of a live session", live.do("call"))
	})
}

// Drain: whoever asks is told, also on a live session; its stream ends when it has been idle, and who comes back is told again.
func TestDrain(t *testing.T) {
	b := startBridge(t)
	both(t, "drain", b, func(t *testing.T) { b.stage(t, retire.Drain) }, func(t *testing.T, k kind, live *running) {
		says(t, "connect", k.start(t, "sse", b.base+"/sse").do("connect"), b.newURL())
		says(t, "call of a live session", live.do("call"), b.newURL())
		time.Sleep(38 * time.Second) // idle 30 s, spread 2 s, and the way back of the TypeScript clients
		after := live.do("call")
		if k.library == "go-sdk" { // its session ends with the stream: it has been told before
			says(t, "call after the end of the stream", after)
			return
		}
		says(t, "call after the end of the stream", after, b.newURL())
	})
}

// both starts a live session of every client, changes the stage, and carries on.
func both(t *testing.T, column string, b *bridge, change func(*testing.T), f func(*testing.T, kind, *running)) {
	t.Helper()
	live := map[string]*running{}
	for _, k := range published { // of the outer test: they must outlive the subtests that wait for one another
		live[k.name] = k.start(t, "sse", b.base+"/sse")
	}
	for _, k := range published {
		works(t, k.name+": connect", live[k.name].do("connect"))
		works(t, k.name+": call", live[k.name].do("call"))
	}
	change(t)
	t.Run("clients", func(t *testing.T) {
		each(t, column, all, func(t *testing.T, k kind) {
			live[k.name].t = t
			f(t, k, live[k.name])
		})
	})
}

// At open a restart does not end a client that comes back by itself: the next call succeeds (retirement.md 10, check 5). At closed it
// is told where to go.
func TestRestart(t *testing.T) {
	b := startBridge(t)
	live := map[string]*running{}
	comesBack := func(k kind) bool { return k.library == "" } // the Go clients end with their stream (2.2)
	for _, k := range published {
		if comesBack(k) {
			live[k.name] = k.start(t, "sse", b.base+"/sse")
			works(t, k.name+": connect", live[k.name].do("connect"))
		}
	}
	b.restart(t)
	t.Run("open", func(t *testing.T) {
		each(t, "restart", comesBack, func(t *testing.T, k kind) {
			live[k.name].t = t
			works(t, "call", live[k.name].again("call", func(r result) bool { return r.OK }))
		})
	})
	b.stage(t, retire.Closed)
	b.restart(t)
	t.Run("closed", func(t *testing.T) {
		each(t, "closed and restarted", comesBack, func(t *testing.T, k kind) {
			live[k.name].t = t
			says(t, "call", live[k.name].again("call", func(r result) bool { return strings.Contains(r.Detail, b.newURL()) }), b.newURL())
		})
	})
}

// again does what until its result is right, or 90 s have passed, and returns the last one. Nothing tells when a published client is back on
// its stream: they come 1 to 3 s after losing it, mcp-remote later, and what they are asked meanwhile fails or gets lost in them.
func (r *running) again(what string, right func(result) bool) result {
	for began := time.Now(); ; time.Sleep(time.Second) {
		if got := r.do(what); right(got) || time.Since(began) > 90*time.Second {
			return got
		}
	}
}

// A brownout of mode initialize: nobody new, everybody there.
func TestBrownoutInitialize(t *testing.T) {
	b := startBridge(t)
	both(t, "brownout initialize", b, func(t *testing.T) { b.stage(t, retire.Brownout, "--mode", "initialize", "--for", "10m") },
		func(t *testing.T, k kind, live *running) {
			says(t, "connect", k.start(t, "sse", b.base+"/sse").do("connect"), b.newURL(), "until 20")
			works(t, "call of a live session", live.do("call"))
		})
}

// A brownout of mode calls: the same process fails, and works again when the window has ended (retirement.md 10, check 4).
func TestBrownoutCalls(t *testing.T) {
	b := startBridge(t)
	var end time.Time
	both(t, "brownout calls", b, func(t *testing.T) {
		end = b.stage(t, retire.Brownout, "--mode", "calls", "--for", "1m").Brownouts[0].Until
	}, func(t *testing.T, k kind, live *running) {
		says(t, "call in the window", live.do("call"), b.newURL(), "until 20")
		time.Sleep(time.Until(end) + time.Second)
		works(t, "call after the window", live.do("call"))
	})
}

// Gone: a stale session and a new stream are refused, by the sentence where the client shows bodies.
func TestGone(t *testing.T) {
	b := startBridge(t)
	both(t, "gone", b, func(t *testing.T) { b.stage(t, retire.Gone) }, func(t *testing.T, k kind, live *running) {
		says(t, "connect", k.start(t, "sse", b.base+"/sse").do("connect"))
		if k.stale {
			says(t, "call of a stale session", live.do("call"), b.newURL())
			return
		}
		says(t, "call of a stale session", live.do("call"))
	})
}

// Gone, but the new transport is on the same URL: dual-mode clients need no new configuration (retirement.md 10, check 2).
func TestGoneUpgradesOnTheSameURL(t *testing.T) {
	b := startBridge(t)
	b.stage(t, retire.Gone)
	t.Run("dual mode", func(t *testing.T) {
		each(t, "gone dual-mode", func(k kind) bool { return k.http || k.remote != nil }, func(t *testing.T, k kind) {
			if k.remote != nil {
				k.remote = []string{"--transport", "sse-first", "--allow-http"}
			}
			c := k.start(t, "auto", b.base+"/sse")
			r := c.do("connect")
			works(t, "connect", r)
			if k.http && r.Detail != "connected by http" {
				t.Errorf("got %q, want connected by http", r.Detail)
			}
			works(t, "call", c.do("call"))
		})
	})
}

// Where the new transport is not served on the old URL, dual-mode clients fall back while there is something to fall back to
// (clients.md 1.3), and follow the redirect at gone (retirement.md 2.3).
func TestSameURLOff(t *testing.T) {
	b := startBridge(t, "--retire-same-url", "off", "--retire-redirect")
	dual := func(k kind) bool { return k.http }
	run := func(column, transport, by string) {
		t.Run(column, func(t *testing.T) {
			each(t, column, dual, func(t *testing.T, k kind) {
				c := k.start(t, transport, b.base+"/sse")
				r := c.do("connect")
				works(t, "connect", r)
				if r.Detail != "connected by "+by {
					t.Errorf("got %q, want connected by %s", r.Detail, by)
				}
				works(t, "call", c.do("call"))
			})
		})
	}
	run("same URL off", "auto", "sse")
	b.stage(t, retire.Gone)
	run("gone redirected", "http", "http")
}

// A brownout of mode hard: a status on connect, and the sentence in the body of a message where the client shows bodies.
func TestBrownoutHard(t *testing.T) {
	b := startBridge(t)
	both(t, "brownout hard", b, func(t *testing.T) { b.stage(t, retire.Brownout, "--mode", "hard", "--for", "10m") }, func(t *testing.T, k kind, live *running) {
		says(t, "connect", k.start(t, "sse", b.base+"/sse").do("connect"))
		if k.stale {
			says(t, "call of a live session", live.do("call"), b.newURL(), "until 20")
			return
		}
		says(t, "call of a live session", live.do("call"))
	})
}
