// Package demo is the MCP server that bridge serve uses when no other is named: an echo tool, a slow tool with
// progress, a tool that asks the user, resources and prompts, in every revision.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Dial starts a demo server for one conversation and returns the client's end of the connection, which carries
// newline-delimited JSON-RPC. Closing it ends the server and waits for that.
func Dial(context.Context) (io.ReadWriteCloser, error) {
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	c := &conn{Conn: near, cancel: cancel, done: make(chan struct{})}
	go func() { // ends by cancel or when near is closed
		defer close(c.done)
		// Its error is the end of the connection, which the other end sees itself.
		_ = newServer().Run(ctx, &mcp.IOTransport{Reader: far, Writer: far})
		_ = far.Close()
	}()
	return c, nil
}

type conn struct {
	net.Conn
	cancel context.CancelFunc
	done   chan struct{} // closed when the server has ended
}

// Close ends the server.
func (c *conn) Close() error {
	c.cancel()
	err := c.Conn.Close()
	<-c.done
	return err
}

func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "bridge-demo", Title: "Demo server of the bridge", Version: "1"}, &mcp.ServerOptions{
		Instructions: "A demo: echo repeats a text, slow takes its time and reports progress, ask asks the user for a name.",
		Logger:       slog.New(slog.DiscardHandler),
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"Ada", "Grace"}}}, nil
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Repeats a text"}, echo)
	mcp.AddTool(s, &mcp.Tool{Name: "slow", Description: "Takes its time and reports progress"}, slow)
	s.AddTool(&mcp.Tool{Name: "ask", Description: "Asks the user for a name and greets", InputSchema: map[string]any{"type": "object"}}, ask)
	addResources(s)
	s.AddPrompt(&mcp.Prompt{
		Name: "greet", Description: "Asks the model for a greeting",
		Arguments: []*mcp.PromptArgument{{Name: "name", Description: "whom to greet", Required: true}},
	}, greet)
	return s
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

type echoArguments struct {
	Text string `json:"text" jsonschema:"what to repeat"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in echoArguments) (*mcp.CallToolResult, any, error) {
	return text("%s", in.Text), nil, nil
}

type slowArguments struct {
	Steps   int     `json:"steps,omitempty" jsonschema:"how many steps, 1 to 100; default 5"`
	Seconds float64 `json:"seconds,omitempty" jsonschema:"how long in all, up to 600 s; default 2"`
}

// slow waits in steps and reports each, if the caller gave a progress token.
func slow(ctx context.Context, req *mcp.CallToolRequest, in slowArguments) (*mcp.CallToolResult, any, error) {
	if in.Steps == 0 {
		in.Steps = 5
	}
	if in.Seconds == 0 {
		in.Seconds = 2
	}
	if in.Steps < 1 || in.Steps > 100 || in.Seconds < 0 || in.Seconds > 600 {
		return nil, nil, errors.New("steps must be 1 to 100 and seconds up to 600")
	}
	pause := time.Duration(in.Seconds * float64(time.Second) / float64(in.Steps))
	for i := range in.Steps {
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(pause):
		}
		if token := req.Params.GetProgressToken(); token != nil {
			p := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: float64(in.Steps)}
			if err := req.Session.NotifyProgress(ctx, p); err != nil {
				return nil, nil, err
			}
		}
	}
	return text("%d steps in %g s", in.Steps, in.Seconds), nil, nil
}

func addResources(s *mcp.Server) {
	read := func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
			{URI: req.Params.URI, MIMEType: "text/plain", Text: "This is " + req.Params.URI + "."},
		}}, nil
	}
	s.AddResource(&mcp.Resource{URI: "demo://about", Name: "about", Description: "A text", MIMEType: "text/plain"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "demo://note/{id}", Name: "note", Description: "One note", MIMEType: "text/plain"}, read)
}

func greet(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	name := req.Params.Arguments["name"]
	if name == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "missing argument name"}
	}
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
		{Role: "user", Content: &mcp.TextContent{Text: "Greet " + name + " in one sentence."}},
	}}, nil
}
