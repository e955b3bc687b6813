package telemetry_test

import (
	"context"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// recorded returns a conversation behind both decorators, with its tool listed.
func recorded(t testing.TB, next exchange.Handler, s *telemetry.Signals, c exchange.Client) exchange.Session {
	t.Helper()
	sess, err := s.Served(s.Upstream(next)).Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sess.Call(context.Background(), exchange.Request{Method: "tools/list"}, nil); err != nil {
		t.Fatal(err)
	}
	return sess
}

func listing() *server {
	result := []byte(`{"tools":[{"name":"echo"}],"content":[{"type":"text","text":"hello"}]}`)
	return &server{call: func(context.Context) (exchange.Response, error) { return exchange.Response{Result: result}, nil }}
}

// BenchmarkRecord measures what both decorators add to one tools/call.
func BenchmarkRecord(b *testing.B) {
	req := call("echo")
	b.Run("without", func(b *testing.B) {
		sess, err := listing().Open(context.Background(), legacyClient("c"))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			_, _ = sess.Call(context.Background(), req, nil)
		}
	})
	b.Run("with", func(b *testing.B) {
		sess := recorded(b, listing(), newSignals(b, nil), legacyClient("c"))
		b.ReportAllocs()
		for b.Loop() {
			_, _ = sess.Call(context.Background(), req, nil)
		}
	})
	b.Run("with the ledger", func(b *testing.B) {
		s, l := newSignals(b, nil), openLedger(b, "", nil)
		sess := withLedger(b, s, l, legacyClient("c"))
		b.ReportAllocs()
		for b.Loop() {
			_, _ = sess.Call(context.Background(), req, nil)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		sess := recorded(b, listing(), newSignals(b, nil), legacyClient("c"))
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = sess.Call(context.Background(), req, nil)
			}
		})
	})
}

// withLedger returns a conversation behind everything that records one, in the order of the bridge.
func withLedger(t testing.TB, s *telemetry.Signals, l *telemetry.Ledger, c exchange.Client) exchange.Session {
	t.Helper()
	sess, err := s.Served(l.Handler(s.Upstream(listing()))).Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sess.Call(context.Background(), exchange.Request{Method: "tools/list"}, nil); err != nil {
		t.Fatal(err)
	}
	return sess
}

// Recording a call allocates nothing, the ledger included.
func TestRecordAllocs(t *testing.T) {
	req := call("echo")
	plain, err := listing().Open(context.Background(), legacyClient("c"))
	if err != nil {
		t.Fatal(err)
	}
	sess := withLedger(t, newSignals(t, nil), openLedger(t, "", nil), legacyClient("c"))
	before := testing.AllocsPerRun(500, func() { _, _ = plain.Call(context.Background(), req, nil) })
	after := testing.AllocsPerRun(500, func() { _, _ = sess.Call(context.Background(), req, nil) })
	if after > before {
		t.Errorf("got %v allocations per call, %v without recording", after, before)
	}
}
