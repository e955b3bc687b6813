package bridge_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/google/go-cmp/cmp"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/upstream"
)

var update = flag.Bool("update", false, "rewrite the expected half of the golden conversations")

// TestConversations plays testdata/conversations/*.txtar: a client against a bridge in front of a scripted
// server, in fake time. An archive has prose at its head, then
//
//	-- server --     what the server does (see scriptedServer)
//	-- options --    optional: lines such as "legacy off"
//	-- > NAME METHOD PATH --   a request: header lines, a blank line, the body; "-Header" removes a default
//	-- > wait 15s --           let time pass
//	-- > hang up NAME --       the client closes that response
//	-- > stage NAME --         the operator sets the stage; its lines as setStage has them
//	-- < --                    everything that happened since, rewritten by go test -update
//
// $session, $endpoint, $event and $state stand for the newest Mcp-Session-Id, endpoint URL, event id and sealed requestState.
func TestConversations(t *testing.T) {
	eachConversation(t, func(t *testing.T, file string, a *txtar.Archive) {
		want := txtar.Format(a)
		synctest.Test(t, func(t *testing.T) { play(t, a) })
		got := txtar.Format(a)
		if bytes.Equal(got, want) {
			return
		}
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("the conversation went another way (go test -run TestConversations -update rewrites it):\n%s", cmp.Diff(string(want), string(got)))
	})
}

// Clients see the same when their streams are taken over from net/http, but for the connection that is closed after a stream.
func TestConversationsHijacked(t *testing.T) {
	eachConversation(t, func(t *testing.T, _ string, a *txtar.Archive) {
		want := string(txtar.Format(a))
		synctest.Test(t, func(t *testing.T) {
			playWatched(t, a, func(o *bridge.Options, _ *upstream.Options) { o.Hijack = true }, func(*bridge.Bridge) {})
		})
		if got := string(txtar.Format(a)); got != want {
			t.Errorf("the conversation went another way than in net/http:\n%s", cmp.Diff(want, got))
		}
	})
}

// eachConversation calls run, in a test of its own, for every conversation that this build can have.
func eachConversation(t *testing.T, run func(t *testing.T, file string, a *txtar.Archive)) {
	files, err := filepath.Glob("testdata/conversations/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations found: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bridge.LegacyBuilt && needsLegacy(a) {
				t.Skip("needs the HTTP+SSE transport, which this build is without")
			}
			run(t, file, a)
		})
	}
}

// needsLegacy reports whether an archive has a request that only the HTTP+SSE transport can serve.
func needsLegacy(a *txtar.Archive) bool {
	for _, f := range a.Files {
		if f.Name == "options" && strings.Contains(string(f.Data), "legacy off") {
			return false // a build without the transport answers the same
		}
		bare := strings.HasPrefix(f.Name, "> ") && strings.HasSuffix(f.Name, " GET /sse") && !strings.Contains(string(f.Data), "Mcp-Session-Id")
		if bare && !strings.Contains(string(f.Data), "Host: ") {
			return true
		}
	}
	return false
}

// play runs the conversation of a and puts what happened in place of its expected sections.
func play(t *testing.T, a *txtar.Archive) {
	playWatched(t, a, func(*bridge.Options, *upstream.Options) {}, func(*bridge.Bridge) {})
}

// playWatched is play with options that prepare changes, and a look at the bridge before it is closed.
func playWatched(t *testing.T, a *txtar.Archive, prepare func(*bridge.Options, *upstream.Options), look func(*bridge.Bridge)) {
	c := &conversation{t: t, vars: map[string]string{}, streams: map[string]*stream{}}
	script, opts, server := "", &bridge.Options{}, &upstream.Options{}
	for _, f := range a.Files {
		switch f.Name {
		case "server":
			script = string(f.Data)
		case "options":
			setOptions(t, opts, server, string(f.Data))
		}
	}
	prepare(opts, server)
	up := upstream.Pipe(func(context.Context) (io.ReadWriteCloser, error) { return dialScript(script, c.record), nil }, server)
	b, err := bridge.New(up, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	srv := memhttp.New(t, b)
	c.base, c.client, c.keeper = srv.URL, srv.Client(), b.Retirement()
	for i := range a.Files {
		f := &a.Files[i]
		if rest, ok := strings.CutPrefix(f.Name, "> "); ok {
			c.step(rest, string(f.Data))
		} else if f.Name == "<" {
			synctest.Wait()
			f.Data = []byte(c.happened())
		}
	}
	for _, s := range c.streams {
		s.cancel()
	}
	look(b)
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	synctest.Wait()
}

func setOptions(t *testing.T, o *bridge.Options, server *upstream.Options, text string) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "legacy":
			o.LegacyOff = value == "off"
		case "same_era":
			server.SameEra = value == "on"
		case "public_url":
			o.PublicURL = value
		case "reattach":
			o.Reattach = value
		case "tokens": // NAME, known by a token that is the name, with scopes after a colon
			o.Auth.TokenFile = filepath.Join(t.TempDir(), "tokens")
			var text strings.Builder
			for who := range strings.FieldsSeq(value) {
				name, scopes, _ := strings.Cut(who, ":")
				var grants []string
				for scope := range strings.FieldsFuncSeq(scopes, func(r rune) bool { return r == ',' }) {
					grants = append(grants, "scope:"+scope)
				}
				text.WriteString(tokenLine(name, name, grants...))
			}
			writeTokens(t, o.Auth.TokenFile, text.String())
		case "issuer":
			o.Auth.Issuer, o.Auth.Audience = value, []string{"bridge"}
		case "scope":
			o.Auth.Scopes = append(o.Auth.Scopes, value)
		case "allowed_origin":
			o.AllowedOrigins = append(o.AllowedOrigins, value)
		case "allowed_host":
			o.AllowedHosts = append(o.AllowedHosts, value)
		case "tool_rule": // GRANT allow|deny PATTERN...
			words := strings.Fields(value)
			rule := bridge.ToolRule{Grant: words[0], Allow: words[2:]}
			if words[1] == "deny" {
				rule.Allow, rule.Deny = nil, words[2:]
			}
			o.ToolRules = append(o.ToolRules, rule)
		case "poll_after":
			o.PollAfter = parseDuration(t, value)
		case "":
		case "docs":
			o.Retirement.Docs = value
		case "policy":
			o.Retirement.Policy = value
		case "same_url":
			o.Retirement.SameURLOff = value == "off"
		case "gone_redirect":
			o.Retirement.GoneRedirect = value == "on"
		case "drain_spread":
			o.Retirement.DrainSpread = parseDuration(t, value)
		default:
			t.Fatalf("unknown option %q in a conversation", name)
		}
	}
}

func parseDuration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A conversation is one run of an archive.
type conversation struct {
	t      *testing.T
	base   string
	client *http.Client
	keeper *retire.Keeper

	mu      sync.Mutex
	log     strings.Builder // what happened since the last look
	vars    map[string]string
	hidden  []string // random values, in order of appearance, and what is printed for each
	streams map[string]*stream
}

type stream struct{ cancel context.CancelFunc }

func (c *conversation) record(who, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(&c.log, "%s %s\n", who, line)
}

// happened returns the log since the last call. Lines of several parties that ran at the same time
// are put in order: the order between parties means nothing, that of one party's lines everything.
func (c *conversation) happened() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := strings.SplitAfter(c.log.String(), "\n")
	c.log.Reset()
	lines = lines[:len(lines)-1]
	slices.SortStableFunc(lines, func(a, b string) int {
		wa, _, _ := strings.Cut(a, " ")
		wb, _, _ := strings.Cut(b, " ")
		return strings.Compare(wa, wb)
	})
	return strings.NewReplacer(c.hidden...).Replace(strings.Join(lines, ""))
}

func (c *conversation) step(head, text string) {
	words := strings.Fields(head)
	switch {
	case words[0] == "wait":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			c.t.Fatal(err)
		}
		time.Sleep(d) // fake time: what is due by then happens now
	case words[0] == "hang" && words[1] == "up":
		c.streams[words[2]].cancel()
	case words[0] == "stage":
		setStage(c.t, c.keeper, retire.Stage(words[1]), text)
	default:
		c.request(words[0], words[1], words[2], text)
	}
	synctest.Wait()
}

func (c *conversation) request(name, method, path, text string) {
	c.mu.Lock()
	var vars []string
	for k, v := range c.vars {
		vars = append(vars, k, v)
	}
	c.mu.Unlock()
	fill := strings.NewReplacer(vars...)
	head, body, _ := strings.Cut("\n"+text, "\n\n")
	url := fill.Replace(path)
	if !strings.Contains(url, "://") {
		url = c.base + url
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.streams[name] = &stream{cancel}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(strings.TrimSuffix(fill.Replace(body), "\n")))
	if err != nil {
		c.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	} else {
		req.Header.Set("Accept", "text/event-stream")
	}
	for line := range strings.Lines(fill.Replace(head)) {
		line = strings.TrimSpace(line)
		if gone, ok := strings.CutPrefix(line, "-"); ok {
			req.Header.Del(gone)
		} else if k, v, ok := strings.Cut(line, ": "); ok {
			req.Header.Set(k, v)
		}
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	go c.read(name, req)
}

var shownHeaders = []string{"Content-Type", "Mcp-Session-Id", "Allow", "Retry-After", "Location", "Deprecation", "Sunset", "Link", "Www-Authenticate",
	"Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age"}

func (c *conversation) read(name string, req *http.Request) {
	resp, err := c.client.Do(req)
	if err != nil {
		c.record(name, "! the connection ended")
		return
	}
	defer resp.Body.Close()
	c.record(name, "< "+resp.Status)
	for _, h := range shownHeaders {
		for _, v := range resp.Header.Values(h) {
			if h == "Mcp-Session-Id" {
				c.hide("$session", v, "SESSION")
			}
			c.record(name, "< "+h+": "+v)
		}
	}
	r := bufio.NewReader(resp.Body)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			c.note(line)
			c.record(name, strings.TrimRight("| "+strings.TrimRight(line, "\r\n"), " "))
		}
		if err == io.EOF {
			c.record(name, "end")
			return
		}
		if err != nil {
			c.record(name, "! the response was cut")
			return
		}
	}
}

// note remembers random values of a line so that later requests can use them and the transcript can hide them.
func (c *conversation) note(line string) {
	if id, ok := strings.CutPrefix(line, "id: "); ok {
		id = strings.TrimSpace(id)
		key, _, _ := strings.Cut(id, ".")
		c.hide("", key, "STREAM")
		c.mu.Lock()
		c.vars["$event"] = id
		c.mu.Unlock()
	}
	if _, rest, ok := strings.Cut(line, `"requestState":"b1.`); ok {
		state, _, _ := strings.Cut(rest, `"`)
		c.hide("$state", "b1."+state, "STATE")
	}
	if data, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(data, "sessionId=") {
		data = strings.TrimSpace(data)
		_, id, _ := strings.Cut(data, "sessionId=")
		c.hide("", id, "SESSION")
		c.mu.Lock()
		if !strings.Contains(data, "://") && !strings.HasPrefix(data, "/") {
			data = "/" + data
		}
		c.vars["$endpoint"] = data
		c.mu.Unlock()
	}
}

func (c *conversation) hide(variable, value, kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if variable != "" {
		c.vars[variable] = value
	}
	if value == "" || slices.Contains(c.hidden, value) {
		return
	}
	n := 1
	for _, h := range c.hidden {
		if strings.HasPrefix(h, "<"+kind) {
			n++
		}
	}
	c.hidden = append(c.hidden, value, fmt.Sprintf("<%s %d>", kind, n))
}

// dialScript returns the client's end of a connection to a new scripted server.
func dialScript(script string, record func(who, line string)) io.ReadWriteCloser {
	near, far := net.Pipe()
	go serveScript(far, script, record)
	return near
}
