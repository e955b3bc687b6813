package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// span is a window from and until hours after noon.
func span(id string, from, until float64) retire.Window {
	at := func(h float64) time.Time { return noon.Add(time.Duration(h * float64(time.Hour))) }
	return retire.Window{ID: id, From: at(from), Until: at(until), Mode: retire.ModeCalls}
}

func TestWindowOpen(t *testing.T) {
	aborted := span("aborted", -1, 2)
	aborted.Aborted = "guard"
	abortedCut := aborted
	abortedCut.Until = noon
	now := retire.Window{ID: "2026-12-01T120000Z", From: noon, Until: noon.Add(3 * time.Hour), Mode: retire.ModeInitialize, Percent: 10}
	tests := []struct {
		name         string
		before, want []retire.Window
	}{
		{"alone", nil, []retire.Window{now}},
		{"among others", []retire.Window{span("past", -3, 0), span("next", 3, 4)}, []retire.Window{span("past", -3, 0), now, span("next", 3, 4)}},
		{"cuts the open one", []retire.Window{span("open", -1, 2)}, []retire.Window{span("open", -1, 0), now}},
		{"covers others", []retire.Window{span("a", 1, 2), span("b", 2, 9)}, []retire.Window{now}},
		{"begins with another", []retire.Window{span("same", 0, 1)}, []retire.Window{now}},
		{"after an aborted one", []retire.Window{aborted}, []retire.Window{abortedCut, now}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &retire.State{Stage: retire.Brownout, Brownouts: tt.before}
			(&windowFlags{length: 3 * time.Hour, percent: 10}).open(s, noon.Add(100*time.Millisecond))
			if diff := cmp.Diff(tt.want, s.Brownouts); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
	full := &retire.State{Stage: retire.Brownout}
	for i := range retire.MaxBrownouts {
		full.Brownouts = append(full.Brownouts, span(strings.Repeat("x", i+1), float64(i-100), float64(i-99)))
	}
	(&windowFlags{length: time.Hour}).open(full, noon)
	if err := full.Check(); err != nil || len(full.Brownouts) != retire.MaxBrownouts || full.Active(noon) == nil {
		t.Errorf("no room: got %d windows, %v", len(full.Brownouts), err)
	}
}

func TestPreviewText(t *testing.T) {
	client := refused{ID: "sub:a", Label: "desk\x1b[2J", Class: telemetry.ClassCapable, Owner: "ops", Sessions: 2, Calls: 30, LastSeen: noon.Add(-90 * time.Minute)}
	many := make([]refused, maxRefused+2)
	for i := range many {
		many[i] = client
	}
	row := "capable  desk [2J  sub:a  2 sessions  30 calls  last 1 h ago  owner ops\n"
	tests := []struct {
		name string
		v    preview
		want string
	}{
		{"nobody", preview{From: retire.Warn, To: retire.Closed, Days: 30, Detail: "ready"},
			"stage warn -> closed\nno client that used HTTP+SSE in the last 30 days would be refused\nreadiness for closed: ready\n"},
		{"one", preview{From: retire.Warn, To: retire.Closed, Days: 30, Refused: []refused{client}},
			"stage warn -> closed\nclosed refuses 1 client, by the last 30 days of HTTP+SSE:\n+ " + row},
		{"refused already", preview{From: retire.Closed, To: retire.Drain, Days: 30, Refused: []refused{client}},
			"stage closed -> drain\n1 client cannot begin a session already; drain ends the live ones, by the last 30 days of HTTP+SSE:\n  " + row},
		{"in windows", preview{From: retire.Brownout, To: retire.Brownout, Days: 30, Refused: []refused{client}, Exempt: []refused{client}},
			"stage brownout stays\nin its windows brownout refuses 1 client, by the last 30 days of HTTP+SSE:\n+ " + row + "exempt, and served on:\n  " + row},
		{"many", preview{From: retire.Open, To: retire.Gone, Days: 7, Refused: many},
			"stage open -> gone\ngone refuses 22 clients, by the last 7 days of HTTP+SSE:\n" + strings.Repeat("+ "+row, maxRefused) + "  and 2 more, which bridge report lists\n"},
		{"unknown", preview{From: retire.Open, To: retire.Gone, Unknown: "there is no ledger"},
			"stage open -> gone\nwho would be refused is not known: there is no ledger\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := tt.v.write(&b, noon); err != nil {
				t.Fatal(err)
			}
			if b.String() != tt.want {
				t.Errorf("got\n%swant\n%s", &b, tt.want)
			}
		})
	}
}

func TestAgo(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{0, "now"}, {59 * time.Second, "now"}, {time.Minute, "1 min ago"}, {59 * time.Minute, "59 min ago"}, {time.Hour, "1 h ago"},
		{47 * time.Hour, "47 h ago"}, {48 * time.Hour, "2 d ago"}, {400 * 24 * time.Hour, "400 d ago"},
	} {
		if got := ago(noon, noon.Add(-tt.d)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.d, got, tt.want)
		}
	}
	if got := ago(noon, time.Time{}); got != "at an unknown time" {
		t.Errorf("never: got %s", got)
	}
}

// The whole of what show prints, for a document that has everything.
func TestShowState(t *testing.T) {
	open := span("now", -1, 1)
	open.Percent = 25
	aborted := span("aborted", -5, -4)
	aborted.Aborted = "27 clients were refused"
	s := &retire.State{
		Version: 7, Stage: retire.Brownout, Since: noon.Add(-48 * time.Hour), By: "ann", Reason: "as agreed", Sunset: noon.Add(-time.Hour), Deprecation: noon.AddDate(0, -1, 0),
		Brownouts:  []retire.Window{span("past", -9, -8), aborted, open, span("next", 24, 25)},
		Exemptions: []retire.Exemption{{ID: "sub:a", Until: noon, Owner: "billing", Reason: "vendor"}, {ID: "sub:b"}},
		Schedule:   []retire.Step{{Stage: retire.Closed, At: noon, Held: "not ready for closed: blocked"}, {Stage: retire.Gone, At: noon.Add(time.Hour)}},
		Tombstone:  true,
	}
	var b bytes.Buffer
	if err := showState(&b, s, "cut off", "/state", noon); err != nil {
		t.Fatal(err)
	}
	want := `HTTP+SSE retirement: stage brownout since 2026-11-29 12:00 UTC (version 7)
HTTP+SSE is refused in windows of time
DAMAGED: cut off
changed     by ann: as agreed
deprecated  2026-11-01 12:00 UTC
sunset      2026-12-01 11:00 UTC, which has passed
gone        on the stream, which goes on telling clients where to go
brownout    2026-12-01 03:00 UTC until 2026-12-01 04:00, every call is refused (over)
brownout    2026-12-01 07:00 UTC until 2026-12-01 08:00, every call is refused; aborted: 27 clients were refused
brownout    2026-12-01 11:00 UTC until 2026-12-01 13:00, every call is refused, of 25 % of the clients (NOW)
brownout    2026-12-02 12:00 UTC until 2026-12-02 13:00, every call is refused
HELD        closed, due 2026-12-01 12:00 UTC: not ready for closed: blocked
schedule    gone at 2026-12-01 13:00 UTC
exempt      sub:a of billing until 2026-12-01 12:00 UTC (over): vendor
exempt      sub:b for good
state       /state
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
