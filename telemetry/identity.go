package telemetry

import "time"

// A Class says how an identity stands to the newer transports (retirement.md 4). The strongest evidence wins.
type Class string

// Classes of identities.
const (
	ClassMigrated Class = "migrated" // used Streamable HTTP in the window and not HTTP+SSE
	ClassProven   Class = "proven"   // used both in the window, Streamable HTTP with success
	ClassProbing  Class = "probing"  // tries Streamable HTTP first and falls back
	ClassCapable  Class = "capable"  // its library can: it said so on the legacy route, or the client table does
	ClassAttested Class = "attested" // the operator says it will manage
	ClassUnknown  Class = "unknown"  // nothing but 2024-11-05 was seen
	ClassCannot   Class = "cannot"   // legacy only, by the client table or the operator
	ClassProbe    Class = "probe"    // never said anything: a scanner or a health check
	ClassIgnored  Class = "ignored"  // the operator says it does not count
	ClassModern   Class = "modern"   // never used HTTP+SSE
)

// Classes are all of them, in the order of a report.
var Classes = []Class{
	ClassCannot, ClassUnknown, ClassAttested, ClassProbing, ClassProven, ClassCapable, ClassMigrated, ClassModern, ClassIgnored, ClassProbe,
}

func (c Class) known() bool {
	for _, k := range Classes {
		if c == k {
			return true
		}
	}
	return false
}

// Kinds of identities, by what their key is made of.
const (
	KindPrincipal = "principal" // a keyed hash of the verified caller
	KindClient    = "client"    // clientInfo.name, network prefix and User-Agent family
	KindAddress   = "address"   // network prefix and User-Agent family
	KindOther     = "other"     // all that found no room of a prefix
)

// An Identity is one user of the bridge, as well as it can be told apart. Strings that came from a client are cleaned and proof
// of nothing, but for a principal's id.
type Identity struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Label     string `json:"label"`  // for people: the operator's, or the newest name and version
	Prefix    string `json:"prefix"` // network, as the privacy mode allows; empty: not kept
	UserAgent string `json:"user_agent,omitempty"`
	Class     Class  `json:"class"`

	Owner       string    `json:"owner,omitempty"`
	Contact     string    `json:"contact,omitempty"`
	ExemptUntil time.Time `json:"exempt_until,omitzero"`
	Ignored     bool      `json:"ignored,omitempty"`    // its class is of the policy's ignore
	Reattached  bool      `json:"reattached,omitempty"` // came back without a handshake (retirement.md R8)

	Clients    []NameVersion        `json:"clients"`    // at most 8, the newest first
	Requested  []string             `json:"requested"`  // revisions asked for over HTTP+SSE or, if it never was there, at all; newest first
	Negotiated []string             `json:"negotiated"` // revisions spoken
	Transports map[string]Transport `json:"transports"` // by http_sse and streamable_http
	Evidence   []Sign               `json:"evidence"`   // for the class
	Cadence    Cadence              `json:"cadence"`    // of its legacy use
	FirstSeen  time.Time            `json:"first_seen"`
	LastSeen   time.Time            `json:"last_seen"`

	// Blocks says that the identity would break, if it is one that counts. Window is what it did over HTTP+SSE in the window.
	Blocks bool   `json:"blocks"`
	Window Counts `json:"window"`
}

// A NameVersion is what an identity called itself at some time.
type NameVersion struct {
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Proxy    string    `json:"proxy,omitempty"`
	LastSeen time.Time `json:"last_seen"`
}

// A Transport is what an identity did over one transport, ever.
type Transport struct {
	Counts
	Bytes     int64     `json:"bytes"` // of params and results
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
}

// A Sign is one piece of evidence for an upgrade class.
type Sign struct {
	Kind      string    `json:"kind"` // one of the Sign constants
	Detail    string    `json:"detail,omitempty"`
	Count     int64     `json:"count"`
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
}

// Kinds of signs.
const (
	SignRequested  = "requested"      // asked for 2025-03-26 or later over HTTP+SSE
	SignDiscover   = "discover"       // server/discover or another 2026 claim over HTTP+SSE
	SignVersion    = "version_header" // MCP-Protocol-Version over HTTP+SSE
	SignStreamable = "streamable"     // a successful request over Streamable HTTP
	SignFallback   = "fallback"       // tried Streamable HTTP and opened a legacy stream right after
	SignReattached = "reattached"     // came back without a handshake
	SignTable      = "client_table"   // what is known of the program; Detail has the source
	SignOperator   = "operator"       // the operator's word
)

// A Cadence says how regularly an identity uses HTTP+SSE, in days (UTC).
type Cadence struct {
	ActiveDays     int `json:"active_days"`      // of the last 400
	LongestGapDays int `json:"longest_gap_days"` // between two days of use; 0: there is only one
	// NeedsDays is for how many days the identity must be silent before it counts as gone: the policy's quiet period, or more for
	// one that comes seldom.
	NeedsDays int `json:"needs_days"`
}
