package translate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/translate"
)

// benchmarked is a server without locks and records, the tool of which asks and answers.
type benchmarked struct{ ask bool }

func (b benchmarked) Open(context.Context, exchange.Client) (exchange.Session, error) { return b, nil }
func (b benchmarked) Server() exchange.Server {
	return exchange.Server{Revision: negotiate.Rev20251125, Capabilities: []byte(`{"tools":{}}`), Info: []byte(`{"name":"s","version":"1"}`)}
}
func (b benchmarked) Notify(context.Context, exchange.Request) error { return nil }
func (b benchmarked) Done() <-chan struct{}                          { return nil }
func (b benchmarked) Close() error                                   { return nil }

func (b benchmarked) Call(ctx context.Context, _ exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if b.ask {
		if _, err := back.Call(ctx, exchange.Request{Method: "elicitation/create", Params: []byte(branchForm)}); err != nil {
			return exchange.Response{}, err
		}
	}
	return exchange.Response{Result: []byte(`{"content":[]}`)}, nil
}

func benchmark(b *testing.B, ask bool, params func(state []byte) []byte) {
	h := translate.Handler(benchmarked{ask}, &translate.Options{Suspend: translate.SuspendOptions{GatherQuiet: 1, GatherMax: 1}})
	c := exchange.Client{Revision: negotiate.Rev20260728, Capabilities: []byte(`{"elicitation":{}}`)}
	call := func(params []byte) exchange.Response {
		s, err := h.Open(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		resp, err := s.Call(b.Context(), exchange.Request{Method: "tools/call", Params: params}, silentPeer{})
		if err != nil || resp.Error != nil {
			b.Fatal(shown(resp, err))
		}
		return resp
	}
	b.ReportAllocs()
	for b.Loop() {
		resp := call(params(nil))
		if ask {
			call(params(jsonrpc.Get(resp.Result, "requestState")))
		}
	}
}

type silentPeer struct{}

func (silentPeer) Call(context.Context, exchange.Request) (exchange.Response, error) {
	return exchange.Response{}, exchange.Fail(exchange.ReasonNoChannel, nil)
}
func (silentPeer) Notify(context.Context, exchange.Request) error { return nil }

// BenchmarkSuspend is a call of a modern client in front of a handshake-era server: one that asks nothing, and one of two
// requests with a question between them.
func BenchmarkSuspend(b *testing.B) {
	plain := newDesk(b, nil).with(deploy)
	b.Run("no question", func(b *testing.B) {
		benchmark(b, false, func([]byte) []byte { return plain })
	})
	b.Run("question", func(b *testing.B) {
		benchmark(b, true, func(state []byte) []byte {
			if state == nil {
				return plain
			}
			return jsonrpc.Set(jsonrpc.Set(plain, state, "requestState"), []byte(`{"1.1":`+accepted+`}`), "inputResponses")
		})
	})
}

// BenchmarkWrap is a result that is no round, which must cost the same whatever its size.
func BenchmarkWrap(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		result := []byte(`{"resultType":"complete","content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`)
		up := newScript(b, func(context.Context, exchange.Request, exchange.Peer) (exchange.Response, error) {
			return exchange.Response{Result: result}, nil
		})
		up.schemas = nil
		h := translate.Handler(forgetful{up}, &translate.Options{Wrap: true})
		params := newDesk(b, nil).with(deploy)
		s, err := h.Open(b.Context(), exchange.Client{Revision: negotiate.Rev20260728})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(sizeName(size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := s.Call(b.Context(), exchange.Request{Method: "tools/call", Params: params}, silentPeer{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func sizeName(size int) string {
	if size >= 1<<20 {
		return "1MiB"
	}
	return map[int]string{1 << 10: "1KiB", 64 << 10: "64KiB"}[size]
}

// forgetful is a script that keeps no record.
type forgetful struct{ *script }

func (f forgetful) Open(context.Context, exchange.Client) (exchange.Session, error) { return f, nil }
func (f forgetful) Server() exchange.Server                                         { return f.server }
func (f forgetful) Notify(context.Context, exchange.Request) error                  { return nil }
func (f forgetful) Done() <-chan struct{}                                           { return nil }
func (f forgetful) Close() error                                                    { return nil }
func (f forgetful) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	return f.answer(ctx, req, back)
}
