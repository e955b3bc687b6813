package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/telemetry"
)

func newSignals(t testing.TB, o *telemetry.SignalOptions) *telemetry.Signals {
	t.Helper()
	s, err := telemetry.NewSignals(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// scrape returns what a collector is told.
func scrape(t testing.TB, s *telemetry.Signals) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("got status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// series returns the value of each series whose name is name, by its labels as written.
func series(text, name string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		labels, value, _ := cutLast(rest, " ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			panic(err)
		}
		out[labels] = v
	}
	return out
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	return s[:max(i, 0)], s[i+1:], i >= 0
}

func want(t *testing.T, text, series string, value float64) {
	t.Helper()
	for line := range strings.Lines(text) {
		name, v, _ := cutLast(strings.TrimSpace(line), " ")
		if name == series {
			if got, err := strconv.ParseFloat(v, 64); err != nil || got != value {
				t.Errorf("%s: got %s, want %v", series, v, value)
			}
			return
		}
	}
	name, _, _ := strings.Cut(series, "{")
	t.Errorf("no series %s; there are %v", series, seriesOf(text, name))
}

func seriesOf(text, name string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// modernClient is a stateless client.
func modernClient() exchange.Client {
	return exchange.Client{Transport: exchange.StreamableHTTP, Revision: negotiate.Rev20260728, Requested: "2026-07-28"}
}

func call(name string) exchange.Request {
	return exchange.Request{Method: "tools/call", Params: fmt.Appendf(nil, `{"name":%q,"arguments":{}}`, name)}
}

// Everything that can come of a request is counted under its own outcome and error.type, on both legs.
func TestOutcomes(t *testing.T) {
	tests := []struct {
		name   string
		resp   exchange.Response
		err    error
		cancel bool
		want   string // labels of requests_total
		fault  string // of the durations; empty: none
		code   string
	}{
		{"result", exchange.Response{Result: []byte(`{"content":[]}`)}, nil, false, "ok", "", ""},
		{"tool error", exchange.Response{Result: []byte(`{"content":[],"isError":true}`)}, nil, false, "tool_error", "tool_error", ""},
		{"known code", exchange.Response{Error: &exchange.Error{Code: -32602}}, nil, false, "error", "-32602", "-32602"},
		{"odd code", exchange.Response{Error: &exchange.Error{Code: 987654}}, nil, false, "error", "_OTHER", "_OTHER"},
		{"failure", exchange.Response{}, exchange.Fail(exchange.ReasonLost, io.EOF), false, "failed", "upstream_lost", ""},
		{"odd failure", exchange.Response{}, exchange.Fail("made up", nil), false, "failed", "_OTHER", ""},
		{"deadline", exchange.Response{}, fmt.Errorf("x: %w", context.DeadlineExceeded), false, "failed", "upstream_timeout", ""},
		{"unknown", exchange.Response{}, errors.New("x"), false, "failed", "bridge_error", ""},
		{"taken back", exchange.Response{}, &exchange.CancelError{}, true, "cancelled", "cancelled", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSignals(t, &telemetry.SignalOptions{UpstreamTransport: func() string { return "stdio" }})
			h := s.Served(s.Upstream(&server{call: func(context.Context) (exchange.Response, error) { return tt.resp, tt.err }}))
			sess, err := h.Open(t.Context(), legacyClient("c"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.cancel {
				cancel()
			}
			_, _ = sess.Call(ctx, call("echo"), nil)
			text := scrape(t, s)
			want(t, text, `mcp_bridge_requests_total{method="tools/call",outcome="`+tt.want+`",protocol_version="2025-11-25",transport="http_sse"}`, 1)
			labels := `gen_ai_operation_name="execute_tool",gen_ai_tool_name="_OTHER",mcp_bridge_transport="%s",%smcp_method_name="tools/call",mcp_protocol_version="2025-11-25",%s`
			if tt.fault != "" {
				labels = `error_type="` + tt.fault + `",` + labels
			}
			end := `network_protocol_name="http",network_transport="tcp"`
			pipe := `network_transport="pipe"`
			if tt.code != "" {
				end += `,rpc_response_status_code="` + tt.code + `"`
				pipe += `,rpc_response_status_code="` + tt.code + `"`
			}
			want(t, text, `mcp_server_operation_duration_seconds_count{`+fmt.Sprintf(labels, "http_sse", "", end)+`}`, 1)
			want(t, text, `mcp_client_operation_duration_seconds_count{`+fmt.Sprintf(labels, "stdio", `mcp_bridge_upstream="default",`, pipe)+`}`, 1)
		})
	}
}

func TestSessionMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail error
		s := newSignals(t, &telemetry.SignalOptions{ClientNames: []string{"known"}})
		h := s.Served(&server{open: func(context.Context) error { return fail }})
		open := func(c exchange.Client) exchange.Session {
			sess, err := h.Open(t.Context(), c)
			if err != nil && fail == nil {
				t.Fatal(err)
			}
			return sess
		}
		first, second := open(legacyClient("known")), open(legacyClient("somebody"))
		back := legacyClient("known")
		back.Reopened = true
		open(back)
		fail = exchange.Fail(exchange.ReasonUnavailable, nil)
		open(legacyClient("known"))
		fail = &exchange.Error{Code: -32602}
		open(legacyClient("known"))
		fail = context.Canceled
		open(legacyClient("known"))
		fail = nil
		open(modernClient()).Close() // has no session

		text := scrape(t, s)
		opened := `mcp_bridge_sessions_opened_total{client="%s",outcome="%s",protocol_version="2025-11-25",transport="http_sse"}`
		want(t, text, fmt.Sprintf(opened, "known", "accepted"), 1)
		want(t, text, fmt.Sprintf(opened, "other", "accepted"), 1)
		want(t, text, fmt.Sprintf(opened, "known", "reattached"), 1)
		want(t, text, fmt.Sprintf(opened, "known", "failed"), 1)
		want(t, text, fmt.Sprintf(opened, "known", "refused"), 1)
		if n := len(series(text, "mcp_bridge_sessions_opened_total")); n != 5 {
			t.Errorf("got %d series of sessions_opened, want 5: %v", n, seriesOf(text, "mcp_bridge_sessions_opened"))
		}
		active := `mcp_bridge_sessions_active{protocol_version="2025-11-25",transport="http_sse"}`
		want(t, text, active, 3)

		time.Sleep(3 * time.Second)
		for range 2 { // the second time it is closed already
			first.Close()
		}
		second.Close()
		text = scrape(t, s)
		want(t, text, active, 1)
		ended := `{mcp_bridge_transport="http_sse",mcp_protocol_version="2025-11-25",network_protocol_name="http",network_transport="tcp"`
		want(t, text, `mcp_server_session_duration_seconds_sum`+ended+`}`, 6)
		want(t, text, `mcp_server_session_duration_seconds_bucket`+ended+`,le="2"}`, 0)
		want(t, text, `mcp_server_session_duration_seconds_bucket`+ended+`,le="5"}`, 2)
	})
}

// Tools are label values once the server has listed them, and never more than MaxTools.
func TestToolNames(t *testing.T) {
	s := newSignals(t, &telemetry.SignalOptions{MaxTools: 3})
	var list []byte
	h := s.Served(s.Upstream(&server{call: func(context.Context) (exchange.Response, error) { return exchange.Response{Result: list}, nil }}))
	sess, err := h.Open(t.Context(), legacyClient("c"))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(req exchange.Request) {
		if _, err := sess.Call(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
	}
	ask(call("one")) // not listed yet
	list = []byte(`{"tools":[{"name":"one"},{"name":"two"},{"name":"three"},{"name":"four"}]}`)
	ask(exchange.Request{Method: "tools/list"})
	ask(exchange.Request{Method: "tools/list"})
	list = []byte(`{"prompts":[{"name":"greet"}]}`)
	ask(exchange.Request{Method: "prompts/list"})
	for _, name := range []string{"one", "two", "two", "four", "never"} {
		ask(call(name))
	}
	ask(exchange.Request{Method: "prompts/get", Params: []byte(`{"name":"greet"}`)})
	ask(exchange.Request{Method: "made/up", Params: []byte(`{"name":"greet"}`)})

	got := map[string]float64{}
	for labels, n := range series(scrape(t, s), "mcp_server_operation_duration_seconds_count") {
		for _, label := range []string{"gen_ai_tool_name", "gen_ai_prompt_name"} {
			if _, rest, ok := strings.Cut(labels, label+`="`); ok {
				name, _, _ := strings.Cut(rest, `"`)
				got[name] = n
			}
		}
	}
	for name, n := range map[string]float64{"one": 1, "two": 2, "_OTHER": 3, "greet": 1} {
		if got[name] != n {
			t.Errorf("%s: got %v, want %v (all: %v)", name, got[name], n, got)
		}
	}
	if len(got) != 4 {
		t.Errorf("got %v, want four names", got)
	}
	want(t, scrape(t, s), `mcp_bridge_bound_reached_total{bound="max_tools"}`, 1)
	want(t, scrape(t, s), `mcp_bridge_requests_total{method="_OTHER",outcome="ok",protocol_version="2025-11-25",transport="http_sse"}`, 1)
}

// However clients and servers behave, the number of series stays below what can be said beforehand.
func TestWorstCaseSeries(t *testing.T) {
	const maxSeries, names = 200, 1_000
	clients := telemetry.Report{}
	for i := range names {
		clients.Clients = append(clients.Clients, telemetry.Client{Name: fmt.Sprint("name", i), Transport: exchange.HTTPSSE,
			Counts: telemetry.Counts{Calls: 100}, LastSeen: time.Unix(int64(i+1), 0)})
	}
	synctest.Test(t, func(t *testing.T) {
		var fail error
		var code, hour int
		s := newSignals(t, &telemetry.SignalOptions{
			MaxSeries: maxSeries,
			Report: func() (telemetry.Report, error) {
				r := clients
				hour++
				r.Clients = r.Clients[20*hour : 20*hour+20] // others each time
				return r, nil
			},
		})
		var list []byte
		h := s.Served(s.Upstream(&server{
			open: func(context.Context) error { return fail },
			call: func(context.Context) (exchange.Response, error) {
				if list != nil {
					return exchange.Response{Result: list}, nil
				}
				return exchange.Response{Error: &exchange.Error{Code: code}}, nil
			},
		}))
		sess, err := h.Open(t.Context(), legacyClient("c"))
		if err != nil {
			t.Fatal(err)
		}
		list = fmt.Appendf(nil, `{"tools":[{"name":"t%s"}]}`, strings.Join(numbers(names), `"},{"name":"t`))
		if _, err := sess.Call(t.Context(), exchange.Request{Method: "tools/list"}, nil); err != nil {
			t.Fatal(err)
		}
		list = nil
		for hour := range 40 {
			scrape(t, s)
			for i := range names {
				c := legacyClient(fmt.Sprint("name", i))
				c.Transport = []string{exchange.HTTPSSE, exchange.StreamableHTTP, fmt.Sprint("made up ", i)}[i%3]
				c.Revision = negotiate.Revision(i % 9)
				c.Requested = fmt.Sprint("20", i)
				fail = []error{nil, exchange.Fail(fmt.Sprint("reason", i), nil), &exchange.Error{Code: i}, nil}[i%4]
				c.Reopened = i%4 == 3
				sess, err := h.Open(t.Context(), c)
				if err != nil {
					continue
				}
				code = -32700 + (i*7+hour)%200
				_, _ = sess.Call(t.Context(), exchange.Request{Method: fmt.Sprint("m", i), Params: fmt.Appendf(nil, `{"name":"t%d"}`, i)}, nil)
				_, _ = sess.Call(t.Context(), call(fmt.Sprint("t", i)), nil)
				s.Observe(exchange.Observation{Kind: fmt.Sprint("kind", i), Transport: c.Transport})
				for _, kind := range []string{exchange.SeenRefused, exchange.SeenDropped, exchange.SeenBound, exchange.SeenSameURL, exchange.SeenWouldRefuse} {
					s.Observe(exchange.Observation{Kind: kind, Transport: c.Transport, Version: c.Requested, Detail: fmt.Sprint("detail", i)})
					s.Observe(exchange.Observation{Kind: kind, Transport: c.Transport, Stage: fmt.Sprint("s", i), Point: fmt.Sprint("p", i), Mode: fmt.Sprint("m", i)})
				}
				sess.Close()
			}
			time.Sleep(time.Hour)
		}
		text := scrape(t, s)
		for name, most := range map[string]int{
			"mcp_bridge_sessions_opened_total":              3 * 6 * 65 * 4,
			"mcp_bridge_sessions_active":                    3 * 6,
			"mcp_server_operation_duration_seconds_count":   maxSeries + 3*6*5*36,
			"mcp_bridge_requests_total":                     3 * 6 * 5 * 36,
			"mcp_bridge_observations_total":                 3 * 17,
			"mcp_bridge_requests_refused_total":             3 * 97,
			"mcp_bridge_messages_dropped_total":             3 * 150,
			"mcp_bridge_bound_reached_total":                4 * 97,
			"mcp_bridge_legacy_refusals_total":              8 * 5 * 4,
			"mcp_bridge_legacy_would_refuse_total":          8,
			"mcp_bridge_same_url_upgrades_total":            7,
			"mcp_bridge_legacy_last_seen_timestamp_seconds": 65,
			"mcp_server_session_duration_seconds_count":     3 * 6 * 2,
		} {
			if n := len(series(text, name)); n == 0 || n > most {
				t.Errorf("%s: got %d series, want 1 to %d", name, n, most)
			}
		}
		if strings.Contains(text, "otel_metric_overflow") {
			t.Error("a limit of the SDK was reached, which keeps whoever comes first")
		}
		seen := map[string]bool{}
		for labels := range series(text, "mcp_bridge_sessions_opened_total") {
			_, rest, _ := strings.Cut(labels, `client="`)
			name, _, _ := strings.Cut(rest, `"`)
			seen[name] = true
		}
		if len(seen) < 21 || len(seen) > 65 || !seen["other"] {
			t.Errorf("got %d client names, want more than the first 20, at most 64, and other", len(seen))
		}
		if n := series(text, `mcp_bridge_bound_reached_total`)[`{bound="max_names"}`]; n == 0 {
			t.Error("the bound on names was not shown as reached")
		}
		if n := series(text, `mcp_bridge_bound_reached_total`)[`{bound="max_series",transport="http_sse"}`]; n == 0 {
			t.Error("the bound on series was not shown as reached")
		}
	})
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.Itoa(i)
	}
	return out
}

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
					Window: telemetry.Counts{Calls: 1, Refusals: 1}}},
				Blockers: []telemetry.Finding{{Code: telemetry.BlockBreaks}},
			}, nil
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
		`mcp_bridge_ledger_evictions_total{transport="http_sse"}`:                                                             5,
		`mcp_bridge_ledger_overflow_total{transport="http_sse"}`:                                                              3,
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

func TestSignalOptions(t *testing.T) {
	_, err := telemetry.NewSignals(&telemetry.SignalOptions{MaxSeries: -1, MaxTools: -1, MaxNames: 1, ReportEvery: -1, ClientNames: []string{"a", "b"}})
	if err == nil || strings.Count(err.Error(), "signal option") != 4 {
		t.Errorf("got %v, want all four problems", err)
	}
}
