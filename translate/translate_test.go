package translate_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/translate"
)

// server is a modern server of one annotated tool on its second page of tools. It counts what reaches it.
type server struct {
	lists, calls int
	params       []string
	listDelay    time.Duration
}

func (s *server) Open(context.Context, exchange.Client) (exchange.Session, error) { return s, nil }
func (s *server) Server() exchange.Server {
	return exchange.Server{Revision: negotiate.Rev20260728}
}
func (s *server) Notify(context.Context, exchange.Request) error { return nil }
func (s *server) Done() <-chan struct{}                          { return nil }
func (s *server) Close() error                                   { return nil }

func (s *server) Call(_ context.Context, req exchange.Request, _ exchange.Peer) (exchange.Response, error) {
	s.params = append(s.params, string(req.Params))
	if req.Method != "tools/list" {
		s.calls++
		return exchange.Response{Result: []byte(`{"content":[]}`)}, nil
	}
	s.lists++
	time.Sleep(s.listDelay)
	if jsonrpc.Get(req.Params, "cursor") == nil {
		return exchange.Response{Result: []byte(`{"tools":[{"name":"plain","inputSchema":{"type":"object"}}],"nextCursor":"p2"}`)}, nil
	}
	return exchange.Response{Result: []byte(`{"tools":[{"name":"run","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}`)}, nil
}

func callParams(tool, args string) []byte {
	return []byte(`{"name":"` + tool + `","arguments":` + args +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"t1"}}`)
}

func open(t *testing.T, h exchange.Handler, revision negotiate.Revision) exchange.Session {
	t.Helper()
	s, err := h.Open(t.Context(), exchange.Client{Revision: revision})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHeadersOfAToolCallAreCheckedAgainstItsSchema(t *testing.T) {
	region := http.Header{"Mcp-Param-Region": {"eu"}}
	for _, tc := range []struct {
		name   string
		tool   string
		args   string
		header http.Header
		code   int
	}{
		{"equal", "run", `{"region":"eu"}`, region, 0},
		{"different", "run", `{"region":"us"}`, region, jsonrpc.CodeHeaderMismatch},
		{"header missing", "run", `{"region":"eu"}`, http.Header{}, jsonrpc.CodeHeaderMismatch},
		{"argument missing", "run", `{}`, region, jsonrpc.CodeHeaderMismatch},
		{"both missing", "run", `{}`, http.Header{}, 0},
		{"header that no annotation claims", "plain", `{}`, region, 0},
		{"tool that no list names", "ghost", `{"region":"us"}`, region, 0},
		{"not over HTTP", "run", `{"region":"us"}`, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up := &server{}
			s := open(t, translate.Handler(up, nil), negotiate.Rev20260728)
			resp, err := s.Call(t.Context(), exchange.Request{Method: "tools/call", Params: callParams(tc.tool, tc.args), Header: tc.header}, nil)
			if err != nil {
				t.Fatal(err)
			}
			code, wantCalls := 0, 1
			if resp.Error != nil {
				code = resp.Error.Code
			}
			if tc.code != 0 {
				wantCalls = 0
			}
			if code != tc.code || up.calls != wantCalls {
				t.Errorf("got code %d and %d calls, want %d and %d", code, up.calls, tc.code, wantCalls)
			}
		})
	}
}

func TestListThatPassesFillsTheCache(t *testing.T) {
	up := &server{}
	s := open(t, translate.Handler(up, nil), negotiate.Rev20260728)
	list := exchange.Request{Method: "tools/list", Params: []byte(`{"cursor":"p2"}`)}
	if _, err := s.Call(t.Context(), list, nil); err != nil {
		t.Fatal(err)
	}
	resp, err := s.Call(t.Context(), exchange.Request{Method: "tools/call", Params: callParams("run", `{"region":"us"}`), Header: http.Header{}}, nil)
	if err != nil || resp.Error == nil || resp.Error.Code != jsonrpc.CodeHeaderMismatch {
		t.Errorf("got %v, %v, want a header mismatch", resp.Error, err)
	}
	if up.lists != 1 {
		t.Errorf("got %d lists, want the client's own only", up.lists)
	}
}

func TestUnknownToolIsLookedForOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &server{}
		s := open(t, translate.Handler(up, &translate.Options{UnknownFor: time.Minute}), negotiate.Rev20260728)
		call := exchange.Request{Method: "tools/call", Params: callParams("ghost", `{}`), Header: http.Header{}}
		for _, wait := range []time.Duration{0, 59 * time.Second, 2 * time.Second} {
			time.Sleep(wait)
			if _, err := s.Call(t.Context(), call, nil); err != nil {
				t.Fatal(err)
			}
		}
		if up.lists != 4 { // two pages each, at the start and after a minute
			t.Errorf("got %d list requests, want 4", up.lists)
		}
		for _, p := range up.params {
			if strings.Contains(p, `"cursor"`) && strings.Contains(p, "progressToken") {
				t.Errorf("the bridge's own list carries the client's progress token: %s", p)
			}
		}
	})
}

func TestCallsAtOnceShareOneFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &server{listDelay: time.Second}
		h := translate.Handler(up, nil)
		refused := make(chan *exchange.Error, 8)
		for range cap(refused) {
			go func() {
				s := open(t, h, negotiate.Rev20260728)
				resp, _ := s.Call(t.Context(), exchange.Request{Method: "tools/call", Params: callParams("run", `{"region":"us"}`), Header: http.Header{}}, nil)
				refused <- resp.Error
			}()
		}
		synctest.Wait()
		for range cap(refused) {
			if e := <-refused; e == nil || e.Code != jsonrpc.CodeHeaderMismatch {
				t.Errorf("got %v, want a header mismatch", e)
			}
		}
		if up.lists != 2 {
			t.Errorf("got %d list requests, want the two pages once", up.lists)
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	up := &server{}
	s := open(t, translate.Handler(up, &translate.Options{MaxSchemas: 1}), negotiate.Rev20260728)
	for range 2 {
		for _, tool := range []string{"run", "plain"} {
			if _, err := s.Call(t.Context(), exchange.Request{Method: "tools/call", Params: callParams(tool, `{}`), Header: http.Header{}}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if up.lists < 4 {
		t.Errorf("got %d list requests, want each tool to have pushed the other out", up.lists)
	}
}
