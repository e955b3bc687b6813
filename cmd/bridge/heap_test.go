package main

import "testing"

func TestPaceFor(t *testing.T) {
	tests := []struct {
		name       string
		live, base uint64
		want       int
	}{
		{"nothing measured yet", 0, 0, mostPace},
		{"next to nothing", 1 << 10, 1 << 10, mostPace},
		{"a small heap grows to the least", 8 << 20, 8 << 20, 300},
		{"stacks and globals count", 8 << 20, 12 << 20, 200},
		{"half of it", 16 << 20, 16 << 20, 100},
		{"more than half of it", 24 << 20, 24 << 20, defaultPace},
		{"more than it", 100 << 20, 120 << 20, defaultPace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := paceFor(tt.live, tt.base); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
