package translate

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// maxPages bounds how far a list is followed to find one tool.
const maxPages = 64

// schemas remembers the header annotations of the tools that lists have named, per principal: a list
// may depend on who asks (translation.md 11, schema cache).
type schemas struct {
	tools      *lru.Cache[toolKey, []negotiate.Param]
	unknown    *lru.Cache[toolKey, time.Time] // tools that no list named, and until when that is believed
	unknownFor time.Duration
	log        *slog.Logger

	mu       sync.Mutex
	fetching map[string]chan struct{} // by principal; closed when that fetch is over
}

type toolKey struct{ principal, name string }

func newSchemas(o Options) *schemas {
	return &schemas{
		tools:      newCache[[]negotiate.Param](o.MaxSchemas),
		unknown:    newCache[time.Time](o.MaxSchemas),
		unknownFor: o.UnknownFor,
		log:        o.Logger,
		fetching:   make(map[string]chan struct{}),
	}
}

func newCache[V any](size int) *lru.Cache[toolKey, V] {
	c, err := lru.New[toolKey, V](size)
	if err != nil {
		panic("translate: MaxSchemas is negative")
	}
	return c
}

// settled reports whether nothing would be gained by asking for the list.
func (c *schemas) settled(key toolKey) bool {
	if _, known := c.tools.Peek(key); known {
		return true
	}
	until, missed := c.unknown.Get(key)
	return missed && time.Now().Before(until)
}

func (c *schemas) lookup(principal, name string) (params []negotiate.Param, known bool) {
	return c.tools.Get(toolKey{principal, name})
}

// learn reads the annotations from a ListToolsResult. A tool whose annotations break the rules is remembered as
// one without: it cannot be called with headers that mean anything.
func (c *schemas) learn(principal string, result []byte) (nextCursor []byte) {
	jsonrpc.Elements(jsonrpc.Get(result, "tools"), func(tool []byte) bool {
		name, ok := jsonrpc.String(jsonrpc.Get(tool, "name"))
		if !ok {
			return true
		}
		params, ok := negotiate.ReadParams(jsonrpc.Get(tool, "inputSchema"))
		if !ok {
			params = nil
		}
		c.tools.Add(toolKey{principal, strings.Clone(name)}, params)
		return true
	})
	return jsonrpc.Get(result, "nextCursor")
}

// check compares the Mcp-Param-* headers of a tools/call with its arguments, by the schema that the tool was last
// served with (translation.md 3.1 step 9). For a tool that no list has named it asks s for one. The error is -32020.
func (c *schemas) check(ctx context.Context, principal string, req exchange.Request, s exchange.Session) *exchange.Error {
	name, ok := jsonrpc.String(jsonrpc.Get(req.Params, "name"))
	if !ok {
		return nil // the server says what is wrong with it
	}
	params, known := c.lookup(principal, name)
	if !known {
		if err := c.fetch(ctx, principal, name, req, s); err != nil {
			c.log.Warn("tools/list for the header check", "err", err)
		}
		if params, known = c.lookup(principal, name); !known {
			return nil
		}
	}
	return negotiate.CheckParams(req.Header, jsonrpc.Get(req.Params, "arguments"), params)
}

// fetch asks the server for its tools once, with the envelope of req, until name is known. Callers that come
// while another of the same principal fetches wait for that one.
func (c *schemas) fetch(ctx context.Context, principal, name string, req exchange.Request, s exchange.Session) error {
	key := toolKey{principal, name}
	for {
		if c.settled(key) {
			return nil
		}
		c.mu.Lock()
		other, busy := c.fetching[principal]
		if !busy {
			other = make(chan struct{})
			c.fetching[principal] = other
		}
		c.mu.Unlock()
		if !busy {
			err := c.list(ctx, key, req, s)
			c.mu.Lock()
			delete(c.fetching, principal)
			c.mu.Unlock()
			close(other)
			return err
		}
		select {
		case <-other:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *schemas) list(ctx context.Context, key toolKey, req exchange.Request, s exchange.Session) error {
	meta := jsonrpc.Get(req.Params, "_meta")
	params := jsonrpc.Set(nil, jsonrpc.Delete(meta, negotiate.MetaProgressToken), "_meta")
	for range maxPages {
		resp, err := s.Call(ctx, exchange.Request{Method: "tools/list", Params: params}, silent{})
		if err != nil {
			return err
		}
		if resp.Error != nil {
			return resp.Error
		}
		cursor := c.learn(key.principal, resp.Result)
		if _, known := c.tools.Peek(key); known {
			return nil
		}
		if jsonrpc.IsNull(cursor) {
			break
		}
		params = jsonrpc.Set(params, cursor, "cursor")
	}
	c.unknown.Add(key, time.Now().Add(c.unknownFor))
	return nil
}

// silent is the peer of a call that the bridge makes for itself.
type silent struct{}

func (silent) Call(context.Context, exchange.Request) (exchange.Response, error) {
	return exchange.Response{}, exchange.Fail(exchange.ReasonNoChannel, nil)
}

func (silent) Notify(context.Context, exchange.Request) error { return nil }
