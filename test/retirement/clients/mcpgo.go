package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

type mcpGo struct {
	url string
	c   *client.Client

	mu   sync.Mutex
	logs []string
}

func (m *mcpGo) connect(ctx context.Context) error {
	t, err := transport.NewSSE(m.url)
	if err != nil {
		return err
	}
	m.c = client.NewClient(t)
	m.c.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method != "notifications/message" {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.logs = append(m.logs, fmt.Sprint(n.Params.AdditionalFields["data"]))
	})
	if err := m.c.Start(ctx); err != nil {
		return err
	}
	r := mcp.InitializeRequest{}
	r.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	r.Params.ClientInfo = mcp.Implementation{Name: "retirement-test", Version: "1"}
	_, err = m.c.Initialize(ctx, r)
	return err
}

func (m *mcpGo) call(ctx context.Context) (string, error) {
	r := mcp.CallToolRequest{}
	r.Params.Name, r.Params.Arguments = "echo", map[string]any{"text": "hello"}
	result, err := m.c.CallTool(ctx, r)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(result.Content)
	return string(text), err
}

func (m *mcpGo) told() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.logs
}

func (m *mcpGo) close() {
	if m.c != nil {
		_ = m.c.Close() // the server may be gone
	}
}
