package upstream_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// TestOwnCredentials: static headers and the token of a file go with every request, the file is read again when it has
// changed, and nothing of the client's own goes along (translation.md 13).
func TestOwnCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string, age time.Duration) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("one", time.Hour)
	o := &upstream.Options{HTTP: &upstream.HTTPOptions{Headers: http.Header{"x-api-key": {"k"}}, BearerFile: file}}
	inWeb(t, o, legacyStub("2025-11-25", func(w http.ResponseWriter, h *hit) { say(w, h, `{}`) }), func(ctx context.Context, s *webStub, r *upstream.Remote) {
		c := webClient(negotiate.Rev20251125, nil)
		c.Authorization = "Bearer of-the-client"
		sess, err := r.Open(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		want := "Bearer one"
		call := func() {
			t.Helper()
			if _, err := sess.Call(ctx, toolCall(`{}`), nil); err != nil {
				t.Fatal(err)
			}
			calls := s.of("tools/call")
			if got := calls[len(calls)-1].Header.Get("Authorization"); got != want {
				t.Errorf("Authorization: got %q, want %q", got, want)
			}
		}
		call()
		for _, name := range []string{"server/discover", "initialize", "GET", "notifications/initialized", "tools/call"} {
			if h := s.of(name)[0].Header; h.Get("Authorization") != want || h.Get("X-Api-Key") != "k" {
				t.Errorf("%s: got %q and %q", name, h.Get("Authorization"), h.Get("X-Api-Key"))
			}
		}
		write("two", time.Minute) // as long as the first
		want = "Bearer two"
		call()
		if err := os.Remove(file); err != nil { // in the middle of its replacement
			t.Fatal(err)
		}
		call()
	})
	_ = os.Remove(file)
	inWeb(t, o, legacyStub("2025-11-25", nil), func(ctx context.Context, s *webStub, r *upstream.Remote) {
		if _, err := r.Probe(ctx); err == nil || len(s.seen()) != 0 {
			t.Errorf("no token at all: got %v and requests %v", err, s.seen())
		}
	})
}

// TestSecretsStayInside: neither the user nor the query of a URL, nor a header, is in an error or in the log.
func TestSecretsStayInside(t *testing.T) {
	var log bytes.Buffer
	o := &upstream.Options{
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		HTTP:   &upstream.HTTPOptions{Headers: http.Header{"X-Key": {"hush-header"}}},
	}
	check := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: got no error", what)
			return
		}
		if text := err.Error() + exchange.PublicError(err).Message + log.String(); strings.Contains(text, "hush") {
			t.Errorf("%s: %s", what, text)
		}
	}
	for _, bad := range []string{"http://u:hush@[::1", "ftp://hush:hush@x/?k=hush", "://hush", "http://x\x7fhush/", "//u:hush@x"} {
		_, err := upstream.URL(bad, o)
		check(bad, err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, pass, _ := r.BasicAuth(); user != "u" || pass != "hush" || r.URL.Query().Get("key") != "hush" {
			t.Errorf("credentials do not arrive: %s", r.URL)
		}
		switch r.URL.Path {
		case "/status":
			w.WriteHeader(http.StatusTeapot)
		case "/redirect":
			http.Redirect(w, r, "http://elsewhere.example/?k=hush", http.StatusTemporaryRedirect)
		default:
			panic(http.ErrAbortHandler)
		}
	}))
	defer srv.Close()
	at := strings.Replace(srv.URL, "http://", "http://u:hush@", 1)
	for _, path := range []string{"/status", "/redirect", "/drop"} {
		r, err := upstream.URL(at+path+"?key=hush", o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Probe(t.Context())
		check(path, err)
		_ = r.Close()
	}
	srv.Close()
	r, err := upstream.URL(at+"?key=hush", o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Probe(t.Context())
	check("refused connection", err)
	_ = r.Close()
}

// TestRedirects: 307 and 308 on the same origin are followed with the body; nothing else is.
func TestRedirects(t *testing.T) {
	for _, test := range []struct {
		name, to string
		status   int
		followed bool
	}{
		{"307", "/new", 307, true},
		{"308", "/new", 308, true},
		{"302 would lose the body", "/new", 302, false},
		{"another host", "http://elsewhere.example/new", 307, false},
		{"another port", "http://127.0.0.1:1/new", 308, false},
		{"loop", "/mcp", 307, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWeb(t, nil, func(w http.ResponseWriter, h *hit) {
				if h.URL.Path != "/new" {
					http.Redirect(w, h.Request, test.to, test.status)
					return
				}
				if h.Host != "127.0.0.1:8420" {
					t.Errorf("asked %s", h.Host)
				}
				modernStub(nil)(w, h)
			}, func(ctx context.Context, s *webStub, r *upstream.Remote) {
				v, err := r.Probe(ctx)
				if v.Modern != test.followed || (err == nil) != test.followed {
					t.Errorf("got %v, %v; want followed %v", v.Served.Strings(), err, test.followed)
				}
				if n := len(s.seen()); n > 5 {
					t.Errorf("requests: got %d", n)
				}
			})
		})
	}
}

// TestOwnCA: a server with a certificate of one's own authority is reached with CAFile and not without.
func TestOwnCA(t *testing.T) {
	if testing.Short() {
		t.Skip("real sockets")
	}
	srv := httptest.NewTLSServer(&webStub{TB: t, answer: modernStub(nil)})
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{file: true, "": false} {
		r, err := upstream.URL(srv.URL, &upstream.Options{HTTP: &upstream.HTTPOptions{CAFile: name}})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := r.Probe(t.Context()); v.Modern != want || (err == nil) != want {
			t.Errorf("CAFile %q: got %v, %v", name, v.Modern, err)
		}
		_ = r.Close()
	}
	for _, name := range []string{filepath.Join(t.TempDir(), "none"), os.Args[0]} {
		if _, err := upstream.URL(srv.URL, &upstream.Options{HTTP: &upstream.HTTPOptions{CAFile: name}}); err == nil {
			t.Errorf("CAFile %q: got no error", name)
		}
	}
}

// TestCallTimeout: a call that lasts too long is cancelled at the server and fails with upstream_timeout.
func TestCallTimeout(t *testing.T) {
	inWeb(t, &upstream.Options{HTTP: &upstream.HTTPOptions{CallTimeout: time.Minute}}, legacyStub("2025-11-25", func(_ http.ResponseWriter, h *hit) {
		<-h.Context().Done()
	}), func(ctx context.Context, s *webStub, r *upstream.Remote) {
		sess, _ := openWeb(ctx, t, r, negotiate.Rev20251125)
		began := time.Now()
		_, err := sess.Call(ctx, toolCall(`{}`), nil)
		if f, ok := errors.AsType[*exchange.Failure](err); !ok || f.Reason != exchange.ReasonTimeout || time.Since(began) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		if _, err := sess.Call(ctx, exchange.Request{Method: "ping/unknown"}, nil); err == nil {
			t.Error("got no error")
		}
		if n := s.count("notifications/cancelled"); n == 0 {
			t.Error("no cancellation was sent")
		}
	})
}
