package telemetry_test

import (
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// What the report says in one line, and what to do, about a client that left HTTP+SSE and one that only has both.
func TestWhy(t *testing.T) {
	desk := at(legacyClient("desk"), "10.0.1.1", "node")
	days := func(from, to int) (out []int) {
		for d := from; d >= to; d-- {
			out = append(out, d)
		}
		return out
	}
	tests := []struct {
		name      string
		legacy    []int // days ago
		modern    []int
		why, next string
	}{
		{"nobody", nil, days(20, 1), "ready", "bridge retire set gone"},
		{"has both", days(20, 1), days(20, 1), "blocked: desk 1.0 still uses HTTP+SSE; another URL is enough", "have 1 client changed to Streamable HTTP (the same URL accepts it)"},
		{"moved", days(20, 10), days(9, 1), "blocked: desk 1.0 used HTTP+SSE until 2000-02-10 and seems to have moved; it counts until 2000-03-11", "wait until 2000-03-11 for 1 client that moved"},
		{"silent for no longer than it was before", []int{26, 18, 10}, days(9, 1), "blocked: desk 1.0 still uses HTTP+SSE; another URL is enough", "have 1 client changed to Streamable HTTP (the same URL accepts it)"},
		{"went back", []int{20, 19, 18}, []int{25, 24}, "blocked: desk 1.0 still uses HTTP+SSE; another URL is enough", "have 1 client changed to Streamable HTTP (the same URL accepts it)"},
		{"seen on one day only", []int{10}, days(9, 1), "blocked: desk 1.0 still uses HTTP+SSE; another URL is enough", "have 1 client changed to Streamable HTTP (the same URL accepts it)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &history{observed: 50}
			h.use(desk, 1, tt.legacy...)
			h.use(over(desk, exchange.StreamableHTTP), 1, tt.modern...)
			r := h.answer(t, telemetry.Question{})
			if got := r.Why(); got != tt.why {
				t.Errorf("why: got %q, want %q", got, tt.why)
			}
			if got := r.Next(); got != tt.next {
				t.Errorf("next: got %q, want %q", got, tt.next)
			}
		})
	}
}

// A line names three reasons at most.
func TestWhyIsShort(t *testing.T) {
	h := &history{observed: 9}
	for _, name := range []string{"a", "b", "c", "d"} {
		h.use(at(legacyClient(name), "10.0.1.1", "node"), 1, 1)
	}
	const want = "blocked: a 1.0 still uses HTTP+SSE; another URL is enough; b 1.0 still uses HTTP+SSE; another URL is enough; " +
		"c 1.0 still uses HTTP+SSE; another URL is enough; and 2 more"
	if got := h.answer(t, telemetry.Question{}).Why(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
