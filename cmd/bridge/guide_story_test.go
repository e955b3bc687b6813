//go:build !nolegacy

package main

import (
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
	"github.com/mcp-dualstack/bridge/upstream"
)

// The fleet.
var (
	reporting    = program{name: "reporting-tool", version: "0.9.1", address: "10.4.7.21", agent: "python-httpx/0.28.1", asks: "2024-11-05"}
	reportingNew = program{name: "reporting-tool", version: "1.0.0", address: "10.4.7.21", agent: "python-httpx/0.28.1", asks: "2025-06-18"}
	laptop       = program{name: "reporting-tool", version: "0.9.1", address: "10.11.3.8", agent: "python-httpx/0.28.1", asks: "2024-11-05"}
	billing      = program{name: "billing-batch", version: "2.1", address: "10.6.0.4", agent: "node", asks: "2024-11-05"}
	billingNew   = program{name: "billing-batch", version: "2.2", address: "10.6.0.4", agent: "node", asks: "2025-11-25"}
	desk         = program{name: "desk-agent", version: "3.2.0", address: "10.8.0.77", agent: "node", asks: "2025-11-25"}
	ci           = program{name: "ci-runner", version: "1.8.0", address: "10.9.0.2", agent: "Go-http-client/1.1", asks: "2025-11-25", discovers: true}
	display      = program{name: "stock-display", version: "1.0", address: "10.3.1.5", agent: "okhttp/4.12.0", asks: "2024-11-05"}
	displayNew   = program{name: "stock-display", version: "1.1", address: "10.3.1.5", agent: "okhttp/4.12.0", asks: "2025-06-18"}
	web          = program{name: "web-chat", version: "5.1.0", address: "10.1.0.30", agent: "node", asks: "2025-11-25"}
	scanner      = program{address: "192.0.2.66", agent: "Mozilla/5.0"}
)

// fleet lets them come and go.
func (w *world) fleet() {
	w.every(1, "01-01 06:00", "04-10 00:00", w.sse(reporting, 27))
	w.every(1, "04-10 06:00", "07-01 00:00", w.http(reportingNew, 27))
	for _, day := range []string{"01-04", "02-04", "03-04", "04-04", "05-04"} {
		w.visits = append(w.visits, visit{at(day + " 10:15"), w.sse(billing, 204)})
	}
	w.visits = append(w.visits, visit{at("06-04 10:15"), w.http(billingNew, 204)})
	w.every(1, "01-01 08:30", "03-20 00:00", w.sse(desk, 5))
	w.every(1, "01-01 08:35", "07-01 00:00", w.http(desk, 40))
	for _, day := range []string{"01-03", "01-06"} {
		w.every(7, day+" 04:00", "03-06 12:00", w.sse(ci, 4))
	}
	for _, day := range []string{"03-09", "03-13"} {
		w.every(7, day+" 04:00", "07-01 00:00", w.http(ci, 4))
	}
	w.every(1, "01-01 15:30", "05-10 00:00", w.sse(display, 12))
	w.every(1, "05-12 15:30", "07-01 00:00", w.http(displayNew, 12))
	w.every(1, "01-01 09:00", "07-01 00:00", w.http(web, 90))
	w.every(7, "01-02 03:33", "06-12 00:00", w.scan(scanner))
}

// story is the whole of it: from the first day to the last.
func (w *world) story() {
	w.fleet()
	w.wrap()
	w.observe()
	w.announce()
	w.warn()
	w.brownout()
	w.held()
	w.closed()
	w.drain()
	w.gone()
	w.replicas()
	w.stages()
	w.exemptions()
}

// wrap shows the screen of bridge serve.
func (w *world) wrap() {
	c, err := parse(w.t, "--retire-docs", "https://example.com/mcp-move")
	w.fatal(err)
	c.command = []string{"inventory-server"}
	known := finding{verdict: upstream.Verdict{Legacy: true, Served: negotiate.Legacy}}
	admin := screenListener{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8421}}
	text := screen{c: c, listen: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8420}, admin: admin}.text(known, true)
	text, _, _ = strings.Cut(text, "\n\nTry:")
	w.show("screen", "$ bridge serve --retire-docs https://example.com/mcp-move -- inventory-server\n\n"+realigned(w.plain(text)))
}

// A screenListener has an address only.
type screenListener struct{ addr net.Addr }

func (l screenListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (l screenListener) Close() error              { return nil }
func (l screenListener) Addr() net.Addr            { return l.addr }

// realigned lays the rows of the screen out anew, since a folder in them was replaced.
func realigned(text string) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for line := range strings.Lines(strings.Trim(text, "\n") + "\n") {
		if row, ok := strings.CutPrefix(line, "  "); ok {
			line = "  " + regexp.MustCompile(` {3,}`).ReplaceAllString(row, "\t")
		}
		io.WriteString(table, line)
	}
	table.Flush()
	return b.String()
}

func (w *world) observe() {
	w.serve("01-08 11:55")
	w.until("01-08 12:00")
	w.sh("first-week", "bridge report", untilTables)
	w.rest()

	w.serve("02-16 08:50")
	w.until("02-16 09:00")
	w.sh("report", "bridge report --policy bridge.yaml")
	w.sh("ledger", "bridge ledger list --policy bridge.yaml")
	w.sh("simulate", "bridge report --stage closed --simulate 7d", from("simulation: "), untilTables)
	w.sh("plan", "bridge retire plan --sunset 2000-05-31")
}

func (w *world) announce() {
	w.log.take()
	w.sh("announce", `bridge retire plan --sunset 2000-05-31 --apply --yes --reason "mail to all teams of 16 February"`, from("stage "))
	w.until("02-16 09:01")
	w.sh("exempt", `bridge retire exempt billing-batch@10.6.0.0/24 --until 2000-06-15 --owner finance --reason "vendor fix in June"`)
	w.until("02-16 09:02")
	w.show("announce-log", w.events("retire.stage.changed", "retire.state.changed"))
	w.curl("announce-wire", "curl -iN http://127.0.0.1:8420/sse")
	w.curl("status", "curl http://127.0.0.1:8420/retirement")
	w.rest()
}

func (w *world) warn() {
	w.serve("03-01 08:55")
	w.until("03-01 09:05")
	w.log.take()
	o := w.connect(display)
	o.initialize()
	o.call()
	o.leave()
	w.show("warn-wire", o.record.String())
	w.until("03-01 09:10")
	w.show("warn-log", w.events("legacy.session.open"))
	w.show("warn-metrics", w.metrics("mcp_bridge_retirement_stage{", "mcp_bridge_legacy_would_refuse_total{", "mcp_bridge_legacy_identities{", "mcp_bridge_retirement_ready{"))
	w.sh("warn-show", "bridge retire show")
	w.rest()
}

func (w *world) brownout() {
	w.serve("05-02 23:55")
	w.until("05-03 00:05")
	w.rest()
	w.serve("05-04 09:55")
	w.until("05-04 11:05") // billing-batch comes in the first window, and is exempt
	w.rest()

	w.serve("05-10 14:50")
	o := w.connect(display)
	o.initialize()
	o.hear() // the notice
	w.log.take()
	w.until("05-10 15:30")
	o.record.Reset()
	o.call()
	w.sh("brownout-show", "bridge retire show")
	w.until("05-10 18:01")
	o.record.WriteString("(at 18:01, on the same stream)\n")
	o.call()
	w.show("brownout-wire", o.record.String())
	o.leave()
	w.show("brownout-log", w.events("retire.brownout.start", "legacy.session.refused", "retire.brownout.end"))
	w.rest()
}

// held is what becomes of a step that is not ready.
func (w *world) held() {
	w.serve("05-23 23:55")
	w.until("05-24 00:05")
	w.show("held-log", w.events("retire.step.held"))
	w.rest()
	w.serve("05-24 08:55")
	w.until("05-24 09:00")
	w.sh("held-show", "bridge retire show", lines("HTTP+SSE", "sunset", "HELD", "schedule"))
	w.sh("held-report", "bridge report --stage closed --policy bridge.yaml", untilTables)
	w.sh("replan", `bridge retire plan --sunset 2000-06-20 --apply --yes --reason "stock-display was overlooked"`)
	w.rest()
}

func (w *world) closed() {
	w.serve("06-12 11:55")
	w.until("06-12 12:00")
	w.sh("ready", "bridge report --stage closed --policy bridge.yaml", untilTables)
	w.rest()
	w.serve("06-12 23:55")
	w.until("06-13 00:05")
	w.show("closed-log", w.events("retire.stage.changed"))
	w.rest()

	w.serve("06-15 10:55")
	w.until("06-15 11:00")
	w.curl("closed-wire", "curl -iN http://127.0.0.1:8420/sse")
	w.log.take()
	o := w.connect(laptop)
	o.initialize()
	o.hear()
	w.show("closed-wire", o.record.String())
	o.leave()
	w.until("06-15 11:05")
	w.show("closed-log", w.events("legacy.session.refused"))
	w.show("closed-metrics", w.metrics("mcp_bridge_legacy_refusals_total{", "mcp_bridge_tombstone_sessions_total"))
	w.rest()
}

func (w *world) drain() {
	w.serve("06-18 23:55")
	w.until("06-19 00:05")
	w.rest()
	w.serve("06-19 08:55")
	w.until("06-19 09:00")
	w.sh("drain-held", "bridge retire show", lines("HTTP+SSE", "sunset", "HELD", "schedule"))
	w.sh("drain-refused", "bridge retire set drain")
	w.sh("drain", `bridge retire set drain --yes --force --reason "the laptop in ops was told on 15 June"`)
	w.rest()
	w.drained()
}

// drained is what a client sees that has a session when drain begins.
func (w *world) drained() {
	b, srv := w.inMemory()
	o := w.connectTo(srv, display)
	o.initialize()
	force(w.t, b, retire.Drain)
	time.Sleep(time.Second)
	o.record.Reset()
	o.call()
	o.hear()
	w.show("drain-wire", o.record.String())
	o.leave()
	w.fatal(b.Close())
}

// inMemory returns another bridge with an empty state.
func (w *world) inMemory() (*bridge.Bridge, *memhttp.Server) {
	w.t.Helper()
	b, err := bridge.New(guideServer{}, &bridge.Options{Retirement: bridge.RetirementOptions{Docs: "https://example.com/mcp-move"}})
	w.fatal(err)
	return b, memhttp.New(w.t, b)
}

func (w *world) gone() {
	w.serve("06-19 23:55")
	w.until("06-20 00:05")
	w.rest()
	w.serve("06-20 08:55")
	w.until("06-20 09:00")
	w.sh("gone", `bridge retire set gone --yes --force --reason "the laptop in ops was told on 15 June"`)
	w.until("06-20 09:05")
	w.curl("gone-wire", "curl -i http://127.0.0.1:8420/sse")
	w.curl("gone-wire", `curl -i http://127.0.0.1:8420/messages?sessionId=old -d '{"jsonrpc":"2.0","id":7,"method":"tools/list"}'`)
	w.curl("gone-wire", "curl http://127.0.0.1:8420/retirement")
	w.streamable(reportingNew, "/sse", 1)
	w.sh("undo", `bridge retire undo --yes --reason "ops asks for another day"`)
	w.rest()
	w.serve("06-21 08:55")
	w.until("06-21 09:00")
	w.sh("undo", `bridge retire set gone --yes --force --reason "the laptop in ops has moved"`, from("stage drain -> gone, "))
	w.sh("history", "bridge retire history --verify")
	w.rest()
}

// replicas is another story: two bridges with a ledger each.
func (w *world) replicas() {
	day := 24 * time.Hour
	var ledgers []*telemetry.Ledger
	for _, name := range []string{"a", "b"} {
		l, err := telemetry.Open(filepath.Join(name, bridge.LedgerFile), &telemetry.Options{FlushEvery: day, FlushSoon: day, Heartbeat: day})
		w.fatal(err)
		ledgers = append(ledgers, l)
	}
	visitTo := func(l *telemetry.Ledger, p program, transport string) {
		was := w.ledger
		w.ledger = l
		w.talk(w.exchange(p, transport), 4)
		w.ledger = was
	}
	visitTo(ledgers[1], billing, exchange.HTTPSSE)
	for i := range 50 {
		visitTo(ledgers[i%2], web, exchange.StreamableHTTP)
		time.Sleep(day)
	}
	for _, l := range ledgers {
		w.fatal(l.Close())
	}
	w.sh("replicas", "bridge report --ledger a/ledger.db --ledger b/ledger.db", untilTables)
}

// untilTables leaves out who speaks what, at the end of a report.
func untilTables(report string) string {
	text, _, _ := strings.Cut(report, "\n\nclient  ")
	return text + "\n"
}

// from leaves out what stands before a text.
func from(text string) func(string) string {
	return func(out string) string {
		if i := strings.Index(out, text); i >= 0 {
			return out[i:]
		}
		return out
	}
}

// lines leaves the lines that begin with one of these.
func lines(begin ...string) func(string) string {
	return func(out string) string {
		var b strings.Builder
		for line := range strings.Lines(out) {
			for _, word := range begin {
				if strings.HasPrefix(line, word) {
					b.WriteString(line)
				}
			}
		}
		return b.String()
	}
}
