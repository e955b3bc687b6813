package streams

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// What a proxy bears, how often the bridge says something, and how long the server says nothing.
func silence() (timeout, keepAlive, silent time.Duration) {
	return size(time.Second, 5*time.Second), size(400*time.Millisecond, 2*time.Second), size(3*time.Second, 20*time.Second)
}

// Behind nginx and HAProxy, which cut a stream that is silent for some seconds and are told nothing about
// SSE, every stream of every era lives through a longer silence and then delivers (reports.md R32;
// issue 5).
func TestSilenceBehindProxies(t *testing.T) {
	for _, p := range []proxy{nginx, haproxy} {
		t.Run(p.name, func(t *testing.T) {
			timeout, keepAlive, silent := silence()
			b := startBridge(t, "--keep-alive", keepAlive.String())
			base := p.start(t, p, b.addr, timeout)
			c := newHTTP(t)
			for _, tt := range silentStreams {
				t.Run(tt.name, func(t *testing.T) {
					t.Parallel()
					ctx, cancel := context.WithTimeout(t.Context(), silent+limit)
					defer cancel()
					began := time.Now()
					if err := tt.run(ctx, c, base, silent); err != nil {
						t.Errorf("after %v: %v", time.Since(began).Round(time.Millisecond), err)
					}
					if took := time.Since(began); took < silent {
						t.Errorf("it took %v: nothing was silent for %v", took, silent)
					}
				})
			}
		})
	}
}

var silentStreams = []struct {
	name string
	run  func(ctx context.Context, c *http.Client, base string, silent time.Duration) error
}{
	{"a call of 2025-11-25", func(ctx context.Context, c *http.Client, base string, silent time.Duration) error {
		return silentCall(ctx, c, base, "2025-11-25", silent)
	}},
	{"a call of 2025-03-26", func(ctx context.Context, c *http.Client, base string, silent time.Duration) error {
		return silentCall(ctx, c, base, "2025-03-26", silent)
	}},
	{"a call on the legacy stream", silentLegacyCall},
	{"a stateless call", silentStateless},
	{"progress of a session", sessionProgress},
	{"progress on the legacy stream", legacyProgress},
	{"progress of a stateless call", statelessProgress},
	{"an idle legacy stream", idleLegacy},
	{"an idle GET stream", idleGet},
	{"an idle listen", idleListen},
}

func silentArguments(silent time.Duration) string {
	return fmt.Sprintf(`{"seconds":%g}`, silent.Seconds())
}

func silentCall(ctx context.Context, c *http.Client, base, revision string, silent time.Duration) error {
	s, err := openSession(ctx, c, base, revision)
	if err != nil {
		return err
	}
	m, _, err := s.call(ctx, "1", "tools/call", tool("silent", silentArguments(silent)))
	return expectText(m, err, "silent")
}

func expectText(m harness.Message, err error, want string) error {
	if err != nil {
		return err
	}
	if m.Text() != want {
		return fmt.Errorf("got %q %+v, want %q", m.Text(), m.Error, want)
	}
	return nil
}

func silentLegacyCall(ctx context.Context, c *http.Client, base string, silent time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := openLegacy(ctx, c, base)
	if err != nil {
		return err
	}
	m, err := l.call(ctx, "1", "tools/call", tool("silent", silentArguments(silent)))
	return expectText(m, err, "silent")
}

func silentStateless(ctx context.Context, c *http.Client, base string, silent time.Duration) error {
	m, err := callModern(ctx, c, base, "1", "silent", silentArguments(silent))
	return expectText(m, err, "silent")
}

// progressArguments ask for two steps, each as long as half the silence, which is more than a proxy bears.
func progressArguments(silent time.Duration) string {
	return fmt.Sprintf(`{"n":2,"seconds":%g}`, silent.Seconds()/2)
}

// expectProgress wants the two steps and the result.
func expectProgress(m harness.Message, before []harness.Message, err error) error {
	if err := expectText(m, err, "progress 2"); err != nil {
		return err
	}
	if len(before) != 2 || before[0].Progress() != 1 || before[1].Progress() != 2 {
		return fmt.Errorf("got %d messages before the result, want progress 1 and 2: %+v", len(before), before)
	}
	return nil
}

func sessionProgress(ctx context.Context, c *http.Client, base string, silent time.Duration) error {
	s, err := openSession(ctx, c, base, "2025-06-18")
	if err != nil {
		return err
	}
	return expectProgress(s.call(ctx, "1", "tools/call", tool("progress", progressArguments(silent))))
}

func legacyProgress(ctx context.Context, c *http.Client, base string, silent time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := openLegacy(ctx, c, base)
	if err != nil {
		return err
	}
	m, err := l.call(ctx, "1", "tools/call", tool("progress", progressArguments(silent)))
	l.mu.Lock()
	defer l.mu.Unlock()
	return expectProgress(m, l.seen, err)
}

func statelessProgress(ctx context.Context, c *http.Client, base string, silent time.Duration) error {
	st, err := send(ctx, c, http.MethodPost, base+"/mcp", harness.Request("1", "tools/call", modernProgress(progressArguments(silent))),
		"Content-Type", "application/json", "Accept", accept, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "progress")
	if err != nil {
		return err
	}
	defer st.close()
	return expectProgress(st.answer("1"))
}

// modernProgress are the params of a 2026-07-28 call of the tool progress, with a token.
func modernProgress(arguments string) string {
	return fmt.Sprintf(`{"name":"progress","arguments":%s,"_meta":{"progressToken":"p",`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"streams-modern","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{}}}`, arguments)
}

// idle reads comments until the silence has lasted.
func (s *stream) idle(silent time.Duration) error {
	for began := time.Now(); time.Since(began) < silent; {
		e, err := s.event()
		if err != nil {
			return fmt.Errorf("after %v of silence: %w", time.Since(began).Round(time.Millisecond), err)
		}
		if e.Data != "" {
			return fmt.Errorf("got %q, want silence", e.Data)
		}
	}
	return nil
}

func idleLegacy(ctx context.Context, c *http.Client, base string, silent time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := openStream(ctx, c, base)
	if err != nil {
		return err
	}
	if err := l.stream.idle(silent); err != nil {
		return err
	}
	go l.readAll() // ends with ctx
	if m, err := l.call(ctx, "0", "initialize", harness.Initialize("streams-idle", "2025-11-25")); err != nil || m.Error != nil {
		return fmt.Errorf("initialize after the silence: %w %+v", err, m.Error)
	}
	m, err := l.call(ctx, "1", "tools/call", tool("echo", `{"text":"still here"}`))
	return expectText(m, err, "still here")
}

const toolsChanged = "notifications/tools/list_changed"

func idleGet(ctx context.Context, c *http.Client, base string, silent time.Duration) error {
	s, err := openSession(ctx, c, base, "2025-11-25")
	if err != nil {
		return err
	}
	st, err := s.get(ctx, "")
	if err != nil {
		return fmt.Errorf("GET: %w", err)
	}
	defer st.close()
	if err := st.idle(silent); err != nil {
		return err
	}
	m, _, err := s.call(ctx, "1", "tools/call", tool("notify", "{}"))
	if err := expectText(m, err, "notified"); err != nil {
		return err
	}
	_, err = st.method(toolsChanged)
	return err
}

func idleListen(ctx context.Context, c *http.Client, base string, silent time.Duration) error {
	st, err := listen(ctx, c, base, `"l"`)
	if err != nil {
		return err
	}
	defer st.close()
	if err := st.idle(silent); err != nil {
		return err
	}
	m, err := callModern(ctx, c, base, "2", "notify", "{}")
	if err := expectText(m, err, "notified"); err != nil {
		return err
	}
	_, err = st.method(toolsChanged)
	return err
}

// The URL in the endpoint event is of the origin that the client used, whatever a proxy does with the
// Host header and whether or not it says so (translation.md 9.1). openStream checks the origin, as clients do.
func TestEndpointBehindProxies(t *testing.T) {
	for _, p := range []proxy{
		nginx.with("nginx, Host of the bridge", ""), // its default
		nginx.with("nginx, Host of the client", "proxy_set_header Host $http_host;"),
		nginx.with("nginx, HTTP 1.1, Host of the bridge", "proxy_http_version 1.1;"),
		nginx.with("nginx, HTTP 1.1, Host of the client", "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $http_host;"),
		// The default from nginx 1.29.7: nothing tells it from a client on this machine.
		nginx.with("nginx that keeps connections, Host of the bridge", "proxy_http_version 1.1; proxy_set_header Connection '';", "--endpoint-url", "relative"),
		nginx.with("nginx that is trusted", "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header X-Forwarded-Proto $scheme; "+
			"proxy_set_header X-Forwarded-Host $http_host;", "--trusted-proxy", "127.0.0.1"),
		nginx.with("nginx, as everybody's example has it", "proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; "+
			"proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme;"),
		haproxy.with("haproxy, Host of the client", ""), // its default
		haproxy.with("haproxy, Host of the bridge", "http-request set-header Host 127.0.0.1\n\toption forwardfor"),
	} {
		t.Run(p.name, func(t *testing.T) {
			b := startBridge(t, p.flags...)
			base := p.start(t, p, b.addr, limit)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			l, err := openLegacy(ctx, newHTTP(t), base)
			if err != nil {
				t.Fatal(err)
			}
			m, err := l.call(ctx, "1", "tools/call", tool("echo", `{"text":"hello"}`))
			if err := expectText(m, err, "hello"); err != nil {
				t.Errorf("endpoint %s: %v", l.data, err)
			}
		})
	}
}
