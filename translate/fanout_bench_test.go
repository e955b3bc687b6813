package translate

import (
	"context"
	"fmt"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
)

// An ear counts what it is told.
type ear struct{ heard int }

func (e *ear) Notify(context.Context, exchange.Request) error { e.heard++; return nil }

func (e *ear) Call(context.Context, exchange.Request) (exchange.Response, error) {
	return exchange.Response{}, nil
}

// fanOut returns what tells n listens of one change, and the ears.
func fanOut(n int) (func(), []*ear) {
	b := &hub{ctx: context.Background(), members: make(map[*member]struct{})}
	ears := make([]*ear, n)
	for i := range ears {
		ears[i] = &ear{}
		m := newMember([]byte(`{"toolsListChanged":true}`), ears[i])
		m.ready = true
		b.members[m] = struct{}{}
	}
	note := exchange.Request{Method: "notifications/tools/list_changed", Params: []byte(`{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}`)}
	return func() { b.deliver(note) }, ears
}

func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{1, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			deliver, ears := fanOut(n)
			b.ReportAllocs()
			for b.Loop() {
				deliver()
			}
			if got := ears[n-1].heard; got != b.N {
				b.Fatalf("the last heard %d of %d", got, b.N)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/delivery")
		})
	}
}

// A delivery costs nothing by itself; the slice of those who are told grows a few times.
func TestAllocationsOfFanOut(t *testing.T) {
	deliver, _ := fanOut(500)
	if got := testing.AllocsPerRun(100, deliver); got > 25 {
		t.Errorf("got %v allocations for 500 deliveries, want at most 25", got)
	}
}

// A round of a suspended call seals one token and opens one.
func TestAllocationsOfTokens(t *testing.T) {
	r, token := ring(t, secret('a')), fullToken()
	text := r.seal(token)
	if got := testing.AllocsPerRun(100, func() { r.seal(token) }); got > 8 {
		t.Errorf("seal: got %v allocations, want at most 8", got)
	}
	open := func() {
		if _, err := r.open(text); err != nil {
			t.Fatal(err)
		}
	}
	if got := testing.AllocsPerRun(100, open); got > 12 {
		t.Errorf("open: got %v allocations, want at most 12", got)
	}
}
