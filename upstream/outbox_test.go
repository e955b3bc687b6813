package upstream

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// A buffer is used again when its line was written and not before, and neither the large nor the many are kept.
func TestOutboxBuffers(t *testing.T) {
	b := newOutbox(1<<20, 1<<20)
	var want, got bytes.Buffer
	line := func(i, n int) []byte {
		text := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", n))
		want.WriteString(text)
		return append(b.buffer(len(text)), text...)
	}
	for i := range maxSpares + 10 { // all of them wait at once
		if err := b.push(t.Context(), line(i, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.push(t.Context(), line(-1, maxSpareSize)); err != nil {
		t.Fatal(err)
	}
	if len(b.spare) != 0 {
		t.Errorf("got %d buffers to be used again before anything was written", len(b.spare))
	}
	b.finish()
	if err := b.run(&got); err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() {
		t.Errorf("got %d bytes that are not the %d handed over", got.Len(), want.Len())
	}
	if len(b.spare) != maxSpares {
		t.Errorf("got %d buffers to be used again, want %d", len(b.spare), maxSpares)
	}
	for _, buf := range b.spare {
		if cap(buf) > maxSpareSize {
			t.Errorf("a buffer of %d bytes is kept", cap(buf))
		}
	}
	if n := testing.AllocsPerRun(10, func() { b.keep(b.buffer(100)) }); n > 0 {
		t.Errorf("got %v allocations for a buffer that there is", n)
	}
}
