package telemetry_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// exercise makes every instrument say something.
func exercise(t testing.TB, s *telemetry.Signals) {
	t.Helper()
	h := s.Served(s.Upstream(&server{}))
	for _, c := range []exchange.Client{legacyClient("c"), modernClient()} {
		sess, err := h.Open(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sess.Call(context.Background(), call("echo"), nil); err != nil {
			t.Fatal(err)
		}
		if err := sess.Notify(context.Background(), exchange.Request{Method: "notifications/initialized"}); err != nil {
			t.Fatal(err)
		}
		if err := sess.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{
		exchange.SeenStream, exchange.SeenSilent, exchange.SeenDiscover, exchange.SeenVersionHeader, exchange.SeenSameURL, exchange.SeenRefused,
		exchange.SeenMismatch, exchange.SeenDuplicateID, exchange.SeenDropped, exchange.SeenReattached, exchange.SeenBound,
		exchange.SeenWouldRefuse, exchange.SeenExempt, exchange.SeenTombstone, exchange.SeenTombstoneEnd, exchange.SeenNotice,
	} {
		s.Observe(exchange.Observation{Kind: kind, Transport: exchange.HTTPSSE, Detail: "x"})
	}
	s.Observe(exchange.Observation{Kind: exchange.SeenRefused, Transport: exchange.HTTPSSE, Stage: "closed", Point: "initialize"})
	s.StreamOpened(exchange.HTTPSSE)()
}

// full are signals with everything to show.
func full(t testing.TB) *telemetry.Signals {
	return newSignals(t, &telemetry.SignalOptions{
		Version:           "1.2.3",
		UpstreamTransport: func() string { return exchange.StreamableHTTP },
		Report: func() (telemetry.Report, error) {
			now := time.Now()
			return telemetry.Report{
				GeneratedAt: now, Verdict: telemetry.Blocked, Target: "gone", Window: telemetry.Window{Share: 0.25},
				Observation: telemetry.Observation{LastFlush: now, Overflow: []telemetry.Total{{Transport: exchange.HTTPSSE, Counts: telemetry.Counts{Sessions: 3}}},
					Evicted: []telemetry.Total{{Transport: exchange.HTTPSSE, Counts: telemetry.Counts{Sessions: 4, Uses: 1}}}},
				Clients: []telemetry.Client{{Name: "c", Transport: exchange.HTTPSSE, LastSeen: now}},
				Identities: []telemetry.Identity{{Kind: telemetry.KindClient, Class: telemetry.ClassUnknown, ExemptUntil: now.Add(time.Hour),
					Window:     telemetry.Counts{Calls: 1, Refusals: 1},
					Transports: map[string]telemetry.Transport{exchange.HTTPSSE: {LastSeen: now, Counts: telemetry.Counts{Refusals: 1}}}},
					{Kind: telemetry.KindOther, Class: telemetry.ClassModern,
						Transports: map[string]telemetry.Transport{exchange.StreamableHTTP: {LastSeen: now, Counts: telemetry.Counts{Uses: 6}}}}},
				Policy:   telemetry.DefaultPolicy(),
				Blockers: []telemetry.Finding{{Code: telemetry.BlockBreaks}},
			}, nil
		},
		Counters: func() telemetry.Counters {
			return telemetry.Counters{FlushErrors: 8, Evictions: map[string]int64{telemetry.KindAddress: 9}}
		},
		Retirement: func() telemetry.Retirement {
			return telemetry.Retirement{Stage: "warn", Version: 7, Sunset: time.Date(2027, 1, 15, 0, 0, 0, 0, time.UTC), Next: "closed", NextAt: time.Unix(1_800_000_000, 0), Brownout: "calls"}
		},
	})
}

func TestGauges(t *testing.T) {
	s := full(t)
	exercise(t, s)
	text := scrape(t, s)
	for series, value := range map[string]float64{
		`mcp_bridge_retirement_stage{stage="warn"}`:                                                                           1,
		`mcp_bridge_retirement_stage{stage="open"}`:                                                                           0,
		`mcp_bridge_retirement_state_version`:                                                                                 7,
		`mcp_bridge_brownout_active{mode="calls"}`:                                                                            1,
		`mcp_bridge_brownout_active{mode="hard"}`:                                                                             0,
		`mcp_bridge_retirement_sunset_timestamp_seconds`:                                                                      float64(time.Date(2027, 1, 15, 0, 0, 0, 0, time.UTC).Unix()),
		`mcp_bridge_retirement_next_step_timestamp_seconds{stage="closed"}`:                                                   1_800_000_000,
		`mcp_bridge_retirement_ready{target_stage="gone"}`:                                                                    0,
		`mcp_bridge_retirement_blockers{code="breaks"}`:                                                                       1,
		`mcp_bridge_retirement_blockers{code="gap"}`:                                                                          0,
		`mcp_bridge_legacy_identities{class="unknown"}`:                                                                       1,
		`mcp_bridge_legacy_identities{class="cannot"}`:                                                                        0,
		`mcp_bridge_legacy_traffic_ratio`:                                                                                     0.25,
		`mcp_bridge_ledger_evictions_total{kind="address"}`:                                                                   9,
		`mcp_bridge_ledger_evictions_total{kind="principal"}`:                                                                 0,
		`mcp_bridge_ledger_flush_errors_total`:                                                                                8,
		`mcp_bridge_ledger_overflow_total{kind="client",transport="http_sse"}`:                                                3,
		`mcp_bridge_ledger_overflow_total{kind="identity",transport="http_sse"}`:                                              5,
		`mcp_bridge_ledger_overflow_total{kind="network",transport="streamable_http"}`:                                        6,
		`mcp_bridge_legacy_exempt_refused`:                                                                                    1,
		`mcp_bridge_ledger_identities{kind="client"}`:                                                                         1,
		`mcp_bridge_tombstone_sessions_total`:                                                                                 1,
		`mcp_bridge_tombstone_sessions_active`:                                                                                0,
		`mcp_bridge_legacy_refusals_total{mode="",point="initialize",stage="closed"}`:                                         1,
		`mcp_bridge_streams_open{transport="http_sse"}`:                                                                       0,
		`mcp_bridge_streams_opened_total{transport="http_sse"}`:                                                               1,
		`mcp_bridge_messages_dropped_total{reason="_OTHER",transport="http_sse"}`:                                             1,
		`mcp_bridge_requests_refused_total{reason="x",transport="http_sse"}`:                                                  1,
		`mcp_bridge_bound_reached_total{bound="x",transport="http_sse"}`:                                                      1,
		`mcp_bridge_upgrade_evidence_total{kind="discover"}`:                                                                  1,
		`mcp_bridge_upgrade_evidence_total{kind="requested"}`:                                                                 1,
		`mcp_bridge_same_url_upgrades_total{protocol_version="none"}`:                                                         1,
		`mcp_bridge_observations_total{kind="reattached",transport="http_sse"}`:                                               1,
		`mcp_bridge_deprecated_surface_requested{protocol_version="2025-11-25",removal_date="2027-01-15",surface="http_sse"}`: 1,
		`mcp_bridge_deprecated_surface_requested{protocol_version="2024-11-05",removal_date="2027-01-15",surface="http_sse"}`: 0,
	} {
		want(t, text, series, value)
	}
}

func TestLint(t *testing.T) {
	s := full(t)
	exercise(t, s)
	problems, err := promlint.New(strings.NewReader(scrape(t, s))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A collector that asks often costs one report; a report that fails leaves the gauges as they were.
func TestReportIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		var fail error
		var long time.Duration
		s := newSignals(t, &telemetry.SignalOptions{Report: func() (telemetry.Report, error) {
			n++
			time.Sleep(long)
			return telemetry.Report{Target: "gone", Verdict: telemetry.Ready}, fail
		}})
		for range 5 {
			scrape(t, s)
		}
		if n != 1 {
			t.Errorf("got %d reports for five scrapes, want 1", n)
		}
		long = 2 * time.Second
		time.Sleep(telemetry.DefaultReportEvery)
		scrape(t, s)
		for range 37 { // of a report that takes 2 s there is one in 40 s, those two included
			time.Sleep(time.Second)
			scrape(t, s)
		}
		if n != 2 {
			t.Errorf("got %d reports, want 2", n)
		}
		long = 0
		time.Sleep(time.Second)
		fail = errors.New("disk on fire")
		time.Sleep(telemetry.DefaultReportEvery)
		want(t, scrape(t, s), `mcp_bridge_retirement_ready{target_stage="gone"}`, 1)
		if n != 3 {
			t.Errorf("got %d reports, want 3", n)
		}
	})
}

// Nobody who opens a session waits for a report that is being made for those who collect.
func TestOpenDoesNotWaitForAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := 0
		s := newSignals(t, &telemetry.SignalOptions{ReportEvery: time.Second, IDs: func(exchange.Client) []string { return []string{"x"} },
			Report: func() (telemetry.Report, error) {
				if reports++; reports > 1 {
					time.Sleep(time.Hour)
				}
				return telemetry.Report{Identities: []telemetry.Identity{{ID: "x", Class: telemetry.ClassCapable}}}, nil
			}})
		scrape(t, s)
		time.Sleep(time.Minute)
		done := make(chan struct{})
		go func() {
			defer close(done)
			scrape(t, s)
		}()
		synctest.Wait()
		begun := time.Now()
		sess, err := s.Served(&server{}).Open(t.Context(), legacyClient("a"))
		if err != nil || time.Since(begun) != 0 {
			t.Errorf("opened after %v, %v", time.Since(begun), err)
		}
		_ = sess.Close()
		<-done
	})
}
