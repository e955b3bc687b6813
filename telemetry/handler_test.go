package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// server is a Handler with a function for each thing it is asked; nil answers with an empty result.
type server struct {
	open func(ctx context.Context) error
	call func(ctx context.Context) (exchange.Response, error)
}

func (s *server) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	if s.open != nil {
		if err := s.open(ctx); err != nil {
			return nil, err
		}
	}
	return &conversation{s, c}, nil
}

type conversation struct {
	*server
	client exchange.Client
}

func (c *conversation) Server() exchange.Server { return exchange.Server{Revision: c.client.Revision} }

func (c *conversation) Call(ctx context.Context, _ exchange.Request, _ exchange.Peer) (exchange.Response, error) {
	if c.call == nil {
		return exchange.Response{Result: []byte(`{}`)}, nil
	}
	return c.call(ctx)
}

func (c *conversation) Notify(context.Context, exchange.Request) error { return nil }
func (c *conversation) Done() <-chan struct{}                          { return nil }
func (c *conversation) Close() error                                   { return nil }

func info(name, version string) []byte {
	return fmt.Appendf(nil, `{"name":%q,"version":%q}`, name, version)
}

// legacyClient is a client of HTTP+SSE that asks for the newest legacy revision and gets it.
func legacyClient(name string) exchange.Client {
	return exchange.Client{Info: info(name, "1.0"), Transport: exchange.HTTPSSE, Session: "s1",
		Requested: "2025-11-25", Revision: negotiate.Rev20251125}
}

func openLedger(t testing.TB, file string, o *telemetry.Options) *telemetry.Ledger {
	t.Helper()
	l, err := telemetry.Open(file, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLedger(t, l) })
	return l
}

func closeLedger(t testing.TB, l *telemetry.Ledger) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func report(t testing.TB, l *telemetry.Ledger) telemetry.Report {
	t.Helper()
	r, err := l.Report()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// converse opens a conversation of c and makes some calls.
func converse(t testing.TB, h exchange.Handler, c exchange.Client, calls int) {
	t.Helper()
	sess, err := h.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for range calls {
		if _, err := sess.Call(t.Context(), exchange.Request{Method: "tools/list"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := sess.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenCounts(t *testing.T) {
	stateless := exchange.Client{Info: info("c", "1.0"), Transport: exchange.StreamableHTTP,
		Requested: "2026-07-28", Revision: negotiate.Rev20260728}
	reopened := exchange.Client{Transport: exchange.HTTPSSE, Session: "s2", Revision: negotiate.Rev20241105, Reopened: true}
	tests := []struct {
		name   string
		client exchange.Client
		err    error
		want   telemetry.Counts
	}{
		{"session", legacyClient("c"), nil, telemetry.Counts{Sessions: 1}},
		{"stateless use", stateless, nil, telemetry.Counts{Uses: 1}},
		{"reopened", reopened, nil, telemetry.Counts{Reopened: 1}},
		{"server refuses", legacyClient("c"), &exchange.Error{Code: -32600}, telemetry.Counts{Refusals: 1}},
		{"other era", legacyClient("c"), exchange.Fail(exchange.ReasonEra, nil), telemetry.Counts{Refusals: 1}},
		{"wrapped refusal", legacyClient("c"), fmt.Errorf("open: %w", exchange.Fail(exchange.ReasonEra, nil)), telemetry.Counts{Refusals: 1}},
		{"challenge", legacyClient("c"), &exchange.Failure{Reason: exchange.ReasonUnavailable, Status: 401}, telemetry.Counts{Refusals: 1}},
		{"no server", legacyClient("c"), exchange.Fail(exchange.ReasonUnavailable, nil), telemetry.Counts{Failures: 1}},
		{"too late", legacyClient("c"), context.DeadlineExceeded, telemetry.Counts{Failures: 1}},
		{"unknown error", legacyClient("c"), errors.New("x"), telemetry.Counts{Failures: 1}},
		{"client went away", legacyClient("c"), context.Canceled, telemetry.Counts{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := openLedger(t, "", nil)
			h := l.Handler(&server{open: func(context.Context) error { return tt.err }})
			if _, err := h.Open(t.Context(), tt.client); !errors.Is(err, tt.err) {
				t.Errorf("got error %v, want %v", err, tt.err)
			}
			r := report(t, l)
			if len(r.Clients) != 1 {
				t.Fatalf("got %d rows, want 1", len(r.Clients))
			}
			if got := r.Clients[0].Counts; got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestCallCounts(t *testing.T) {
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(&exchange.CancelError{Reason: "enough"})
	tests := []struct {
		name string
		ctx  context.Context
		resp exchange.Response
		err  error
		want int64
	}{
		{"result", t.Context(), exchange.Response{Result: []byte(`{"isError":true}`)}, nil, 0},
		{"error answer", t.Context(), exchange.Response{Error: &exchange.Error{Code: -32602}}, nil, 1},
		{"no answer", t.Context(), exchange.Response{}, exchange.Fail(exchange.ReasonLost, nil), 1},
		{"deadline", t.Context(), exchange.Response{}, context.DeadlineExceeded, 1},
		{"cancelled", gone, exchange.Response{}, exchange.Fail(exchange.ReasonClosed, nil), 0},
		{"cancelled below", t.Context(), exchange.Response{}, fmt.Errorf("x: %w", context.Canceled), 0},
		{"taken back", t.Context(), exchange.Response{}, &exchange.CancelError{}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := openLedger(t, "", nil)
			h := l.Handler(&server{call: func(context.Context) (exchange.Response, error) { return tt.resp, tt.err }})
			sess, err := h.Open(t.Context(), legacyClient("c"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := sess.Call(tt.ctx, exchange.Request{Method: "tools/call"}, nil)
			if !errors.Is(err, tt.err) || resp.Error != tt.resp.Error || string(resp.Result) != string(tt.resp.Result) {
				t.Errorf("got %v %v, want the answer as it was: %v %v", resp, err, tt.resp, tt.err)
			}
			want := telemetry.Counts{Sessions: 1, Calls: 1, Errors: tt.want}
			if got := report(t, l).Clients[0].Counts; got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// Transport and revision are two columns: each of the four combinations is a row.
func TestRowsAndOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLedger(t, "", nil)
		h := l.Handler(&server{})
		start := time.Now().UTC()
		use := func(transport, requested string, r negotiate.Revision) {
			time.Sleep(time.Minute)
			converse(t, h, exchange.Client{Info: info("c", "1"), Transport: transport, Session: "s", Requested: requested, Revision: r}, 2)
		}
		use(exchange.HTTPSSE, "2025-11-25", negotiate.Rev20251125)
		use(exchange.StreamableHTTP, "2024-11-05", negotiate.Rev20241105)
		use(exchange.HTTPSSE, "2024-11-05", negotiate.Rev20241105)
		use(exchange.StreamableHTTP, "2099-01-01", negotiate.Rev20251125)
		use(exchange.HTTPSSE, "2025-11-25", negotiate.Rev20251125)

		r := report(t, l)
		row := func(transport, requested, negotiated string, n int64, first, last time.Duration) telemetry.Client {
			return telemetry.Client{Name: "c", Version: "1", Transport: transport, Requested: requested, Negotiated: negotiated,
				Counts: telemetry.Counts{Sessions: n, Calls: 2 * n}, FirstSeen: start.Add(first), LastSeen: start.Add(last)}
		}
		want := []telemetry.Client{
			row("http_sse", "2025-11-25", "2025-11-25", 2, time.Minute, 5*time.Minute),
			row("http_sse", "2024-11-05", "2024-11-05", 1, 3*time.Minute, 3*time.Minute),
			row("streamable_http", "2099-01-01", "2025-11-25", 1, 4*time.Minute, 4*time.Minute),
			row("streamable_http", "2024-11-05", "2024-11-05", 1, 2*time.Minute, 2*time.Minute),
		}
		if diff := cmp.Diff(r.Clients, want); diff != "" {
			t.Errorf("clients (- got, + want):\n%s", diff)
		}
		total := func(transport string, negotiated *string, n int64, first, last time.Duration) telemetry.Total {
			return telemetry.Total{Transport: transport, Negotiated: negotiated, Clients: 1,
				Counts: telemetry.Counts{Sessions: n, Calls: 2 * n}, FirstSeen: start.Add(first), LastSeen: start.Add(last)}
		}
		wantTotals := []telemetry.Total{
			total("http_sse", nil, 3, time.Minute, 5*time.Minute),
			total("streamable_http", nil, 2, 2*time.Minute, 4*time.Minute),
		}
		if diff := cmp.Diff(r.Transports, wantTotals); diff != "" {
			t.Errorf("transports (- got, + want):\n%s", diff)
		}
		wantTotals = []telemetry.Total{
			total("http_sse", new("2024-11-05"), 1, 3*time.Minute, 3*time.Minute),
			total("http_sse", new("2025-11-25"), 2, time.Minute, 5*time.Minute),
			total("streamable_http", new("2024-11-05"), 1, 2*time.Minute, 2*time.Minute),
			total("streamable_http", new("2025-11-25"), 1, 4*time.Minute, 4*time.Minute),
		}
		if diff := cmp.Diff(r.Revisions, wantTotals); diff != "" {
			t.Errorf("revisions (- got, + want):\n%s", diff)
		}
		if got := r.Observation; !got.From.Equal(start) || !got.To.Equal(start.Add(5*time.Minute)) {
			t.Errorf("observed %v to %v, want %v and five minutes", got.From, got.To, start)
		}
	})
}

func TestNotifyIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLedger(t, "", nil)
		sess, err := l.Handler(&server{}).Open(t.Context(), legacyClient("c"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if err := sess.Notify(t.Context(), exchange.Request{Method: "notifications/initialized"}); err != nil {
			t.Fatal(err)
		}
		c := report(t, l).Clients[0]
		if got := c.LastSeen.Sub(c.FirstSeen); got != time.Hour {
			t.Errorf("seen for %v, want an hour", got)
		}
	})
}

func TestNoAllocs(t *testing.T) {
	l := openLedger(t, "", nil)
	next := &server{}
	h := l.Handler(next)
	c := legacyClient("c")
	ctx := t.Context()
	sess, err := h.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	req := exchange.Request{Method: "tools/list"}
	next.call = func(context.Context) (exchange.Response, error) { return exchange.Response{}, nil }
	if got := testing.AllocsPerRun(1000, func() { _, _ = sess.Call(ctx, req, nil) }); got != 0 {
		t.Errorf("a call: got %v allocations, want none", got)
	}
	bare := testing.AllocsPerRun(1000, func() { _, _ = next.Open(ctx, c) })
	if got := testing.AllocsPerRun(1000, func() { _, _ = h.Open(ctx, c) }) - bare; got > 1 {
		t.Errorf("an open of a known client: got %v allocations, want that of the session alone", got)
	}
}

func BenchmarkCall(b *testing.B) {
	l := openLedger(b, "", nil)
	next := &server{call: func(context.Context) (exchange.Response, error) { return exchange.Response{}, nil }}
	sess, err := l.Handler(next).Open(b.Context(), legacyClient("c"))
	if err != nil {
		b.Fatal(err)
	}
	req := exchange.Request{Method: "tools/list"}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = sess.Call(b.Context(), req, nil)
	}
}

func BenchmarkOpen(b *testing.B) {
	l := openLedger(b, "", nil)
	h := l.Handler(&server{})
	c := legacyClient("c")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = h.Open(b.Context(), c)
	}
}
