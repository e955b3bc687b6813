package bridge

import (
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/translate"
)

func TestOptionsReportEveryProblemAtOnce(t *testing.T) {
	o := &Options{
		PublicURL:      "mcp.example.com",
		SSEPath:        "sse",
		MessagePath:    "/{id}",
		MCPPath:        "/retirement",
		EndpointURL:    "sometimes",
		TrustedProxies: []string{"10.0.0.0/8", "proxy"},
		KeepAlive:      -1,
		MaxCalls:       -1,
		Translation:    translate.SuspendOptions{Secrets: [][]byte{[]byte("short")}},
	}
	err := o.Check()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{
		`public URL: "mcp.example.com" is not an absolute`, `SSE path: "sse" must be`, `message path: "/{id}" must be`, `MCP path: /retirement is taken`,
		`endpoint URL: "sometimes" is none of`, `trusted proxy: "proxy" is neither`, `keep-alive: must not be negative`, `max calls: must not be negative`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s\nin %v", want, err)
		}
	}
	if got, want := strings.Count(err.Error(), "\n")+1, 9; got != want {
		t.Errorf("got %d problems, want %d: %v", got, want, err)
	}
}

func TestPaths(t *testing.T) {
	tests := []struct {
		name string
		o    Options
		want string // of the error; empty: fine
	}{
		{"defaults", Options{}, ""},
		{"messages on the SSE path", Options{SSEPath: "/old/sse", MessagePath: "/old/sse"}, ""},
		{"slashes at the end", Options{SSEPath: "/sse/", MessagePath: "/m//x/"}, ""},
		{"the root", Options{SSEPath: "/"}, ""},
		{"MCP on the SSE path", Options{MCPPath: "/sse"}, "is a legacy route too"},
		{"MCP on the SSE path, spelled otherwise", Options{MCPPath: "//sse/"}, "is a legacy route too"},
		{"MCP on the message path", Options{MCPPath: "/messages"}, "is a legacy route too"},
		{"dot segments", Options{SSEPath: "/a/../b"}, "must be a plain path"},
		{"a query", Options{SSEPath: "/sse?x"}, "must be a plain path"},
		{"a password in the URL", Options{PublicURL: "https://me:secret@mcp.example.com"}, "must have no query, fragment or user"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.o.Check()
			got := ""
			if err != nil {
				got = err.Error()
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if strings.Contains(got, "secret") {
				t.Errorf("the error shows the password: %s", got)
			}
		})
	}
}
