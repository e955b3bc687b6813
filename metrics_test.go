package bridge_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/telemetry"
	"github.com/mcp-dualstack/bridge/upstream"
)

// metricsOf asks the admin handler of b.
func metricsOf(t *testing.T, b *bridge.Bridge) string {
	t.Helper()
	w := httptest.NewRecorder()
	b.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8421/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("GET /metrics: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// wantLines reports each line that is not one of the text.
func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			var there []string
			for l := range strings.Lines(text) {
				if strings.HasPrefix(l, name) {
					there = append(there, l)
				}
			}
			t.Errorf("no line %s; there are\n%s", line, strings.Join(there, ""))
		}
	}
}

const statelessList = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// stateless sends a request of 2026-07-28.
func stateless(t *testing.T, srv *memhttp.Server, method, body string) *http.Response {
	t.Helper()
	req, _ := http.NewRequest(http.MethodPost, srv.URL+"/mcp", strings.NewReader(body))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method,
	} {
		req.Header.Set(name, value)
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// What clients of both session transports and stateless ones do is on the admin listener, while they do it and afterwards.
func TestMetrics(t *testing.T) {
	if !bridge.LegacyBuilt {
		t.Skip("needs the HTTP+SSE transport, which this build is without")
	}
	synctest.Test(t, func(t *testing.T) {
		b, err := bridge.New(&server{}, &bridge.Options{Signals: telemetry.SignalOptions{ClientNames: []string{"test"}}, MaxSessions: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		srv := memhttp.New(t, b)
		res, err := srv.Client().Get(srv.URL + "/sse")
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1024)
		n, err := res.Body.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(buf[:n]), "data: ")
		endpoint, _, _ := strings.Cut(rest, "\n")
		if !strings.HasPrefix(endpoint, "http") {
			endpoint = srv.URL + endpoint
		}
		for _, body := range []string{initialize, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`} {
			post(t, srv, endpoint, body, http.StatusAccepted)
			synctest.Wait()
		}
		post(t, srv, srv.URL+"/mcp", initialize, http.StatusOK)
		post(t, srv, srv.URL+"/mcp", initialize, http.StatusServiceUnavailable) // over MaxSessions
		stateless(t, srv, "tools/list", statelessList)
		b.BoundReached("leases")
		synctest.Wait()

		text := metricsOf(t, b)
		wantLines(t, text,
			`mcp_bridge_streams_open{transport="http_sse"} 1`,
			`mcp_bridge_sessions_active{protocol_version="2025-11-25",transport="http_sse"} 1`,
			`mcp_bridge_sessions_active{protocol_version="2025-11-25",transport="streamable_http"} 1`,
			`mcp_bridge_sessions_opened_total{client="test",outcome="accepted",protocol_version="2025-11-25",transport="http_sse"} 1`,
			`mcp_bridge_requests_total{method="tools/list",outcome="ok",protocol_version="2025-11-25",transport="http_sse"} 1`,
			`mcp_bridge_requests_total{method="notifications/initialized",outcome="ok",protocol_version="2025-11-25",transport="http_sse"} 1`,
			`mcp_bridge_requests_total{method="initialize",outcome="ok",protocol_version="2025-11-25",transport="streamable_http"} 1`,
			`mcp_bridge_requests_total{method="tools/list",outcome="ok",protocol_version="2026-07-28",transport="streamable_http"} 1`,
			`mcp_bridge_bound_reached_total{bound="max_sessions",transport="streamable_http"} 1`,
			`mcp_bridge_bound_reached_total{bound="leases"} 1`,
			`mcp_bridge_requests_refused_total{reason="too_many_sessions",transport="streamable_http"} 1`,
			`mcp_bridge_upgrade_evidence_total{kind="requested"} 1`,
			`mcp_bridge_deprecated_surface_requested{protocol_version="2025-11-25",removal_date="",surface="http_sse"} 1`,
			`mcp_bridge_retirement_stage{stage="open"} 1`,
			`mcp_bridge_retirement_ready{target_stage="gone"} 0`,
		)
		res.Body.Close()
		synctest.Wait()
		wantLines(t, metricsOf(t, b),
			`mcp_bridge_streams_open{transport="http_sse"} 0`,
			`mcp_bridge_streams_opened_total{transport="http_sse"} 1`,
			`mcp_bridge_sessions_active{protocol_version="2025-11-25",transport="http_sse"} 0`,
		)
	})
}

// post sends a message and reads the answer to its end.
func post(t *testing.T, srv *memhttp.Server, to, body string, status int) {
	t.Helper()
	req, _ := http.NewRequest(http.MethodPost, to, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != status {
		t.Errorf("POST %s: got status %d, %v; want %d", body, res.StatusCode, err, status)
	}
}

func TestGoneIsAStage(t *testing.T) {
	b, err := bridge.New(&server{}, &bridge.Options{LegacyOff: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	wantLines(t, metricsOf(t, b), `mcp_bridge_retirement_stage{stage="gone"} 1`, `mcp_bridge_retirement_stage{stage="open"} 0`)
}

// What the stage says is in the gauges, and the verdict is about the step that is scheduled next.
func TestMetricsOfTheStage(t *testing.T) {
	if !bridge.LegacyBuilt {
		t.Skip("without the HTTP+SSE transport the stage is gone, whatever the document says")
	}
	b, err := bridge.New(&server{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	k := b.Retirement()
	state := *k.State()
	state.Stage = retire.Brownout
	state.Sunset = time.Now().Add(60 * 24 * time.Hour)
	state.Brownouts = []retire.Window{{ID: "w", From: time.Now().Add(-time.Minute), Until: time.Now().Add(time.Hour), Mode: retire.ModeCalls}}
	at := time.Now().Add(24 * time.Hour).Truncate(time.Second)
	state.Schedule = []retire.Step{{Stage: retire.Closed, At: at}, {Stage: retire.Gone, At: at.Add(time.Hour)}}
	next, err := k.Set(t.Context(), retire.Change{Version: state.Version, State: state, Actor: "test", Origin: retire.FromCLI, Reason: "test", Force: true})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, metricsOf(t, b),
		`mcp_bridge_retirement_stage{stage="brownout"} 1`,
		`mcp_bridge_retirement_stage{stage="open"} 0`,
		fmt.Sprintf(`mcp_bridge_retirement_state_version %d`, next.Version),
		`mcp_bridge_brownout_active{mode="calls"} 1`,
		fmt.Sprintf(`mcp_bridge_retirement_next_step_timestamp_seconds{stage="closed"} %v`, float64(at.Unix())),
		`mcp_bridge_retirement_ready{target_stage="closed"} -1`,
	)
}

// A collector asks by an address. A name may be that of a web page that has been made to point here.
func TestWhoMayAskForMetrics(t *testing.T) {
	tests := []struct {
		name, host, origin string
		want               int
	}{
		{"an address", "10.1.2.3:8421", "", http.StatusOK},
		{"an address without a port", "10.1.2.3", "", http.StatusOK},
		{"IPv6", "[fd00::1]:8421", "", http.StatusOK},
		{"IPv6 without a port", "[fd00::1]", "", http.StatusOK},
		{"loopback by name", "localhost:8421", "", http.StatusOK},
		{"a name that clients use", "mcp.example.com", "", http.StatusOK},
		{"another name", "rebound.example.net:8421", "", http.StatusForbidden},
		{"a page at an address", "10.1.2.3:8421", "http://10.9.9.9", http.StatusForbidden},
	}
	b, err := bridge.New(&server{}, &bridge.Options{AllowedHosts: []string{"mcp.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	h := b.Admin()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil)
			r.Host = tt.host
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("got %d, want %d: %s", w.Code, tt.want, w.Body)
			}
		})
	}
}

// The token of the operators is asked for under every name.
func TestMetricsAskForTheToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := bridge.New(&server{}, &bridge.Options{AdminTokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, host := range []string{"10.1.2.3:8421", "localhost"} {
		for token, want := range map[string]int{"": http.StatusUnauthorized, "0123456789abcdef0123456789abcdef": http.StatusOK} {
			r := httptest.NewRequest(http.MethodGet, "http://"+host+"/metrics", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			b.Admin().ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s with token %q: got %d, want %d", host, token, w.Code, want)
			}
		}
	}
}

// A trace goes through the bridge from a client of either era to a server of either era.
func TestTracesCrossTheBridge(t *testing.T) {
	const (
		trace  = "0af7651916cd43dd8448eb211c80319c"
		parent = "00-" + trace + "-b7ad6b7169203331-01"
	)
	servers := map[string]string{
		"legacy": `initialize: result {"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}
tools/list: result {"tools":[]}
tools/call: result {"content":[]}`,
		"modern": `server/discover: result {"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}
tools/list: result {"tools":[],"resultType":"complete"}
tools/call: result {"content":[],"resultType":"complete"}`,
	}
	clients := map[string]func(t *testing.T, srv *memhttp.Server){
		"session": func(t *testing.T, srv *memhttp.Server) {
			res := postTo(t, srv, srv.URL+"/mcp", initialize)
			req, _ := http.NewRequest(http.MethodPost, srv.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","_meta":{"traceparent":"`+parent+`"}}}`))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			req.Header.Set("Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"))
			answer, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), `"content"`) {
				t.Errorf("got %s, %v", text, err)
			}
		},
		"stateless": func(t *testing.T, srv *memhttp.Server) {
			req, _ := http.NewRequest(http.MethodPost, srv.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","_meta":{"traceparent":"`+parent+
				`","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
			for name, value := range map[string]string{
				"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
			} {
				req.Header.Set(name, value)
			}
			answer, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), `"content"`) {
				t.Errorf("got %s, %v", text, err)
			}
		},
	}
	for serverEra, script := range servers {
		for clientEra, talk := range clients {
			t.Run(clientEra+" to "+serverEra, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var got []string
					heard := make(chan string, 100)
					record := func(who, line string) {
						if who == "server" && strings.Contains(line, `"tools/call"`) {
							heard <- line
						}
					}
					spans := tracetest.NewInMemoryExporter()
					up := upstream.Pipe(func(context.Context) (io.ReadWriteCloser, error) { return dialScript(script, record), nil }, nil)
					b, err := bridge.New(up, &bridge.Options{Signals: telemetry.SignalOptions{
						Export: telemetry.Export{Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))},
					}})
					if err != nil {
						t.Fatal(err)
					}
					defer b.Close()
					srv := memhttp.New(t, b)
					talk(t, srv)
					synctest.Wait()
					close(heard)
					for line := range heard {
						got = append(got, line)
					}
					if len(got) != 1 {
						t.Fatalf("the server heard %d calls: %q", len(got), got)
					}
					var clientSpan string
					for _, s := range spans.GetSpans() {
						if strings.HasPrefix(s.Name, "tools/call") && s.Parent.SpanID().String() != "b7ad6b7169203331" && s.SpanContext.TraceID().String() == trace {
							clientSpan = s.SpanContext.SpanID().String()
						}
					}
					m, refusal := jsonrpc.Scan([]byte(strings.TrimPrefix(got[0], "< ")))
					if refusal != nil {
						t.Fatal(refusal)
					}
					told, _ := jsonrpc.String(jsonrpc.Get(m.Meta, "traceparent"))
					if want := "00-" + trace + "-" + clientSpan + "-01"; told != want || clientSpan == "" {
						t.Errorf("the server was told %q, want %q", told, want)
					}
				})
			})
		}
	}
}
