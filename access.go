package bridge

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A ToolRule gives tools to callers, or takes them away. Where there are rules a caller has the tools that one of the rules about it
// allows and none of them denies.
type ToolRule struct {
	// Grant says whom the rule is about: "scope:NAME", "group:NAME", "principal:NAME", or "*" for everybody.
	Grant string
	// Allow and Deny are names of tools, or patterns in which * stands for any characters and ? for one (path.Match).
	Allow, Deny []string
}

const (
	grantAll       = "*"
	grantPrincipal = "principal:"
)

// toolRules are checked ToolRules.
type toolRules []ToolRule

func (s *settings) checkRules() error {
	var errs []error
	for i, r := range s.ToolRules {
		kind, name, _ := strings.Cut(r.Grant, ":")
		if r.Grant != grantAll && (name == "" || !slices.Contains([]string{"scope", "group", "principal"}, kind)) {
			errs = append(errs, fmt.Errorf("tool rule %d: %q is none of scope:NAME, group:NAME, principal:NAME, *", i+1, r.Grant))
		}
		if len(r.Allow)+len(r.Deny) == 0 {
			errs = append(errs, fmt.Errorf("tool rule %d: it neither allows nor denies anything", i+1))
		}
		for _, pattern := range slices.Concat(r.Allow, r.Deny) {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				errs = append(errs, fmt.Errorf("tool rule %d: %q is no pattern", i+1, pattern))
			}
		}
	}
	s.rules = s.ToolRules
	return errors.Join(errs...)
}

// classMark separates a principal from its class; no credential has it.
const classMark = "\x00"

// name returns the principal with its class: which rules are about it. Somebody who is not known stays nameless.
func (rules toolRules) name(principal string, grants []string) string {
	if len(rules) == 0 || principal == "" {
		return principal
	}
	class := classMark
	for i, r := range rules {
		if r.Grant == grantAll || r.Grant == grantPrincipal+principal || slices.Contains(grants, r.Grant) {
			class += strconv.Itoa(i) + ","
		}
	}
	return principal + class
}

// of returns the principal without its class, and the rules about it.
func (rules toolRules) of(name string) (principal string, about toolRules) {
	if len(rules) == 0 {
		return name, nil
	}
	principal, class, known := strings.Cut(name, classMark)
	for i, r := range rules {
		if known && strings.Contains(","+class, ","+strconv.Itoa(i)+",") || !known && r.Grant == grantAll {
			about = append(about, r)
		}
	}
	return principal, about
}

// allows reports whether these rules leave a caller that tool.
func (rules toolRules) allows(tool string) bool {
	allowed := false
	for _, r := range rules {
		if matches(r.Deny, tool) {
			return false
		}
		allowed = allowed || matches(r.Allow, tool)
	}
	return allowed
}

// matches reports whether one of the patterns is about a tool. A name may have slashes, which path.Match would treat
// as something else.
func matches(patterns []string, tool string) bool {
	tool = strings.ReplaceAll(tool, "/", "\x01")
	for _, p := range patterns {
		if ok, _ := path.Match(strings.ReplaceAll(p, "/", "\x01"), tool); ok {
			return true
		}
	}
	return false
}

// access returns next as each caller may use it: with the tools that the rules leave, and with nothing kept for others that
// was said to one caller.
func (s *settings) access(next exchange.Handler) exchange.Handler {
	if len(s.rules) == 0 && !s.Auth.enabled() {
		return next
	}
	return &accessHandler{next, s.rules}
}

type accessHandler struct {
	next  exchange.Handler
	rules toolRules
}

func (h *accessHandler) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	var about toolRules
	c.Principal, about = h.rules.of(c.Principal)
	s, err := h.next.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return &accessSession{Session: s, ruled: len(h.rules) > 0, about: about}, nil
}

// An accessSession is one caller's conversation.
type accessSession struct {
	exchange.Session
	ruled bool      // there are rules
	about toolRules // those about this caller
}

// Server returns what the server says of itself, for this caller only.
func (s *accessSession) Server() exchange.Server {
	server := s.Session.Server()
	server.Discover = private(server.Discover)
	return server
}

// Call refuses the tools that the caller does not have, as a server refuses one it does not know (2025-11-25 server/tools, Error
// Handling), and leaves them out of lists.
func (s *accessSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	if s.ruled && req.Method == "tools/call" {
		if e := s.refuse(req.Params); e != nil {
			return exchange.Response{Error: e}, nil
		}
	}
	resp, err := s.Session.Call(ctx, req, back)
	if err != nil || resp.Error != nil {
		return resp, err
	}
	if s.ruled && req.Method == "tools/list" {
		resp.Result = s.filter(resp.Result)
	}
	resp.Result = private(resp.Result)
	return resp, nil
}

// refuse returns the error of a call of a tool that the caller does not have, nil if it has it. params are CallToolRequestParams.
// Some servers take a member for name that is written otherwise, Name say: it must not name another tool.
func (s *accessSession) refuse(params []byte) *exchange.Error {
	tool, ok := jsonrpc.String(jsonrpc.Get(params, "name"))
	jsonrpc.Members(params, func(name string, _ []byte) bool {
		ok = ok && (name == "name" || !strings.EqualFold(name, "name"))
		return ok
	})
	switch {
	case !ok:
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "Invalid params: name must be there once, and a string")
	case !s.about.allows(tool):
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "Unknown tool: %.128s", tool)
	}
	return nil
}

// filter returns a ListToolsResult without the tools that the caller does not have. The others stay as they are, byte for byte.
func (s *accessSession) filter(result []byte) []byte {
	tools := jsonrpc.Get(result, "tools")
	kept, dropped := []byte{'['}, false
	jsonrpc.Elements(tools, func(tool []byte) bool {
		name, ok := jsonrpc.String(jsonrpc.Get(tool, "name"))
		if !ok || !s.about.allows(name) {
			dropped = true
			return true
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(kept, tool...)
		return true
	})
	lists := 0
	jsonrpc.Members(result, func(name string, _ []byte) bool {
		if name == "tools" {
			lists++
		}
		return true
	})
	if !dropped && lists < 2 { // clients may read a second one
		return result
	}
	return jsonrpc.Set(result, append(kept, ']'), "tools")
}

// private returns a result that may be kept for its caller only (translation.md 5, T8): what the server takes for everybody's was
// said to somebody who is known.
func private(result []byte) []byte {
	if scope, _ := jsonrpc.String(jsonrpc.Get(result, "cacheScope")); scope != "public" {
		return result
	}
	return jsonrpc.Set(result, []byte(`"private"`), "cacheScope")
}
