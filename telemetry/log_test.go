package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// logged returns signals whose log is kept, at a level, and what has been logged so far, a line each.
func logged(t *testing.T, level slog.Level, o *telemetry.SignalOptions) (*telemetry.Signals, func() []map[string]any) {
	t.Helper()
	var text bytes.Buffer
	o.Logger = slog.New(slog.NewJSONHandler(&text, &slog.HandlerOptions{Level: level}))
	s := newSignals(t, o)
	return s, func() []map[string]any {
		var lines []map[string]any
		for line := range strings.Lines(text.String()) {
			var m map[string]any
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			delete(m, "time")
			delete(m, "lasted")
			delete(m, "took")
			lines = append(lines, m)
		}
		text.Reset()
		return lines
	}
}

// expect compares one line with NAME=VALUE pairs.
func expect(t *testing.T, line map[string]any, pairs ...string) {
	t.Helper()
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if got, ok := line[name]; !ok || fmt.Sprint(got) != value {
			t.Errorf("%s: got %v, want %s in %v", name, got, value, line)
		}
	}
}

// A legacy session is told of when it begins and ends, with the annotations of an audit, and at info no request is.
func TestSessionEvents(t *testing.T) {
	var fail error
	s, lines := logged(t, slog.LevelInfo, &telemetry.SignalOptions{
		Retirement: func() telemetry.Retirement {
			return telemetry.Retirement{Stage: "warn", Sunset: time.Date(2027, 1, 15, 0, 0, 0, 0, time.UTC)}
		},
		IDs: func(c exchange.Client) []string { return []string{"desk@" + c.Addr.String(), c.Addr.String()} },
		Report: func() (telemetry.Report, error) {
			return telemetry.Report{Identities: []telemetry.Identity{{ID: "desk@10.0.0.1", Class: telemetry.ClassCapable}}}, nil
		},
	})
	scrape(t, s) // learns the classes
	h := s.Served(&server{open: func(context.Context) error { return fail }})
	c := legacyClient("desk")
	c.Session, c.Addr = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", netip.MustParseAddr("10.0.0.1")
	sess, err := h.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sess.Call(t.Context(), call("echo"), nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := sess.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got := lines()
	if len(got) != 3 {
		t.Fatalf("got %d lines, want open, evidence and close: %v", len(got), got)
	}
	session := []string{"session=ABCDEFGH", "transport=http_sse", "revision=2025-11-25", "deprecated=true", "removal_date=2027-01-15"}
	expect(t, got[0], append(session, "event=legacy.session.open", "requested=2025-11-25", "client=desk", "outcome=accepted", "request=1", "identity=desk@10.0.0.1", "class=capable")...)
	expect(t, got[1], append(session, "event=upgrade.evidence", "kind=requested", "identity=desk@10.0.0.1")...)
	expect(t, got[2], append(session, "event=legacy.session.close")...)
	if got[2]["calls"] != 1.0 {
		t.Errorf("got %v calls, want 1", got[2]["calls"])
	}

	fail = &exchange.Error{Code: -32602, Message: "secret words"}
	c.Requested = "2024-11-05 and secret words"
	if _, err := h.Open(t.Context(), c); err == nil {
		t.Fatal("opened")
	}
	fail, c.Requested, c.Reopened = nil, "2024-11-05", true
	if _, err := h.Open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	got = lines()
	expect(t, got[0], "event=legacy.session.refused", "outcome=refused", "requested=_OTHER")
	expect(t, got[1], "event=legacy.session.reattached", "outcome=reattached")
}

// At debug each request is told of on both legs, under one number and with nothing of what was said.
func TestCallEvents(t *testing.T) {
	s, lines := logged(t, slog.LevelDebug, &telemetry.SignalOptions{UpstreamTransport: func() string { return "stdio" }})
	sess, err := s.Served(s.Upstream(&server{})).Open(t.Context(), modernClient())
	if err != nil {
		t.Fatal(err)
	}
	lines()
	for range 2 {
		if _, err := sess.Call(t.Context(), call("echo"), nil); err != nil {
			t.Fatal(err)
		}
	}
	got := lines()
	if len(got) != 4 {
		t.Fatalf("got %d lines, want 4: %v", len(got), got)
	}
	expect(t, got[0], "event=upstream.call", "transport=stdio", "method=tools/call", "outcome=ok", "revision=2026-07-28")
	expect(t, got[1], "event=call", "transport=streamable_http", "method=tools/call", "outcome=ok", "revision=2026-07-28", "session=")
	if got[0]["request"] != got[1]["request"] || got[1]["request"] == got[2]["request"] || got[2]["request"] != got[3]["request"] {
		t.Errorf("got requests %v, %v, %v, %v; want two pairs", got[0]["request"], got[1]["request"], got[2]["request"], got[3]["request"])
	}
}

func TestObservationEvents(t *testing.T) {
	tests := []struct {
		o     exchange.Observation
		level string
		want  []string
	}{
		{exchange.Observation{Kind: exchange.SeenRefused, Transport: exchange.HTTPSSE, Stage: "brownout", Point: "request", Mode: "calls", Detail: "brownout: request calls"},
			"INFO", []string{"event=legacy.session.refused", "stage=brownout", "point=request", "mode=calls", "deprecated=true"}},
		{exchange.Observation{Kind: exchange.SeenRefused, Transport: exchange.StreamableHTTP, Detail: "unknown_session"}, "DEBUG", []string{"event=refused", "reason=unknown_session"}},
		{exchange.Observation{Kind: exchange.SeenReattached, Transport: exchange.HTTPSSE, Session: "ABCDEFGHIJ"}, "INFO", []string{"event=legacy.session.reattached", "session=ABCDEFGH"}},
		{exchange.Observation{Kind: exchange.SeenVersionHeader, Transport: exchange.HTTPSSE, Version: "2025-11-25"}, "INFO", []string{"event=upgrade.evidence", "revision=2025-11-25"}},
		{exchange.Observation{Kind: exchange.SeenVersionHeader, Transport: exchange.HTTPSSE, Version: "a secret"}, "INFO", []string{"event=upgrade.evidence", "revision=_OTHER"}},
		{exchange.Observation{Kind: exchange.SeenSameURL, Transport: exchange.StreamableHTTP}, "DEBUG", []string{"event=same_url.upgrade", "revision=none"}},
		{exchange.Observation{Kind: exchange.SeenBound, Transport: exchange.StreamableHTTP, Detail: "max_calls"}, "DEBUG", []string{"event=bound", "reason=max_calls"}},
	}
	for _, tt := range tests {
		s, lines := logged(t, slog.LevelDebug, &telemetry.SignalOptions{})
		s.Observe(tt.o)
		got := lines()
		if len(got) != 1 || got[0]["level"] != tt.level {
			t.Errorf("%s: got %v, want one line at %s", tt.o.Kind, got, tt.level)
			continue
		}
		expect(t, got[0], tt.want...)
	}
}
