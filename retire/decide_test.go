package retire_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/retire"
)

var (
	noon  = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	later = noon.Add(time.Hour)
)

// window is one that is open at noon.
func window(m retire.Mode) []retire.Window {
	return []retire.Window{{ID: "w", From: noon, Until: later, Mode: m}}
}

// Every stage at every point, for a client nobody knows (retirement.md 6, the table).
func TestDecide(t *testing.T) {
	const (
		served   = "served"
		counted  = "served, counted"
		tomb     = "tombstone"
		refused  = "refused 410"
		brownout = "refused 503"
	)
	stages := []struct {
		name    string
		state   retire.State
		get     string
		init    string
		fresh   string // a request with which a conversation would begin
		request string // of one that lives
		message string
		unknown int
	}{
		{"open", retire.State{Stage: retire.Open}, served, served, served, served, served, 404},
		{"announce", retire.State{Stage: retire.Announce}, served, served, served, served, served, 404},
		{"warn", retire.State{Stage: retire.Warn}, served, counted, counted, counted, served, 404},
		{"brownout, no window", retire.State{Stage: retire.Brownout}, served, counted, counted, counted, served, 404},
		{"brownout, initialize", retire.State{Stage: retire.Brownout, Brownouts: window(retire.ModeInitialize)}, served, brownout, counted, counted, served, 404},
		{"brownout, calls", retire.State{Stage: retire.Brownout, Brownouts: window(retire.ModeCalls)}, served, brownout, brownout, brownout, served, 404},
		{"brownout, hard", retire.State{Stage: retire.Brownout, Brownouts: window(retire.ModeHard)}, brownout + " status 503", brownout, brownout, brownout, brownout + " status 503", 404},
		{"a window at warn", retire.State{Stage: retire.Warn, Brownouts: window(retire.ModeHard)}, served, counted, counted, counted, served, 404},
		{"closed", retire.State{Stage: retire.Closed}, tomb, refused, refused, counted, served, 404},
		{"a window at closed", retire.State{Stage: retire.Closed, Brownouts: window(retire.ModeHard)}, tomb, refused, refused, counted, served, 404},
		{"drain", retire.State{Stage: retire.Drain}, tomb, refused, refused, refused, served, 410},
		{"gone", retire.State{Stage: retire.Gone}, refused + " status 405", refused, refused, refused, refused + " status 410", 410},
		{"gone on the tombstone", retire.State{Stage: retire.Gone, Tombstone: true}, tomb, refused, refused, refused, served, 410},
	}
	for _, tt := range stages {
		t.Run(tt.name, func(t *testing.T) {
			for _, at := range []struct {
				point retire.Point
				fresh bool
				want  string
			}{
				{retire.AtGet, false, tt.get}, {retire.AtInitialize, false, tt.init}, {retire.AtInitialize, true, tt.init},
				{retire.AtRequest, true, tt.fresh}, {retire.AtRequest, false, tt.request}, {retire.AtMessage, false, tt.message},
			} {
				d := tt.state.Decide(retire.Ask{Point: at.point, Fresh: at.fresh, Now: noon})
				if got := shown(d); got != at.want {
					t.Errorf("%s, fresh %t: got %s, want %s", at.point, at.fresh, got, at.want)
				}
				if d.Stage != tt.state.Stage || d.Unknown != tt.unknown {
					t.Errorf("%s: got stage %s and %d for unknown sessions, want %s and %d", at.point, d.Stage, d.Unknown, tt.state.Stage, tt.unknown)
				}
			}
		})
	}
}

// shown says in words what a decision does.
func shown(d retire.Decision) string {
	switch {
	case d.Refuse && d.Status != 0:
		return "refused " + strconv.Itoa(d.Code) + " status " + strconv.Itoa(d.Status)
	case d.Refuse:
		return "refused " + strconv.Itoa(d.Code)
	case d.Tombstone:
		return "tombstone"
	case d.WouldRefuse:
		return "served, counted"
	}
	return "served"
}

// What a refusal of a window carries.
func TestDecideWindow(t *testing.T) {
	s := retire.State{Stage: retire.Brownout, Brownouts: window(retire.ModeCalls)}
	got := s.Decide(retire.Ask{Point: retire.AtRequest, Now: noon})
	want := retire.Decision{Stage: retire.Brownout, Mode: retire.ModeCalls, Window: "w", Refuse: true, Code: 503, Unknown: 404, RetryAt: later}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// An exemption keeps its client out of everything that would refuse it, and nobody else.
func TestDecideExempt(t *testing.T) {
	exemptions := []retire.Exemption{{ID: "sub:a"}, {ID: "name@10.0.0.0/24", Until: later}, {ID: "old", Until: noon}}
	tests := []struct {
		name   string
		stage  retire.Stage
		point  retire.Point
		ids    []string
		exempt bool
		want   string
	}{
		{"surest id", retire.Closed, retire.AtGet, []string{"sub:a", "10.0.0.0/24"}, true, "served"},
		{"another id", retire.Closed, retire.AtInitialize, []string{"sub:b", "name@10.0.0.0/24"}, true, "served"},
		{"in a drain", retire.Drain, retire.AtRequest, []string{"sub:a"}, true, "served"},
		{"at gone", retire.Gone, retire.AtGet, []string{"sub:a"}, true, "served"},
		{"message at gone", retire.Gone, retire.AtMessage, []string{"sub:a"}, true, "served"},
		{"not counted at warn", retire.Warn, retire.AtInitialize, []string{"sub:a"}, false, "served"},
		{"nothing to be exempt from", retire.Open, retire.AtInitialize, []string{"sub:a"}, false, "served"},
		{"over", retire.Closed, retire.AtInitialize, []string{"old"}, false, "refused 410"},
		{"another client", retire.Closed, retire.AtInitialize, []string{"sub:b"}, false, "refused 410"},
		{"a longer id", retire.Closed, retire.AtInitialize, []string{"sub:ab"}, false, "refused 410"},
		{"nobody known", retire.Closed, retire.AtGet, nil, false, "tombstone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := retire.State{Stage: tt.stage, Exemptions: exemptions}
			d := s.Decide(retire.Ask{Point: tt.point, IDs: tt.ids, Now: noon})
			if shown(d) != tt.want || d.Exempt != tt.exempt {
				t.Errorf("got %s, exempt %t; want %s, exempt %t", shown(d), d.Exempt, tt.want, tt.exempt)
			}
		})
	}
}

// A window is open from its first moment to before its last, and at stage brownout only.
func TestActive(t *testing.T) {
	s := retire.State{Stage: retire.Brownout, Brownouts: []retire.Window{
		{ID: "aborted", From: noon.Add(-time.Hour), Until: noon, Mode: retire.ModeCalls, Aborted: "guard"},
		{ID: "one", From: noon, Until: later, Mode: retire.ModeCalls},
		{ID: "two", From: later, Until: later.Add(time.Hour), Mode: retire.ModeCalls},
	}}
	for _, tt := range []struct {
		at   time.Time
		want string
	}{
		{noon.Add(-time.Minute), ""}, {noon.Add(-1), ""}, {noon, "one"}, {later.Add(-1), "one"}, {later, "two"}, {later.Add(time.Hour), ""},
	} {
		got := ""
		if w := s.Active(tt.at); w != nil {
			got = w.ID
		}
		if got != tt.want {
			t.Errorf("at %s: got %q, want %q", tt.at, got, tt.want)
		}
	}
	for _, stage := range retire.Stages() {
		s.Stage = stage
		if got := s.Active(noon) != nil; got != (stage == retire.Brownout) {
			t.Errorf("at stage %s: got a window %t", stage, got)
		}
	}
}

// A ramp takes its share of the identities, keeps who was in, and decides alike wherever a client is asked about.
func TestRamp(t *testing.T) {
	const clients = 10_000
	in := func(id string, percent int) bool {
		s := retire.State{Stage: retire.Brownout, Brownouts: window(retire.ModeCalls)}
		s.Brownouts[0].Percent = percent
		first := s.Decide(retire.Ask{Point: retire.AtInitialize, IDs: []string{id, "10.0.0.0/24"}, Now: noon}).Refuse
		for _, at := range []time.Time{noon, later.Add(-1)} {
			if d := s.Decide(retire.Ask{Point: retire.AtRequest, IDs: []string{id, "elsewhere"}, Now: at}); d.Refuse != first {
				t.Fatalf("%s at %d %%: in at one request and out at another", id, percent)
			}
		}
		return first
	}
	was := make(map[string]bool)
	for _, percent := range []int{1, 10, 50, 99, 100, 0} {
		count := 0
		for i := range clients {
			id := "name" + strconv.Itoa(i) + "@10.0.0.0/24"
			now := in(id, percent)
			if was[id] && !now {
				t.Fatalf("%s was in, and is out at %d %%", id, percent)
			}
			was[id] = now
			if now {
				count++
			}
		}
		share := float64(count) / clients * 100
		want := float64(percent)
		if percent == 0 {
			want = 100
		}
		if share < want-1.5 || share > want+1.5 {
			t.Errorf("%d %%: got %.2f %% of the clients", percent, share)
		}
	}
}

func TestRampOfUnknown(t *testing.T) {
	s := retire.State{Stage: retire.Brownout, Brownouts: window(retire.ModeHard)}
	s.Brownouts[0].Percent = 99
	if s.Decide(retire.Ask{Point: retire.AtGet, Now: noon}).Refuse {
		t.Error("somebody whom nobody knows was refused by a share")
	}
	// What is known at GET decides in hard mode, whatever is known later.
	for i := range 100 {
		network := "10.0." + strconv.Itoa(i) + ".0/24"
		get := s.Decide(retire.Ask{Point: retire.AtGet, IDs: []string{network}, Now: noon}).Refuse
		message := s.Decide(retire.Ask{Point: retire.AtMessage, IDs: []string{"name@" + network, network}, Now: noon}).Refuse
		if get != message {
			t.Errorf("%s: refused at GET %t, at a message %t", network, get, message)
		}
	}
}

// Jitter spreads evenly, is the same for the same key, and stays in its bounds.
func TestSpread(t *testing.T) {
	const streams, over = 10_000, 30 * time.Second
	var tenths [10]int
	for i := range streams {
		key := "session" + strconv.Itoa(i)
		d := retire.Spread(key, over)
		if d < 0 || d >= over || d != retire.Spread(key, over) {
			t.Fatalf("%s: got %s", key, d)
		}
		tenths[d*10/over]++
	}
	for i, n := range tenths {
		if n < 900 || n > 1100 {
			t.Errorf("tenth %d of the time: got %d of %d streams", i, n, streams)
		}
	}
	if got := retire.Spread("a", 0); got != 0 {
		t.Errorf("over no time: got %s", got)
	}
}

func TestRetryAfter(t *testing.T) {
	d := retire.Decision{RetryAt: noon.Add(90*time.Second + time.Millisecond)}
	seen := make(map[time.Duration]bool)
	for i := range 1000 {
		got := d.RetryAfter(noon, strconv.Itoa(i))
		if got < 91*time.Second || got > 101*time.Second || got%time.Second != 0 {
			t.Fatalf("got %s", got)
		}
		seen[got] = true
	}
	if len(seen) < 9 {
		t.Errorf("got %d different waits", len(seen))
	}
	if got := d.RetryAfter(later, "a"); got != time.Second {
		t.Errorf("after the window: got %s, want 1s", got)
	}
	long := retire.Decision{RetryAt: noon.Add(24 * time.Hour)}
	for i := range 1000 {
		if got := long.RetryAfter(noon, strconv.Itoa(i)); got < 24*time.Hour || got > 24*time.Hour+time.Minute {
			t.Fatalf("a day: got %s", got)
		}
	}
}

// busyState has as much to look at as a document may have.
func busyState() *retire.State {
	s := &retire.State{Stage: retire.Brownout, Brownouts: window(retire.ModeCalls)}
	s.Brownouts[0].Percent = 50
	for i := range retire.MaxExemptions {
		s.Exemptions = append(s.Exemptions, retire.Exemption{ID: "name" + strconv.Itoa(i) + "@10.0.0.0/24"})
	}
	return s
}

func TestDecideAllocatesNothing(t *testing.T) {
	s, ask := busyState(), retire.Ask{Point: retire.AtRequest, IDs: []string{"sub:1", "b@10.0.0.0/24", "10.0.0.0/24"}, Now: noon}
	if n := testing.AllocsPerRun(100, func() { s.Decide(ask) }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	ask := retire.Ask{Point: retire.AtRequest, IDs: []string{"sub:1", "b@10.0.0.0/24", "10.0.0.0/24"}, Now: noon}
	for name, s := range map[string]*retire.State{"open": {Stage: retire.Open}, "warn": {Stage: retire.Warn}, "brownout of 1024 exemptions": busyState()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Decide(ask)
			}
		})
	}
}
