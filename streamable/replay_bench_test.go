package streamable

import (
	"strings"
	"testing"
)

// A full log of 1000-byte messages takes one more and lets go of the oldest; a carrier takes each as it comes.
func appendReplay(tb testing.TB) func() {
	f := New(nil, nil)
	tb.Cleanup(func() { f.Close() })
	c := &carrier{f: f, wake: make(chan struct{}, 1)}
	st := newStream(f, c)
	st.setPrefix("TAG.1.")
	st.number = 1
	msg := []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 1000) + `"}}`)
	var wire []byte
	one := func() {
		if err := st.append(msg, false); err != nil {
			tb.Fatal(err)
		}
		wire, _ = st.take(c, wire[:0])
		if len(wire) < len(msg) {
			tb.Fatalf("took %d bytes", len(wire))
		}
	}
	for range f.o.ReplayEvents + 1 {
		one()
	}
	if n := len(st.log); n != f.o.ReplayEvents {
		tb.Fatalf("the log has %d entries, want %d", n, f.o.ReplayEvents)
	}
	return one
}

func BenchmarkReplayAppend(b *testing.B) {
	one := appendReplay(b)
	b.ReportAllocs()
	for b.Loop() {
		one()
	}
}

func TestAllocationsOfReplay(t *testing.T) {
	// The event id, and now and then the array of the log.
	if got := testing.AllocsPerRun(1000, appendReplay(t)); got > 2 {
		t.Errorf("got %v allocations for an event, want at most 2", got)
	}
}
