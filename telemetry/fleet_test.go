package telemetry_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/telemetry"
)

const day = 24 * time.Hour

// horizon is how far the default policy looks: nobody whose gaps are at most this long may be overlooked. It is the cadence factor times
// the quiet period.
const horizon = 60 * day

// A fleet is a history of clients in front of one or two bridges, and what is going to happen after it.
type fleet struct {
	name   string
	length time.Duration // of the history
	events []event
	future []legacyUse // of every client that is real, before and after the end of the history

	replicas int        // zero: one
	down     []downtime // the bridge does not run; it has a file then
	sparse   bool       // the verdict is asked for on every third day only
	policy   *telemetry.Policy

	rng     *rand.Rand
	clients int
	offset  atomic.Int64 // nanoseconds by which the bridge's clock is wrong, while the history runs
}

type event struct {
	at time.Duration // since the beginning of the history
	do func(*bridges)
}

// A legacyUse is one that a client makes, or would make if it could.
type legacyUse struct {
	at     time.Duration
	client int
	born   time.Duration // when the client was there first
}

type downtime struct{ from, to time.Duration }

// bridges are the ledgers that a fleet talks to.
type bridges struct {
	f       *fleet
	ledgers []*telemetry.Ledger
	session int
}

// one returns the ledger of whichever replica gets the next request; nil while the bridge is down.
func (b *bridges) one() *telemetry.Ledger { return b.ledgers[b.f.rng.IntN(len(b.ledgers))] }

// A who is one client of a fleet.
type who struct {
	f      *fleet
	n      int
	client exchange.Client
}

// newClient makes a client in a network of its own.
func (f *fleet) newClient(requested string) *who {
	f.clients++
	r, _ := negotiate.Parse(requested)
	return &who{f, f.clients, exchange.Client{
		Info: info(fmt.Sprint("client", f.clients), "1.0"), Requested: requested, Revision: r, UserAgent: "node",
		Addr: netip.AddrFrom4([4]byte{10, byte(f.clients / 250), byte(f.clients % 250), 7}),
	}}
}

// legacy lets the client use HTTP+SSE at the times given, of which those after the history are what it would do.
func (w *who) legacy(times ...time.Duration) {
	born := slices.Min(times)
	for _, at := range times {
		w.f.future = append(w.f.future, legacyUse{at, w.n, born})
		w.f.add(at, func(b *bridges) { b.talk(w, exchange.HTTPSSE, 2) })
	}
}

func (w *who) streamable(times ...time.Duration) {
	for _, at := range times {
		w.f.add(at, func(b *bridges) { b.talk(w, exchange.StreamableHTTP, 2) })
	}
}

func (f *fleet) add(at time.Duration, do func(*bridges)) {
	if at >= 0 && at < f.length {
		f.events = append(f.events, event{at, do})
	}
}

// every returns times from one to another in steps of about a period; jitter is by how much each may be later.
func (f *fleet) every(period, jitter, from, to time.Duration) []time.Duration {
	var out []time.Duration
	for at := from; at < to; at += period {
		j := time.Duration(0)
		if jitter > 0 {
			j = time.Duration(f.rng.Int64N(int64(jitter)))
		}
		out = append(out, at+j)
	}
	return out
}

// talk has one conversation.
func (b *bridges) talk(w *who, transport string, calls int) {
	l := b.one()
	if l == nil {
		return
	}
	b.session++
	c := w.client
	c.Transport, c.Session = transport, fmt.Sprint("s", b.session)
	if transport == exchange.HTTPSSE {
		l.Observe(exchange.Observation{Kind: exchange.SeenStream, Transport: transport, Session: c.Session, Addr: c.Addr, UserAgent: c.UserAgent})
	}
	sess, err := l.Handler(&server{}).Open(context.Background(), c)
	if err != nil {
		panic(err)
	}
	for range calls {
		if _, err := sess.Call(context.Background(), exchange.Request{Method: "tools/list"}, nil); err != nil {
			panic(err)
		}
	}
	if err := sess.Close(); err != nil {
		panic(err)
	}
}

// observe reports something to whichever replica is asked.
func (b *bridges) observe(o exchange.Observation) {
	if l := b.one(); l != nil {
		l.Observe(o)
	}
}

// breaks reports whether a client that was there before t uses HTTP+SSE within the horizon after it.
func (f *fleet) breaks(t time.Duration) bool {
	return slices.ContainsFunc(f.future, func(u legacyUse) bool { return u.born <= t && u.at > t && u.at <= t+horizon })
}

// clock is what the bridge takes the time for.
func (f *fleet) clock() time.Time { return time.Now().Add(time.Duration(f.offset.Load())) }

// run lets the history happen in fake time and calls judge at the end of each day or so, and at the end.
func (f *fleet) run(t *testing.T, judge func(at time.Duration, v telemetry.Report)) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := &bridges{f: f, ledgers: make([]*telemetry.Ledger, max(1, f.replicas))}
		file := ""
		if len(f.down) > 0 {
			file = filepath.Join(t.TempDir(), "ledger.db")
		}
		o := &telemetry.Options{FlushEvery: day, FlushSoon: day, Heartbeat: day, MaxIdentities: 200}
		telemetry.SetClock(o, f.clock)
		open := func() {
			for i := range b.ledgers {
				l, err := telemetry.Open(file, o)
				if err != nil {
					t.Fatal(err)
				}
				b.ledgers[i] = l
			}
		}
		shut := func() {
			for i, l := range b.ledgers {
				if l != nil {
					closeLedger(t, l)
				}
				b.ledgers[i] = nil
			}
		}
		for _, d := range f.down {
			f.events = append(f.events, event{d.from, func(*bridges) { shut() }}, event{d.to, func(*bridges) { open() }})
		}
		step := day
		switch {
		case raced:
			step = 10 * day
		case f.sparse:
			step = 3 * day
		}
		for at := f.length % step; at <= f.length; at += step {
			f.events = append(f.events, event{at, func(b *bridges) {
				if b.ledgers[0] == nil {
					return
				}
				r, err := telemetry.AnswerAll(telemetry.Question{Policy: f.policy, Now: f.clock()}, b.ledgers...)
				if err != nil {
					t.Fatal(err)
				}
				judge(at, r)
			}})
		}
		slices.SortStableFunc(f.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		open()
		for _, e := range f.events {
			time.Sleep(e.at - time.Since(start))
			e.do(b)
		}
		shut()
	})
}

// scenarios make fleets; each is made with several seeds. h is the end of the history and e some time long enough before it.
var scenarios = []struct {
	name     string
	provable bool // nobody breaks after the history, which shows it
	fill     func(f *fleet, h time.Duration)
}{
	{"nobody ever", true, func(f *fleet, h time.Duration) {}},
	{"daily", false, func(f *fleet, h time.Duration) {
		f.newClient("2025-11-25").legacy(f.every(day, 5*time.Hour, -day, h+90*day)...)
	}},
	{"daily until long ago", true, func(f *fleet, h time.Duration) {
		f.newClient("2025-11-25").legacy(f.every(day, 5*time.Hour, -day, h-35*day)...)
	}},
	{"workdays with holidays", false, func(f *fleet, h time.Duration) {
		var times []time.Duration
		for _, at := range f.every(day, 9*time.Hour, 0, h+90*day) {
			n := int(at / day)
			if n%7 < 5 && (n < 40 || n > 58) {
				times = append(times, at)
			}
		}
		f.newClient("2024-11-05").legacy(times...)
	}},
	{"weekly", false, func(f *fleet, h time.Duration) {
		f.newClient("2024-11-05").legacy(f.every(7*day, 20*time.Hour, -3*day, h+90*day)...)
	}},
	{"weekly until long ago", true, func(f *fleet, h time.Duration) {
		f.newClient("2024-11-05").legacy(f.every(7*day, 20*time.Hour, 0, h-40*day)...)
	}},
	{"monthly", false, func(f *fleet, h time.Duration) {
		f.newClient("2024-11-05").legacy(f.every(30*day, 3*day, time.Duration(f.rng.IntN(25)-25)*day, h+90*day)...)
	}},
	{"monthly for three days each", false, func(f *fleet, h time.Duration) {
		w := f.newClient("2024-11-05")
		var times []time.Duration
		for _, at := range f.every(30*day, 2*day, time.Duration(f.rng.IntN(20)-20)*day, h+90*day) {
			times = append(times, at, at+day, at+2*day)
		}
		w.legacy(times...)
	}},
	{"monthly until long ago", true, func(f *fleet, h time.Duration) {
		f.newClient("2024-11-05").legacy(f.every(30*day, 3*day, 0, h-75*day)...)
	}},
	{"seen once, long ago", true, func(f *fleet, h time.Duration) {
		f.newClient("2024-11-05").legacy(h - 62*day)
	}},
	{"seen once, a while ago", false, func(f *fleet, h time.Duration) {
		f.newClient("2024-11-05").legacy(h - 40*day)
	}},
	{"many that migrated", true, func(f *fleet, h time.Duration) {
		for i := range 10 {
			w := f.newClient("2025-11-25")
			moved := h - time.Duration(35+i*4)*day
			w.legacy(f.every(day, 10*time.Hour, 0, moved)...)
			w.streamable(f.every(day, 10*time.Hour, moved+day, h)...)
		}
	}},
	{"one of many did not migrate", false, func(f *fleet, h time.Duration) {
		for range 10 {
			w := f.newClient("2025-11-25")
			w.legacy(f.every(day, 10*time.Hour, 0, h-50*day)...)
			w.streamable(f.every(day, 10*time.Hour, h-49*day, h)...)
		}
		f.newClient("2024-11-05").legacy(f.every(30*day, 3*day, 5*day, h+90*day)...)
	}},
	{"a second configuration", false, func(f *fleet, h time.Duration) {
		w := f.newClient("2025-11-25")
		w.streamable(f.every(day, 10*time.Hour, 0, h)...)
		w.legacy(f.every(30*day, 3*day, 3*day, h+90*day)...)
	}},
	{"dual-mode clients that fall back", false, func(f *fleet, h time.Duration) {
		w := f.newClient("2025-06-18")
		for _, at := range f.every(2*day, 20*time.Hour, 0, h) {
			f.add(at, func(b *bridges) {
				b.observe(exchange.Observation{Kind: exchange.SeenRefused, Transport: exchange.StreamableHTTP, Addr: w.client.Addr, UserAgent: w.client.UserAgent})
			})
			w.legacy(at + time.Second)
		}
		w.legacy(h + 2*day)
		f.future[len(f.future)-1].born = 0
	}},
	{"dual-mode clients that connect", true, func(f *fleet, h time.Duration) {
		w := f.newClient("2025-06-18")
		for _, at := range f.every(2*day, 20*time.Hour, 0, h) {
			f.add(at, func(b *bridges) {
				b.observe(exchange.Observation{Kind: exchange.SeenSameURL, Transport: exchange.StreamableHTTP, Addr: w.client.Addr, UserAgent: w.client.UserAgent})
			})
			w.streamable(at)
		}
	}},
	{"zombies that reconnect", false, func(f *fleet, h time.Duration) {
		w := f.newClient("2024-11-05")
		w.client.Info, w.client.Reopened = nil, true
		w.legacy(f.every(3*day, day, 0, h+90*day)...)
	}},
	{"a stream that stays open and says nothing", false, func(f *fleet, h time.Duration) {
		w := f.newClient("2024-11-05")
		f.future = append(f.future, legacyUse{h + day, w.n, 0})
		f.add(day, func(b *bridges) {
			c := w.client
			c.Transport, c.Session = exchange.HTTPSSE, "standing"
			if _, err := b.ledgers[0].Handler(&server{}).Open(context.Background(), c); err != nil {
				panic(err)
			}
		})
	}},
	{"two rare clients of one address", false, func(f *fleet, h time.Duration) {
		a, b := f.newClient("2024-11-05"), f.newClient("2024-11-05")
		b.client.Addr = a.client.Addr
		a.client.Info, b.client.Info = nil, nil
		a.legacy(f.every(55*day, 0, 0, h+90*day)...)
		b.legacy(20*day, 40*day)
	}},
	{"two rare clients of one name and network", false, func(f *fleet, h time.Duration) {
		a, b := f.newClient("2024-11-05"), f.newClient("2024-11-05")
		b.client.Addr = a.client.Addr
		a.client.Info, b.client.Info = info("job", "1.0"), info("job", "2.0")
		a.legacy(f.every(55*day, 0, 0, h+90*day)...)
		b.legacy(20*day, 40*day)
	}},
	{"an address until long ago", true, func(f *fleet, h time.Duration) {
		w := f.newClient("2024-11-05")
		w.client.Info = nil
		w.legacy(f.every(7*day, 20*time.Hour, 0, h-62*day)...)
	}},
	{"scanners", true, func(f *fleet, h time.Duration) {
		for i, at := range f.every(6*time.Hour, 5*time.Hour, 0, h) {
			o := exchange.Observation{Transport: exchange.HTTPSSE, Session: fmt.Sprint("scan", i), UserAgent: fmt.Sprint("scanner-", i%50, "/1.0"),
				Addr: netip.AddrFrom4([4]byte{172, byte(16 + i%16), byte(i), 1})}
			f.add(at, func(b *bridges) {
				o.Kind = exchange.SeenStream
				b.observe(o)
				o.Kind = exchange.SeenSilent
				b.observe(o)
			})
		}
	}},
	{"throw-away clients of mcp-remote", true, func(f *fleet, h time.Duration) {
		w := f.newClient("2025-11-25")
		w.client.Info, w.client.Principal = info("mcp-remote-fallback-test", "0.0.0"), "somebody"
		w.streamable(f.every(day, 10*time.Hour, 0, h)...)
	}},
	{"clients refused by a brownout", false, func(f *fleet, h time.Duration) {
		w := f.newClient("2025-11-25")
		w.legacy(f.every(day, 10*time.Hour, 0, h-60*day)...)
		for _, at := range f.every(day, 10*time.Hour, h-60*day, h) {
			f.add(at, func(b *bridges) {
				b.observe(exchange.Observation{Kind: exchange.SeenRefused, Transport: exchange.HTTPSSE, Info: w.client.Info, Version: "2025-11-25", Stage: "closed",
					Addr: w.client.Addr, UserAgent: w.client.UserAgent})
			})
		}
		f.future = append(f.future, legacyUse{h + day, w.n, 0})
	}},
	{"a flood of names over HTTP+SSE hides one", false, func(f *fleet, h time.Duration) {
		f.newClient("2024-11-05").legacy(f.every(30*day, day, 0, h+90*day)...)
		f.flood(h-40*day, 400, exchange.HTTPSSE)
	}},
	{"a flood of names over HTTP+SSE", false, func(f *fleet, h time.Duration) { f.flood(h-45*day, 400, exchange.HTTPSSE) }},
	{"a flood of names over Streamable HTTP", true, func(f *fleet, h time.Duration) {
		f.newClient("2024-11-05").legacy(f.every(day, 10*time.Hour, 0, h-40*day)...)
		f.flood(h-10*day, 400, exchange.StreamableHTTP)
	}},
	{"a flood of names from one network", false, func(f *fleet, h time.Duration) {
		f.newClient("2024-11-05").legacy(f.every(30*day, day, 0, h+90*day)...)
		for i := range 100 {
			w := f.newClient("2024-11-05")
			w.client.Addr = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
			f.add(h-40*day+time.Duration(i)*time.Second, func(b *bridges) { b.talk(w, exchange.HTTPSSE, 1) })
		}
	}},
	{"short downtimes", true, func(f *fleet, h time.Duration) {
		f.newClient("2025-11-25").legacy(f.every(day, 10*time.Hour, 0, h-40*day)...)
		for i := range 5 {
			at := h - time.Duration(40-7*i)*day
			f.down = append(f.down, downtime{at, at + time.Duration(1+f.rng.IntN(200))*time.Minute})
		}
	}},
	{"a long downtime", false, func(f *fleet, h time.Duration) {
		f.down = append(f.down, downtime{h - 20*day, h - 20*day + time.Duration(7+f.rng.IntN(24))*time.Hour})
	}},
	{"a long downtime, long ago", true, func(f *fleet, h time.Duration) {
		f.down = append(f.down, downtime{h - 60*day, h - 50*day})
	}},
	{"a downtime hides the run of a monthly client", false, func(f *fleet, h time.Duration) {
		f.newClient("2024-11-05").legacy(f.every(30*day, 0, h-80*day, h+90*day)...)
		f.down = append(f.down, downtime{h - 21*day, h - 19*day})
	}},
	{"the clock goes ten days forward", false, func(f *fleet, h time.Duration) {
		f.newClient("2024-11-05").legacy(f.every(30*day, 2*day, 0, h+90*day)...)
		f.add(h-25*day, func(*bridges) { f.offset.Add(int64(10 * day)) })
	}},
	{"the clock goes ten days forward and nobody is there", false, func(f *fleet, h time.Duration) {
		f.add(h-15*day, func(*bridges) { f.offset.Add(int64(10 * day)) })
	}},
	{"the clock goes ten days back", false, func(f *fleet, h time.Duration) {
		f.newClient("2024-11-05").legacy(f.every(7*day, day, 0, h+90*day)...)
		f.add(h-25*day, func(*bridges) { f.offset.Add(-int64(10 * day)) })
	}},
	{"the clock is adjusted by minutes", true, func(f *fleet, h time.Duration) {
		f.newClient("2025-11-25").legacy(f.every(day, 10*time.Hour, 0, h-40*day)...)
		for i, at := range f.every(9*day, day, 0, h) {
			f.add(at, func(*bridges) { f.offset.Add(int64(time.Duration(i%3-1) * 3 * time.Minute)) })
		}
	}},
	{"two replicas, weekly", false, func(f *fleet, h time.Duration) {
		f.replicas = 2
		f.newClient("2025-11-25").legacy(f.every(7*day, day, 0, h+90*day)...)
	}},
	{"two replicas, monthly", false, func(f *fleet, h time.Duration) {
		f.replicas = 2
		f.newClient("2025-11-25").legacy(f.every(30*day, 3*day, -5*day, h+90*day)...)
	}},
	{"two replicas, nobody any more", true, func(f *fleet, h time.Duration) {
		f.replicas = 2
		f.newClient("2025-11-25").legacy(f.every(day, 10*time.Hour, 0, h-40*day)...)
		f.newClient("2025-11-25").legacy(f.every(7*day, day, 0, h-45*day)...)
	}},
	{"an exempt client", true, func(f *fleet, h time.Duration) {
		w := f.newClient("2024-11-05")
		for _, at := range f.every(day, 10*time.Hour, 0, h) {
			f.add(at, func(b *bridges) { b.talk(w, exchange.HTTPSSE, 1) }) // what it does later breaks nothing
		}
		p := telemetry.DefaultPolicy()
		p.Exemptions = []telemetry.Exemption{{ID: fmt.Sprintf("client%d@10.0.%d.0/24", w.n, w.n), Until: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}}
		f.policy = &p
	}},
	{"too young", false, func(f *fleet, h time.Duration) { f.length = 40 * day }},
	{"too young for a monthly client", false, func(f *fleet, h time.Duration) {
		f.length = 29 * day
		f.newClient("2024-11-05").legacy(f.every(30*day, 0, -day, h)...)
	}},
}

// flood adds random names in a network each.
func (f *fleet) flood(from time.Duration, n int, transport string) {
	for i := range n {
		w := f.newClient("2025-11-25")
		w.client.Info = info(fmt.Sprintf("%x", f.rng.Uint64()), "1")
		f.add(from+time.Duration(i)*time.Second, func(b *bridges) { b.talk(w, transport, 1) })
	}
}

// modern adds clients that never used HTTP+SSE.
func (f *fleet) modern(n int) {
	for range n {
		f.newClient("2026-07-28").streamable(f.every(2*day, 20*time.Hour, 0, f.length)...)
	}
}

// The verdict is never "ready" when a client that was there before uses HTTP+SSE again within the horizon, on no day of any history that is looked at, and is
// "ready" at the end of every history that shows that nobody will.
func TestVerdictTruth(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() || raced {
		seeds = 1
	}
	truths := []string{"somebody breaks", "nobody breaks, shown", "nobody breaks, not shown"}
	table := make(map[string]map[telemetry.Verdict]int) // at the end of the history
	for _, truth := range truths {
		table[truth] = make(map[telemetry.Verdict]int)
	}
	days := make(map[bool]map[telemetry.Verdict]int) // on every day, by whether somebody breaks
	days[true], days[false] = make(map[telemetry.Verdict]int), make(map[telemetry.Verdict]int)
	fleets := 0
	for _, s := range scenarios {
		for seed := range seeds {
			f := &fleet{name: s.name, rng: rand.New(rand.NewPCG(seed, 7)), length: 150 * day, sparse: seed > 0}
			s.fill(f, f.length)
			f.modern(1 + f.rng.IntN(3))
			fleets++
			var last telemetry.Report
			f.run(t, func(at time.Duration, r telemetry.Report) {
				last = r
				breaks := f.breaks(at)
				days[breaks][r.Verdict]++
				if breaks && r.Verdict == telemetry.Ready {
					t.Errorf("%s, seed %d, day %d: ready, but somebody breaks:\n%s", f.name, seed, at/day, text(t, r))
				}
			})
			truth := truths[2]
			switch {
			case f.breaks(f.length):
				truth = truths[0]
			case s.provable:
				truth = truths[1]
			}
			table[truth][last.Verdict]++
			if ready := last.Verdict == telemetry.Ready; ready != s.provable {
				t.Errorf("%s, seed %d: %s, but %s:\n%s", f.name, seed, last.Verdict, truth, text(t, last))
			}
		}
	}
	var b strings.Builder
	line := func(truth string, n map[telemetry.Verdict]int) {
		fmt.Fprintf(&b, "%-26s %7d %9d %14d\n", truth, n[telemetry.Ready], n[telemetry.Blocked], n[telemetry.Insufficient])
	}
	fmt.Fprintf(&b, "%d fleets, at the end        ready   blocked   insufficient\n", fleets)
	for _, truth := range truths {
		line(truth, table[truth])
	}
	fmt.Fprintf(&b, "on every day\n")
	line("somebody breaks", days[true])
	line("nobody breaks", days[false])
	t.Log("\n" + b.String())
}
