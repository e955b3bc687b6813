package upstream_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// The outcomes of the era probe over HTTP+SSE (translation.md 4).
func TestSSEProbe(t *testing.T) {
	answer := func(format string) func(*sseTalk, http.ResponseWriter, *hit) {
		return func(x *sseTalk, w http.ResponseWriter, h *hit) {
			w.WriteHeader(http.StatusAccepted)
			x.say(format, h.m.ID)
		}
	}
	status := func(code int) func(*sseTalk, http.ResponseWriter, *hit) {
		return func(_ *sseTalk, w http.ResponseWriter, _ *hit) { w.WriteHeader(code) }
	}
	for name, test := range map[string]struct {
		probe   func(*sseTalk, http.ResponseWriter, *hit)
		served  negotiate.Set
		reason  string
		took    time.Duration
		streams int
	}{
		"refused": {nil, negotiate.Legacy, "", 0, 1},
		"modern":  {answer(`{"jsonrpc":"2.0","id":%s,"result":` + okDiscover + `}`), negotiate.Modern, "", 0, 1},
		"error in body": {func(_ *sseTalk, w http.ResponseWriter, h *hit) {
			refuse(w, h, 400, "", `{"code":-32000,"message":"m"}`)
		}, negotiate.Legacy, "", 0, 1},
		"silence":        {status(http.StatusAccepted), negotiate.Legacy, "", 3 * time.Second, 1},
		"no response":    {func(_ *sseTalk, _ http.ResponseWriter, h *hit) { <-h.Context().Done() }, negotiate.Legacy, "", 3 * time.Second, 1},
		"400":            {status(http.StatusBadRequest), negotiate.Legacy, "", 0, 1},
		"404":            {status(http.StatusNotFound), negotiate.Legacy, "", 0, 2},
		"stream closed":  {func(x *sseTalk, w http.ResponseWriter, _ *hit) { w.WriteHeader(202); x.over() }, negotiate.Legacy, "", 0, 2},
		"401 no verdict": {status(http.StatusUnauthorized), 0, exchange.ReasonAuth, 0, 1},
		"503 no verdict": {status(http.StatusServiceUnavailable), 0, exchange.ReasonBusy, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sseScript{probe: test.probe}
			inSSE(t, s, nil, func(t *testing.T, up *upstream.Upstream) {
				start := time.Now()
				v, err := up.Probe(t.Context())
				equal(t, "reason", reason(err), test.reason)
				equal(t, "served", v.Served, test.served)
				equal(t, "took", since(start), test.took)
				equal(t, "streams", s.streams(), test.streams)
				if err == nil {
					equal(t, "transport", v.Transport, exchange.HTTPSSE)
				}
			})
		})
	}
}

// The credentials go with the stream and with every message, and into no log.
func TestSSECredentials(t *testing.T) {
	for name, test := range map[string]struct {
		o    upstream.HTTPOptions
		own  string
		want string
	}{
		"header":       {upstream.HTTPOptions{Headers: http.Header{"Authorization": {"Bearer " + secret}}}, "Bearer client", "Bearer " + secret},
		"pass-through": {upstream.HTTPOptions{PassThrough: true}, "Bearer " + secret, "Bearer " + secret},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := &sseScript{start: "event: endpoint\ndata: /messages/" + secret + "\n\n"}
			s.call = func(_ *sseTalk, w http.ResponseWriter, _ *hit) { w.WriteHeader(http.StatusTeapot) }
			o := &upstream.Options{Era: "legacy", HTTP: &test.o, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
			inSSE(t, s, o, func(t *testing.T, up *upstream.Upstream) {
				c := legacyClient(negotiate.Rev20241105, nil)
				c.Authorization = test.own
				sess, err := up.Open(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				_, err = call(sess, "tools/call", `{}`, nil).wait()
				equal(t, "reason", reason(err), exchange.ReasonUnavailable)
				checkSecret(t, fmt.Sprint(err))
				_ = sess.Notify(t.Context(), exchange.Request{Method: "notifications/x"})
			})
			equal(t, "requests", len(s.auths), 5)
			for _, got := range s.auths {
				equal(t, "Authorization", got, test.want)
			}
			checkSecret(t, log.String())
		})
	}
}

// A pass-through refusal of the stream is told with its challenge.
func TestSSEChallenge(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Www-Authenticate", "Bearer x")
		w.WriteHeader(http.StatusUnauthorized)
	})
	inSSE(t, h, &upstream.Options{Era: "legacy", HTTP: &upstream.HTTPOptions{PassThrough: true}}, func(t *testing.T, up *upstream.Upstream) {
		_, err := up.Open(t.Context(), legacyClient(negotiate.Rev20241105, nil))
		f, ok := err.(*exchange.Failure) //nolint:errorlint // the shape is what is checked
		if !ok || f.Status != http.StatusUnauthorized || f.Challenge != "Bearer x" {
			t.Errorf("got %#v", err)
		}
	})
}

func TestSSEOptions(t *testing.T) {
	for _, raw := range []string{"", "/sse", "ftp://host/sse", "http:///sse", "http://user:" + secret + "@ho st/sse"} {
		_, err := upstream.SSE(raw, nil)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: got %v", raw, err)
		}
	}
	if _, err := upstream.SSE("http://host/sse", &upstream.Options{Era: "stone"}); err == nil {
		t.Error("got no error for an era that is none")
	}
}
