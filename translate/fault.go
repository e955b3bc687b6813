package translate

import (
	"strconv"
	"strings"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Reasons for data.bridge.reason that only a translation has (translation.md 7).
const (
	reasonTooManyRounds = "too_many_rounds"
	reasonURLRequired   = "url_elicitation_required" // the call needs a URL that this client cannot be given
	reasonAnswer        = "client_answer"            // the client's answer to a question is an error or malformed
	reasonHeaders       = "upstream_headers"         // the server refused the headers made for it
)

// asksTheUser reports whether a server may ask the client because of the method (2026-07-28 basic/patterns/mrtr,
// Supported Requests).
func asksTheUser(method string) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read":
		return true
	}
	return false
}

// brokenOff returns the answer to a call that was carried out in part and cannot go on (translation.md 7.4 step 6): for
// tools/call a CallToolResult with isError, so that the model can react, otherwise -32603. text is for the model or its user.
func brokenOff(method, reason, text string) exchange.Response {
	if method != "tools/call" {
		return exchange.Response{Error: negotiate.Refused(jsonrpc.CodeInternal, reason, "%s", text)}
	}
	content := append(append([]byte{'['}, textBlock(text, nil)...), ']')
	return exchange.Response{Result: jsonrpc.Set(jsonrpc.Set(nil, content, "content"), []byte("true"), "isError")}
}

// refusedHeaders is the failure of a request whose headers, made by the bridge, a modern server refused (translation.md 11).
func refusedHeaders(e *exchange.Error) error {
	return &exchange.Failure{Reason: reasonHeaders, Message: "the server behind the bridge refused the headers made for this request", Err: e}
}

// recoded returns an error of the server's under a code the client knows, with the server's own in
// data.bridge.upstreamCode beside the members of its data (translation.md 13).
func recoded(e *exchange.Error, code int) *exchange.Error {
	own := strconv.AppendInt(nil, int64(e.Code), 10)
	return &exchange.Error{Code: code, Message: e.Message, Data: jsonrpc.Set(e.Data, own, "bridge", "upstreamCode")}
}

// notBridged refuses a method of core tasks where they do not pass (translation.md 10).
func notBridged(method string) *exchange.Error {
	return negotiate.Refused(jsonrpc.CodeMethodNotFound, negotiate.ReasonUnknownMethod,
		"Method not found: %s is not bridged between this client and this server", method)
}

func isTaskMethod(method string) bool { return strings.HasPrefix(method, "tasks/") }

// subject names what a call is about, for messages: the tool, the prompt or the URI.
func subject(method string, params []byte) string {
	member := "name"
	if method == "resources/read" {
		member = "uri"
	}
	if s, ok := jsonrpc.String(jsonrpc.Get(params, member)); ok && len(s) <= 200 {
		return s
	}
	return method
}

// lacks says which capability a call needs that the client does not have.
func lacks(client negotiate.Revision, method string, params []byte, capability string) string {
	text := subject(method, params) + " needs the client capability " + capability + "; "
	if capability == "elicitation.url" && !client.Has(negotiate.URLElicitation) ||
		strings.HasPrefix(capability, "elicitation") && !client.Has(negotiate.Elicitation) ||
		capability == "sampling.tools" && !client.Has(negotiate.SamplingTools) {
		return text + "this client speaks " + client.String() + " and cannot provide it."
	}
	return text + "this client did not declare it."
}

// requiredCapabilities names what the data of a -32021 error asks for, such as "elicitation.url".
func requiredCapabilities(data []byte) string {
	var names []string
	jsonrpc.Members(jsonrpc.Get(data, "requiredCapabilities"), func(name string, v []byte) bool {
		plain := true
		jsonrpc.Members(v, func(sub string, _ []byte) bool {
			names, plain = append(names, name+"."+sub), false
			return true
		})
		if plain {
			names = append(names, name)
		}
		return true
	})
	if len(names) == 0 {
		return "that it did not name"
	}
	return strings.Join(names, ", ")
}
