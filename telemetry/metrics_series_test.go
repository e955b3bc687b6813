package telemetry_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// However clients and servers behave, the number of series stays below what can be said beforehand.
func TestWorstCaseSeries(t *testing.T) {
	const maxSeries = 200
	names, hours := 1_000, 12
	if raced {
		names, hours = 300, 6 // more than the words and names that are let in, still
	}
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
		for hour := range hours {
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

// A flood of names makes no series (retirement.md 10, check 6).
func TestFloodOfNames(t *testing.T) {
	s := newSignals(t, &telemetry.SignalOptions{ClientNames: []string{"known"}})
	h := s.Served(&server{})
	flood := func(from, to int) int {
		for i := from; i < to; i++ {
			c := legacyClient("")
			c.Info = fmt.Appendf(nil, `{"name":"name-%d","version":"%d"}`, i, i)
			sess, err := h.Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			sess.Close()
		}
		text := scrape(t, s)
		return strings.Count(text, "\nmcp_")
	}
	all := 100_000
	if raced {
		all = 5_000
	}
	before := flood(0, 1_000)
	if after := flood(1_000, all); after != before || before == 0 {
		t.Errorf("got %d series after %d names, %d after 1 000", after, all, before)
	}
	want(t, scrape(t, s), `mcp_bridge_sessions_opened_total{client="other",outcome="accepted",protocol_version="2025-11-25",transport="http_sse"}`, float64(all))
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.Itoa(i)
	}
	return out
}
