package guard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/internal/guard"
)

// A crowd sends requests through a Limiter, as different people from different places.
type crowd struct {
	t       *testing.T
	h       http.Handler
	release chan struct{} // lets requests that wait go on
	wg      sync.WaitGroup

	mu      sync.Mutex
	bounds  []string
	unknown bool // the session that requests name
}

func newCrowd(t *testing.T, o guard.LimitOptions) *crowd {
	c := &crowd{t: t, release: make(chan struct{})}
	o.Reached = func(_ *http.Request, bound string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bounds = append(c.bounds, bound)
	}
	o.Unknown = func(*http.Request) bool { return c.unknown }
	l := guard.NewLimiter(o)
	f := newTokenFile(t, line("alice", "alice")+line("bob", "bob"))
	a := guard.NewAuthenticator(guard.AuthOptions{Tokens: f.read(), Failed: func(r *http.Request, _ string) time.Duration { return l.Failed(r) }})
	c.h = a.Identify(a.Demand(l.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Wait") != "" {
			<-c.release
		}
	}))))
	t.Cleanup(c.wg.Wait)
	return c
}

func (c *crowd) request(method, who, from string) *http.Request {
	r := httptest.NewRequest(method, "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+who)
	r.RemoteAddr = from
	return r
}

func (c *crowd) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, r)
	if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
		c.t.Errorf("429 without Retry-After: %s", w.Body)
	}
	return w
}

// wait sends a request that waits for release.
func (c *crowd) wait(r *http.Request) {
	r.Header.Set("X-Wait", "1")
	c.wg.Go(func() { c.do(r) })
	synctest.Wait()
}

const (
	here  = "192.0.2.1:1000"
	there = "198.51.100.1:1000"
)

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, guard.LimitOptions{Principal: guard.Limit{Rate: 2, Burst: 3}})
		got := ""
		for range 5 {
			got += fmt.Sprint(c.do(c.request("POST", "alice", here)).Code, " ")
		}
		if want := "200 200 200 429 429 "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if w := c.do(c.request("POST", "bob", here)); w.Code != 200 {
			t.Errorf("somebody else: got %d", w.Code)
		}
		time.Sleep(500 * time.Millisecond)
		if w := c.do(c.request("GET", "alice", there)); w.Code != 200 {
			t.Errorf("after a while: got %d", w.Code)
		}
		if w := c.do(c.request("POST", "alice", here)); w.Code != 429 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("got %d %v, want 429 and Retry-After", w.Code, w.Header())
		}
		c.unknown = true
		if w := c.do(c.request("POST", "alice", here)); w.Code != 200 {
			t.Errorf("with a session that is gone: got %d, want it to be let through to its 404", w.Code)
		}
	})
}

func TestAtOnce(t *testing.T) {
	tests := []struct {
		name                 string
		principal, address   guard.Limit
		method               string
		same, other, another int // status of one more of alice's, of bob's from there, of bob's from here
		bound                string
	}{
		{"calls of a principal", guard.Limit{Calls: 2}, guard.Limit{}, "POST", 429, 200, 200, guard.BoundCalls},
		{"streams of a principal", guard.Limit{Streams: 2}, guard.Limit{}, "GET", 429, 200, 200, guard.BoundStreams},
		{"calls of an address", guard.Limit{}, guard.Limit{Calls: 2}, "POST", 429, 200, 429, guard.BoundCalls},
		{"streams of an address", guard.Limit{}, guard.Limit{Streams: 2}, "GET", 429, 200, 429, guard.BoundStreams},
		{"streams are no calls", guard.Limit{Calls: 2}, guard.Limit{Calls: 2}, "GET", 200, 200, 200, ""},
		{"what ends a session is neither", guard.Limit{Calls: 2, Streams: 2}, guard.Limit{}, "DELETE", 200, 200, 200, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, guard.LimitOptions{Principal: tt.principal, Address: tt.address})
				for range 2 {
					c.wait(c.request(tt.method, "alice", here))
				}
				got := []int{
					c.do(c.request(tt.method, "alice", here)).Code, c.do(c.request(tt.method, "bob", there)).Code, c.do(c.request(tt.method, "bob", here)).Code,
				}
				if got[0] != tt.same || got[1] != tt.other || got[2] != tt.another {
					t.Errorf("got %v, want %d %d %d", got, tt.same, tt.other, tt.another)
				}
				if tt.bound != "" && (len(c.bounds) == 0 || c.bounds[0] != tt.bound) || tt.bound == "" && len(c.bounds) > 0 {
					t.Errorf("got bounds %v, want %s", c.bounds, tt.bound)
				}
				close(c.release)
				synctest.Wait()
				if w := c.do(c.request(tt.method, "alice", here)); w.Code != 200 {
					t.Errorf("after they have ended: got %d", w.Code)
				}
			})
		})
	}
}

// The addresses of one IPv6 site are one.
func TestNetworks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, guard.LimitOptions{Address: guard.Limit{Rate: 0.001, Burst: 1}})
		for _, tt := range []struct {
			from string
			want int
		}{
			{"[2001:db8:1:2::1]:1", 200}, {"[2001:db8:1:2:ffff::9]:1", 429}, {"[2001:db8:1:3::1]:1", 200},
			{"192.0.2.1:1", 200}, {"192.0.2.2:1", 200}, {"[::ffff:192.0.2.1]:5", 429},
		} {
			if w := c.do(c.request("POST", "alice", tt.from)); w.Code != tt.want {
				t.Errorf("%s: got %d, want %d", tt.from, w.Code, tt.want)
			}
		}
	})
}

// Who guesses tokens is told to wait, and those who have one are not.
func TestGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, guard.LimitOptions{})
		codes := map[int]int{}
		for range 150 {
			codes[c.do(c.request("POST", "guess", here)).Code]++
		}
		if codes[401] != 100 || codes[429] != 50 {
			t.Errorf("got %v, want 100 times 401 and then 429", codes)
		}
		if w := c.do(c.request("POST", "alice", here)); w.Code != 200 {
			t.Errorf("with a token from there: got %d", w.Code)
		}
		if w := c.do(c.request("POST", "guess", there)); w.Code != 401 {
			t.Errorf("from elsewhere: got %d", w.Code)
		}
		time.Sleep(time.Second)
		if w := c.do(c.request("POST", "guess", here)); w.Code != 401 {
			t.Errorf("a second later: got %d", w.Code)
		}
	})
}

// However many addresses there are, the table of them is bounded, and the old ones go first.
func TestManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := guard.NewLimiter(guard.LimitOptions{Failures: guard.Limit{Rate: 1, Burst: 1}})
		r := httptest.NewRequest("POST", "/mcp", nil)
		from := func(n int) *http.Request {
			r.RemoteAddr = fmt.Sprintf("[2001:db8:%x:%x::1]:1", n>>16, n&0xffff)
			return r
		}
		for n := range 1 << 16 {
			if l.Failed(from(n)) != 0 {
				t.Fatalf("number %d has to wait", n)
			}
		}
		if l.Failed(from(1<<16)) != 0 {
			t.Error("the first that has no room has to wait")
		}
		if l.Failed(from(1<<16+1)) == 0 {
			t.Error("the second that has no room has a meter of its own")
		}
		time.Sleep(2 * time.Second)
		if l.Failed(from(1<<16+2)) != 0 || l.Failed(from(1<<16+3)) != 0 {
			t.Error("the old ones have not made room")
		}
	})
}

func TestBudget(t *testing.T) {
	b := guard.NewBudget(10)
	if !b.Take(7) || b.Take(4) || !b.Fits(3) || b.Fits(4) || !b.Take(3) {
		t.Error("10 bytes are not 10 bytes")
	}
	b.Give(10)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if b.Take(3) {
					b.Give(3)
				}
			}
		})
	}
	wg.Wait()
	if !b.Take(10) {
		t.Error("what was given back is not there")
	}
}

func BenchmarkLimiter(b *testing.B) {
	l := guard.NewLimiter(guard.LimitOptions{Address: guard.Limit{Rate: 1e9, Calls: 100, Streams: 100}})
	h := l.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/mcp", nil)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
