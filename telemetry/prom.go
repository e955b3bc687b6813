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
	p.gauge("mcp_bridge_retirement_ready", "Whether the step can be taken: 1 ready, 0 blocked, -1 insufficient evidence.", "target_stage")
	p.value(r.Target, float64(r.Verdict.number()))

	p.gauge("mcp_bridge_retirement_blockers", "What keeps the step from being taken, by code; doubts count, too.", "code")
	codes := r.codes()
	for _, code := range findingCodes {
		p.value(code, float64(codes[code]))
	}

	p.gauge("mcp_bridge_legacy_identities", "Identities that used HTTP+SSE in the quiet period, by class.", "class")
	classes := r.legacyClasses()
	for _, c := range Classes {
		p.value(string(c), float64(classes[c]))
	}

	p.gauge("mcp_bridge_legacy_traffic_ratio", "Share of the calls in the quiet period that came over HTTP+SSE.", "")
	p.value("", r.Window.Share)

	p.gauge("mcp_bridge_ledger_identities", "Identities that the ledger knows, by kind.", "kind")
	kinds := r.kinds()
	for _, k := range identityKinds {
		p.value(k, float64(kinds[k]))
	}

	if !r.Observation.LastFlush.IsZero() {
		p.gauge("mcp_bridge_ledger_last_flush_timestamp_seconds", "When the ledger was last written.", "")
		p.value("", float64(r.Observation.LastFlush.Unix()))
	}
	_, err := w.Write(p.Bytes())
	return err
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
