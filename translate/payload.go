package translate

import (
	"log/slog"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A payload applies the transforms of translation.md 5 to what a server says to a client. Each looks at the value
// that is there, so that one list per client revision is right in front of any server. Methods may be called concurrently.
type payload struct {
	client, server negotiate.Revision

	info    []byte           // raw Implementation of the server for T8; nil: none is added
	headers bool             // tools whose header annotations break the rules are left out (translation.md 11)
	pooled  bool             // the client has no session of the server's for itself
	cache   map[string]Cache // Options.Cache
	log     *slog.Logger     // never nil
}

// result applies the transforms of a method's result. What they do not concern keeps its bytes, and when none
// fires the same slice comes back. A result that is not final (input_required, a task) is only for those who
// know it: it passes.
func (p *payload) result(method string, r []byte) []byte {
	if !jsonrpc.IsObject(r) {
		return r
	}
	switch method {
	case "tools/list":
		r = p.toolList(r)
	case "tools/call":
		r = p.toolResult(r)
	case "prompts/get":
		r = p.messages(r, p.promptMessage)
	}
	switch {
	case p.client.Modern() == p.server.Modern():
		return r
	case p.client.Modern():
		return p.complete(method, r)
	}
	return withoutEnvelope(r)
}

// bridgesTasks reports whether core tasks pass (translation.md 10).
func (p *payload) bridgesTasks() bool {
	return !p.pooled && p.client.Has(negotiate.Tasks) && p.server.Has(negotiate.Tasks)
}

// hidesExecution reports whether T9 applies. A modern server and client may mean something else by the word.
func (p *payload) hidesExecution() bool {
	return !p.bridgesTasks() && !(p.client.Modern() && p.server.Modern())
}

// toolList applies T4 and T9 to a ListToolsResult.
func (p *payload) toolList(r []byte) []byte {
	tools := jsonrpc.Get(r, "tools")
	return setChanged(r, mapElements(tools, p.tool), tools, "tools")
}

// tool returns a Tool as the client may see it, nil if not at all.
func (p *payload) tool(t []byte) []byte {
	if p.headers {
		if _, ok := negotiate.ReadParams(jsonrpc.Get(t, "inputSchema")); !ok {
			p.leaveOut(t, "its x-mcp-header annotations break the rules")
			return nil
		}
	}
	if p.hidesExecution() && mayHave(t, "execution") {
		if is(jsonrpc.Get(t, "execution", "taskSupport"), "required") {
			p.leaveOut(t, "it can only be called as a task")
			return nil
		}
		t = jsonrpc.Delete(t, "execution")
	}
	if p.client.Has(negotiate.AnyOutput) || !mayHave(t, "outputSchema") {
		return t
	}
	if schema := jsonrpc.Get(t, "outputSchema"); schema != nil && !is(jsonrpc.Get(schema, "type"), "object") {
		return jsonrpc.Delete(t, "outputSchema")
	}
	return t
}

func (p *payload) leaveOut(tool []byte, why string) {
	name, _ := jsonrpc.String(jsonrpc.Get(tool, "name"))
	p.log.Warn("tool left out of tools/list", "tool", name, "reason", why)
}

// toolResult applies T1 to T3, T5 and T6 to a CallToolResult.
func (p *payload) toolResult(r []byte) []byte {
	if !p.isFinal(r) {
		return r
	}
	old := jsonrpc.Get(r, "content")
	content := mapElements(old, p.block)
	var structured []byte
	if mayHave(r, "structuredContent") {
		structured = jsonrpc.Get(r, "structuredContent")
	}
	forbidden := structured != nil && !jsonrpc.IsObject(structured) && !p.client.Has(negotiate.AnyOutput)
	switch {
	case jsonrpc.IsNull(content):
		content = []byte("[]")
		if structured != nil {
			content = appendText(content, structured)
		}
	case forbidden && !hasText(content):
		content = appendText(content, structured)
	}
	r = setChanged(r, content, old, "content")
	if forbidden {
		r = jsonrpc.Delete(r, "structuredContent")
	}
	return r
}

// isFinal reports whether a result of tools/call is a CallToolResult, and neither asks for input nor is a task.
func (p *payload) isFinal(r []byte) bool {
	if mayHave(r, "resultType") {
		if t := jsonrpc.Get(r, "resultType"); t != nil && !is(t, resultComplete) {
			return false
		}
	}
	return !p.bridgesTasks() || !jsonrpc.IsObject(jsonrpc.Get(r, "task"))
}

// hasText reports whether an array of content blocks has one of text.
func hasText(content []byte) bool {
	found := false
	jsonrpc.Elements(content, func(b []byte) bool {
		found = is(jsonrpc.Get(b, "type"), "text")
		return !found
	})
	return found
}

// appendText returns the array content with a text block of raw's compact JSON after the others.
func appendText(content, raw []byte) []byte {
	block := textBlock(string(compact(raw)), nil)
	if !jsonrpc.IsArray(content) {
		return append(append([]byte{'['}, block...), ']')
	}
	count := 0
	jsonrpc.Elements(content, func([]byte) bool { count++; return false })
	end := len(content) - 1 // of the bracket: a value has no blanks around it
	out := append(make([]byte, 0, len(content)+len(block)+1), content[:end]...)
	if count > 0 {
		out = append(out, ',')
	}
	return append(append(out, block...), ']')
}

// messages applies edit to each of the messages of a GetPromptResult or of CreateMessageRequestParams.
func (p *payload) messages(r []byte, edit func([]byte) []byte) []byte {
	old := jsonrpc.Get(r, "messages")
	return setChanged(r, mapElements(old, edit), old, "messages")
}

func (p *payload) promptMessage(m []byte) []byte {
	old := jsonrpc.Get(m, "content")
	if !jsonrpc.IsObject(old) {
		return m
	}
	return setChanged(m, p.block(old), old, "content")
}
