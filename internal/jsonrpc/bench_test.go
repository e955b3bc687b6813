package jsonrpc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

var sizes = []int{256, 1 << 10, 64 << 10}

// call returns a tools/call of size bytes: half of it text, half of it small values.
func call(size int) []byte {
	const head = `{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":"t-1"},"arguments":{"text":"`
	const item = `,{"kind":"n","value":-12.5,"on":true}`
	text := strings.Repeat("lorem ipsum ", size/24)
	items := ""
	if room := size - len(head) - len(text); room > len(item) {
		items = strings.Repeat(item, room/len(item))
	}
	return []byte(head + text + `","items":[0` + items + `]}}}`)
}

func BenchmarkScan(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			text := call(size)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := jsonrpc.Scan(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSet(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			m, err := jsonrpc.Scan(call(size))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(m.Params)))
			b.ReportAllocs()
			for b.Loop() {
				jsonrpc.Set(m.Params, []byte("7"), "_meta", "progressToken")
			}
		})
	}
}

func BenchmarkAppendResult(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			id, result := []byte("12345"), call(size)
			dst := jsonrpc.AppendResult(nil, id, result)
			b.SetBytes(int64(len(dst)))
			b.ReportAllocs()
			for b.Loop() {
				dst = jsonrpc.AppendResult(dst[:0], id, result)
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	text, id := call(1<<10), []byte("1")
	answer := jsonrpc.AppendResult(nil, id, text)
	unknown := []byte(`{"jsonrpc":"2.0","id":1,"method":"vendor/x"}`)
	dst := make([]byte, 0, 4<<10)
	tests := []struct {
		name string
		most float64
		run  func()
	}{
		{"Scan of a known method", 0, func() { jsonrpc.Scan(text) }},
		{"Scan of another method", 1, func() { jsonrpc.Scan(unknown) }},
		{"Scan of a result", 0, func() { jsonrpc.Scan(answer) }},
		{"Get", 0, func() { jsonrpc.Get(text, "params", "_meta", "progressToken") }},
		{"Set", 1, func() { jsonrpc.Set(text, id, "params", "_meta", "progressToken") }},
		{"AppendResult", 0, func() { jsonrpc.AppendResult(dst, id, text) }},
		{"AppendRequest", 0, func() { jsonrpc.AppendRequest(dst, id, "tools/call", text) }},
		{"AppendNotification", 0, func() { jsonrpc.AppendNotification(dst, "notifications/progress", text) }},
	}
	for _, tt := range tests {
		if n := testing.AllocsPerRun(100, tt.run); n > tt.most {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, n, tt.most)
		}
	}
}
