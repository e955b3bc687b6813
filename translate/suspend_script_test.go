package translate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/exchange/exchangetest"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/schematest"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/translate"
)

const legacyCapabilities = `{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true,"listChanged":true},"logging":{},` +
	`"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// newLegacy returns a server of 2025-11-25 that answers by a function; logging/setLevel is answered for it.
func newLegacy(t testing.TB, answer func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error)) *script {
	t.Helper()
	return &script{
		t: t, schemas: schematest.Load(t),
		answer: func(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
			if req.Method == "logging/setLevel" {
				return exchange.Response{Result: []byte("{}")}, nil
			}
			return answer(ctx, req, back)
		},
		server: exchange.Server{
			Revision: negotiate.Rev20251125, Served: negotiate.Legacy, Info: []byte(`{"name":"srv","version":"1.0"}`),
			Capabilities: []byte(legacyCapabilities), Instructions: []byte(`"ask \u0041"`), Initialize: []byte(`{}`),
		},
	}
}

// closes returns how many sessions have been closed.
func (s *script) closes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// A desk is a client of 2026-07-28, each request of which has a session of its own.
type desk struct {
	t         testing.TB
	h         exchange.Handler
	schemas   *schematest.Schemas
	caps      string
	principal string
	meta      string // further members of _meta, each with a comma before it
	back      *exchangetest.Peer
}

func newDesk(t testing.TB, h exchange.Handler) *desk {
	t.Helper()
	return &desk{t: t, h: h, schemas: schematest.Load(t), caps: `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`, back: &exchangetest.Peer{}}
}

// with returns params with the envelope of d's requests.
func (d *desk) with(params string) []byte {
	if params == "" {
		params = "{}"
	}
	meta := fmt.Sprintf(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s,`+
		`"io.modelcontextprotocol/clientInfo":{"name":"desk","version":"1"}%s}`, d.caps, d.meta)
	return jsonrpc.Set([]byte(params), []byte(meta), "_meta")
}

// ask makes one request and checks what comes back against the schema.
func (d *desk) ask(ctx context.Context, method, params string) (exchange.Response, error) {
	d.t.Helper()
	s, err := d.h.Open(ctx, exchange.Client{
		Revision: negotiate.Rev20260728, Requested: "2026-07-28", Capabilities: []byte(d.caps), Principal: d.principal,
	})
	if err != nil {
		d.t.Fatalf("Open: %v", err)
	}
	defer s.Close()
	resp, err := s.Call(ctx, exchange.Request{Method: method, Params: d.with(params)}, d.back)
	if err == nil && !strings.HasPrefix(method, "x/") {
		d.schemas.Response(d.t, negotiate.Rev20260728, method, resp)
	}
	for _, note := range d.back.Notes() {
		d.schemas.Request(d.t, negotiate.Rev20260728, note)
	}
	return resp, err
}

// show is ask, as one line: the result, the code and reason of an error, or the failure.
func (d *desk) show(method, params string) string {
	d.t.Helper()
	return shown(d.ask(d.t.Context(), method, params))
}

func shown(resp exchange.Response, err error) string {
	switch {
	case err != nil:
		return "failed: " + err.Error()
	case resp.Error != nil:
		reason, _ := jsonrpc.String(jsonrpc.Get(resp.Error.Data, "bridge", "reason"))
		return strings.TrimSpace(fmt.Sprintf("error %d %s", resp.Error.Code, reason))
	}
	return string(resp.Result)
}

// A round is what a client is asked.
type round struct {
	requests string // raw inputRequests
	state    string // raw requestState
}

// round makes a request that has to be answered with input_required.
func (d *desk) round(method, params string) round {
	d.t.Helper()
	resp, err := d.ask(d.t.Context(), method, params)
	if got, _ := jsonrpc.String(jsonrpc.Get(resp.Result, "resultType")); err != nil || got != "input_required" {
		d.t.Fatalf("got %s, want input_required", shown(resp, err))
	}
	r := round{requests: string(jsonrpc.Get(resp.Result, "inputRequests")), state: string(jsonrpc.Get(resp.Result, "requestState"))}
	if !strings.HasPrefix(r.state, `"b1.`) {
		d.t.Fatalf("requestState %.20s", r.state)
	}
	return r
}

// retry returns the params of a retry; empty responses leave them out.
func (r round) retry(params, responses string) string {
	out := jsonrpc.Set([]byte(params), []byte(r.state), "requestState")
	if responses != "" {
		out = jsonrpc.Set(out, []byte(responses), "inputResponses")
	}
	return string(out)
}

const (
	deploy     = `{"name":"deploy","arguments":{"n":25.0}}`
	branchForm = `{"mode":"form","message":"Which branch?","requestedSchema":{"type":"object","properties":{"branch":{"type":"string"}}}}`
	accepted   = `{"action":"accept","content":{"branch":"main"}}`
	done       = `{"content":[]}`
)

// elicits asks for the branch with that message and returns what the client answered.
func elicits(ctx context.Context, back exchange.Peer, message string) string {
	params := jsonrpc.Set([]byte(branchForm), jsonrpc.Quote(message), "message")
	params = jsonrpc.Set(params, []byte(`{"x/y":1}`), "_meta")
	resp, err := back.Call(ctx, exchange.Request{Method: "elicitation/create", Params: params})
	if err != nil {
		return err.Error()
	}
	if resp.Error != nil {
		return fmt.Sprintf("error %d", resp.Error.Code)
	}
	return string(resp.Result)
}

func text(s string) (exchange.Response, error) {
	return exchange.Response{Result: []byte(`{"content":[{"type":"text","text":` + string(jsonrpc.Quote(s)) + `}]}`)}, nil
}

// textOf returns the text of the first block of a tool result.
func textOf(result string) string {
	first := ""
	jsonrpc.Elements(jsonrpc.Get([]byte(result), "content"), func(b []byte) bool {
		first, _ = jsonrpc.String(jsonrpc.Get(b, "text"))
		return false
	})
	return first
}

// legacyHandler puts the bridge in front of a server and closes it with the test.
func legacyHandler(t testing.TB, s exchange.Handler, o *translate.Options) exchange.Handler {
	t.Helper()
	h := translate.Handler(s, o)
	t.Cleanup(func() { closeHandler(t, h) })
	return h
}

func closeHandler(t testing.TB, h exchange.Handler) {
	t.Helper()
	if err := h.(interface{ Close() error }).Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
