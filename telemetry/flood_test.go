package telemetry_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// stranger is the nth client that nobody knows, in a network of its own.
func stranger(n int, transport string) exchange.Client {
	c := over(legacyClient(fmt.Sprint("name", n)), transport)
	c.Session = fmt.Sprint("s", n)
	c.Addr = netip.AddrFrom4([4]byte{byte(10 + n>>16), byte(n >> 8), byte(n), 1})
	return c
}

func hasDoubt(r telemetry.Report, code string) bool {
	return slices.ContainsFunc(r.Doubts, func(f telemetry.Finding) bool { return f.Code == code })
}

// A hundred thousand names leave no more rows and memory than the bounds allow, push no verified client out, and make the evidence
// insufficient. That is shown at full size in a file, with the bounds that are the default.
func TestFlood(t *testing.T) {
	stores(t, func(t *testing.T, file string) {
		n, identities, rows := 20_000, 2_000, 1_000
		switch {
		case raced || testing.Short():
			n, identities, rows = 3_000, 500, 250
		case file != "":
			n, identities, rows = 100_000, telemetry.DefaultMaxIdentities, telemetry.DefaultMaxClients
		}
		l := openLedger(t, file, &telemetry.Options{MaxIdentities: identities, MaxClients: rows})
		h := l.Handler(&server{})
		quiet := stranger(0, exchange.HTTPSSE)
		quiet.Principal = "the one that comes once a month"
		converse(t, h, quiet, 1)
		for i := range n / 10 {
			converse(t, h, stranger(i, exchange.HTTPSSE), 1)
		}
		report(t, l)
		before := heap()
		for i := range n {
			converse(t, h, stranger(i, exchange.HTTPSSE), 1)
		}
		r := report(t, l)
		if grown := int64(heap()) - int64(before); grown > 16<<20 {
			t.Errorf("the heap grew by %d MB", grown>>20)
		}
		if len(r.Identities) > identities/2+1 || len(r.Clients) != rows {
			t.Errorf("got %d identities and %d rows, want at most half of %d and the one, and %d", len(r.Identities), len(r.Clients), identities, rows)
		}
		if got, least := l.Counters().Evictions[telemetry.KindClient], int64(n-identities/2); got < least {
			t.Errorf("got %d evictions, want at least %d", got, least)
		}
		if got, want := legacySessions(r), int64(n+n/10+1); got != want {
			t.Errorf("got %d sessions in identities and evicted ones, want all %d", got, want)
		}
		if r.Verdict != telemetry.Insufficient || !hasDoubt(r, telemetry.DoubtOverflow) {
			t.Errorf("got %s with %d doubts, want insufficient evidence because of overflow", r.Verdict, len(r.Doubts))
		}
		if !slices.ContainsFunc(r.Identities, func(i telemetry.Identity) bool { return i.Kind == telemetry.KindPrincipal && i.Blocks }) {
			t.Error("the verified client is gone")
		}
		if file != "" {
			closeLedger(t, l)
			if r, err := telemetry.Read([]string{file}, telemetry.Question{}); err != nil || legacySessions(r) != int64(n+n/10+1) || len(r.Identities) > identities/2+1 {
				t.Errorf("in the file: got %d sessions of %d identities, %v", legacySessions(r), len(r.Identities), err)
			}
		}
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// legacySessions counts the legacy sessions of all identities, evicted ones among them.
func legacySessions(r telemetry.Report) (n int64) {
	for _, i := range r.Identities {
		n += i.Transports[exchange.HTTPSSE].Sessions
	}
	for _, t := range r.Observation.Evicted {
		if t.Transport == exchange.HTTPSSE {
			n += t.Sessions
		}
	}
	return n
}

// Who has used HTTP+SSE is evicted after those who have not, and a flood that does not use it leaves no doubt.
func TestFloodOfNewClients(t *testing.T) {
	stores(t, func(t *testing.T, file string) {
		l := openLedger(t, file, &telemetry.Options{MaxIdentities: 100})
		h := l.Handler(&server{})
		converse(t, h, stranger(0, exchange.HTTPSSE), 1)
		for i := range 300 {
			converse(t, h, stranger(i+1, exchange.StreamableHTTP), 1)
			if i%100 == 0 {
				report(t, l)
			}
		}
		r := report(t, l)
		if hasDoubt(r, telemetry.DoubtOverflow) || len(r.Observation.Evicted) != 1 || r.Observation.Evicted[0].Transport != exchange.StreamableHTTP {
			t.Errorf("got %v and evicted %v, want no doubt", r.Doubts, r.Observation.Evicted)
		}
		if !slices.ContainsFunc(r.Identities, func(i telemetry.Identity) bool { return strings.HasPrefix(i.ID, "name0@") }) {
			t.Error("the legacy client is gone")
		}
	})
}

// Of one network only so many are new on a day. The rest is one identity, which says that it does not know.
func TestNewPerPrefix(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	visit := func(l *telemetry.Ledger, n int) {
		c := stranger(n, exchange.HTTPSSE)
		c.Addr = netip.AddrFrom4([4]byte{10, 0, 0, byte(n)})
		converse(t, l.Handler(&server{}), c, 1)
	}
	o := &telemetry.Options{MaxNewPerPrefix: 5}
	l := openLedger(t, file, o)
	for n := range 8 {
		visit(l, n)
	}
	converse(t, l.Handler(&server{}), stranger(1, exchange.HTTPSSE), 1) // of another network
	check := func(when string, r telemetry.Report) {
		t.Helper()
		var ids []string
		for _, i := range r.Identities {
			ids = append(ids, i.ID)
		}
		slices.Sort(ids)
		want := []string{"name0@10.0.0.0/24;", "name1@10.0.0.0/24;", "name1@10.0.1.0/24;", "name2@10.0.0.0/24;", "name3@10.0.0.0/24;", "name4@10.0.0.0/24;", "other@10.0.0.0/24"}
		if !slices.Equal(ids, want) {
			t.Errorf("%s: got %q, want %q", when, ids, want)
		}
		if r.Verdict != telemetry.Insufficient || !hasDoubt(r, telemetry.DoubtOverflow) {
			t.Errorf("%s: got %s, want insufficient evidence", when, r.Verdict)
		}
	}
	check("at first", report(t, l))
	closeLedger(t, l)

	l = openLedger(t, file, o)
	for n := range 9 { // those known are not new, and there is no more room for others today
		visit(l, n)
	}
	check("after a restart", report(t, l))
}

// A conversation that is open keeps its identity in memory, whoever else comes.
func TestOpenConversationIsNotLost(t *testing.T) {
	now, add := telemetry.NewClock(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	o := &telemetry.Options{MaxIdentities: 10}
	telemetry.SetClock(o, now)
	l := openLedger(t, "", o)
	h := l.Handler(&server{})
	sess, err := h.Open(t.Context(), stranger(0, exchange.HTTPSSE))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		converse(t, h, stranger(i+1, exchange.HTTPSSE), 1)
	}
	add(time.Second) // so that it is the last one
	if _, err := sess.Call(t.Context(), exchange.Request{}, nil); err != nil {
		t.Fatal(err)
	}
	r := report(t, l)
	i := slices.IndexFunc(r.Identities, func(i telemetry.Identity) bool { return strings.HasPrefix(i.ID, "name0@") })
	if i < 0 || r.Identities[i].Transports[exchange.HTTPSSE].Calls != 1 {
		t.Errorf("got %d identities without the call of the open conversation", len(r.Identities))
	}
	if got := legacySessions(r); got != 101 {
		t.Errorf("got %d sessions, want 101", got)
	}
}

// What comes between a stream and its conversation has bounds too.
func TestFloodOfStreams(t *testing.T) {
	l := openLedger(t, "", &telemetry.Options{MaxIdentities: 100})
	before := heap()
	for i := range 20_000 {
		c := stranger(i, exchange.HTTPSSE)
		o := exchange.Observation{Transport: exchange.HTTPSSE, Session: fmt.Sprint("stream", i), Addr: c.Addr, UserAgent: fmt.Sprint("agent", i), Info: c.Info}
		for _, kind := range []string{exchange.SeenStream, exchange.SeenDiscover, exchange.SeenVersionHeader, exchange.SeenSameURL} {
			o.Kind = kind
			l.Observe(o)
		}
	}
	if grown := int64(heap()) - int64(before); grown > 8<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
}
