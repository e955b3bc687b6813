package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"
)

// certificatePoll is how often the files of certificates are looked at, at most: when a client comes.
const certificatePoll = time.Second

// secured returns l with what t asks for: first the PROXY header, then TLS. When it fails l is closed.
func (t *transportSecurity) secured(l net.Listener, log *slog.Logger) (net.Listener, error) {
	if len(t.proxyProtocol) > 0 {
		policy, err := proxyproto.PolicyFromRanges(t.proxyProtocol, proxyproto.REQUIRE, proxyproto.SKIP)
		if err != nil {
			return nil, failed("%w", errors.Join(err, l.Close()))
		}
		l = &proxyproto.Listener{Listener: l, ConnPolicy: policy, ReadHeaderTimeout: readHeaderTimeout}
	}
	if t.cert == "" {
		return l, nil
	}
	c, err := newCertificates(*t)
	if err != nil {
		return nil, failed("%w", errors.Join(err, l.Close()))
	}
	c.log = log
	return tls.NewListener(l, &tls.Config{MinVersion: t.min, GetConfigForClient: c.config}), nil
}

// certificates are those of files, read again when these change. A file that cannot be used leaves what was in use.
type certificates struct {
	t   transportSecurity
	log *slog.Logger // nil: silent

	mu     sync.Mutex
	looked time.Time
	stamps [3]stamp // of certificate, key and CAs
	now    *tls.Config
}

// A stamp is how a file is known to have changed.
type stamp struct {
	mtime time.Time
	size  int64
}

// newCertificates reads the files.
func newCertificates(t transportSecurity) (*certificates, error) {
	c := &certificates{t: t}
	var err error
	if c.stamps, err = c.stat(); err != nil {
		return nil, err
	}
	c.now, err = c.read()
	c.looked = time.Now()
	return c, err
}

func (c *certificates) stat() (stamps [3]stamp, err error) {
	for i, file := range []string{c.t.cert, c.t.key, c.t.clientCA} {
		if file == "" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return stamps, err
		}
		stamps[i] = stamp{info.ModTime(), info.Size()}
	}
	return stamps, nil
}

// read makes the configuration of a connection.
func (c *certificates) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.t.cert, c.t.key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", c.t.cert, c.t.key, err)
	}
	config := &tls.Config{MinVersion: c.t.min, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if c.t.clientCA == "" {
		return config, nil
	}
	text, err := os.ReadFile(c.t.clientCA)
	if err != nil {
		return nil, err
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: there is no certificate in it", c.t.clientCA)
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	if c.t.required {
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	// A session that is resumed is not verified again against CAs that have been taken away since.
	config.SessionTicketsDisabled = true
	return config, nil
}

// config returns the configuration for one connection.
func (c *certificates) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certificatePoll {
		return c.now, nil
	}
	c.looked = time.Now()
	stamps, err := c.stat()
	if err == nil && stamps == c.stamps {
		return c.now, nil
	}
	var fresh *tls.Config
	if err == nil {
		fresh, err = c.read()
	}
	switch {
	case err == nil:
		c.now, c.stamps = fresh, stamps
	case c.log != nil:
		c.log.Error("certificate cannot be used; the one before stays in use", "err", err)
	}
	return c.now, nil
}
