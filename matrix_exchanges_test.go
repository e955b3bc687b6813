package bridge_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// squareExchanges are the columns of each cell of the matrix.
var squareExchanges = []struct {
	name string
	play func(p *squarePlay) error
}{
	{"open", playOpen},
	{"ping", playPing},
	{"lists", playLists},
	{"text", func(p *squarePlay) error {
		return p.content("text", `{"type":"text","text":"a\u2028b","x-unknown":25.0}`)
	}},
	{"image", func(p *squarePlay) error {
		return p.content("image", `{"type":"image","data":"AAAA","mimeType":"image/png"}`)
	}},
	{"embedded", func(p *squarePlay) error {
		return p.content("embedded", `{"type":"resource","resource":{"uri":"res://a","text":"A"}}`)
	}},
	{"audio", playAudio},
	{"link", playLink},
	{"structured", playStructured},
	{"structured array", playArray},
	{"tool error", playToolError},
	{"error", playError},
	{"missing resource", playMissing},
	{"progress", playProgress},
	{"cancel", playCancel},
	{"question taken back", playTakeBack},
	{"logging", playLogging},
	{"bad log level", playBadLevel},
	{"elicitation", func(p *squarePlay) error {
		return p.question("elicit", "elicitation/create", `{"action":"accept","content":{"branch":"main"}}`)
	}},
	{"URL elicitation", playURL},
	{"URL to visit first", playVisit},
	{"sampling", func(p *squarePlay) error {
		return p.question("sample", "sampling/createMessage", string(answerTo("sampling/createMessage")))
	}},
	{"sampling with tools", func(p *squarePlay) error {
		return p.question("sampletools", "sampling/createMessage", string(answerTo("sampling/createMessage")))
	}},
	{"roots", func(p *squarePlay) error { return p.question("roots", "roots/list", string(answerTo("roots/list"))) }},
	{"several questions", playSeveral},
	{"two rounds", playRounds},
	{"completion", playCompletion},
	{"subscribe", playSubscribe},
	{"unknown method", playUnknownMethod},
	{"read, prompt", playReadAndPrompt},
}

func playOpen(p *squarePlay) error {
	resp, err := p.open()
	if err == nil && resp.Error != nil {
		err = resp.Error
	}
	if err != nil {
		return err
	}
	if p.rev.Modern() {
		if err := wantText(resp.Result, string(negotiate.All.JSON()), "supportedVersions"); err != nil {
			return err
		}
		return wantText(resp.Result, `"square"`, "_meta", negotiate.MetaServerInfo, "name")
	}
	if err := wantText(resp.Result, fmt.Sprintf("%q", p.rev), "protocolVersion"); err != nil {
		return err
	}
	if err := wantText(resp.Result, `"be square"`, "instructions"); err != nil {
		return err
	}
	return wantText(resp.Result, `"square"`, "serverInfo", "name")
}

func playPing(p *squarePlay) error {
	if !p.rev.Has(negotiate.Handshake) {
		return errNotThere("ping was removed in 2026-07-28")
	}
	resp, err := p.result("ping", `{}`)
	if err != nil {
		return err
	}
	return wantText(resp.Result, "{}")
}

func playLists(p *squarePlay) error {
	for _, list := range []struct{ method, member string }{
		{"tools/list", "tools"}, {"resources/list", "resources"}, {"resources/templates/list", "resourceTemplates"}, {"prompts/list", "prompts"},
	} {
		resp, err := p.result(list.method, `{}`)
		if err != nil {
			return err
		}
		if jsonrpc.Get(resp.Result, list.member) == nil {
			return fmt.Errorf("%s: got %s", list.method, resp.Result)
		}
		if list.method == "tools/list" && !strings.Contains(string(resp.Result), `"x-unknown":[1.50]`) {
			return fmt.Errorf("an unknown member was lost: %s", resp.Result)
		}
		if got := jsonrpc.Get(resp.Result, "ttlMs") != nil; got != p.rev.Modern() {
			return fmt.Errorf("%s: ttlMs there is %v: %s", list.method, got, resp.Result)
		}
	}
	return nil
}

// content calls a tool and compares its first block.
func (p *squarePlay) content(tool, want string) error {
	resp, err := p.tool(tool, "")
	if err != nil {
		return err
	}
	return wantText(block(resp.Result), want)
}

func playAudio(p *squarePlay) error {
	if p.rev.Has(negotiate.AudioContent) {
		return p.content("audio", `{"type":"audio","data":"AAAA","mimeType":"audio/wav"}`)
	}
	resp, err := p.tool("audio", "")
	if err != nil {
		return err
	}
	if err := wantText(block(resp.Result), `"resource"`, "type"); err != nil { // T1
		return err
	}
	return wantText(block(resp.Result), `"AAAA"`, "resource", "blob")
}

func playLink(p *squarePlay) error {
	if p.rev.Has(negotiate.ResourceLinks) {
		return p.content("link", `{"type":"resource_link","uri":"res://a","name":"a"}`)
	}
	resp, err := p.tool("link", "")
	if err != nil {
		return err
	}
	if got := text(block(resp.Result), "text"); text(block(resp.Result), "type") != `"text"` || !strings.Contains(got, "res://a") { // T2
		return fmt.Errorf("got %s", resp.Result)
	}
	return nil
}

func playStructured(p *squarePlay) error {
	resp, err := p.tool("structured", "")
	if err != nil {
		return err
	}
	return wantText(resp.Result, `{"n":25.0}`, "structuredContent")
}

func playArray(p *squarePlay) error {
	resp, err := p.tool("array", "")
	if err != nil {
		return err
	}
	if p.rev.Modern() {
		return wantText(resp.Result, `[1,2.0]`, "structuredContent")
	}
	if jsonrpc.Get(resp.Result, "structuredContent") != nil { // T5
		return fmt.Errorf("got %s", resp.Result)
	}
	return wantText(block(resp.Result), `"[1,2.0]"`, "text")
}

func playToolError(p *squarePlay) error {
	resp, err := p.tool("iserror", "")
	if err != nil {
		return err
	}
	return wantText(resp.Result, "true", "isError")
}

func playError(p *squarePlay) error {
	resp, err := p.call("tools/call", `{"name":"fault"}`)
	if err != nil {
		return err
	}
	if resp.Error == nil || resp.Error.Code != 1234 || string(resp.Error.Data) != `{"x":1.50}` || text(resp.Error.Raw, "y") != "1" {
		return fmt.Errorf("got %+v, want the server's own error untouched", resp)
	}
	return nil
}

func playMissing(p *squarePlay) error {
	resp, err := p.call("resources/read", `{"uri":"res://missing"}`)
	if err != nil {
		return err
	}
	want := jsonrpc.CodeResourceNotFound
	if p.rev.Modern() {
		want = jsonrpc.CodeInvalidParams
	}
	if resp.Error == nil || resp.Error.Code != want || text(resp.Error.Data, "uri") != `"res://missing"` {
		return fmt.Errorf("got %+v, want code %d", resp, want)
	}
	return nil
}

func playProgress(p *squarePlay) error {
	if _, err := p.tool("progress", `,"_meta":{"progressToken":"mine"}`); err != nil {
		return err
	}
	notes := p.heard("notifications/progress")
	if len(notes) != 3 {
		return fmt.Errorf("got %d progress notifications before the result, want 3", len(notes))
	}
	for i, n := range notes {
		if got, want := text(n.Params, "progress"), fmt.Sprintf("%d.0", i+1); got != want || text(n.Params, "progressToken") != `"mine"` {
			return fmt.Errorf("got %s as number %d", n.Params, i+1)
		}
	}
	return nil
}

func playCancel(p *squarePlay) error {
	before := p.server.count()
	if err := p.drop("block", p.settle); err != nil {
		return err
	}
	p.settle()
	if got := p.server.count(); got != before+1 {
		return fmt.Errorf("the server saw %d cancellations, want 1", got-before)
	}
	return nil
}

func (s *squareServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancelled
}

func playTakeBack(p *squarePlay) error {
	if !p.upstream.Has(negotiate.ServerRequests) {
		return errNotThere("a 2026-07-28 server asks nothing that it could take back")
	}
	resp, err := p.tool("takeback", "")
	if err != nil {
		return err
	}
	return wantText(block(resp.Result), `"done"`, "text")
}

func playLogging(p *squarePlay) error {
	// A cancelled call that gave no answer may still log: for five seconds what has no link belongs to nobody.
	time.Sleep(6 * time.Second)
	if p.rev.Modern() {
		p.level = "info"
		defer func() { p.level = "" }()
	} else if _, err := p.result("logging/setLevel", `{"level":"info"}`); err != nil {
		return err
	}
	if _, err := p.tool("log", ""); err != nil {
		return err
	}
	p.settle()
	notes := p.heard("notifications/message")
	if len(notes) != 1 || text(notes[0].Params, "data") != `"careful"` {
		return fmt.Errorf("got %d log messages, want 1", len(notes))
	}
	return nil
}

// playBadLevel asks for log messages of a level that there is none (translation.md 3.1 step 8, 6.5).
func playBadLevel(p *squarePlay) error {
	var resp exchange.Response
	var err error
	if p.rev.Modern() {
		p.level = "loud"
		defer func() { p.level = "" }()
		resp, err = p.call("tools/list", `{}`)
	} else {
		resp, err = p.call("logging/setLevel", `{"level":"loud"}`)
	}
	if err == nil && (resp.Error == nil || resp.Error.Code != jsonrpc.CodeInvalidParams) {
		err = fmt.Errorf("got %s, %v, want -32602", resp.Result, resp.Error)
	}
	return err
}

// mayAsk says whether the client can be asked by that tool, for what its revision can declare.
func (p *squarePlay) mayAsk(tool string) bool {
	switch tool {
	case "elicit", "several", "rounds":
		return p.rev.Has(negotiate.Elicitation)
	case "url":
		return p.rev.Has(negotiate.URLElicitation)
	case "sampletools":
		return p.rev.Has(negotiate.SamplingTools)
	}
	return true
}

// question calls a tool that asks once and compares what the tool got. Where the client cannot be asked the call fails visibly:
// as a tool's error that names the reason, or as the server's own dealing with a refusal.
func (p *squarePlay) question(tool, method string, answers ...string) error {
	resp, err := p.tool(tool, "")
	if err != nil {
		return err
	}
	if !p.mayAsk(tool) {
		if len(p.questions()) > 0 {
			return fmt.Errorf("the client was asked %v, which it did not declare", p.questions())
		}
		if p.upstream.Has(negotiate.ServerRequests) {
			if !strings.Contains(text(resp.Result, "got"), `"code":-3260`) {
				return fmt.Errorf("the server was not refused: %s", resp.Result)
			}
			return nil
		}
		return wantText(resp.Result, "true", "isError") // 7.4 step 6
	}
	if got := p.questions(); len(got) != len(answers) || got[0] != method {
		return fmt.Errorf("the client was asked %v, want %s", got, method)
	}
	return wantText(resp.Result, "["+strings.Join(answers, ",")+"]", "got")
}

func (p *squarePlay) questions() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...)
}

func playURL(p *squarePlay) error {
	return p.question("url", "elicitation/create", string(answerTo("elicitation/create")))
}

// playVisit calls a tool that is refused with -32042 until a URL was visited (translation.md 7.6).
func playVisit(p *squarePlay) error {
	before := p.server.runs("visit")
	resp, err := p.call("tools/call", `{"name":"visit","arguments":{"n":25.0}}`)
	switch runs := p.server.runs("visit") - before; {
	case err != nil:
		return err
	case !toolKnown("visit", p.upstream):
		return errNotThere("-32042 is of 2025-11-25 alone")
	case p.rev.Modern(): // asked, and the call was made again
		if got := p.questions(); len(got) != 1 || got[0] != "elicitation/create" || runs != 2 {
			return fmt.Errorf("the client was asked %v and the server called %d times, want once and twice", got, runs)
		}
		return wantText(block(resp.Result), `"done"`, "text")
	case runs != 1 || len(p.questions()) > 0:
		return fmt.Errorf("the server was called %d times and the client asked %v, want once and nothing", runs, p.questions())
	case p.rev.Has(negotiate.URLElicitation): // its own business, as the server said it
		if resp.Error == nil || resp.Error.Code != -32042 || text(resp.Error.Data, "x") != "1.50" ||
			!strings.Contains(string(resp.Error.Data), visitURL) {
			return fmt.Errorf("got %s, error %v", resp.Result, resp.Error)
		}
		resp, err = p.result("tools/call", `{"name":"visit","arguments":{"n":25.0}}`)
		if err != nil {
			return err
		}
		return wantText(block(resp.Result), `"done"`, "text")
	}
	if strings.Contains(string(resp.Result), "example.com") {
		return fmt.Errorf("the model is told the URL: %s", resp.Result)
	}
	return wantText(resp.Result, "true", "isError")
}

func playSeveral(p *squarePlay) error {
	resp, err := p.tool("several", "")
	if err != nil {
		return err
	}
	form, roots := string(answerTo("elicitation/create")), string(answerTo("roots/list"))
	if !p.mayAsk("several") {
		if p.upstream.Has(negotiate.ServerRequests) {
			if got := text(resp.Result, "got"); !strings.Contains(got, roots) || !strings.Contains(got, `"code":-3260`) {
				return fmt.Errorf("got %s", resp.Result)
			}
			return nil
		}
		if n := len(p.questions()); n > 0 { // the gate comes first: all or none
			return fmt.Errorf("the client was asked %v", p.questions())
		}
		return wantText(resp.Result, "true", "isError")
	}
	if n := len(p.questions()); n != 2 {
		return fmt.Errorf("the client was asked %v, want both", p.questions())
	}
	return wantText(resp.Result, "["+form+","+roots+"]", "got")
}

func playRounds(p *squarePlay) error {
	form := string(answerTo("elicitation/create"))
	before := p.server.runs("rounds")
	if !p.mayAsk("rounds") {
		_, err := p.tool("rounds", "")
		return err
	}
	if err := p.question("rounds", "elicitation/create", form, form); err != nil {
		return err
	}
	if got := p.server.runs("rounds") - before; p.upstream.Has(negotiate.ServerRequests) && got != 1 {
		return fmt.Errorf("the server saw %d calls, want 1", got)
	}
	return nil
}

func (s *squareServer) runs(tool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.executed[tool]
}

func playCompletion(p *squarePlay) error {
	resp, err := p.result("completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"o"}}`)
	if err != nil {
		return err
	}
	return wantText(resp.Result, `["one","two"]`, "completion", "values")
}

func playSubscribe(p *squarePlay) error {
	if p.rev.Modern() {
		p.wg.Go(func() {
			_, _ = p.callOnce(p.ctx, "subscriptions/listen", []byte(`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["res://a"]}}`)) // lasts until close
		})
		p.settle()
		if len(p.heard("notifications/subscriptions/acknowledged")) != 1 {
			return fmt.Errorf("the subscription was not acknowledged")
		}
	} else if _, err := p.result("resources/subscribe", `{"uri":"res://a"}`); err != nil {
		return err
	}
	p.settle()
	if _, err := p.tool("touch", ""); err != nil {
		return err
	}
	p.settle()
	for _, method := range []string{"notifications/tools/list_changed", "notifications/resources/updated"} {
		if method == "notifications/resources/updated" && p.rev.Modern() && p.upstream.Has(negotiate.ServerRequests) {
			continue // each connection of the server sees only its own changes (8.1): the touch may run on another
		}
		if len(p.heard(method)) == 0 {
			return fmt.Errorf("no %s", method)
		}
	}
	return nil
}

func playUnknownMethod(p *squarePlay) error {
	resp, err := p.call("no/such", `{}`)
	if err != nil {
		return err
	}
	if resp.Error == nil || resp.Error.Code != jsonrpc.CodeMethodNotFound {
		return fmt.Errorf("got %+v, want -32601", resp)
	}
	return nil
}

func playReadAndPrompt(p *squarePlay) error {
	resp, err := p.result("resources/read", `{"uri":"res://a"}`)
	if err != nil {
		return err
	}
	if err := wantText(resp.Result, `[{"uri":"res://a","text":"A"}]`, "contents"); err != nil {
		return err
	}
	var prompt exchange.Response
	if prompt, err = p.result("prompts/get", `{"name":"p"}`); err != nil {
		return err
	}
	return wantText(prompt.Result, "25.0", "x-extra")
}
