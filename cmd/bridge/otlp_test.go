package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

func TestWanted(t *testing.T) {
	tests := []struct {
		name string
		env  string // NAME=VALUE, by blanks
		want bool
		err  string // part of it; empty: none
	}{
		{"nothing is said", "", false, ""},
		{"an endpoint for all", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318", true, ""},
		{"an endpoint for traces", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:4318/v1/traces", true, ""},
		{"an endpoint for metrics", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://127.0.0.1:4318/v1/metrics", false, ""},
		{"the default endpoint", "OTEL_TRACES_EXPORTER=otlp", true, ""},
		{"none", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 OTEL_TRACES_EXPORTER=none", false, ""},
		{"another exporter", "OTEL_TRACES_EXPORTER=zipkin", false, `OTEL_TRACES_EXPORTER: "zipkin"`},
		{"protocol", "OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", true, ""},
		{"another protocol", "OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, `OTEL_EXPORTER_OTLP_PROTOCOL: "grpc"`},
		{"the protocol of traces comes first", "OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf", true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			setEnv(t, tt.env)
			got, err := wanted("TRACES")
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, %v; want %v, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func setEnv(t *testing.T, env string) {
	t.Helper()
	for _, pair := range strings.Fields(env) {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
}

// A collector keeps what it is sent.
type collector struct {
	mu   sync.Mutex
	sent map[string]*bytes.Buffer // by path
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return
		}
		body = z
	}
	text, _ := io.ReadAll(body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent[r.URL.Path] == nil {
		c.sent[r.URL.Path] = new(bytes.Buffer)
	}
	c.sent[r.URL.Path].Write(text)
}

func (c *collector) text(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent[path] == nil {
		return ""
	}
	return c.sent[path].String()
}

// With the standard variable set, a collector has the metrics and the spans of a call when serve has ended.
func TestOTLP(t *testing.T) {
	c := &collector{sent: map[string]*bytes.Buffer{}}
	srv := httptest.NewServer(c)
	defer srv.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging")
	r := startServe(t)
	r.post(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")
	r.stop(t)
	for path, words := range map[string][]string{
		"/v1/metrics": {"mcp.server.operation.duration", "mcp.client.operation.duration", "mcp.bridge.requests", "mcp-dualstack-bridge", "staging", "tools/list"},
		"/v1/traces":  {"tools/list", "mcp.bridge.transport", "mcp-dualstack-bridge", "staging", "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c"},
	} {
		text := c.text(path)
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%s: nothing of %q in %d bytes", path, w, len(text))
			}
		}
	}
}
