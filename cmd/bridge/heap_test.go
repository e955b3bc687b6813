package main

import "testing"

func TestPaceFor(t *testing.T) {
	tests := []struct {
		name string
		base uint64
		want int
	}{
		{"nothing measured yet", 0, mostPace},
		{"next to nothing", 1 << 10, mostPace},
		{"a small heap grows by the least", 8 << 20, 400},
		{"one as large as the least doubles", 32 << 20, 100},
		{"a large one grows by half", 100 << 20, leastPace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := paceFor(tt.base); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
