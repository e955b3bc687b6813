// Package retire decides what the retirement of the HTTP+SSE routes means for a request: it holds the state document and its
// audit log, says who may change it and how, and what a stage does (retirement.md 3 and 6).
//
// It serves nothing and records nobody: the root asks it what to do with a request and does it.
package retire

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Stage is one of the seven steps, in order.
type Stage string

// The stages (retirement.md 6).
const (
	Open     Stage = "open"
	Announce Stage = "announce"
	Warn     Stage = "warn"
	Brownout Stage = "brownout"
	Closed   Stage = "closed"
	Drain    Stage = "drain"
	Gone     Stage = "gone"
)

// Stages returns the stages in order.
func Stages() []Stage { return []Stage{Open, Announce, Warn, Brownout, Closed, Drain, Gone} }

// ParseStage returns the stage of that name. The error lists the names.
func ParseStage(name string) (Stage, error) {
	if s := Stage(name); s.rank() >= 0 {
		return s, nil
	}
	names := make([]string, 0, len(Stages()))
	for _, s := range Stages() {
		names = append(names, string(s))
	}
	return "", fmt.Errorf("%q is no stage; the stages are %s", name, strings.Join(names, ", "))
}

// Reached reports whether s is t or a later stage.
func (s Stage) Reached(t Stage) bool { return s.rank() >= t.rank() }

// After reports whether s is a later stage than t.
func (s Stage) After(t Stage) bool { return s.rank() > t.rank() }

// rank is the place of s in the order, -1 for what is no stage.
func (s Stage) rank() int {
	switch s {
	case Open:
		return 0
	case Announce:
		return 1
	case Warn:
		return 2
	case Brownout:
		return 3
	case Closed:
		return 4
	case Drain:
		return 5
	case Gone:
		return 6
	}
	return -1
}

// A Mode is what a brownout window refuses.
type Mode string

// The modes of a brownout.
const (
	ModeInitialize Mode = "initialize" // new conversations, on the stream
	ModeCalls      Mode = "calls"      // every request but ping, on the stream
	ModeHard       Mode = "hard"       // every HTTP request, with a status: some clients do not come back by themselves
)

func (m Mode) known() bool { return m == ModeInitialize || m == ModeCalls || m == ModeHard }

// A State is the state document. It is immutable: a change makes another.
type State struct {
	Version     int64       `json:"version"` // counts changes; zero: never changed
	Stage       Stage       `json:"stage"`
	Since       time.Time   `json:"since,omitzero"` // when the stage began
	By          string      `json:"by,omitempty"`   // who made the last change
	Reason      string      `json:"reason,omitempty"`
	Sunset      time.Time   `json:"sunset,omitzero"`      // zero: not decided; else not before Deprecation
	Deprecation time.Time   `json:"deprecation,omitzero"` // from announce on never zero: the Keeper fills in when that was
	Brownouts   []Window    `json:"brownouts,omitempty"`  // in order, not overlapping
	Exemptions  []Exemption `json:"exemptions,omitempty"`
	Schedule    []Step      `json:"schedule,omitempty"`  // stages to come, in order
	Tombstone   bool        `json:"tombstone,omitempty"` // gone stays on the tombstone (gone.tombstone)
}

// clone returns a copy of s that may be changed.
func (s *State) clone() *State {
	c := *s
	c.Brownouts = slices.Clone(s.Brownouts)
	c.Exemptions = slices.Clone(s.Exemptions)
	c.Schedule = slices.Clone(s.Schedule)
	return &c
}

// A Window is one brownout. It works at stage brownout only.
type Window struct {
	ID      string    `json:"id"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
	Mode    Mode      `json:"mode"`
	Percent int       `json:"percent,omitempty"` // of the identities; zero: all
	Aborted string    `json:"aborted,omitempty"` // why it was ended early, by the guard or an operator
}

// An Exemption keeps one identity of the ledger out of refusals. It works in every stage where the identity is known when the
// request comes: an identity that needs clientInfo is known from initialize on.
type Exemption struct {
	ID     string    `json:"id"`
	Until  time.Time `json:"until,omitzero"` // zero: for good
	Owner  string    `json:"owner,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// A Step is a stage that is scheduled.
type Step struct {
	Stage Stage     `json:"stage"`
	At    time.Time `json:"at"`
	Held  string    `json:"held,omitempty"` // why it was not taken when it was due; the schedule waits here until it is changed
}
