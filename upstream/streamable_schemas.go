package upstream

import (
	"context"
	"crypto/sha256"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// schemas remembers which arguments of a tool are repeated in headers (translation.md 11, Schema cache). Every tools/list that
// passes fills it; a tool that nobody has listed is looked for once.
type schemas struct {
	m     *stateless
	known *lru.Cache[schemaKey, schema]

	mu       sync.Mutex
	fetching map[viewer]chan struct{} // closed when the fetch is over
}

// A viewer is whose list it is: a hash of the authorization it was got with.
type viewer [sha256.Size]byte

type schemaKey struct {
	viewer viewer
	tool   string
}

type schema struct {
	params []negotiate.Param
	until  time.Time
}

const (
	minSchemaLife  = time.Minute // also of the knowledge that there is no such tool
	maxSchemaLife  = time.Hour
	maxSchemaPages = 64 // of one tools/list
)

func newSchemas(m *stateless) *schemas {
	known, err := lru.New[schemaKey, schema](max(m.l.o.MaxTools, 1))
	if err != nil {
		panic("upstream: " + err.Error()) // only for a size below one
	}
	return &schemas{m: m, known: known, fetching: make(map[viewer]chan struct{})}
}

func view(auth string) viewer { return sha256.Sum256([]byte(auth)) }

// of returns the annotated parameters of the tool that a tools/call names, nil if it has none or is unknown.
func (s *schemas) of(ctx context.Context, auth string, req exchange.Request) []negotiate.Param {
	tool, ok := jsonrpc.String(jsonrpc.Get(req.Params, "name"))
	if !ok {
		return nil
	}
	key := schemaKey{view(auth), tool}
	if known, ok := s.get(key); ok {
		return known.params
	}
	s.fetch(ctx, auth, key.viewer, negotiate.ReadClaim(jsonrpc.Get(req.Params, "_meta")))
	known, ok := s.get(key)
	if !ok {
		s.known.Add(key, schema{until: time.Now().Add(minSchemaLife)})
	}
	return known.params
}

func (s *schemas) get(key schemaKey) (schema, bool) {
	known, ok := s.known.Get(key)
	return known, ok && time.Now().Before(known.until)
}

// fetch lists the tools, or waits for somebody who does already. A failure leaves the tools unknown: the call itself will
// show what is wrong.
func (s *schemas) fetch(ctx context.Context, auth string, v viewer, claim negotiate.Claim) {
	s.mu.Lock()
	done := s.fetching[v]
	if done == nil {
		done = make(chan struct{})
		if !s.m.l.spawn(func() { s.list(auth, v, claim, done) }) { // bounded by ResponseTimeout
			s.mu.Unlock()
			return
		}
		s.fetching[v] = done
	}
	s.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (s *schemas) list(auth string, v viewer, claim negotiate.Claim, done chan struct{}) {
	defer func() {
		s.mu.Lock()
		delete(s.fetching, v)
		s.mu.Unlock()
		close(done)
	}()
	ctx, cancel := s.m.l.soon(context.Background())
	defer cancel()
	params := negotiate.WithEnvelope(nil, negotiate.Envelope{Version: negotiate.Rev20260728, Info: claim.Info, Capabilities: claim.Capabilities})
	for range maxSchemaPages {
		req := exchange.Request{Method: "tools/list", Params: params}
		header, _ := s.m.header(req, nil)
		resp, err := s.m.send(ctx, auth, header, req, nil)
		if err != nil || resp.Error != nil {
			s.m.log.Debug("list tools for their headers", "err", err)
			return
		}
		s.learn(auth, resp.Result)
		cursor := jsonrpc.Get(resp.Result, "nextCursor")
		if jsonrpc.IsNull(cursor) {
			return
		}
		params = jsonrpc.Set(params, cursor, "cursor")
	}
}

// learn reads a ListToolsResult of 2026-07-28 and returns it without the tools whose annotations break the rules, which are not
// to be offered over HTTP (2026-07-28 streamable-http, Schema Extension).
func (s *schemas) learn(auth string, result []byte) []byte {
	v, until := view(auth), time.Now().Add(life(result))
	var kept []byte
	dropped := 0
	jsonrpc.Elements(jsonrpc.Get(result, "tools"), func(tool []byte) bool {
		name, _ := jsonrpc.String(jsonrpc.Get(tool, "name"))
		params, ok := negotiate.ReadParams(jsonrpc.Get(tool, "inputSchema"))
		if !ok {
			dropped++
			s.m.noise.report("tool left out for its x-mcp-header annotations", jsonrpc.Quote(name))
			return true
		}
		s.known.Add(schemaKey{v, name}, schema{params, until})
		if len(kept) > 0 {
			kept = append(kept, ',')
		}
		kept = append(kept, tool...)
		return true
	})
	if dropped == 0 {
		return result
	}
	return jsonrpc.Set(result, append(append([]byte{'['}, kept...), ']'), "tools")
}

// life returns how long a list counts: its ttlMs within bounds, for what is wrong is found out by -32020.
func life(result []byte) time.Duration {
	ms, err := strconv.ParseInt(string(jsonrpc.Get(result, "ttlMs")), 10, 32)
	if err != nil {
		return minSchemaLife
	}
	return min(max(time.Duration(ms)*time.Millisecond, minSchemaLife), maxSchemaLife)
}

// forget drops what was listed for one caller.
func (s *schemas) forget(auth string) {
	v := view(auth)
	for _, key := range s.known.Keys() {
		if key.viewer == v {
			s.known.Remove(key)
		}
	}
}

func (s *schemas) forgetAll() { s.known.Purge() }
