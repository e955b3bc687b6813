package sse_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/internal/sse"
)

var sizes = []int{256, 1 << 10, 64 << 10, 1 << 20}

func event(size int) sse.Event {
	return sse.Event{Name: "message", Data: []byte(strings.Repeat("x", size))}
}

func BenchmarkAppendEvent(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			e := event(size)
			dst := sse.AppendEvent(nil, e)
			b.SetBytes(int64(len(dst)))
			b.ReportAllocs()
			for b.Loop() {
				dst = sse.AppendEvent(dst[:0], e)
			}
		})
	}
}

func BenchmarkReader(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			wire := sse.AppendEvent(nil, event(size))
			r := sse.NewReader(&loop{text: wire}, size)
			b.SetBytes(int64(len(wire)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("short lines that end in CR", func(b *testing.B) {
		wire := []byte(strings.Repeat("data: x\r", 10_000) + "\r")
		r := sse.NewReader(&loop{text: wire}, 1<<20)
		b.SetBytes(int64(len(wire)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Next(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A loop yields its text again and again, at most 4 KiB at once, as a connection would.
type loop struct {
	text []byte
	at   int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), 4<<10)], l.text[l.at:])
	l.at = (l.at + n) % len(l.text)
	return n, nil
}

func TestAllocations(t *testing.T) {
	e := event(1 << 10)
	wire := sse.AppendEvent(nil, e)
	if n := testing.AllocsPerRun(100, func() { wire = sse.AppendEvent(wire[:0], e) }); n > 0 {
		t.Errorf("AppendEvent: %v allocations", n)
	}
	r := sse.NewReader(&loop{text: wire}, 1<<10)
	read := func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	read() // the buffer grows to what the stream needs
	if n := testing.AllocsPerRun(100, read); n > 0 {
		t.Errorf("Next: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { sse.NewReader(io.MultiReader(), 1<<20) }); n > 1 {
		t.Errorf("NewReader: %v allocations", n)
	}
}
