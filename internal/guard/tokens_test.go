package guard_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/internal/guard"
)

// line returns a line of a file of tokens.
func line(name, token string, more ...string) string {
	sum := sha256.Sum256([]byte(token))
	return name + " sha256:" + hex.EncodeToString(sum[:]) + " " + strings.Join(more, " ") + "\n"
}

// A tokenFile is a file of tokens whose time of change is the test's.
type tokenFile struct {
	t    *testing.T
	path string
	at   time.Time
}

func newTokenFile(t *testing.T, text string) *tokenFile {
	f := &tokenFile{t, filepath.Join(t.TempDir(), "tokens"), time.Now().Add(-time.Hour)}
	f.write(text)
	return f
}

func (f *tokenFile) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.at = f.at.Add(time.Second)
	if err := os.Chtimes(f.path, f.at, f.at); err != nil {
		f.t.Fatal(err)
	}
}

func (f *tokenFile) read() *guard.Tokens {
	f.t.Helper()
	tokens, err := guard.ReadTokens(f.path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return tokens
}

func TestTokens(t *testing.T) {
	f := newTokenFile(t, "# who may\n\n"+
		line("alice", "a-token", "scope:read", "group:Ops")+
		line("alice", "a-token-2")+
		line("bob", "b-token", "expires:"+time.Now().Add(time.Hour).Format(time.RFC3339))+
		line("carol", "c-token", "expires:"+time.Now().Add(-time.Hour).Format(time.RFC3339)))
	tokens := f.read()
	for text, want := range map[string]string{
		"a-token": "alice scope:read group:Ops", "a-token-2": "alice", "b-token": "bob", "c-token": "", "": "", "a-toke": "", "A-TOKEN": "", "a-token ": "",
	} {
		id, ok := tokens.Identify(text)
		if got := strings.Join(append([]string{id.Principal}, id.Grants...), " "); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestTokenFileProblems(t *testing.T) {
	f := newTokenFile(t, line("ok", "t1")+"alice\nalice sha256:abc\nalice md5:"+strings.Repeat("a", 64)+"\n"+
		line("alice", "t2", "role:x")+line("alice", "t3", "expires:tomorrow")+line("a:b", "t4")+line("bob", "t1"))
	_, err := guard.ReadTokens(f.path, nil)
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"line 2: write NAME", "line 3: the second word", "line 4: the second word", "line 5: 'role:x' is none of", "line 6: 'expires:tomorrow'", "line 7: write NAME", "line 8: this token stands"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "line 1:") || strings.Contains(err.Error(), "aaaaaaaa") {
		t.Errorf("more is said than is wrong:\n%v", err)
	}
	if _, err := guard.ReadTokens(filepath.Join(t.TempDir(), "none"), nil); err == nil {
		t.Error("a file that is not there: got no error")
	}
}

// watched runs Watch for the time of a test in a bubble.
func watched(t *testing.T, tokens *guard.Tokens) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tokens.Watch(t.Context())
	}()
	t.Cleanup(func() { <-done })
}

func TestTokensAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTokenFile(t, line("alice", "one"))
		tokens := f.read()
		watched(t, tokens)
		want := func(what string, known ...string) {
			t.Helper()
			time.Sleep(3 * time.Second)
			for _, text := range []string{"one", "two"} {
				if _, ok := tokens.Identify(text); ok != strings.Contains(strings.Join(known, " "), text) {
					t.Errorf("%s: %s is good: %v", what, text, ok)
				}
			}
		}
		want("at first", "one")
		f.write(line("alice", "one") + line("bob", "two"))
		want("one more", "one", "two")
		f.write("nonsense")
		want("a file that makes no sense", "one", "two")
		if err := os.Remove(f.path); err != nil {
			t.Fatal(err)
		}
		want("no file", "one", "two")
		f.write(line("bob", "two"))
		want("one less", "two")
		f.write("")
		want("none")
	})
}

// A broken file is told of once, not every two seconds.
func TestBrokenTokenFileIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTokenFile(t, line("alice", "one"))
		var log strings.Builder
		tokens, err := guard.ReadTokens(f.path, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		f.write("nonsense")
		watched(t, tokens)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "cannot be used"); n != 1 {
			t.Errorf("got %d errors in:\n%s", n, &log)
		}
	})
}

// lasting is a request that lasts until its context ends.
func lasting(t *testing.T, h func(http.Handler) http.Handler, r *http.Request) (lasted func() (time.Duration, bool)) {
	t.Helper()
	began := time.Now()
	var ended time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		h(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			ended = time.Now()
		})).ServeHTTP(httptest.NewRecorder(), r)
	}()
	return func() (time.Duration, bool) {
		synctest.Wait()
		select {
		case <-done:
			return ended.Sub(began), true
		default:
			return 0, false
		}
	}
}

// What a credential has opened ends with it: a stream when it does, a call a while later (report R47).
func TestEndOfACredential(t *testing.T) {
	tests := []struct {
		name, method, mcpMethod string
		revoke                  bool
		want                    time.Duration
	}{
		{"stream, expired", "GET", "", false, 10 * time.Minute},
		{"listen, expired", "POST", "subscriptions/listen", false, 10 * time.Minute},
		{"call, expired", "POST", "tools/call", false, 15 * time.Minute},
		{"stream, revoked", "GET", "", true, 2 * time.Second},
		{"call, revoked", "POST", "", true, 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newTokenFile(t, line("alice", "one", "expires:"+time.Now().Add(10*time.Minute).Format(time.RFC3339))+line("bob", "two"))
				tokens := f.read()
				watched(t, tokens)
				a := guard.NewAuthenticator(guard.AuthOptions{Tokens: tokens})
				r := httptest.NewRequest(tt.method, "/mcp", nil)
				r.Header.Set("Authorization", "Bearer one")
				r.Header.Set("Mcp-Method", tt.mcpMethod)
				lasted := lasting(t, func(h http.Handler) http.Handler { return a.Identify(a.Demand(h)) }, r)
				if tt.revoke {
					f.write(line("bob", "two"))
				} else {
					f.write(line("alice", "one", "expires:"+time.Now().Add(10*time.Minute).Format(time.RFC3339)) + line("bob", "three"))
				}
				time.Sleep(tt.want - time.Millisecond)
				if d, over := lasted(); over {
					t.Fatalf("ended after %v", d)
				}
				time.Sleep(2 * time.Millisecond)
				if d, over := lasted(); !over || d != tt.want {
					t.Errorf("got %v %v, want an end after %v", d, over, tt.want)
				}
			})
		})
	}
}

func TestSecret(t *testing.T) {
	f := newTokenFile(t, "0123456789abcdef\n")
	var log bytes.Buffer
	s, err := guard.ReadSecret(f.path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	h := s.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "in") }))
	ask := func(authorization ...string) int {
		r := httptest.NewRequest(http.MethodGet, "/admin/report", nil)
		r.Header["Authorization"] = authorization
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if (w.Body.String() == "in") != (w.Code == 200) || (w.Header().Get("Www-Authenticate") == "") != (w.Code == 200) {
			t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
		}
		return w.Code
	}
	want := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %d, want %d", what, got, want)
		}
	}
	want("the token", ask("Bearer 0123456789abcdef"), 200)
	want("none", ask(), 401)
	want("another", ask("Bearer 0123456789abcdeF"), 401)
	want("two", ask("Bearer 0123456789abcdef", "Bearer 0123456789abcdef"), 401)
	f.write("fedcba9876543210")
	want("the old one", ask("Bearer 0123456789abcdef"), 401)
	want("the new one", ask("Bearer fedcba9876543210"), 200)
	f.write("short")
	want("while the file makes no sense", ask("Bearer fedcba9876543210"), 200)
	want("and the next one", ask("Bearer fedcba9876543210"), 200)
	want("lines that say so", strings.Count(log.String(), "level=ERROR"), 1)
	f.write("0123456789abcdef")
	want("when it is good again", ask("Bearer 0123456789abcdef"), 200)
	want("lines that say so", strings.Count(log.String(), "level=INFO"), 1)
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	want("when it is gone", ask("Bearer 0123456789abcdef"), 200)
	want("lines in all", strings.Count(log.String(), "\n"), 3)
	for _, bad := range []string{"", "short", "with blanks in the middle of it", strings.Repeat("x", 20000)} {
		f.write(bad)
		if _, err := guard.ReadSecret(f.path, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%.40q: got no error", bad)
		}
	}
}

// FuzzTokenFile: whatever is in the file, a token whose hash is not in it is not good, and no error quotes a hash.
func FuzzTokenFile(f *testing.F) {
	f.Add("alice sha256:" + strings.Repeat("ab", 32) + " scope:x")
	f.Add("# x\n\nalice sha256:zz\n")
	f.Add(line("bob", "t", "expires:2030-01-01T00:00:00Z"))
	f.Fuzz(func(t *testing.T, text string) {
		file := newTokenFile(t, text)
		tokens, err := guard.ReadTokens(file.path, nil)
		if err != nil {
			if hexRun(err.Error()) > 64 {
				t.Errorf("an error with a hash in it: %v", err)
			}
			return
		}
		sum := sha256.Sum256([]byte("probe"))
		if _, ok := tokens.Identify("probe"); ok && !strings.Contains(strings.ToLower(text), hex.EncodeToString(sum[:])) {
			t.Errorf("%q: a token nobody has is good", text)
		}
	})
}

// hexRun returns the length of the longest run of hexadecimal digits.
func hexRun(s string) (longest int) {
	n := 0
	for i := range len(s) {
		if strings.IndexByte("0123456789abcdefABCDEF", s[i]) >= 0 {
			n++
			longest = max(longest, n)
			continue
		}
		n = 0
	}
	return longest
}
