package bridge_test

import (
	"crypto/tls"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
)

// Browsers are told to stay with https where the answer goes over it, as far as the bridge or a proxy it trusts knows (RFC 6797,
// section 7.2), on refusals too.
func TestHSTS(t *testing.T) {
	tests := []struct {
		name           string
		encrypted      bool
		remote, scheme string
		host           string
		want           string
	}{
		{"over TLS", true, "192.0.2.1:1", "", "localhost", "max-age=86400"},
		{"over TLS, refused", true, "192.0.2.1:1", "", "evil.test", "max-age=86400"},
		{"in clear", false, "192.0.2.1:1", "", "localhost", ""},
		{"a trusted proxy has TLS", false, "10.0.0.1:1", "https", "localhost", "max-age=86400"},
		{"a trusted proxy has none", false, "10.0.0.1:1", "http", "localhost", ""},
		{"somebody says so", false, "192.0.2.1:1", "https", "localhost", ""},
	}
	b := newBridge(t, &server{}, &bridge.Options{HSTS: 24 * time.Hour, TrustedProxies: []string{"10.0.0.0/8"}})
	for _, tt := range tests {
		r := httptest.NewRequest("GET", "/retirement", nil)
		r.Host, r.RemoteAddr = tt.host, tt.remote
		if tt.encrypted {
			r.TLS = &tls.ConnectionState{}
		}
		if tt.scheme != "" {
			r.Header.Set("X-Forwarded-Proto", tt.scheme)
		}
		w := httptest.NewRecorder()
		b.ServeHTTP(w, r)
		if got := w.Header().Get("Strict-Transport-Security"); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestLimitsThatCannotBe(t *testing.T) {
	err := (&bridge.Options{
		PrincipalLimit: bridge.Limit{Rate: -1}, AddressLimit: bridge.Limit{Burst: 3}, FailureLimit: bridge.Limit{Rate: -1, Calls: -2},
		MaxBodyBytesInTotal: 100, HSTS: -1,
	}).Check()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"principal limit: must not", "address limit: a burst", "failure limit: must not", "max body bytes in total: less", "hsts: must not"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if err := (&bridge.Options{FailureLimit: bridge.Limit{Rate: -1}}).Check(); err != nil {
		t.Errorf("no limit of failures: %v", err)
	}
}
