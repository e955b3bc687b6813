//go:build !nolegacy

package main

import (
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/retire"
)

// window makes the brownout of a mode that is on for an hour.
func window(mode retire.Mode) func(*retire.State) {
	return func(s *retire.State) {
		now := time.Now().Truncate(time.Second)
		s.Brownouts = []retire.Window{{ID: "now", From: now, Until: now.Add(time.Hour), Mode: mode}}
	}
}

func tombstone(s *retire.State) { s.Tombstone = true }

// stages shows the table of retirement.md 6 as a client finds it: each row from a bridge of its own, with a session that was live when the
// stage began, and one that comes then.
func (w *world) stages() {
	w.t.Helper()
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "stage\tGET /sse\theaders\tcall of a live session\tnew session\tPOST /sse\tPOST /mcp")
	for _, row := range []struct {
		name  string
		stage retire.Stage
		edit  func(*retire.State)
	}{
		{"open", retire.Open, nil},
		{"announce", retire.Announce, nil},
		{"warn", retire.Warn, nil},
		{"brownout, between windows", retire.Brownout, nil},
		{"brownout, initialize", retire.Brownout, window(retire.ModeInitialize)},
		{"brownout, calls", retire.Brownout, window(retire.ModeCalls)},
		{"brownout, hard", retire.Brownout, window(retire.ModeHard)},
		{"closed", retire.Closed, nil},
		{"drain", retire.Drain, nil},
		{"gone", retire.Gone, nil},
		{"gone --tombstone", retire.Gone, tombstone},
	} {
		bridge, srv := w.inMemory()
		live := w.connectTo(srv, display)
		live.initialize()
		if row.stage != retire.Open {
			force(w.t, bridge, row.stage, func(s *retire.State) {
				if row.edit != nil {
					row.edit(s)
				}
			})
		}
		get, headers := w.getStream(srv)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.name, get, headers, live.callOutcome(), w.newSession(srv, get), w.postNew(srv, "/sse"), w.postNew(srv, "/mcp"))
		live.leave()
		w.fatal(bridge.Close())
	}
	table.Flush()
	w.show("stages", b.String())
}

// getStream returns the status of GET /sse, with the retry time that the stream names, and whether there are the headers of R6.
func (w *world) getStream(srv *memhttp.Server) (outcome, headers string) {
	w.t.Helper()
	res := w.open(srv, http.MethodGet, "/sse", "", display.headers("Accept", "text/event-stream"))
	defer res.Body.Close()
	outcome, headers = fmt.Sprint(res.StatusCode), "no"
	if res.Header.Get("Deprecation") != "" && strings.Contains(res.Header.Get("Link"), "/mcp>") {
		headers = "yes"
	}
	if res.StatusCode != http.StatusOK {
		return outcome, headers
	}
	head := make([]byte, 512)
	n, err := res.Body.Read(head)
	w.fatal(err)
	if _, rest, ok := strings.Cut(string(head[:n]), "retry: "); ok {
		retry, _, _ := strings.Cut(rest, "\n")
		outcome += ", retry " + retry
	}
	return outcome, headers
}

// callOutcome makes a call and says what became of it.
func (o *oldTalk) callOutcome() string {
	o.w.t.Helper()
	res, body := o.w.fetch(o.srv, http.MethodPost, o.to, `{"jsonrpc":"2.0","id":77,"method":"tools/list"}`, o.p.headers())
	if res.StatusCode != http.StatusAccepted {
		return fmt.Sprintf("%d, error %s", res.StatusCode, jsonrpc.Get([]byte(body), "error", "code"))
	}
	for {
		if answer := o.hear(); answer == "" || strings.Contains(answer, `"id":77`) {
			return "202, " + outcomeOf(answer)
		}
	}
}

// newSession connects, if get says that it can, and says what became of initialize and whether the client was told of the retirement.
func (w *world) newSession(srv *memhttp.Server, get string) string {
	w.t.Helper()
	if !strings.HasPrefix(get, "200") {
		return "-"
	}
	o := w.connectTo(srv, display)
	defer o.leave()
	answer := o.initialize()
	text := outcomeOf(answer)
	if strings.Contains(answer, `"_meta"`) {
		text += ", _meta"
	}
	if strings.HasPrefix(text, "result") {
		o.record.Reset()
		o.call()
		if strings.Contains(o.record.String(), "notifications/message") {
			text += ", notice"
		}
	}
	return text
}

// outcomeOf says what an answer is.
func outcomeOf(answer string) string {
	if code := jsonrpc.Get([]byte(answer), "error", "code"); code != nil {
		return "error " + string(code)
	}
	return "result"
}

// postNew returns the status of initialize of a client of Streamable HTTP. No stage may put headers on the MCP path (R5).
func (w *world) postNew(srv *memhttp.Server, path string) string {
	w.t.Helper()
	res, _ := w.fetch(srv, http.MethodPost, path,
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"new","version":"1"}}}`, web.headers())
	if path == "/mcp" && res.Header.Get("Deprecation")+res.Header.Get("Sunset")+res.Header.Get("Link") != "" {
		w.t.Errorf("%s has the headers of a stage: %v", path, res.Header)
	}
	return fmt.Sprint(res.StatusCode)
}

// exemptions shows where an exemption works: one by the client's own name, and one by its network.
func (w *world) exemptions() {
	w.t.Helper()
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "exempt\tbrownout, calls\tclosed\tdrain\tgone\tgone --tombstone")
	for _, id := range []string{"stock-display@127.0.0.0/24", "@127.0.0.0/24"} {
		fmt.Fprint(table, id)
		for _, at := range []struct {
			stage retire.Stage
			edit  func(*retire.State)
		}{{retire.Brownout, window(retire.ModeCalls)}, {retire.Closed, nil}, {retire.Drain, nil}, {retire.Gone, nil}, {retire.Gone, tombstone}} {
			bridge, srv := w.inMemory()
			force(w.t, bridge, at.stage, func(s *retire.State) {
				s.Exemptions = []retire.Exemption{{ID: id}}
				if at.edit != nil {
					at.edit(s)
				}
			})
			get, _ := w.getStream(srv)
			outcome := "GET is " + get
			if strings.HasPrefix(get, "200") {
				outcome = map[bool]string{true: "served", false: "refused"}[strings.HasPrefix(w.newSession(srv, get), "result")]
			}
			fmt.Fprint(table, "\t", outcome)
			w.fatal(bridge.Close())
		}
		fmt.Fprintln(table)
	}
	table.Flush()
	w.show("exemptions", b.String())
}
