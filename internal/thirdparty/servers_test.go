// Package thirdparty tests the bridge against other people's SDKs. It is a module of its own, so that these stay
// out of the bridge's.
package thirdparty

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"testing"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMain sees to it that the bridge leaves no goroutine behind. The SDKs' servers leave some of their own, so
// that those of the bridge are told by their package.
func TestMain(m *testing.M) {
	code := m.Run()
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(stack, []byte("bridge/upstream.")) {
			fmt.Fprintf(os.Stderr, "goroutine left behind:\n%s\n", stack)
			code = 1
		}
	}
	os.Exit(code)
}

// A served SDK server behind a URL. Its tools: echo answers with its argument text; progress tells three steps and a
// list change; ask elicits and answers with the action; wait ends with its call.
type served struct {
	handler  http.Handler
	waiting  chan struct{} // an element when wait has begun
	released chan struct{} // an element when wait has ended because it was cancelled
	stop     chan struct{} // closed when the test is over, for handlers that nobody cancels
}

func newServed() *served {
	return &served{waiting: make(chan struct{}, 8), released: make(chan struct{}, 8), stop: make(chan struct{})}
}

func (s *served) wait(ctx context.Context) {
	s.waiting <- struct{}{}
	select {
	case <-ctx.Done():
		s.released <- struct{}{}
	case <-s.stop:
	}
}

var anyObject = json.RawMessage(`{"type":"object"}`)

// goSDK returns a go-sdk server with the tools.
func goSDK(s *served) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Version: "1.8.0"}, &mcp.ServerOptions{Instructions: "be kind"})
	text := func(t string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: t}}}
	}
	server.AddTool(&mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","x-mcp-header":"Text"}}}`)},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var args struct{ Text string }
			if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
				return nil, err
			}
			return text(args.Text), nil
		})
	server.AddTool(&mcp.Tool{Name: "progress", InputSchema: anyObject}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i)})
			if err != nil {
				return nil, err
			}
		}
		return text("done"), nil
	})
	server.AddTool(&mcp.Tool{Name: "ask", InputSchema: anyObject}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "sure?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}}}`)})
		if err != nil {
			return nil, err
		}
		return text(answer.Action), nil
	})
	server.AddTool(&mcp.Tool{Name: "wait", InputSchema: anyObject}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.wait(ctx)
		return nil, ctx.Err()
	})
	server.AddTool(&mcp.Tool{Name: "change", InputSchema: anyObject}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		server.AddTool(&mcp.Tool{Name: "new", InputSchema: anyObject}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("new"), nil
		})
		return text("changed"), nil
	})
	return server
}

// mcpGo returns an mcp-go server with the tools that it can have.
func mcpGo(s *served) *mcpgoserver.MCPServer {
	server := mcpgoserver.NewMCPServer("mcp-go", "1.2.1", mcpgoserver.WithToolCapabilities(true), mcpgoserver.WithElicitation())
	server.AddTool(mcpgo.NewTool("echo", mcpgo.WithString("text")), func(_ context.Context, req mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return mcpgo.NewToolResultText(req.GetString("text", "")), nil
	})
	server.AddTool(mcpgo.NewTool("progress"), func(ctx context.Context, req mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		for i := range 3 {
			err := server.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": req.Params.Meta.ProgressToken, "progress": i})
			if err != nil {
				return nil, fmt.Errorf("progress: %w", err)
			}
		}
		return mcpgo.NewToolResultText("done"), nil
	})
	server.AddTool(mcpgo.NewTool("ask"), func(ctx context.Context, _ mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		answer, err := server.RequestElicitation(ctx, mcpgo.ElicitationRequest{Params: mcpgo.ElicitationParams{
			Message: "sure?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}}}`),
		}})
		if err != nil {
			return nil, err
		}
		return mcpgo.NewToolResultText(string(answer.Action)), nil
	})
	server.AddTool(mcpgo.NewTool("wait"), func(ctx context.Context, _ mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		s.wait(ctx)
		return nil, ctx.Err()
	})
	server.AddTool(mcpgo.NewTool("change"), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		server.AddTool(mcpgo.NewTool("new"), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText("new"), nil
		})
		return mcpgo.NewToolResultText("changed"), nil
	})
	return server
}
