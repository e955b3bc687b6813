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

// How the server is reached is asked for now and then, and what was known stays while nothing is.
func TestUpstreamTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport, asked := "pipe", 0
		s := newSignals(t, &telemetry.SignalOptions{UpstreamTransport: func() string { asked++; return transport }})
		var fail error
		h := s.Upstream(&server{open: func(context.Context) error { return fail }})
		counted := func() map[string]float64 {
			out := map[string]float64{}
			for labels, n := range series(scrape(t, s), "mcp_client_operation_duration_seconds_count") {
				_, rest, _ := strings.Cut(labels, `mcp_bridge_transport="`)
				name, _, _ := strings.Cut(rest, `"`)
				out[name] += n
			}
			return out
		}
		for _, step := range []struct {
			transport string
			fail      error
			wait      time.Duration
		}{
			{"pipe", exchange.Fail(exchange.ReasonUnavailable, nil), 0}, // nothing is known yet
			{"pipe", nil, 0},
			{"http_sse", nil, time.Second}, // not asked again so soon
			{"", nil, 10 * time.Second},    // unknown at the moment
			{"streamable_http", nil, 10 * time.Second},
			{"streamable_http", exchange.Fail(exchange.ReasonUnavailable, nil), 0},
		} {
			time.Sleep(step.wait)
			transport, fail = step.transport, step.fail
			_, _ = h.Open(t.Context(), legacyClient("c"))
		}
		got := counted()
		if got["_OTHER"] != 1 || got["inprocess"] != 3 || got["streamable_http"] != 2 || len(got) != 3 {
			t.Errorf("got %v, want 1 of _OTHER, 3 of inprocess, 2 of streamable_http", got)
		}
		if asked != 3 {
			t.Errorf("asked %d times, want 3", asked)
		}
	})
}

func TestSignalOptions(t *testing.T) {
	_, err := telemetry.NewSignals(&telemetry.SignalOptions{MaxSeries: -1, MaxTools: -1, MaxNames: 1, ReportEvery: -1, ClientNames: []string{"a", "b"}})
	if err == nil || strings.Count(err.Error(), "signal option") != 4 {
		t.Errorf("got %v, want all four problems", err)
	}
}
