package bridge_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/upstream"
)

// scripted returns a server that does what the script says, and puts a bridge before it.
func scripted(t *testing.T, script string, up upstream.Options, o bridge.Options) *memhttp.Server {
	t.Helper()
	b, err := bridge.New(upstream.Pipe(func(context.Context) (io.ReadWriteCloser, error) {
		ours, theirs := net.Pipe()
		go serveScript(theirs, script, func(string, string) {}) // ends when the bridge hangs up
		return ours, nil
	}, &up), &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return memhttp.New(t, b)
}

// said posts to /mcp and returns the whole answer.
func said(t *testing.T, srv *memhttp.Server, session, body string) (answer, newSession string) {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/mcp", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), res.Header.Get("Mcp-Session-Id")
}

const newestInitialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`

// TestTasksNeedASession: what belongs to a session is not promised where clients share them (translation.md 4, 10).
func TestTasksNeedASession(t *testing.T) {
	const script = `initialize: result {"protocolVersion":"2025-11-25","capabilities":{"tasks":{"list":{}},"tools":{}},"serverInfo":{"name":"s","version":"1"}}
`
	for _, c := range []struct {
		sharing string
		want    bool
	}{{"dedicated", true}, {"pool", false}} {
		t.Run(c.sharing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := scripted(t, script, upstream.Options{Sharing: c.sharing, Era: "legacy"}, bridge.Options{})
				got, _ := said(t, srv, "", newestInitialize)
				if !strings.Contains(got, `"tools":{}`) || strings.Contains(got, `"tasks"`) != c.want {
					t.Errorf("got %s, want tasks: %v", got, c.want)
				}
			})
		})
	}
}

// TestBoundsOfTranslationAreObserved: a bound of a call across eras is the operator's to set, and its being reached is seen.
func TestBoundsOfTranslationAreObserved(t *testing.T) {
	const script = `server/discover: result {"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}
tools/call: result {"resultType":"input_required","inputRequests":{},"requestState":"s"}
`
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		told := ""
		srv := scripted(t, script, upstream.Options{}, bridge.Options{
			Drive:  bridge.DriveOptions{MaxRounds: 2, Bound: func(name string) { told += name }},
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		_, session := said(t, srv, "", newestInitialize)
		got, _ := said(t, srv, session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}`)
		if !strings.Contains(got, "asked for input 2 times") {
			t.Errorf("got %s", got)
		}
		if !strings.Contains(log.String(), "event=bound") || !strings.Contains(log.String(), "=rounds") || told != "rounds" {
			t.Errorf("told %q, log:\n%s", told, &log)
		}
	})
}
