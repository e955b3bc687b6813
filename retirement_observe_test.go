package bridge

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/retire"
)

// What a stage does to a request is reported with the words of retirement.md 7, once, and what it does not do is not.
func TestWhatAStageDoesIsObserved(t *testing.T) {
	get := func(t *retirement) {
		serve := func(w http.ResponseWriter, r *http.Request, o opening) {
			if o.tombstone && o.full != nil && r.Header.Get("X-Full") != "" {
				o.full.ServeHTTP(w, r)
			}
		}
		t.stream(serve).ServeHTTP(httptest.NewRecorder(), from(http.MethodGet, "/sse", ""))
	}
	full := func(t *retirement) {
		r := from(http.MethodGet, "/sse", "")
		r.Header.Set("X-Full", "1")
		t.stream(func(w http.ResponseWriter, r *http.Request, o opening) { o.full.ServeHTTP(w, r) }).ServeHTTP(httptest.NewRecorder(), r)
	}
	post := func(t *retirement) {
		nobody := func(*http.Request) (exchange.Client, bool) { return exchange.Client{}, false }
		t.messages(http.NotFoundHandler(), nobody).ServeHTTP(httptest.NewRecorder(), from(http.MethodPost, "/messages?sessionId=x", `{}`))
	}
	lost := func(t *retirement) {
		t.lost(httptest.NewRecorder(), from(http.MethodPost, "/messages?sessionId=x", `{}`))
	}
	ask := func(method string, fresh bool) func(*retirement) {
		return func(t *retirement) {
			c := exchange.Client{Session: "S", Info: []byte(`{"name":"c"}`), Requested: "2025-06-18"}
			t.request(from(http.MethodPost, "/messages?sessionId=x", ""), method, c, fresh)
		}
	}
	window := func(m retire.Mode) []retire.Window {
		return []retire.Window{{ID: "w", Mode: m, From: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}}
	}
	for _, c := range []struct {
		name  string
		state retire.State
		do    func(*retirement)
		want  string // kind, detail, stage, point, mode; "" for nothing
	}{
		{"open get", retire.State{Stage: retire.Open}, get, ""},
		{"open initialize", retire.State{Stage: retire.Open}, ask("initialize", true), ""},
		{"announce initialize", retire.State{Stage: retire.Announce}, ask("initialize", true), ""},
		{"announce lost", retire.State{Stage: retire.Announce}, lost, ""},
		{"warn initialize", retire.State{Stage: retire.Warn}, ask("initialize", true), "would_refuse|warn: initialize|warn|initialize|"},
		{"warn discover, before the initialize that counts", retire.State{Stage: retire.Warn}, ask("server/discover", true), ""},
		{"warn call", retire.State{Stage: retire.Warn}, ask("tools/call", false), ""},
		{"warn, comes back", retire.State{Stage: retire.Warn}, ask("tools/call", true), "would_refuse|warn: request|warn|request|"},
		{"brownout initialize", retire.State{Stage: retire.Brownout, Brownouts: window(retire.ModeInitialize)}, ask("initialize", true), "refused|brownout: initialize initialize|brownout|initialize|initialize"},
		{"brownout initialize, call", retire.State{Stage: retire.Brownout, Brownouts: window(retire.ModeInitialize)}, ask("tools/call", false), ""},
		{"brownout calls", retire.State{Stage: retire.Brownout, Brownouts: window(retire.ModeCalls)}, ask("tools/call", false), "refused|brownout: request calls|brownout|request|calls"},
		{"brownout hard get", retire.State{Stage: retire.Brownout, Brownouts: window(retire.ModeHard)}, get, "refused|brownout: get hard|brownout|get|hard"},
		{"brownout hard post", retire.State{Stage: retire.Brownout, Brownouts: window(retire.ModeHard)}, post, "refused|brownout: message hard|brownout|message|hard"},
		{"closed get", retire.State{Stage: retire.Closed}, get, ""},
		{"closed get over the cap", retire.State{Stage: retire.Closed}, full, "refused|closed: get|closed|get|"},
		{"closed initialize", retire.State{Stage: retire.Closed}, ask("initialize", true), "refused|closed: initialize|closed|initialize|"},
		{"closed, comes back", retire.State{Stage: retire.Closed}, ask("tools/call", true), "refused|closed: request|closed|request|"},
		{"closed call", retire.State{Stage: retire.Closed}, ask("tools/call", false), ""},
		{"closed lost", retire.State{Stage: retire.Closed}, lost, "refused|closed: message|closed|message|"},
		{"closed exempt", retire.State{Stage: retire.Closed, Exemptions: []retire.Exemption{{ID: "known"}}}, ask("initialize", true), "exempt|closed: initialize|closed|initialize|"},
		{"drain call", retire.State{Stage: retire.Drain}, ask("tools/call", false), "refused|drain: request|drain|request|"},
		{"gone get", retire.State{Stage: retire.Gone}, get, "refused|gone: get|gone|get|"},
		{"gone post", retire.State{Stage: retire.Gone}, post, "refused|gone: message|gone|message|"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen []string
			r := retirementAt(t, c.state, func(o exchange.Observation) {
				seen = append(seen, strings.Join([]string{o.Kind, o.Detail, o.Stage, o.Point, o.Mode}, "|"))
				if o.Transport != exchange.HTTPSSE || o.Addr != netip.MustParseAddr("192.0.2.7") && o.Session == "" || o.Session != "" && (o.Info == nil || o.Version != "2025-06-18") {
					t.Errorf("observed %+v, which does not say whom", o)
				}
			})
			c.do(r)
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

// retirementAt returns the retirement in a state, with a client whose identity is "known".
func retirementAt(t *testing.T, state retire.State, observe func(exchange.Observation)) *retirement {
	t.Helper()
	s, _, err := (Options{}).check(nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := retire.OpenKeeper("", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	if _, err := k.Set(t.Context(), retire.Change{State: state, Actor: "test", Reason: "a test", Force: true}); err != nil {
		t.Fatal(err)
	}
	r := &retirement{s: s, keeper: k, who: func(exchange.Client) []string { return []string{"known"} }, observe: observe}
	r.watch = &windowWatch{keeper: k}
	t.Cleanup(r.watch.close)
	return r
}

func from(method, target, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.RemoteAddr = "192.0.2.7:5"
	return r
}

// The fast path: before warn a request on a stream costs nothing that grows, and nobody is identified.
func TestRequestsBeforeWarnAllocateNothing(t *testing.T) {
	for _, stage := range []retire.Stage{retire.Open, retire.Announce} {
		r := retirementAt(t, retire.State{Stage: stage, Exemptions: []retire.Exemption{{ID: "x"}}}, nil)
		req, c := from(http.MethodPost, "/messages", ""), exchange.Client{}
		if n := testing.AllocsPerRun(100, func() { r.request(req, "tools/call", c, false); r.notice(req); r.greeting(req) }); n > 0 {
			t.Errorf("at %s: got %v allocations, want none", stage, n)
		}
	}
}

func TestRetirementOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    RetirementOptions
		want string // part of the error; empty: none
	}{
		{"zero", RetirementOptions{}, ""},
		{"pages", RetirementOptions{Docs: "https://docs.example/a?b=c#d", Policy: "http://x"}, ""},
		{"a path", RetirementOptions{Docs: "/docs"}, "retirement docs: \"/docs\" is not an absolute URL"},
		{"no web page", RetirementOptions{Policy: "mailto:a@b.example"}, "retirement policy: "},
		{"not as it goes over the wire", RetirementOptions{Docs: "https://docs.example/a b"}, "must be written as \"https://docs.example/a%20b\""},
		{"too long", RetirementOptions{Docs: "https://docs.example/" + strings.Repeat("x", 2048)}, "at most 2048"},
		{"broken", RetirementOptions{Docs: "https://%zz"}, "retirement docs: "},
		{"redirect to where it comes from", RetirementOptions{GoneRedirect: true}, "redirect at gone"},
		{"redirect", RetirementOptions{GoneRedirect: true, SameURLOff: true}, ""},
		{"negative", RetirementOptions{MaxTombstones: -1}, "must not be negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := (&Options{Retirement: c.o}).Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestWarningText(t *testing.T) {
	if got, want := warningText("a \"b\" \\ ü\r\nc"), `a \"b\" \\ c`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
