//go:build !nolegacy

package bridge_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/retire"
)

// An old is a client of HTTP+SSE with its stream.
type old struct {
	t      *testing.T
	srv    *memhttp.Server
	stream *bufio.Reader
	to     string
}

func connectOld(t *testing.T, srv *memhttp.Server) *old {
	t.Helper()
	stream, to := sseOf(t, srv)
	return &old{t, srv, stream, to}
}

// ask posts a request and returns the next message of the stream.
func (o *old) ask(request string) string {
	o.t.Helper()
	if res := postTo(o.t, o.srv, o.to, request); res.StatusCode != http.StatusAccepted {
		o.t.Fatalf("POST: got %s", res.Status)
	}
	return data(o.t, o.stream)
}

func (o *old) initialize(name string) string {
	o.t.Helper()
	return o.ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"` + name + `","version":"1"}}}`)
}

func (o *old) list() string {
	o.t.Helper()
	return o.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
}

// code returns the code of an error, "" for a result.
func code(message string) string { return string(jsonrpc.Get([]byte(message), "error", "code")) }

// Retirement.md 10, check 12: tombstones open nothing upstream, and over the cap GET is answered as at gone.
func TestTombstonesOpenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		b := newBridge(t, s, &bridge.Options{Retirement: bridge.RetirementOptions{MaxTombstones: 3}})
		srv := memhttp.New(t, b)
		setStage(t, b.Retirement(), retire.Closed, "")
		for i := range 3 {
			c := connectOld(t, srv)
			if got := c.initialize("c"); code(got) != "410" {
				t.Errorf("tombstone %d: got %s, want error 410", i, got)
			}
		}
		res, err := srv.Client().Get(srv.URL + "/sse")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") == "" || !strings.Contains(res.Header.Get("Link"), "/mcp>") {
			t.Errorf("over the cap: got %s with %v, want 405 as at gone", res.Status, res.Header)
		}
		time.Sleep(6 * time.Second)
		connectOld(t, srv) // there is room again
		if n := s.opened.Load(); n != 0 {
			t.Errorf("the server was opened %d times, want 0", n)
		}
	})
}

// An exemption by name works from initialize on: on the tombstone, in drain, and at gone for who is there.
func TestExemptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, &server{}, &bridge.Options{Retirement: bridge.RetirementOptions{DrainTimeout: time.Minute}})
		srv := memhttp.New(t, b)
		const exempt = "exempt vip@127.0.0.0/24"
		setStage(t, b.Retirement(), retire.Closed, exempt)
		vip, other := connectOld(t, srv), connectOld(t, srv)
		if got := vip.initialize("vip"); code(got) != "" {
			t.Fatalf("exempt: got %s, want a result", got)
		}
		if got := other.initialize("other"); code(got) != "410" {
			t.Errorf("not exempt: got %s, want error 410", got)
		}
		for _, stage := range []retire.Stage{retire.Drain, retire.Gone} {
			setStage(t, b.Retirement(), stage, exempt)
			time.Sleep(10 * time.Minute)
			if got := vip.list(); code(got) != "" {
				t.Errorf("%s: got %s for the exempt client, want a result", stage, got)
			}
		}
		setStage(t, b.Retirement(), retire.Gone, "")
		if res := postTo(t, srv, vip.to, `{"jsonrpc":"2.0","id":7,"method":"ping"}`); res.StatusCode != http.StatusGone {
			t.Errorf("exempt no more: got %s, want 410", res.Status)
		}
	})
}

// Percent ramps: a client is in or out for the whole window (retirement.md 6).
func TestPercentOfABrownout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, &server{}, nil)
		srv := memhttp.New(t, b)
		const n = 40
		clients := make([]*old, n)
		for i := range clients {
			clients[i] = connectOld(t, srv)
			clients[i].initialize(fmt.Sprint("client-", i))
		}
		state := *b.Retirement().State()
		state.Stage = retire.Brownout
		state.Brownouts = []retire.Window{{ID: "half", Mode: retire.ModeCalls, Percent: 50, From: time.Now(), Until: time.Now().Add(time.Hour)}}
		if _, err := b.Retirement().Set(t.Context(), retire.Change{State: state, Actor: "test", Reason: "a test", Force: true}); err != nil {
			t.Fatal(err)
		}
		refused := 0
		for i, c := range clients {
			first := code(c.list())
			if first == "503" {
				refused++
			}
			if again := code(c.list()); again != first {
				t.Errorf("client %d: got %q and then %q", i, first, again)
			}
		}
		if refused < n/5 || refused > n*4/5 {
			t.Errorf("%d of %d clients were refused, want about half", refused, n)
		}
	})
}

// The stage outlives the program; legacy off goes before it.
func TestStageSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	stageOf := func(b *bridge.Bridge) string {
		_, body, _ := strings.Cut(send(t, b, "GET /retirement HTTP/1.1\nHost: localhost"), "\n\n")
		stage, _ := jsonrpc.String(jsonrpc.Get([]byte(body), "stage"))
		return stage
	}
	b, err := bridge.New(&server{}, &bridge.Options{State: dir})
	if err != nil {
		t.Fatal(err)
	}
	setStage(t, b.Retirement(), retire.Closed, "sunset 24h")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, err = bridge.New(&server{}, &bridge.Options{State: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got := stageOf(b); got != "closed" {
		t.Errorf("after the restart: got %s, want closed", got)
	}
	if got := code(connectOld(t, memhttp.New(t, b)).initialize("c")); got != "410" {
		t.Errorf("a client after the restart: got %q, want 410", got)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	off := newBridge(t, &server{}, &bridge.Options{State: dir, LegacyOff: true})
	if got := stageOf(off); got != "gone" {
		t.Errorf("with legacy off: got %s, want gone", got)
	}
	if got := send(t, off, "GET /sse HTTP/1.1\nHost: localhost"); !strings.HasPrefix(got, "405\n") || !strings.Contains(got, "\nSunset: ") {
		t.Errorf("with legacy off: got %s, want 405 with the date", got)
	}
}

// A step past warn needs the report's consent (retirement.md 6); legacy use blocks it.
func TestStepsNeedTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, &server{}, nil)
		connectOld(t, memhttp.New(t, b)).initialize("c")
		set := func(stage retire.Stage) error {
			state := *b.Retirement().State()
			state.Stage = stage
			_, err := b.Retirement().Set(t.Context(), retire.Change{Version: state.Version, State: state, Actor: "test"})
			return err
		}
		if err := set(retire.Warn); err != nil {
			t.Errorf("warn: got %v, want no error", err)
		}
		if err := set(retire.Closed); !errors.Is(err, retire.ErrNotReady) {
			t.Errorf("closed: got %v, want ErrNotReady", err)
		}
		report, err := b.Report(retire.Closed, 0)
		if err != nil || report.Stage.Name != "warn" || report.Target != "closed" {
			t.Errorf("got a report on %s at %s with %v, want closed at warn", report.Target, report.Stage.Name, err)
		}
	})
}

// What is only said where the operator wants it: the Warning header, and a word in the instructions.
func TestOptionalNotices(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		t.Run(fmt.Sprint(wanted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBridge(t, &server{}, &bridge.Options{Retirement: bridge.RetirementOptions{WarningHeader: wanted, Instructions: wanted}})
				srv := memhttp.New(t, b)
				setStage(t, b.Retirement(), retire.Warn, "")
				res, err := srv.Client().Get(srv.URL + "/sse")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if got := res.Header.Get("Warning"); strings.HasPrefix(got, `299 - "The HTTP+SSE transport (MCP 2024-11-05) is deprecated here`) != wanted {
					t.Errorf("Warning: got %q, want one: %v", got, wanted)
				}
				got := connectOld(t, srv).initialize("c")
				text, _ := jsonrpc.String(jsonrpc.Get([]byte(got), "result", "instructions"))
				if strings.Contains(text, srv.URL+"/mcp") != wanted {
					t.Errorf("instructions: got %q, want the notice: %v", text, wanted)
				}
				if jsonrpc.Get([]byte(got), "result", "_meta", "io.github.mcp-dualstack/retirement") == nil {
					t.Errorf("no _meta in %s", got)
				}
			})
		})
	}
}

// On the message route the successor is that of the client's own view, as on the stream (forwarded.go).
func TestRefusalsNameTheURLThatTheClientSees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, &server{}, &bridge.Options{PublicURL: "https://mcp.example.com/tools", Retirement: bridge.RetirementOptions{SameURLOff: true}})
		srv := memhttp.New(t, b)
		setStage(t, b.Retirement(), retire.Closed, "")
		c := connectOld(t, srv)
		u, err := url.Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		c.to = srv.URL + strings.TrimPrefix(u.Path, "/tools") + "?" + u.RawQuery // past the proxy
		got := c.initialize("c")
		if successor, _ := jsonrpc.String(jsonrpc.Get([]byte(got), "error", "data", "successor")); successor != "https://mcp.example.com/tools/mcp" {
			t.Errorf("got %s, want the public URL", got)
		}
	})
}

// Retirement.md 10, check 3: a client of 2025 on the SSE path opens its stream there, and nobody takes it for a legacy one.
func TestSameURLIsNotLegacy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, &server{}, nil)
		srv := memhttp.New(t, b)
		res := postTo(t, srv, srv.URL+"/sse", initialize)
		session := res.Header.Get("Mcp-Session-Id")
		if session == "" {
			t.Fatalf("initialize on /sse: got %s without a session", res.Status)
		}
		req, _ := http.NewRequest(http.MethodGet, srv.URL+"/sse", nil)
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Mcp-Session-Id", session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		stream, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Body.Close()
		head := make([]byte, 512)
		n, _ := stream.Body.Read(head) // its first bytes
		if stream.StatusCode != http.StatusOK || strings.Contains(string(head[:n]), "endpoint") {
			t.Errorf("GET /sse of the session: got %s, %q", stream.Status, head[:n])
		}
		time.Sleep(time.Minute) // longer than a probe would take
		report, err := b.Report("", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, total := range report.Transports {
			if total.Transport == "http_sse" {
				t.Errorf("counted as legacy: %+v", total)
			}
		}
		for _, id := range report.Identities {
			if _, legacy := id.Transports["http_sse"]; legacy {
				t.Errorf("identity %s is on HTTP+SSE", id.ID)
			}
		}
	})
}
