package bridge_test

import (
	"fmt"
	"maps"
	"strings"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// squareTools are the tools of a squareServer: what each returns, or asks the client for. A server has the
// tools whose needs its revision knows.
var squareTools = []struct {
	name  string
	since negotiate.Revision
	until negotiate.Revision // None: for ever
	block string             // content of the result
	extra string             // further members of the result
	asks  [][]string         // questions, by round; those of one round are asked at once
}{
	{name: "text", since: negotiate.Rev20241105, block: `{"type":"text","text":"a\u2028b","x-unknown":25.0}`},
	{name: "image", since: negotiate.Rev20241105, block: `{"type":"image","data":"AAAA","mimeType":"image/png"}`},
	{name: "embedded", since: negotiate.Rev20241105, block: `{"type":"resource","resource":{"uri":"res://a","text":"A"}}`},
	{name: "audio", since: negotiate.Rev20250326, block: `{"type":"audio","data":"AAAA","mimeType":"audio/wav"}`},
	{name: "link", since: negotiate.Rev20250618, block: `{"type":"resource_link","uri":"res://a","name":"a"}`},
	{name: "structured", since: negotiate.Rev20250618, block: `{"type":"text","text":"{}"}`, extra: `"structuredContent":{"n":25.0}`},
	{name: "array", since: negotiate.Rev20260728, extra: `"structuredContent":[1,2.0]`},
	{name: "iserror", since: negotiate.Rev20241105, block: `{"type":"text","text":"went wrong"}`, extra: `"isError":true`},
	{name: "sample", since: negotiate.Rev20241105, asks: [][]string{{askSample}}},
	{name: "sampletools", since: negotiate.Rev20251125, asks: [][]string{{askSampleTools}}},
	{name: "roots", since: negotiate.Rev20241105, asks: [][]string{{askRoots}}},
	{name: "elicit", since: negotiate.Rev20250618, asks: [][]string{{askForm}}},
	{name: "url", since: negotiate.Rev20251125, asks: [][]string{{askURL}}},
	{name: "several", since: negotiate.Rev20250618, asks: [][]string{{askForm, askRoots}}},
	{name: "rounds", since: negotiate.Rev20250618, asks: [][]string{{askForm}, {askForm}}},
	{name: "fault", since: negotiate.Rev20241105},
	{name: "progress", since: negotiate.Rev20241105},
	{name: "log", since: negotiate.Rev20241105},
	{name: "block", since: negotiate.Rev20241105},
	{name: "touch", since: negotiate.Rev20241105},
	{name: "takeback", since: negotiate.Rev20250618},
	{name: "visit", since: negotiate.Rev20251125, until: negotiate.Rev20251125},
}

// The questions, as a method and params in the manner of the handshake era, divided by a blank.
const (
	askSample      = `sampling/createMessage {"messages":[{"role":"user","content":{"type":"text","text":"2+2?"}}],"maxTokens":10}`
	askSampleTools = `sampling/createMessage {"messages":[{"role":"user","content":{"type":"text","text":"2+2?"}}],"maxTokens":10,"tools":[{"name":"add","inputSchema":{"type":"object"}}]}`
	askRoots       = `roots/list {}`
	askForm        = `elicitation/create {"message":"Which?","requestedSchema":{"type":"object","properties":{"branch":{"type":"string"}}}}`
	visitURL       = `https://example.com/link?secret=1`
	askURL         = `elicitation/create {"mode":"url","elicitationId":"e-1","url":"https://example.com/x","message":"Go"}`
)

// toolKnown reports whether a server of a revision has the tool.
func toolKnown(name string, rev negotiate.Revision) bool {
	for _, t := range squareTools {
		if t.name == name {
			return t.since <= rev && (t.until == negotiate.None || rev <= t.until)
		}
	}
	return false
}

func (x *squareCall) tool(name string) (result, fault string) {
	for _, t := range squareTools {
		if t.name != name || !toolKnown(name, x.rev) {
			continue
		}
		if t.asks != nil {
			return x.ask(t.asks), ""
		}
		if t.block != "" || t.extra != "" {
			r := `{"content":[` + t.block + `]`
			if t.extra != "" {
				r += "," + t.extra
			}
			return r + `}`, ""
		}
		return x.act(name)
	}
	return "", `{"code":-32602,"message":"Unknown tool: ` + name + `"}`
}

// act is what a tool does that returns no fixed content.
func (x *squareCall) act(name string) (result, fault string) {
	switch name {
	case "fault":
		return "", `{"code":1234,"message":"out of order","data":{"x":1.50},"y":1}`
	case "progress":
		if token := jsonrpc.Get(x.m.Meta, "progressToken"); token != nil {
			for i := range 3 {
				x.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d.0,"total":3}`, token, i+1))
			}
		}
	case "log":
		level, _ := jsonrpc.String(negotiate.ReadClaim(x.m.Meta).LogLevel)
		if !x.modern || level != "" {
			x.notify("notifications/message", `{"level":"warning","data":"careful"}`)
		}
	case "block":
		return x.block()
	case "touch":
		x.touch()
	case "visit": // the URL counts as visited when the tool is called again
		if x.s.runs(name)%2 != 0 {
			return "", `{"code":-32042,"message":"Visit first","data":{"elicitations":[{"mode":"url","elicitationId":"v-1","url":"` + visitURL + `","message":"Link your account"}],"x":1.50}}`
		}
	case "takeback":
		method, params, _ := strings.Cut(askForm, " ")
		id, _ := x.request(method, params)
		x.notify("notifications/cancelled", `{"requestId":`+id+`,"reason":"changed my mind"}`)
		x.mu.Lock()
		delete(x.asked, id)
		x.mu.Unlock()
	}
	return `{"content":[{"type":"text","text":"done"}]}`, ""
}

// block waits until it is cancelled and then gives no answer.
func (x *squareCall) block() (result, fault string) {
	b := make(chan struct{})
	x.mu.Lock()
	if !x.over {
		x.blocked[string(x.m.ID)] = b
	}
	x.mu.Unlock()
	<-b
	return "", ""
}

// touch changes the list of tools and the resource res://a.
func (x *squareCall) touch() {
	x.mu.Lock()
	listens, watched := maps.Clone(x.listens), x.watched
	x.mu.Unlock()
	if !x.modern {
		x.notify("notifications/tools/list_changed", `{}`)
		if watched {
			x.notify("notifications/resources/updated", `{"uri":"res://a"}`)
		}
		return
	}
	for id, filter := range listens {
		meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}`
		if string(jsonrpc.Get(filter, "toolsListChanged")) == "true" {
			x.notify("notifications/tools/list_changed", `{`+meta+`}`)
		}
		if strings.Contains(string(jsonrpc.Get(filter, "resourceSubscriptions")), `"res://a"`) {
			x.notify("notifications/resources/updated", `{"uri":"res://a",`+meta+`}`)
		}
	}
}

// request sends a request of the server's own.
func (x *squareCall) request(method, params string) (id string, answer chan []byte) {
	answer = make(chan []byte, 1)
	x.mu.Lock()
	x.lastID++
	id = fmt.Sprintf(`"s-%d"`, x.lastID)
	x.asked[id] = answer
	x.mu.Unlock()
	x.write(jsonrpc.AppendRequest(nil, []byte(id), method, []byte(params)))
	return id, answer
}

// ask puts the questions and returns a result whose unknown member "got" has the answers in order.
func (x *squareCall) ask(rounds [][]string) string {
	var got []string
	if x.modern {
		return x.askInRounds(rounds)
	}
	for _, round := range rounds {
		var answers []chan []byte
		for _, q := range round {
			method, params, _ := strings.Cut(q, " ")
			_, answer := x.request(method, params)
			answers = append(answers, answer)
		}
		for _, a := range answers {
			got = append(got, string(<-a))
		}
	}
	return `{"content":[],"got":[` + strings.Join(got, ",") + `]}`
}

// askInRounds is ask in the manner of 2026-07-28: the state has the answers so far.
func (x *squareCall) askInRounds(rounds [][]string) string {
	n := 0
	var got []string
	if state, _ := jsonrpc.String(jsonrpc.Get(x.m.Params, "requestState")); state != "" {
		_, _ = fmt.Sscanf(state, "round %d", &n)
		_, before, _ := strings.Cut(state, "|")
		if before != "" {
			got = append(got, before)
		}
		for i := range rounds[n-1] {
			got = append(got, string(jsonrpc.Get(x.m.Params, "inputResponses", fmt.Sprintf("q%d", i))))
		}
	}
	if n == len(rounds) {
		return `{"content":[],"got":[` + strings.Join(got, ",") + `]}`
	}
	entries := make([]string, len(rounds[n]))
	for i, q := range rounds[n] {
		method, params, _ := strings.Cut(q, " ")
		if method == "roots/list" {
			entries[i] = fmt.Sprintf(`"q%d":{"method":"roots/list"}`, i)
			continue
		}
		raw := jsonrpc.Delete([]byte(params), "elicitationId")
		entries[i] = fmt.Sprintf(`"q%d":{"method":%q,"params":%s}`, i, method, raw)
	}
	state := fmt.Sprintf("round %d|%s", n+1, strings.Join(got, ","))
	return `{"resultType":"input_required","inputRequests":{` + strings.Join(entries, ",") + `},"requestState":` + string(jsonrpc.Quote(state)) + `}`
}
