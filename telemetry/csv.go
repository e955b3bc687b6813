package telemetry

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// WriteCSV writes the identities of r as comma-separated values (RFC 4180), a header line first. Of a cell that a spreadsheet would take
// for a formula the first character is an apostrophe.
func (r Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{
		"id", "kind", "label", "class", "blocks", "owner", "contact", "exempt_until", "prefix", "user_agent", "requested", "negotiated",
		"first_seen", "last_seen", "legacy_first", "legacy_last", "legacy_sessions", "legacy_calls", "legacy_errors", "legacy_refusals",
		"streamable_last", "streamable_calls", "active_days", "longest_gap_days", "needs_days", "evidence",
	}); err != nil {
		return err
	}
	for _, i := range r.Identities {
		cells := i.cells()
		for n, c := range cells {
			cells[n] = guarded(c)
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func (i Identity) cells() []string {
	legacy, streamable := i.Transports[exchange.HTTPSSE], i.Transports[exchange.StreamableHTTP]
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		i.ID, i.Kind, i.Label, string(i.Class), strconv.FormatBool(i.Blocks), i.Owner, i.Contact, stamp(i.ExemptUntil), i.Prefix, i.UserAgent,
		strings.Join(i.Requested, " "), strings.Join(i.Negotiated, " "), stamp(i.FirstSeen), stamp(i.LastSeen),
		stamp(legacy.FirstSeen), stamp(legacy.LastSeen), number(legacy.Sessions + legacy.Reopened), number(legacy.Calls), number(legacy.Errors), number(legacy.Refusals),
		stamp(streamable.LastSeen), number(streamable.Calls),
		strconv.Itoa(i.Cadence.ActiveDays), strconv.Itoa(i.Cadence.LongestGapDays), strconv.Itoa(i.Cadence.NeedsDays), i.signs(),
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

// guarded returns s so that no spreadsheet computes it (OWASP, CSV Injection). Some read full-width signs as the others.
func guarded(s string) string {
	if strings.IndexAny(s, "=+-@\t\r\n＝＋－＠") == 0 {
		return "'" + s
	}
	return s
}
