package bridge_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"golang.org/x/tools/txtar"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/upstream"
)

// planted is part of everything that must not be seen anywhere but where it belongs.
const planted = "PLANTED"

// A record takes every line of every log, at all levels.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug - 100}))
}

// leaks returns the lines with something planted, at most three.
func (r *record) leaks() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return leaks(r.text.String())
}

func (r *record) lines() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Count(r.text.Bytes(), []byte("\n"))
}

// all returns everything.
func (r *record) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// wholeID is what crypto/rand.Text makes, by which sessions are used.
var wholeID = regexp.MustCompile(`[A-Z2-7]{20,}`)

func leaks(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, planted) && len(out) < 3 {
			out = append(out, line)
		}
	}
	return out
}

// plant puts secrets wherever a client or a server may have some: in headers and queries of requests, in arguments, answers and
// results. Names of tools and methods are none.
func plant(a *txtar.Archive) {
	for i := range a.Files {
		f := &a.Files[i]
		switch {
		case f.Name == "server":
			f.Data = sown(f.Data)
		case strings.HasPrefix(f.Name, "> "):
			words := strings.Fields(f.Name)
			if len(words) != 4 || words[1] == "wait" || words[1] == "hang" {
				continue
			}
			mark := "?"
			if strings.ContainsAny(words[3], "?$") {
				mark = "&"
			}
			f.Name = strings.Join(words, " ") + mark + "access_token=" + planted + "-query"
			head, body, _ := strings.Cut("\n"+string(f.Data), "\n\n")
			f.Data = []byte("Authorization: Bearer " + planted + "-bearer\nCookie: sid=" + planted + "-cookie\nX-Api-Key: " + planted + "-key" + head + "\n\n" + string(sown([]byte(body))))
		}
	}
}

var soil = regexp.MustCompile(`"(arguments|content|capabilities|structuredContent|params|_meta)":\{`)

// sown returns text with a planted member in each object that may have any, and planted words in texts.
func sown(text []byte) []byte {
	text = soil.ReplaceAll(text, []byte(`"$1":{"password":"`+planted+`-member",`))
	text = bytes.ReplaceAll(text, []byte(`,}`), []byte(`}`))
	text = bytes.ReplaceAll(text, []byte(`"text":"`), []byte(`"text":"`+planted+`-text `))
	return bytes.ReplaceAll(text, []byte(`"message":"`), []byte(`"message":"`+planted+`-message `))
}

// Nothing secret is in any line of the log at any level, in a metric or in a span, whatever way a conversation goes: every
// golden conversation is played again with secrets in all its messages.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	files, err := filepath.Glob("testdata/conversations/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations found: %v", err)
	}
	played, arrived := 0, 0 // the latter with secrets that came through to the other side
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bridge.LegacyBuilt && needsLegacy(a) {
				t.Skip("needs the HTTP+SSE transport, which this build is without")
			}
			plant(a)
			played++
			synctest.Test(t, func(t *testing.T) { playSown(t, a) })
			for _, f := range a.Files {
				if f.Name == "<" && bytes.Contains(f.Data, []byte(planted)) {
					arrived++
					break
				}
			}
		})
	}
	if arrived < played/2 {
		t.Errorf("in %d of %d conversations secrets went through; they are not planted where they should be", arrived, played)
	}
}

// playSown plays a with everything that tells of it gathered and searched.
func playSown(t *testing.T, a *txtar.Archive) {
	log, spans := &record{}, tracetest.NewInMemoryExporter()
	w := httptest.NewRecorder()
	playWatched(t, a, func(o *bridge.Options, server *upstream.Options) {
		o.Logger, server.Logger = log.logger(), log.logger()
		o.Signals.Export.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	}, func(b *bridge.Bridge) {
		b.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil))
	})
	if w.Code != http.StatusOK || log.lines() == 0 || !strings.Contains(string(txtar.Format(a)), planted) {
		t.Errorf("metrics: status %d; %d lines of log: nothing was looked at", w.Code, log.lines())
	}
	if id := wholeID.FindString(log.all() + spanText(spans.GetSpans())); id != "" {
		t.Errorf("the log or a span has a whole session or event id: %s", id)
	}
	for what, lines := range map[string][]string{"log": log.leaks(), "metrics": leaks(w.Body.String()), "spans": leaks(spanText(spans.GetSpans()))} {
		if len(lines) > 0 {
			t.Errorf("%s: a secret shows:\n%s", what, strings.Join(lines, ""))
		}
	}
}

// spanText is all that spans say, a line each.
func spanText(spans tracetest.SpanStubs) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.Name + " " + s.Status.Description)
		for _, a := range s.Attributes {
			b.WriteString(" " + string(a.Key) + "=" + a.Value.String())
		}
		for _, e := range s.Events {
			b.WriteString(" " + e.Name)
			for _, a := range e.Attributes {
				b.WriteString(" " + a.Value.String())
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The command line and the environment of a child, the user, password and query of a URL, and what is sent to either, stay out of
// the log when all goes well and when nothing does.
func TestSecretsOfTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and uses sockets")
	}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, planted+"-body "+r.URL.String(), http.StatusInternalServerError)
	}))
	defer refusing.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	redirecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.2:1/?next="+planted+"-redirect", http.StatusTemporaryRedirect)
	}))
	defer redirecting.Close()
	secretURL := func(base string) string {
		return strings.Replace(base, "http://", "http://user:"+planted+"-password@", 1) + "/mcp?api_key=" + planted + "-query"
	}
	exit := upstream.Command{Path: "sh", Args: []string{"-c", "exit 3", planted + "-argument"}, Env: []string{"TOKEN=" + planted + "-environment"}}
	missing := upstream.Command{Path: filepath.Join(t.TempDir(), "no-such-program"), Args: []string{"--token", planted + "-argument"}}
	tests := []struct {
		name string
		up   func(o *upstream.Options) (upstream.Connector, error)
	}{
		{"a child that ends", func(o *upstream.Options) (upstream.Connector, error) { return upstream.Stdio(exit, o), nil }},
		{"a child that is not there", func(o *upstream.Options) (upstream.Connector, error) { return upstream.Stdio(missing, o), nil }},
		{"a URL that refuses", func(o *upstream.Options) (upstream.Connector, error) { return upstream.URL(secretURL(refusing.URL), o) }},
		{"a URL where nobody is", func(o *upstream.Options) (upstream.Connector, error) { return upstream.URL(secretURL(gone.URL), o) }},
		{"a URL that redirects", func(o *upstream.Options) (upstream.Connector, error) {
			return upstream.URL(secretURL(redirecting.URL), o)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := &record{}
			up, err := tt.up(&upstream.Options{Logger: log.logger(), HTTP: &upstream.HTTPOptions{Headers: http.Header{"Authorization": {"Bearer " + planted + "-bearer"}}}})
			if err != nil {
				t.Fatal(err)
			}
			b, err := bridge.New(up, &bridge.Options{Logger: log.logger()})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			for _, m := range []struct{ body, version string }{
				{initialize, ""},
				{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, "2026-07-28"},
			} {
				r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(m.body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept", "application/json, text/event-stream")
				if m.version != "" {
					r.Header.Set("Mcp-Protocol-Version", m.version)
					r.Header.Set("Mcp-Method", "tools/list")
				}
				w := httptest.NewRecorder()
				b.ServeHTTP(w, r)
				if lines := leaks(w.Body.String()); len(lines) > 0 {
					t.Errorf("a client was told a secret: %s", lines)
				}
			}
			w := httptest.NewRecorder()
			b.Admin().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil))
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if lines := append(log.leaks(), leaks(w.Body.String())...); len(lines) > 0 {
				t.Errorf("a secret shows:\n%s", strings.Join(lines, ""))
			}
			if log.lines() == 0 {
				t.Error("nothing was logged: nothing was looked at")
			}
		})
	}
}
