package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign returns a certificate after that pattern, signed by a or, for the first, by itself.
func (a *authority) sign(pattern *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.last++
	pattern.SerialNumber, pattern.NotBefore, pattern.NotAfter = big.NewInt(a.last), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = pattern, key
	}
	der, err := x509.CreateCertificate(rand.Reader, pattern, parent, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// write writes a certificate for this machine, and its key, over the files.
func (a *authority) write(certFile, keyFile string) *x509.Certificate {
	a.t.Helper()
	cert, key := a.sign(&x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	})
	a.pem(certFile, "CERTIFICATE", cert.Raw)
	a.pem(keyFile, "PRIVATE KEY", pkcs8(a.t, key))
	return cert
}

func pkcs8(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func (a *authority) pem(file, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// client returns a client that trusts a, with a certificate of that name unless it is empty.
func (a *authority) client(name string, max uint16) *http.Client {
	a.t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool(), MaxVersion: max}
	config.RootCAs.AddCert(a.cert)
	if name != "" {
		cert, key := a.sign(&x509.Certificate{
			DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
		})
		config.Certificates = []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
	}
	tr := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: false}
	a.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second}
}

// listenSecured serves on a free port with these settings and returns its address.
func listenSecured(t *testing.T, s transportSecurity, h http.HandlerFunc) string {
	t.Helper()
	if testing.Short() {
		t.Skip("uses real sockets")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if l, err = s.secured(l, log); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	srv := start(h, l, log, ended)
	t.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}

// A files is where the certificates of a test are.
type files struct{ cert, key, ca string }

func newFiles(t *testing.T, a *authority) (files, *x509.Certificate) {
	dir := t.TempDir()
	f := files{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")}
	a.pem(f.ca, "CERTIFICATE", a.cert.Raw)
	return f, a.write(f.cert, f.key)
}

func TestTLS(t *testing.T) {
	a := newAuthority(t)
	f, cert := newFiles(t, a)
	addr := listenSecured(t, transportSecurity{cert: f.cert, key: f.key, min: tls.VersionTLS12}, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %v", r.Proto, r.TLS != nil)
	})
	res, err := a.client("", 0).Get("https://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if got := string(body); got != "HTTP/2.0 true" || !bytes.Equal(res.TLS.PeerCertificates[0].Raw, cert.Raw) || res.TLS.Version != tls.VersionTLS13 {
		t.Errorf("got %s, version %x", got, res.TLS.Version)
	}
	if res, err := a.client("", tls.VersionTLS11).Get("https://" + addr); err == nil {
		res.Body.Close()
		t.Error("a client of TLS 1.1 is served")
	}
	if res, err := http.Get("http://" + addr); err == nil {
		defer res.Body.Close()
		if body, _ := io.ReadAll(res.Body); strings.Contains(string(body), "HTTP/1.1") {
			t.Errorf("a client without TLS is served: %s", body)
		}
	}

	// A new certificate is used without a restart; while its files do not fit, the old one is.
	a.write(f.cert, f.key)
	a.pem(f.key, "PRIVATE KEY", pkcs8(t, a.key))
	time.Sleep(certificatePoll)
	if got := certificateOf(t, a, addr); !bytes.Equal(got.Raw, cert.Raw) {
		t.Error("a certificate without its key is served")
	}
	fresh := a.write(f.cert, f.key)
	time.Sleep(certificatePoll)
	if got := certificateOf(t, a, addr); !bytes.Equal(got.Raw, fresh.Raw) {
		t.Error("the old certificate is served still")
	}
}

// certificateOf returns the certificate that a new connection meets.
func certificateOf(t *testing.T, a *authority, addr string) *x509.Certificate {
	t.Helper()
	res, err := a.client("", 0).Get("https://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.TLS.PeerCertificates[0]
}

func TestClientCertificates(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	f, _ := newFiles(t, a)
	for _, required := range []bool{true, false} {
		addr := listenSecured(t, transportSecurity{cert: f.cert, key: f.key, min: tls.VersionTLS12, clientCA: f.ca, required: required}, func(w http.ResponseWriter, r *http.Request) {
			if len(r.TLS.VerifiedChains) > 0 {
				fmt.Fprint(w, r.TLS.VerifiedChains[0][0].DNSNames[0])
			}
		})
		ask := func(c *http.Client) (string, bool) {
			res, err := c.Get("https://" + addr)
			if err != nil {
				return "", false
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			return string(body), err == nil
		}
		if name, ok := ask(a.client("app.test", 0)); !ok || name != "app.test" {
			t.Errorf("required %v: a good certificate: got %q %v", required, name, ok)
		}
		if name, ok := ask(a.client("", 0)); ok == required || name != "" {
			t.Errorf("required %v: none: got %q %v", required, name, ok)
		}
		forged := stranger.client("app.test", 0)
		forged.Transport.(*http.Transport).TLSClientConfig.RootCAs.AddCert(a.cert)
		if name, ok := ask(forged); ok {
			t.Errorf("required %v: one of another authority: got %q", required, name)
		}
	}
}

// The PROXY header is believed of trusted proxies, which must send one, and of nobody else.
func TestProxyProtocol(t *testing.T) {
	for _, tt := range []struct {
		name    string
		trusted []string
		header  string
		want    string // what the handler sees as the client's address; empty: no answer
	}{
		{"of a trusted proxy", []string{"127.0.0.0/8"}, "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n", "203.0.113.7:4711"},
		{"missing", []string{"127.0.0.0/8"}, "", ""},
		{"of nobody known", []string{"192.0.2.0/24"}, "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n", ""},
		{"none, of nobody known", []string{"192.0.2.0/24"}, "", "127.0.0.1:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := listenSecured(t, transportSecurity{proxyProtocol: tt.trusted}, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) })
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			fmt.Fprintf(c, "%sGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", tt.header)
			answer, _ := io.ReadAll(c)
			status, _, _ := strings.Cut(string(answer), "\r\n")
			served := strings.Contains(status, " 200 ")
			if served != (tt.want != "") || served && !strings.Contains(string(answer), tt.want) {
				t.Errorf("got %q, want %q", answer, tt.want)
			}
		})
	}
}

// A header over the bound is refused before anything is made of it.
func TestHeaderBound(t *testing.T) {
	addr := listenSecured(t, transportSecurity{}, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.Header.Get("X"))) })
	t.Cleanup(func() { time.Sleep(600 * time.Millisecond) }) // net/http keeps the connection of a 431 for half a second
	for size, want := range map[int]string{32 << 10: "200 OK", 128 << 10: "431 Request Header Fields Too Large"} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		go fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: %s\r\n\r\n", strings.Repeat("x", size)) // ends with the connection
		answer := make([]byte, 64)
		n, _ := io.ReadFull(c, answer)
		if !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 "+want) {
			t.Errorf("%d bytes: got %q, want %s", size, answer[:n], want)
		}
	}
}
