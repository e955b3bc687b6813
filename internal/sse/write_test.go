package sse_test

import (
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/internal/sse"
)

func TestAppendEvent(t *testing.T) {
	tests := []struct {
		name  string
		event sse.Event
		want  string
	}{
		{"message", sse.Event{Name: "message", Data: []byte(`{"a":1}`)}, "event: message\ndata: {\"a\":1}\n\n"},
		{"all", sse.Event{Name: "m", ID: "7", Retry: 1500 * time.Millisecond, Data: []byte("x")}, "event: m\nid: 7\nretry: 1500\ndata: x\n\n"},
		{"priming", sse.Event{ID: "1"}, "id: 1\ndata: \n\n"},
		{"no data", sse.Event{ID: "1", Retry: time.Second, NoData: true}, "id: 1\nretry: 1000\n\n"},
		{"short retry", sse.Event{Retry: 1, NoData: true}, "retry: 1\n\n"},
		{"negative retry", sse.Event{Retry: -time.Second}, "data: \n\n"},
		{"line breaks", sse.Event{Data: []byte("a\nb\r\nc\rd\n")}, "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		{"characters that end no line", sse.Event{Data: []byte("a\u2028b\u2029c\u0085d\ve\ff")}, "data: a\u2028b\u2029c\u0085d\ve\ff\n\n"},
		{"blank first", sse.Event{Data: []byte(" a")}, "data:  a\n\n"},
		{"forged lines", sse.Event{Name: "a\rdata: x", ID: "1\ndata: x"}, "data: \n\n"},
		{"id with NUL", sse.Event{ID: "1\x00"}, "data: \n\n"},
	}
	for _, tt := range tests {
		if got := sse.AppendEvent([]byte("~"), tt.event); string(got) != "~"+tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestAppendComment(t *testing.T) {
	for text, want := range map[string]string{
		"keep-alive": ": keep-alive\n\n",
		"":           ": \n\n",
		"a\ndata: b": ": a\n: data: b\n\n",
	} {
		if got := sse.AppendComment(nil, text); string(got) != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
