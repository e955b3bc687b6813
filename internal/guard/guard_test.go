package guard_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-dualstack/bridge/internal/guard"
)

func newGuard(t testing.TB, o guard.Options) *guard.Guard {
	t.Helper()
	g, err := guard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// request makes a request with that Host and those Origin headers that arrived at 192.0.2.7:8420.
func request(host string, origins ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{}`))
	r.Host = host
	r.Header["Origin"] = origins
	local := &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 8420}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local)))
}

// ask returns the reason of the refusal, or "" if the request arrived.
func ask(t testing.TB, g *guard.Guard, r *http.Request) (reason, message string) {
	t.Helper()
	arrived := false
	w := httptest.NewRecorder()
	g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived = true })).ServeHTTP(w, r)
	if arrived {
		return "", ""
	}
	var body struct {
		JSONRPC string
		ID      *json.RawMessage
		Error   struct {
			Code    int
			Message string
			Data    struct{ Bridge struct{ Reason string } }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%q: %v", w.Body, err)
	}
	if w.Code != http.StatusForbidden || w.Header().Get("Content-Type") != "application/json" ||
		body.JSONRPC != "2.0" || body.ID != nil || body.Error.Code != -32600 {
		t.Errorf("got %d %v %s, want 403 and an error without an id", w.Code, w.Header(), w.Body)
	}
	return body.Error.Data.Bridge.Reason, body.Error.Message
}

var public = guard.Options{
	AllowedHosts:   []string{"mcp.example.com", "Ported.example.com:8443", "std.example.com:443", "fd00::1", "[fd00::2]:9", "10.0.0.5"},
	AllowedOrigins: []string{"https://app.example.com", "http://app.example.com:8080", "vscode-webview://abc"},
	PublicURL:      "https://Public.example.com:444/prefix",
}

// Report R45: the public names pass, others are refused, and so for a server nobody configured.
func TestHost(t *testing.T) {
	tests := []struct {
		host               string
		byDefault, whenSet bool
	}{
		{"localhost", true, true},
		{"LOCALHOST:8420", true, true},
		{"localhost.", true, true},
		{"127.0.0.1:8420", true, true},
		{"127.255.255.254", true, true},
		{"[::1]:8420", true, true},
		{"[::1]", true, true},
		{"[::ffff:127.0.0.1]:1", true, true},
		{"localhost:", true, true},
		{"192.0.2.7:8420", true, true},
		{"192.0.2.7", true, true},
		{"[::ffff:192.0.2.7]", true, true},
		{"192.0.2.8:8420", false, false},
		{"mcp.example.com", false, true},
		{"MCP.example.COM.:1234", false, true},
		{"ported.example.com:8443", false, true},
		{"ported.example.com:8444", false, false},
		{"ported.example.com", false, false},
		{"std.example.com", false, true},
		{"std.example.com:443", false, true},
		{"std.example.com:444", false, false},
		{"public.example.com", false, true},
		{"public.example.com:444", false, true},
		{"public.example.com:8420", false, true},
		{"[fd00:0::1]:77", false, true},
		{"[fd00::2]:9", false, true},
		{"[fd00::2]", false, false},
		{"10.0.0.5:8420", false, true},
		{"evil.test", false, false},
		{"mcp.example.com.evil.test", false, false},
		{"evil.mcp.example.com", false, false},
		{"mcp.example.com..", false, false},
		{"", false, false},
		{":8420", false, false},
		{".", false, false},
		{"user@localhost", false, false},
		{"localhost@evil.test", false, false},
		{"localhost/evil.test", false, false},
		{"localhost, evil.test", false, false},
		{"local\u017fhost", false, false},
		{"loca\u212ahost", false, false},
		{"localhost:99999", false, false},
		{"localhost:80:80", false, false},
		{"localhost:8a", false, false},
		{"[::1", false, false},
		{"[::1]x", false, false},
		{"[::1%25lo]", false, false},
		{"[127.0.0.1]", false, false},
		{"::1", false, false},
		{"127.1", false, false},
		{"0x7f.0.0.1", false, false},
		{"2130706433", false, false},
		{"127.0.0.1.evil.test", false, false},
		{"0.0.0.0:8420", false, false},
		{strings.Repeat("a", 1000), false, false},
	}
	zero, set := newGuard(t, guard.Options{}), newGuard(t, public)
	reasons := map[bool]string{true: "", false: guard.ReasonHost}
	for _, tt := range tests {
		if got, _ := ask(t, zero, request(tt.host)); got != reasons[tt.byDefault] {
			t.Errorf("%q by default: got reason %q, want %q", tt.host, got, reasons[tt.byDefault])
		}
		if got, _ := ask(t, set, request(tt.host)); got != reasons[tt.whenSet] {
			t.Errorf("%q with names set: got reason %q, want %q", tt.host, got, reasons[tt.whenSet])
		}
	}
}

func TestOrigin(t *testing.T) {
	const local, known = "127.0.0.1:8420", "mcp.example.com"
	tests := []struct {
		host    string
		origins []string
		want    string
	}{
		{local, nil, ""},
		{local, []string{"http://localhost:3000"}, ""},
		{local, []string{"https://LOCALHOST"}, ""},
		{local, []string{"http://[::1]:6274"}, ""},
		{known, []string{"http://localhost:3000"}, guard.ReasonOrigin},
		{local, []string{"https://app.example.com"}, ""},
		{known, []string{"https://app.example.com"}, ""},
		{known, []string{"HTTPS://APP.example.com:443"}, ""},
		{known, []string{"https://app.example.com:444"}, guard.ReasonOrigin},
		{known, []string{"http://app.example.com"}, guard.ReasonOrigin},
		{known, []string{"http://app.example.com:8080"}, ""},
		{known, []string{"https://public.example.com:444"}, ""},
		{known, []string{"https://public.example.com"}, guard.ReasonOrigin},
		{known, []string{"vscode-webview://abc"}, ""},
		{known, []string{"vscode-webview://abd"}, guard.ReasonOrigin},
		{known, []string{"https://mcp.example.com"}, guard.ReasonOrigin},
		{local, []string{"null"}, guard.ReasonOrigin},
		{local, []string{""}, guard.ReasonOrigin},
		{local, []string{"https://evil.test"}, guard.ReasonOrigin},
		{local, []string{"https://localhost.evil.test"}, guard.ReasonOrigin},
		{local, []string{"https://localhost/"}, guard.ReasonOrigin},
		{local, []string{"https://localhost@evil.test"}, guard.ReasonOrigin},
		{local, []string{"file://localhost"}, guard.ReasonOrigin},
		{local, []string{"://localhost"}, guard.ReasonOrigin},
		{local, []string{"localhost"}, guard.ReasonOrigin},
		{local, []string{"http://localhost", "http://localhost"}, guard.ReasonOrigin},
		{local, []string{"http://localhost, https://evil.test"}, guard.ReasonOrigin},
		{"evil.test", []string{"http://localhost"}, guard.ReasonHost},
	}
	g := newGuard(t, public)
	for _, tt := range tests {
		if got, _ := ask(t, g, request(tt.host, tt.origins...)); got != tt.want {
			t.Errorf("Host %q, Origin %q: got reason %q, want %q", tt.host, tt.origins, got, tt.want)
		}
	}
}

func TestMessages(t *testing.T) {
	tests := []struct {
		name    string
		host    string
		origins []string
		want    []string
	}{
		{"host", "evil.test", nil, []string{"'evil.test'", "allowed_hosts", "public_url"}},
		{"origin", "localhost", []string{"https://evil.test"}, []string{"'https://evil.test'", "allowed_origins"}},
		{"null", "localhost", []string{"null"}, []string{"'null'", "allowed_origins"}},
		{"two", "localhost", []string{"a", "b"}, []string{"several"}},
		{"hostile", "evil\r\n\x1b[31m\u202e'\xff" + strings.Repeat("x", 500), nil, []string{"'evil[31m" + strings.Repeat("x", 56) + "...'"}},
	}
	g := newGuard(t, guard.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, message := ask(t, g, request(tt.host, tt.origins...))
			for _, want := range tt.want {
				if !strings.Contains(message, want) {
					t.Errorf("got %q, want %q in it", message, want)
				}
			}
		})
	}
}

func TestRefusedIsTold(t *testing.T) {
	var got []string
	o := guard.Options{Refused: func(r *http.Request, reason string) { got = append(got, r.Host+" "+reason) }}
	g := newGuard(t, o)
	ask(t, g, request("localhost"))
	ask(t, g, request("evil.test"))
	ask(t, g, request("localhost", "null"))
	if want := "evil.test host_not_allowed,localhost origin_not_allowed"; strings.Join(got, ",") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEveryProblemIsReported(t *testing.T) {
	_, err := guard.New(guard.Options{
		AllowedHosts:   []string{"*.example.com", "https://x.test", "a b", "ok.test", ""},
		AllowedOrigins: []string{"*", "null", "https://x.test/", "x.test"},
		PublicURL:      "ftp://x.test",
	})
	if err == nil {
		t.Fatal("got no error")
	}
	got := err.Error()
	for _, want := range []string{`allowed_hosts: "*.example.com"`, `allowed_hosts: "https://x.test"`, `allowed_hosts: "a b"`, `allowed_hosts: ""`,
		`allowed_origins: "*"`, `allowed_origins: "null"`, `allowed_origins: "https://x.test/"`, `allowed_origins: "x.test"`, `public_url: "ftp://x.test"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "ok.test") {
		t.Errorf("a good name is reported:\n%s", got)
	}
	for _, bad := range []string{"https://", "https://u:p@x.test", "https://x.test?q", "https://x.test#f", "x.test", "https://x y", "https://x.test:99999", "\x00"} {
		if _, err := guard.New(guard.Options{PublicURL: bad}); err == nil {
			t.Errorf("public_url %q: got no error", bad)
		}
	}
}

func TestNoAllocs(t *testing.T) {
	h := newGuard(t, public).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w := httptest.NewRecorder()
	for _, r := range []*http.Request{
		request("127.0.0.1:8420"), request("[::1]:8420"), request("Public.example.com"), request("192.0.2.7:8420"),
		request("localhost", "http://localhost:3000"), request("mcp.example.com", "https://app.example.com"),
	} {
		if got := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); got != 0 {
			t.Errorf("%s: got %v allocations, want none", r.Host, got)
		}
	}
}

func BenchmarkAccept(b *testing.B) {
	h := newGuard(b, public).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w, r := httptest.NewRecorder(), request("public.example.com:444", "https://public.example.com:444")
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}

// FuzzHost: only loopback names and the address arrived at pass by default, whatever is around them,
// and a refusal never reflects more than 64 clean characters.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"localhost:80", "127.0.0.1", "[::1]:1", "192.0.2.7", "evil.test", "localhost@evil", "[::ffff:127.0.0.1]", "LocalHost.", "\xff\r\n'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		reason, message := ask(t, newGuard(t, guard.Options{}), request(host))
		if reason == "" {
			wantOwnName(t, host)
			return
		}
		_, rest, _ := strings.Cut(message, "'")
		said, _, ok := strings.Cut(rest, "'")
		if !ok || utf8.RuneCountInString(said) > 64+len("...") || strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: got message %q", host, message)
		}
	})
}

// wantOwnName checks with other means that host is a name of this server.
func wantOwnName(t *testing.T, host string) {
	t.Helper()
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.Trim(name, "[]"), ".")
	ip := net.ParseIP(name)
	if !strings.EqualFold(name, "localhost") && !ip.IsLoopback() && !ip.Equal(net.ParseIP("192.0.2.7")) {
		t.Errorf("%q passes", host)
	}
}
