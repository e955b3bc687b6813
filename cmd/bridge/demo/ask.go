package demo

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// statelessRevision is the first without server requests: there a server answers with what it needs and is called
// again with it (2026-07-28 basic/patterns/mrtr).
const statelessRevision = "2026-07-28"

// answerKey names the question among the input requests.
const answerKey = "name"

// ask asks the user for a name, in the way of the revision the call came in, and greets.
func ask(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	question := &mcp.ElicitParams{Message: "What is your name?", RequestedSchema: map[string]any{
		"type":       "object",
		"properties": map[string]any{"name": map[string]any{"type": "string", "description": "your name"}},
		"required":   []string{"name"},
	}}
	if init := req.Session.InitializeParams(); init != nil && init.ProtocolVersion < statelessRevision {
		answer, err := req.Session.Elicit(ctx, question)
		if err != nil {
			return toolError("the user could not be asked: %v", err), nil
		}
		return greeting(answer), nil
	}
	answer, ok := req.Params.InputResponses[answerKey].(*mcp.ElicitResult)
	if !ok {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{answerKey: question}}, nil
	}
	return greeting(answer), nil
}

func greeting(answer *mcp.ElicitResult) *mcp.CallToolResult {
	if answer.Action != "accept" {
		return text("The user did not say a name (%s).", answer.Action)
	}
	return text("Hello, %v.", answer.Content["name"])
}

func toolError(format string, args ...any) *mcp.CallToolResult {
	r := text(format, args...)
	r.IsError = true
	return r
}
