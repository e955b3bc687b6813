package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// WriteProm writes the numbers of r in the text exposition format, under the names that the metrics of a server have
// (retirement.md 7): for a file that a collector reads.
func (r Report) WriteProm(w io.Writer) error {
	p := &exposition{}
	ready := map[Verdict]float64{Ready: 1, Blocked: 0, Insufficient: -1}[r.Verdict]
	p.gauge("mcp_bridge_retirement_ready", "Whether the step can be taken: 1 ready, 0 blocked, -1 insufficient evidence.", "target_stage")
	p.value(r.Target, ready)

	p.gauge("mcp_bridge_retirement_blockers", "What keeps the step from being taken, by code; doubts count, too.", "code")
	codes := make(map[string]int)
	for _, f := range r.Blockers {
		codes[f.Code]++
	}
	for _, f := range r.Doubts {
		codes[f.Code]++
	}
	for _, code := range findingCodes {
		p.value(code, float64(codes[code]))
	}

	p.gauge("mcp_bridge_legacy_identities", "Identities that used HTTP+SSE in the quiet period, by class.", "class")
	classes := r.LegacyClasses()
	for _, c := range Classes {
		p.value(string(c), float64(classes[c]))
	}

	p.gauge("mcp_bridge_legacy_traffic_ratio", "Share of the calls in the quiet period that came over HTTP+SSE.", "")
	p.value("", r.Window.Share)
	p.gauge("mcp_bridge_ledger_identities", "Identities that the ledger knows.", "")
	p.value("", float64(len(r.Identities)))
	if !r.Observation.LastFlush.IsZero() {
		p.gauge("mcp_bridge_ledger_last_flush_timestamp_seconds", "When the ledger was last written.", "")
		p.value("", float64(r.Observation.LastFlush.UnixMilli())/1000)
	}
	_, err := w.Write(p.Bytes())
	return err
}

// findingCodes are the codes of blockers and doubts.
var findingCodes = []string{
	BlockBreaks, BlockNewURL, BlockIdentities, BlockShare,
	DoubtObservation, DoubtGap, DoubtOverflow, DoubtDamaged, DoubtCadence, DoubtClock,
}

// LegacyClasses counts the identities that used HTTP+SSE in the window, by class.
func (r Report) LegacyClasses() map[Class]int {
	since := r.GeneratedAt.Add(-r.Policy.QuietPeriod.Duration())
	out := make(map[Class]int)
	for _, i := range r.Identities {
		if i.legacySince(since) {
			out[i.Class]++
		}
	}
	return out
}

// exposition is a text in the exposition format.
type exposition struct {
	bytes.Buffer

	name, label string
}

func (p *exposition) gauge(name, help, label string) {
	p.name, p.label = name, label
	fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
}

// value writes one series. The labels are constants of this package, so that they need no escaping.
func (p *exposition) value(label string, v float64) {
	labels := ""
	if p.label != "" {
		labels = "{" + p.label + "=" + strconv.Quote(label) + "}"
	}
	fmt.Fprintf(p, "%s%s %s\n", p.name, labels, strconv.FormatFloat(v, 'f', -1, 64))
}
