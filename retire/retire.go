// Package retire holds the stage of the retirement of the HTTP+SSE routes: the state document, who may change it and how,
// what a stage means for one request, and the audit log (retirement.md 6).
//
// It serves nothing and records nobody: the root asks it what to do with a request and does it.
package retire

import (
	"net/http"
	"net/netip"
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

// A Mode is what a brownout window refuses.
type Mode string

// The modes of a brownout.
const (
	ModeInitialize Mode = "initialize"
	ModeCalls      Mode = "calls"
	ModeHard       Mode = "hard"
)

// A State is the state document. It is immutable: a change makes another.
type State struct {
	Version     int64       `json:"version"` // counts changes; zero: never changed
	Stage       Stage       `json:"stage"`
	Since       time.Time   `json:"since,omitzero"`
	By          string      `json:"by,omitempty"`
	Reason      string      `json:"reason,omitempty"`
	Sunset      time.Time   `json:"sunset,omitzero"`      // not before Deprecation
	Deprecation time.Time   `json:"deprecation,omitzero"` // zero: Since of the first stage after open
	Brownouts   []Window    `json:"brownouts,omitempty"`
	Exemptions  []Exemption `json:"exemptions,omitempty"`
	Schedule    []Step      `json:"schedule,omitempty"`  // stages to come
	Tombstone   bool        `json:"tombstone,omitempty"` // gone stays on the tombstone (gone.tombstone)
}

// A Window is one brownout.
type Window struct {
	ID      string    `json:"id"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
	Mode    Mode      `json:"mode"`
	Percent int       `json:"percent,omitempty"` // of the identities; zero: all
	Aborted string    `json:"aborted,omitempty"` // why the guard ended it
}

// An Exemption keeps one identity of the ledger out of refusals.
type Exemption struct {
	ID     string    `json:"id"`
	Until  time.Time `json:"until,omitzero"`
	Owner  string    `json:"owner,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// A Step is a stage that is scheduled.
type Step struct {
	Stage Stage     `json:"stage"`
	At    time.Time `json:"at"`
}

// A Point is where a request stands when it is asked about.
type Point string

// The points (retirement.md 7, legacy_refusals_total).
const (
	AtGet        Point = "get"        // GET of the stream
	AtInitialize Point = "initialize" // initialize or server/discover on a stream
	AtRequest    Point = "request"    // any other request on a stream but ping
	AtMessage    Point = "message"    // POST of the message route, before it is read
)

// An Ask is one question to Decide.
type Ask struct {
	Point Point
	IDs   []string // identities of the ledger that may be meant, the surest first; empty: nobody known yet
	Fresh bool     // the session began after the stage did (tombstone) and has no conversation
	Now   time.Time
}

// A Decision says what the current stage does to a request.
type Decision struct {
	Stage       Stage
	Mode        Mode   // of the active brownout window, else empty
	Window      string // its ID
	Refuse      bool
	WouldRefuse bool      // at warn: a later stage would (counted)
	Exempt      bool      // an exemption kept it from being refused
	Code        int       // of the JSON-RPC error: 410 or 503
	Status      int       // of the HTTP answer where the point has one of its own (405 or 410 at gone, 503 hard), else zero
	RetryAt     time.Time // end of the window
	Tombstone   bool      // GET: accept the stream, answer everything with the error
}

// Decide says what s does with the request. It is pure: it depends on its arguments only.
func (s *State) Decide(a Ask) Decision { panic("not built") }

// Links are what refusals and headers name.
type Links struct {
	Successor string // absolute URL of the Streamable HTTP endpoint, as this client sees it
	Docs      string // absolute URL of the migration guide, may be empty
	Policy    string // absolute URL of the sunset policy, may be empty
}

// Header writes Deprecation (RFC 9745), Sunset (RFC 8594), Link and Access-Control-Expose-Headers from announce on.
func (s *State) Header(h http.Header, l Links, now time.Time) { panic("not built") }

// Sentence is the text of a refusal, at most 240 bytes, with the absolute new URL as long as that fits (retirement.md R3).
func (s *State) Sentence(d Decision, l Links) string { panic("not built") }

// Data is the data member of a refusal, raw JSON: {stage, sunset, successor, docs, retryAt?}.
func (s *State) Data(d Decision, l Links) []byte { panic("not built") }

// A Change asks for another state.
type Change struct {
	Version int64  // the version it is based on; the change fails with ErrStale when another is current
	State   State  // the wanted document; Version, Since and By are set by the keeper
	Actor   string // admin principal or user of the operating system
	Origin  string // cli, api, schedule, guard or config
	Remote  netip.Prefix
	Reason  string
	Force   bool      // despite a failed readiness check
	Digest  string    // of the report that was looked at
	Now     time.Time // zero: time.Now
}
