package pulse_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-dualstack/bridge/internal/pulse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// started returns an alarm on a clock of its own.
func started(t *testing.T, tick time.Duration, wake chan struct{}) *pulse.Alarm {
	c, a := pulse.New(tick), new(pulse.Alarm)
	t.Cleanup(c.Close)
	c.Add(a, wake)
	t.Cleanup(a.Remove)
	return a
}

func TestAlarmRings(t *testing.T) {
	for _, c := range []struct {
		name          string
		after, within time.Duration
	}{
		{"between two ticks", 2500 * time.Millisecond, 500 * time.Millisecond},
		{"on a tick", 3 * time.Second, 0},
		{"in the past", -time.Hour, time.Hour + time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wake := make(chan struct{}, 1)
				begun := time.Now()
				a := started(t, time.Second, wake)
				a.Set(begun.Add(c.after))
				<-wake
				if late := time.Since(begun) - c.after; late < 0 || late > c.within {
					t.Errorf("rang %v late, want 0 to %v", late, c.within)
				}
			})
		})
	}
}

// An alarm that nobody set anew rings again at the next tick; one set to later or never is silent till then.
func TestAlarmIsSetAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		a := started(t, time.Second, wake)
		rings := func(d time.Duration) (n int) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				time.Sleep(time.Second)
				synctest.Wait()
				n += len(wake)
				for len(wake) > 0 {
					<-wake
				}
			}
			return n
		}
		if got := rings(5 * time.Second); got != 0 {
			t.Errorf("not set: rang %d times", got)
		}
		a.Set(time.Now())
		if got := rings(5 * time.Second); got != 5 {
			t.Errorf("set to now: rang %d times, want 5", got)
		}
		a.Set(time.Now().Add(3 * time.Second))
		if got := rings(5 * time.Second); got != 3 {
			t.Errorf("set to 3 s: rang %d times, want 3", got)
		}
		a.Set(time.Time{})
		if got := rings(5 * time.Second); got != 0 {
			t.Errorf("set to never: rang %d times", got)
		}
	})
}

// Alarms come and go from many goroutines; each rings, none after its removal, and nothing is left running.
func TestManyAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pulse.New(100 * time.Millisecond)
		defer c.Close()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				for range 10 {
					time.Sleep(rand.N(time.Second))
					wake := make(chan struct{}, 1)
					var a pulse.Alarm
					c.Add(&a, wake)
					at := time.Now().Add(rand.N(time.Second))
					a.Set(at)
					<-wake
					if late := time.Since(at); late < 0 || late > 100*time.Millisecond {
						t.Errorf("rang %v late", late)
					}
					a.Remove()
					select {
					case <-wake:
					default:
					}
					time.Sleep(time.Second)
					if len(wake) > 0 {
						t.Error("rang after it was removed")
					}
				}
			})
		}
		wg.Wait()
	})
}

// A clock stands still while it has no alarms, and goes again for the next one.
func TestClockStopsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pulse.New(time.Second) // never closed: the bubble would not end if its goroutine did not
		wake := make(chan struct{}, 1)
		for range 3 {
			var a pulse.Alarm
			c.Add(&a, wake)
			a.Set(time.Now())
			<-wake
			a.Remove()
			time.Sleep(time.Minute)
		}
	})
}

func TestClosedClockDoesNotRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		c := pulse.New(time.Second)
		var a pulse.Alarm
		c.Add(&a, wake)
		a.Set(time.Now())
		c.Close()
		c.Close()
		time.Sleep(time.Minute)
		if len(wake) != 0 {
			t.Error("rang after Close")
		}
		a.Remove()
	})
}

// What one tick costs.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { pulse.MeasureRing(b, n) })
	}
}

// An alarm with a function rings once, and not at all when it was removed before.
func TestAddFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pulse.New(time.Second)
		defer c.Close()
		var rang atomic.Int32
		var a, b pulse.Alarm
		c.AddFunc(&a, time.Now().Add(2500*time.Millisecond), func() { rang.Add(1) })
		c.AddFunc(&b, time.Now().Add(2500*time.Millisecond), func() { rang.Add(100) })
		b.Remove()
		defer a.Remove()
		for i, want := range []int32{0, 0, 1, 1, 1} {
			time.Sleep(time.Second)
			synctest.Wait()
			if got := rang.Load(); got != want {
				t.Errorf("after %d s: rang %d times, want %d", i+1, got, want)
			}
		}
	})
}
