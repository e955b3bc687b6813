package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// echo answers every request with its own params as the result.
func echo(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 64<<10)
	var out []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		_, tail, request := bytes.Cut(line, []byte(`"id":`))
		if !request {
			continue
		}
		id, _, _ := bytes.Cut(tail, []byte(","))
		_, params, _ := bytes.Cut(tail, []byte(`"params":`))
		if bytes.Contains(line, []byte(`"initialize"`)) {
			params = []byte(`{"protocolVersion":"2025-11-25","capabilities":{}}}` + "\n")
		}
		out = append(append(out[:0], `{"jsonrpc":"2.0","id":`...), id...)
		out = append(append(out, `,"result":`...), params...)
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

func BenchmarkCall(b *testing.B) {
	for _, size := range []int{256, 1024} {
		for _, token := range []string{"", `,"_meta":{"progressToken":1}`} {
			name := fmt.Sprintf("%dB", size)
			if token != "" {
				name += "-progress"
			}
			b.Run(name, func(b *testing.B) {
				up := upstream.Pipe(func(context.Context) (io.ReadWriteCloser, error) {
					ours, theirs := net.Pipe()
					go echo(theirs) // until the bridge hangs up
					return ours, nil
				}, &upstream.Options{Era: "legacy"})
				defer up.Close()
				s, err := up.Open(context.Background(), legacyClient(negotiate.Rev20251125, nil))
				if err != nil {
					b.Fatal(err)
				}
				req := exchange.Request{Method: "tools/call", Params: []byte(`{"name":"x","arguments":{"t":"` + strings.Repeat("x", size) + `"}` + token + `}`)}
				b.ReportAllocs()
				b.SetBytes(int64(len(req.Params)))
				for b.Loop() {
					if resp, err := s.Call(context.Background(), req, nil); err != nil || resp.Error != nil {
						b.Fatal(err, resp.Error)
					}
				}
			})
		}
	}
}

// BenchmarkPool is what a stateless client's request costs on a server of the handshake era: a session opened,
// one call, and the session closed.
func BenchmarkPool(b *testing.B) {
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
		b.Run(capabilities, func(b *testing.B) {
			up := upstream.Pipe(func(context.Context) (io.ReadWriteCloser, error) {
				ours, theirs := net.Pipe()
				go echo(theirs) // until the bridge hangs up
				return ours, nil
			}, &upstream.Options{Era: "legacy"})
			defer up.Close()
			c := modern("", capabilities)
			req := exchange.Request{Method: "tools/call", Params: []byte(`{"name":"x","arguments":{"t":"` + strings.Repeat("x", 256) + `"}}`)}
			b.ReportAllocs()
			for b.Loop() {
				s, err := up.Open(context.Background(), c)
				if err != nil {
					b.Fatal(err)
				}
				if resp, err := s.Call(context.Background(), req, nil); err != nil || resp.Error != nil {
					b.Fatal(err, resp.Error)
				}
				_ = s.Close()
			}
		})
	}
}
