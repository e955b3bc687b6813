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

// Recording a call allocates nothing.
func TestRecordAllocs(t *testing.T) {
	req := call("echo")
	plain, err := listing().Open(context.Background(), legacyClient("c"))
	if err != nil {
		t.Fatal(err)
	}
	sess := recorded(t, listing(), newSignals(t, nil), legacyClient("c"))
	before := testing.AllocsPerRun(500, func() { _, _ = plain.Call(context.Background(), req, nil) })
	after := testing.AllocsPerRun(500, func() { _, _ = sess.Call(context.Background(), req, nil) })
	if after > before {
		t.Errorf("got %v allocations per call, %v without recording", after, before)
	}
}
