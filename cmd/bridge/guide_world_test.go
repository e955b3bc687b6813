//go:build !nolegacy

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// A world is what the story happens in. At the moments that are shown a bridge serves. Between them the ledger alone stands in front of the
// same server, with the clients' visits going straight to it: a bridge writes its ledger every minute and looks at its state every two seconds,
// which would be millions of times in half a year. They take over from one another at one moment, so that nothing is missed.
type world struct {
	*guide

	t      *testing.T
	dir    string // the state folder
	ledger *telemetry.Ledger
	bridge *bridge.Bridge // nil: ledger stands alone
	srv    *memhttp.Server
	log    lockedLog

	visits []visit // to come, in order
	talks  int
}

// A visit is something that a client does at a time.
type visit struct {
	at time.Time
	do func()
}

func newWorld(t *testing.T, g *guide, dir string) *world {
	w := &world{guide: g, t: t, dir: dir}
	w.stand()
	return w
}

// stand lets the ledger stand alone.
func (w *world) stand() {
	w.t.Helper()
	const day = 24 * time.Hour
	l, err := telemetry.Open(filepath.Join(w.dir, bridge.LedgerFile), &telemetry.Options{FlushEvery: day, FlushSoon: day, Heartbeat: day})
	if err != nil {
		w.t.Fatal(err)
	}
	w.ledger = l
}

// serve lets a bridge serve from a time on, with the policy of the guide.
func (w *world) serve(from string) {
	w.t.Helper()
	w.reach(at(from))
	w.fatal(w.ledger.Close())
	w.ledger = nil
	policy, err := readPolicy("bridge.yaml")
	w.fatal(err)
	b, err := bridge.New(guideServer{}, &bridge.Options{
		State: w.dir, TrustedProxies: []string{"127.0.0.1"}, // the networks of the clients are named by a header
		Logger:     slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{ReplaceAttr: plainLog})),
		Retirement: bridge.RetirementOptions{Docs: "https://example.com/mcp-move", PollOnly: true, Readiness: policy},
	})
	w.fatal(err)
	w.bridge, w.srv = b, memhttp.New(w.t, b)
}

// rest ends the bridge and lets the ledger stand alone again.
func (w *world) rest() {
	w.t.Helper()
	w.fatal(w.bridge.Close())
	w.bridge, w.srv = nil, nil
	w.stand()
}

func (w *world) close() {
	w.t.Helper()
	if w.bridge != nil {
		w.fatal(w.bridge.Close())
		return
	}
	w.fatal(w.ledger.Close())
}

func (w *world) fatal(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// at is a time of the story, such as "02-16 09:00".
func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", "2000-"+text)
	if err != nil {
		panic(err)
	}
	return t
}

// until lets the visits happen up to a time, and that time come, to an odd second: what a bridge does by itself it does every minute and
// every two seconds from its start, and never at the same moment.
func (w *world) until(text string) { w.reach(at(text).Add(31 * time.Second)) }

func (w *world) reach(end time.Time) {
	slices.SortStableFunc(w.visits, func(a, b visit) int { return a.at.Compare(b.at) })
	for len(w.visits) > 0 && w.visits[0].at.Before(end) {
		v := w.visits[0]
		w.visits = w.visits[1:]
		time.Sleep(time.Until(v.at))
		v.do()
	}
	time.Sleep(time.Until(end))
}

// every lets a client visit in steps of days, from one time until another.
func (w *world) every(days int, from, until string, do func()) {
	for t := at(from); t.Before(at(until)); t = t.AddDate(0, 0, days) {
		w.visits = append(w.visits, visit{t, do})
	}
}

// A program is one client of the fleet.
type program struct {
	name, version, address, agent, asks string
	discovers                           bool // sends server/discover first
}

func (p program) info() string { return fmt.Sprintf(`{"name":%q,"version":%q}`, p.name, p.version) }

// sse lets p have a session of HTTP+SSE with so many calls, which must work.
func (w *world) sse(p program, calls int) func() {
	return func() {
		w.t.Helper()
		if w.bridge != nil {
			o := w.connect(p)
			defer o.leave()
			if answer := o.initialize(); !strings.Contains(answer, `"result"`) {
				w.t.Errorf("%s: initialize at %s: %s", p.name, time.Now(), answer)
				return
			}
			for range calls {
				if answer := o.call(); !strings.Contains(answer, `"result"`) {
					w.t.Errorf("%s: a call at %s: %s", p.name, time.Now(), answer)
				}
			}
			return
		}
		c := w.exchange(p, exchange.HTTPSSE)
		seen := exchange.Observation{Kind: exchange.SeenStream, Transport: exchange.HTTPSSE, Session: c.Session, Addr: c.Addr, UserAgent: c.UserAgent}
		w.ledger.Observe(seen)
		if p.discovers {
			seen.Kind, seen.Info, seen.Version = exchange.SeenDiscover, c.Info, "2026-07-28"
			w.ledger.Observe(seen)
		}
		w.talk(c, calls)
	}
}

// http lets p make so many calls in a session of Streamable HTTP.
func (w *world) http(p program, calls int) func() {
	return func() {
		w.t.Helper()
		if w.bridge == nil {
			w.talk(w.exchange(p, exchange.StreamableHTTP), calls)
			return
		}
		w.streamable(p, "/mcp", calls)
	}
}

// scan lets p open the stream and say nothing.
func (w *world) scan(p program) func() {
	return func() {
		if w.bridge != nil {
			w.fatal(w.open(w.srv, http.MethodGet, "/sse", "", p.headers()).Body.Close())
			return
		}
		c := w.exchange(p, exchange.HTTPSSE)
		for _, kind := range []string{exchange.SeenStream, exchange.SeenSilent} {
			w.ledger.Observe(exchange.Observation{Kind: kind, Transport: exchange.HTTPSSE, Session: c.Session, Addr: c.Addr, UserAgent: c.UserAgent})
		}
	}
}

// exchange is p as a front describes it.
func (w *world) exchange(p program, transport string) exchange.Client {
	w.talks++
	revision, _ := negotiate.Parse(p.asks)
	return exchange.Client{
		Transport: transport, Session: fmt.Sprint("story-", w.talks), Requested: p.asks, Revision: revision,
		Info: []byte(p.info()), Addr: netip.MustParseAddr(p.address), UserAgent: p.agent,
	}
}

// talk has a conversation that the ledger sees.
func (w *world) talk(c exchange.Client, calls int) {
	w.t.Helper()
	s, err := w.ledger.Handler(guideServer{}).Open(w.t.Context(), c)
	w.fatal(err)
	for range calls {
		_, err := s.Call(w.t.Context(), exchange.Request{Method: "tools/call"}, nil)
		w.fatal(err)
	}
	w.fatal(s.Close())
}

// sh runs a command line of the guide and shows it with what it prints, or with that part of it which cut returns, and with its exit code
// if that is not 0.
func (w *world) sh(block, line string, cut ...func(string) string) {
	w.t.Helper()
	var out bytes.Buffer
	words := shellWords(line)
	if words[0] != "bridge" {
		w.t.Fatalf("%q is no command of bridge", line)
	}
	code := run(words[1:], &out, &out)
	text := w.plain(out.String())
	for _, c := range cut {
		text = c(text)
	}
	if code != exitOK {
		text += fmt.Sprintf("(exit code %d)\n", code)
	}
	w.show(block, "$ "+line+"\n"+text)
}

// shellWords splits a line at blanks that are not in quotes.
func shellWords(line string) []string {
	var words []string
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		words = append(words, cmp.Or(m[1], m[2], m[3]))
	}
	return words
}

// plain replaces what differs between two runs: the folder, the user, and hashes, which cover the random name of a ledger.
func (w *world) plain(text string) string {
	text = strings.ReplaceAll(text, w.dir, "~/.local/state/bridge")
	text = regexp.MustCompile(`report [0-9a-f]{12}`).ReplaceAllString(text, "report 5d41402abc4b")
	text = regexp.MustCompile(`head [0-9a-f]{64}`).ReplaceAllString(text, "head 7c211433f02071597741e6ff5a8ea34789abbf43e9bd7b5b0bd3d7b1d1f0b2c4")
	user := regexp.MustCompile(`(\A|\s|=)` + regexp.QuoteMeta(operator()) + `(\z|\s|:|,)`)
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 2, 0, 2, ' ', 0)
	for line := range strings.Lines(text) {
		if columns.MatchString(line) && user.MatchString(line) || strings.Contains(line, "  schedule  schedule  ") {
			line = user.ReplaceAllString(line, "${1}ann${2}")
			fmt.Fprint(table, regexp.MustCompile(` {2,}`).ReplaceAllString(line, "\t"))
			continue
		}
		table.Flush()
		b.WriteString(user.ReplaceAllString(line, "${1}ann${2}"))
	}
	table.Flush()
	return b.String()
}

// columns is a line of bridge retire history.
var columns = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d {2}v\d+ `)

// events returns the lines of the bridge's log since the last time that have one of these events.
func (w *world) events(names ...string) string {
	var b strings.Builder
	for line := range strings.Lines(w.log.take()) {
		if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(line, " event="+n+" ") }) {
			b.WriteString(line)
		}
	}
	return w.plain(b.String())
}

// plainLog leaves out what differs between two runs, and writes times to the second.
func plainLog(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case "session", "request":
		return slog.Attr{}
	case slog.TimeKey:
		return slog.String(slog.TimeKey, a.Value.Time().UTC().Format(time.RFC3339))
	}
	return a
}

// A lockedLog is a log that is read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text []byte
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// take returns what was written since it was called last.
func (l *lockedLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := string(l.text)
	l.text = nil
	return text
}

// metrics returns the lines of the scrape that begin with one of these and are not 0.
func (w *world) metrics(names ...string) string {
	w.t.Helper()
	srv := memhttp.New(w.t, w.bridge.Admin())
	_, text := w.fetch(srv, http.MethodGet, "/metrics", "", nil)
	var b strings.Builder
	for line := range strings.Lines(text) {
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(line, n) }) && !strings.HasSuffix(line, " 0\n") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// force sets a stage of a bridge in memory.
func force(t *testing.T, b *bridge.Bridge, stage retire.Stage, edit ...func(*retire.State)) {
	t.Helper()
	state := *b.Retirement().State()
	state.Stage = stage
	for _, e := range edit {
		e(&state)
	}
	if _, err := b.Retirement().Set(t.Context(), retire.Change{Version: state.Version, State: state, Actor: "ann", Force: true, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
}

// A guideServer has a tool and a log.
type guideServer struct{}

func (guideServer) Open(context.Context, exchange.Client) (exchange.Session, error) {
	return guideServer{}, nil
}

func (guideServer) Server() exchange.Server {
	return exchange.Server{
		Revision: negotiate.Rev20251125, Served: negotiate.All, Info: []byte(`{"name":"inventory","version":"4.2.0"}`), Capabilities: []byte(`{"tools":{},"logging":{}}`),
	}
}

func (guideServer) Call(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
	if req.Sent != nil {
		req.Sent()
	}
	return exchange.Response{Result: []byte(`{"content":[{"type":"text","text":"12 in stock"}]}`)}, nil
}

func (guideServer) Notify(context.Context, exchange.Request) error { return nil }
func (guideServer) Done() <-chan struct{}                          { return nil }
func (guideServer) Close() error                                   { return nil }
