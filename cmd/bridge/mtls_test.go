package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// With --client-ca-file a session belongs to the certificate that opened it: with another of the same authority it is as
// unknown as one that never was, whatever is asked of it, and with none there is no connection.
func TestSessionsOfCertificates(t *testing.T) {
	a := newAuthority(t)
	f, _ := newFiles(t, a)
	r := startServe(t, "--tls-cert-file", f.cert, "--tls-key-file", f.key, "--client-ca-file", f.ca)
	if !strings.HasPrefix(r.base, "https://") {
		t.Fatalf("the screen says %s", r.base)
	}
	ask := func(c *http.Client, method, session, body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, r.base+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		res, err := c.Do(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return res, err
	}
	alice, again, mallory := a.client("alice.test", 0), a.client("alice.test", 0), a.client("mallory.test", 0)
	res, err := ask(alice, "POST", "", initialize)
	if err != nil {
		t.Fatal(err)
	}
	session := res.Header.Get("Mcp-Session-Id")
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	for _, tt := range []struct {
		name                  string
		client                *http.Client
		method, session, body string
		want                  int
	}{
		{"the notification", alice, "POST", session, initialized, 202},
		{"its own", alice, "POST", session, list, 200},
		{"another connection, a new certificate of the same name", again, "POST", session, list, 200},
		{"another name", mallory, "POST", session, list, 404},
		{"another name, GET", mallory, "GET", session, "", 404},
		{"another name, DELETE", mallory, "DELETE", session, "", 404},
		{"another name, a session that never was", mallory, "POST", "never", list, 404},
		{"another name, a session of its own", mallory, "POST", "", initialize, 200},
		{"its own still", alice, "POST", session, list, 200},
		{"its own, DELETE", alice, "DELETE", session, "", 204},
	} {
		res, err := ask(tt.client, tt.method, tt.session, tt.body)
		if err != nil || res.StatusCode != tt.want {
			t.Errorf("%s: got %v, %v; want %d", tt.name, res, err, tt.want)
		}
	}
	if res, err := ask(a.client("", 0), "POST", session, list); err == nil {
		t.Errorf("no certificate: got %d", res.StatusCode)
	}
}
