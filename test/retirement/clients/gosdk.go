package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type goSDK struct {
	url     string
	session *mcp.ClientSession

	mu   sync.Mutex
	logs []string
}

func (g *goSDK) connect(ctx context.Context) (err error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "retirement-test", Version: "1"}, &mcp.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.logs = append(g.logs, fmt.Sprint(r.Params.Data))
		},
	})
	g.session, err = c.Connect(ctx, &mcp.SSEClientTransport{Endpoint: g.url}, nil)
	return err
}

func (g *goSDK) call(ctx context.Context) (string, error) {
	r, err := g.session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}})
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(r.Content)
	return string(text), err
}

func (g *goSDK) told() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.logs
}

func (g *goSDK) close() {
	if g.session != nil {
		_ = g.session.Close() // the server may be gone
	}
}
