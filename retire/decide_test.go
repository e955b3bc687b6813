package retire_test

import (
	"net/http"
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
		return "refused " + itoa(d.Code) + " status " + itoa(d.Status)
	case d.Refuse:
		return "refused " + itoa(d.Code)
	case d.Tombstone:
		return "tombstone"
	case d.WouldRefuse:
		return "served, counted"
	}
	return "served"
}

func itoa(n int) string {
	return http.StatusText(n)[:0] + string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)})
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
