package pulse

import (
	"testing"
	"time"
)

// MeasureRing measures a look at n alarms of which none is due.
func MeasureRing(b *testing.B, n int) {
	c := New(time.Hour)
	defer c.Close()
	wake := make(chan struct{}, 1)
	for range n {
		a := new(Alarm)
		c.Add(a, wake)
		a.Set(time.Now().Add(time.Hour))
	}
	now := time.Now().UnixNano()
	b.ReportAllocs()
	for b.Loop() {
		c.ring(now)
	}
}
