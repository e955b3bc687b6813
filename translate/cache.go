package translate

import (
	"crypto/sha256"
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Values of cacheScope (2026-07-28 schema, CacheableResult).
const (
	scopePublic  = "public"
	scopePrivate = "private"
)

// complete is T8: the result of a handshake-era server as a final one of 2026-07-28. One that says what it is (resultType) but is
// not final stays as it is.
func (p *payload) complete(method string, r []byte) []byte {
	var add members
	switch t := jsonrpc.Get(r, "resultType"); {
	case t == nil:
		add.add("resultType", []byte(`"`+resultComplete+`"`))
	case !is(t, resultComplete):
		return r
	}
	if cacheable(method) {
		r = p.hints(method, r, &add)
	}
	if p.info == nil || jsonrpc.Get(r, "_meta", negotiate.MetaServerInfo) != nil {
		return add.after(r)
	}
	meta := jsonrpc.Get(r, "_meta")
	named := jsonrpc.Set(meta, p.info, negotiate.MetaServerInfo)
	if meta != nil {
		return add.after(jsonrpc.Set(r, named, "_meta"))
	}
	add.add("_meta", named)
	return add.after(r)
}

// hints puts ttlMs and cacheScope right that are none, and adds those that are missing: the operator's, else none that lasts.
func (p *payload) hints(method string, r []byte, add *members) []byte {
	c := p.cache[method]
	ttl := strconv.AppendInt(nil, int64(c.TTL/time.Millisecond), 10)
	scope := []byte(`"` + scopePrivate + `"`)
	if c.Public {
		scope = []byte(`"` + scopePublic + `"`)
	}
	if own := jsonrpc.Get(r, "ttlMs"); own == nil {
		add.add("ttlMs", ttl)
	} else if !isNatural(own) {
		r = jsonrpc.Set(r, []byte("0"), "ttlMs")
	}
	switch own := jsonrpc.Get(r, "cacheScope"); {
	case own == nil:
		add.add("cacheScope", scope)
	case !is(own, scopePublic) && !is(own, scopePrivate):
		r = jsonrpc.Set(r, []byte(`"`+scopePrivate+`"`), "cacheScope")
	}
	return r
}

// cacheable reports whether results of the method say how long they may be kept (2026-07-28 schema, CacheableResult).
func cacheable(method string) bool {
	return isList(method) || method == "server/discover" || method == "resources/read"
}

// isList reports whether the method's results have pages.
func isList(method string) bool {
	switch method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return true
	}
	return false
}

// isNatural reports whether raw is an integer of at least 0 without fraction or exponent.
func isNatural(raw []byte) bool {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(raw) > 0
}

// scopes remembers the cacheScope with which a list began, which is that of all its pages (translation.md 5, T8). Methods may be
// called concurrently.
type scopes struct {
	known *lru.Cache[page, bool] // true: public
}

// A page is what names a further page of a list.
type page struct {
	principal principalHash
	cursor    [sha256.Size]byte // of the method and the raw cursor
}

func newScopes(size int) *scopes {
	known, err := lru.New[page, bool](size)
	if err != nil {
		panic("translate: MaxLists is negative")
	}
	return &scopes{known}
}

// keep returns the result of a list method with the scope of the pages before it. Where they are not known it stays as it is.
func (s *scopes) keep(p principalHash, method string, params, r []byte) []byte {
	scope := jsonrpc.Get(r, "cacheScope")
	public := is(scope, scopePublic)
	if cursor := jsonrpc.Get(params, "cursor"); cursor != nil && scope != nil {
		if began, ok := s.known.Get(pageOf(p, method, cursor)); ok && began != public {
			public = began
			word := scopePrivate
			if public {
				word = scopePublic
			}
			r = jsonrpc.Set(r, []byte(`"`+word+`"`), "cacheScope")
		}
	}
	if next := jsonrpc.Get(r, "nextCursor"); !jsonrpc.IsNull(next) {
		s.known.Add(pageOf(p, method, next), public)
	}
	return r
}

func pageOf(p principalHash, method string, cursor []byte) page {
	return page{p, sha256.Sum256(append([]byte(method+"\n"), cursor...))}
}
