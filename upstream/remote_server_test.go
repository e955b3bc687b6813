package upstream_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/memhttp"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A webServer puts exchangetest.Serve behind Streamable HTTP: sessions for the handshake, one common server for
// requests of 2026-07-28.
type webServer struct {
	served negotiate.Set
	wg     sync.WaitGroup

	mu       sync.Mutex
	lastID   int
	sessions map[string]*webSession
	common   *webSession // of the modern requests; nil or over: the next makes another
}

// A webSession is one Serve and the HTTP streams of its messages.
type webSession struct {
	conn net.Conn

	mu       sync.Mutex
	over     chan struct{}
	streams  map[string]chan []byte // by request id
	standing chan []byte
}

func newWebServer(served negotiate.Set) *webServer {
	return &webServer{served: served, sessions: make(map[string]*webSession)}
}

// remoteOf returns a remote in front of h in memory.
func remoteOf(t testing.TB, h http.Handler, o *upstream.Options) *upstream.Remote {
	t.Helper()
	return remoteThrough(t, h, o, func(rt http.RoundTripper) http.RoundTripper { return rt })
}

// remoteThrough is remoteOf with something between the remote and the server.
func remoteThrough(t testing.TB, h http.Handler, o *upstream.Options, wrap func(http.RoundTripper) http.RoundTripper) *upstream.Remote {
	t.Helper()
	srv := memhttp.New(t, h)
	d := *sameEra(o)
	var web upstream.HTTPOptions
	if d.HTTP != nil {
		web = *d.HTTP
	}
	web.RoundTripper = wrap(srv.Client().Transport)
	d.HTTP = &web
	r, err := upstream.URL(srv.URL+"/mcp", &d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func (s *webServer) start() *webSession {
	ours, theirs := net.Pipe()
	x := &webSession{conn: ours, over: make(chan struct{}), streams: make(map[string]chan []byte), standing: make(chan []byte, 4096)}
	s.wg.Go(func() {
		_ = exchangetest.Serve(theirs, s.served)
		_ = theirs.Close()
	})
	s.wg.Go(func() {
		defer close(x.over)
		r := bufio.NewReader(ours)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			x.route(line)
		}
	})
	return x
}

func (s *webServer) stop() {
	s.mu.Lock()
	for _, x := range s.sessions {
		_ = x.conn.Close()
	}
	if s.common != nil {
		_ = s.common.conn.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// route puts a message on the stream of the request it belongs to, as far as that can be told.
func (x *webSession) route(line []byte) {
	m, err := jsonrpc.Scan(line)
	if err != nil {
		panic(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	id := string(m.ID)
	if m.Kind != jsonrpc.Response {
		token, _ := jsonrpc.String(jsonrpc.Get(m.Params, "progressToken"))
		id = strings.TrimPrefix(token, "p")
		if id == "" && len(x.streams) == 1 && !strings.HasSuffix(m.Method, "list_changed") {
			for only := range x.streams {
				id = only
			}
		}
	}
	if st := x.streams[id]; st != nil {
		st <- line
		if m.Kind == jsonrpc.Response {
			delete(x.streams, id)
		}
		return
	}
	if m.Kind != jsonrpc.Response {
		x.standing <- line
	}
}

func (s *webServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, _ := jsonrpc.Scan(body)
	modern := r.Header.Get(negotiate.HeaderVersion) == negotiate.Rev20260728.String()
	if modern && s.served&negotiate.Modern == 0 {
		http.Error(w, "no session", http.StatusBadRequest)
		return
	}
	x := s.session(r.Header.Get(negotiate.HeaderSession), m.Method == "initialize", modern)
	switch {
	case x == nil:
		http.Error(w, "unknown session", http.StatusNotFound)
	case r.Method == http.MethodDelete:
		_ = x.conn.Close()
	case r.Method == http.MethodGet:
		x.stream(w, r, x.standing, "")
	case m.Kind != jsonrpc.Request:
		x.write(body)
		w.WriteHeader(http.StatusAccepted)
	default:
		if m.Method == "initialize" {
			w.Header().Set(negotiate.HeaderSession, s.enter(x))
		}
		st := make(chan []byte, 4096)
		x.mu.Lock()
		x.streams[string(m.ID)] = st
		x.mu.Unlock()
		x.write(body)
		x.stream(w, r, st, string(m.ID))
		x.mu.Lock()
		delete(x.streams, string(m.ID))
		x.mu.Unlock()
		if modern && r.Context().Err() != nil {
			x.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, m.ID))
		}
	}
}

func (s *webServer) session(id string, initialize, modern bool) *webSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	if initialize {
		return s.start()
	}
	x := s.sessions[id]
	if modern {
		x = s.common
	}
	if x != nil {
		select {
		case <-x.over:
			x = nil
		default:
		}
	}
	if x == nil && modern {
		x = s.start()
		s.common = x
	}
	return x
}

func (s *webServer) enter(x *webSession) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	id := "web-" + strconv.Itoa(s.lastID)
	s.sessions[id] = x
	return id
}

func (x *webSession) write(msg []byte) {
	_, _ = x.conn.Write(append(jsonrpc.OneLine(msg), '\n')) // it may have ended
}

// stream sends what comes for a request until its response, or for the standing stream until the end.
func (x *webSession) stream(w http.ResponseWriter, r *http.Request, from chan []byte, id string) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	for {
		select {
		case line := <-from:
			_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", strings.TrimSpace(string(line)))
			_ = rc.Flush()
			if m, _ := jsonrpc.Scan(line); m.Kind == jsonrpc.Response && string(m.ID) == id {
				return
			}
		case <-x.over:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			return
		}
	}
}

func TestRemoteContract(t *testing.T) {
	for _, served := range []struct {
		name string
		set  negotiate.Set
	}{{"dual", negotiate.All}, {"legacy", negotiate.Legacy}, {"modern", negotiate.Modern}} {
		for _, client := range []negotiate.Revision{negotiate.Rev20241105, negotiate.Rev20251125, negotiate.Rev20260728} {
			if !served.set.Has(client) {
				continue
			}
			t.Run(served.name+" "+client.String(), func(t *testing.T) {
				exchangetest.TestHandler(t, exchangetest.Subject{Client: client, Served: served.set, Bubble: true, NoReason: client.Modern(),
					New: func(t testing.TB) (exchange.Handler, func()) {
						s := newWebServer(served.set)
						r := remoteOf(t, s, nil)
						return r, func() { _ = r.Close(); s.stop() }
					}})
			})
		}
	}
}
