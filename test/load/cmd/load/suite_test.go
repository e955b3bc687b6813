package main

import "testing"

// Half of the load is half of what the same row reached, also where another target stands in for this one (bridge, stdio, at the
// stateless kind: its row has the name of the first).
func TestHalf(t *testing.T) {
	s := &suite{}
	row := &line{Scenario: halfLoad, Kind: kindSL, Target: bridgeStdio}
	if got, err := s.half(row); err == nil {
		t.Errorf("got %v before it was measured, want an error", got)
	}
	s.done = []line{
		{Scenario: "growth 1000", Kind: kindSH, Target: bridgeStdio, Run: &result{Rate: 10}},
		{Scenario: "growth 1000", Kind: kindSL, Target: bridgeModern, Run: &result{Rate: 20}},
		{Scenario: "growth 1000", Kind: kindSL, Target: bridgeStdio, Run: &result{Rate: 1000}},
	}
	if got, err := s.half(row); err != nil || got != 500 {
		t.Errorf("got %v, %v, want 500", got, err)
	}
}
