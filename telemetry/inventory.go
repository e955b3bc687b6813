package telemetry

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// InventorySchema is the schema member of an Inventory in JSON, as ReportSchema is of a Report.
const InventorySchema = "bridge.ledger/1"

// An Inventory is all that one ledger knows of identities, without any judgement, for other programs and for whoever asks what is known of
// them.
type Inventory struct {
	Schema     string             `json:"schema"`
	Replica    string             `json:"replica"`
	From       time.Time          `json:"from,omitzero"`
	LastFlush  time.Time          `json:"last_flush,omitzero"`
	Gaps       []Gap              `json:"gaps"`
	Identities []RecordedIdentity `json:"identities"`
}

// A RecordedIdentity has every field that is kept.
type RecordedIdentity struct {
	ID         string               `json:"id"`
	Kind       string               `json:"kind"`
	Prefix     string               `json:"prefix"`
	UserAgent  string               `json:"user_agent"`
	FirstSeen  time.Time            `json:"first_seen"`
	LastSeen   time.Time            `json:"last_seen"`
	Clients    []NameVersion        `json:"clients"`
	Revisions  []RecordedRevision   `json:"revisions"`
	Transports map[string]Transport `json:"transports"`
	Days       []RecordedDay        `json:"days"` // of the last 400
	Signs      []Sign               `json:"signs"`
}

// A RecordedRevision is one that an identity asked for or spoke.
type RecordedRevision struct {
	Transport string    `json:"transport"`
	Role      string    `json:"role"` // requested or negotiated
	Revision  string    `json:"revision"`
	LastSeen  time.Time `json:"last_seen"`
}

// A RecordedDay is what an identity did on a day. A day without counts is one on which a session was open.
type RecordedDay struct {
	Day       string `json:"day"` // 2026-11-30, UTC
	Transport string `json:"transport"`
	Sessions  int64  `json:"sessions"`
	Calls     int64  `json:"calls"`
	Errors    int64  `json:"errors"`
	Refusals  int64  `json:"refusals"`
}

// ReadInventory returns all that a ledger file knows of identities, of some if ids are given. The errors are those of Read and ErrUnknown.
func ReadInventory(file string, ids ...string) (Inventory, error) {
	c, err := readFile(file)
	if err != nil {
		return Inventory{}, fmt.Errorf("read ledger %s: %w", file, err)
	}
	out := Inventory{
		Schema: InventorySchema, Replica: c.replica, From: moment(c.from), LastFlush: moment(c.flushed),
		Gaps: []Gap{}, Identities: []RecordedIdentity{},
	}
	for _, g := range c.gaps {
		out.Gaps = append(out.Gaps, Gap{From: moment(g.from), To: moment(g.to), Kind: g.kind})
	}
	if len(ids) == 0 {
		ids = slices.Sorted(maps.Keys(c.identities))
	}
	for _, id := range ids {
		d := c.identities[id]
		if d == nil {
			return Inventory{}, fmt.Errorf("%q: %w", id, ErrUnknown)
		}
		out.Identities = append(out.Identities, d.inventory())
	}
	return out, nil
}

// WriteJSON writes v as one JSON object with a line break after it.
func (v Inventory) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (d *dossier) inventory() RecordedIdentity {
	out := RecordedIdentity{
		ID: d.id, Kind: d.kind, Prefix: d.prefix, UserAgent: d.agent, FirstSeen: moment(d.first), LastSeen: moment(d.last),
		Clients: d.clients(), Revisions: []RecordedRevision{}, Transports: make(map[string]Transport), Days: []RecordedDay{}, Signs: []Sign{},
	}
	for _, s := range slices.SortedFunc(maps.Keys(d.revisions), spoken.compare) {
		out.Revisions = append(out.Revisions, RecordedRevision{s.transport, s.role, s.revision, moment(d.revisions[s])})
	}
	for transport, t := range d.transports {
		out.Transports[transport] = Transport{t.Counts, t.bytes, moment(t.first), moment(t.last)}
	}
	for _, k := range slices.SortedFunc(maps.Keys(d.days), dayOf.compare) {
		n := d.days[k]
		out.Days = append(out.Days, RecordedDay{moment(k.day * dayMillis).Format(time.DateOnly), k.transport, n.sessions, n.calls, n.errors, n.refusals})
	}
	for _, k := range slices.SortedFunc(maps.Keys(d.signs), signOf.compare) {
		s := d.signs[k]
		out.Signs = append(out.Signs, Sign{k.kind, k.detail, s.n, moment(s.first), moment(s.last)})
	}
	return out
}
