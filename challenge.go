package bridge

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/guard"
)

// How long a challenge stands for what else its caller sends, and of how many callers it is remembered. A caller with another token is
// another caller.
const (
	challengeFor  = 30 * time.Second
	maxChallenges = 4096
)

// challenges are the 401 answers of the server behind, in pass-through mode, by the caller who got them. One that comes in
// the middle of a stream has no status of its own any more; the caller's next request gets it (report R46).
type challenges struct {
	mu sync.Mutex
	by map[string]challenged
}

type challenged struct {
	text string // WWW-Authenticate
	at   time.Time
}

// recent returns the challenge that a caller got a moment ago.
func (c *challenges) recent(principal string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.by[principal]
	if ok && time.Since(last.at) >= challengeFor {
		delete(c.by, principal)
		ok = false
	}
	return last.text, ok
}

func (c *challenges) add(principal, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.by) >= maxChallenges {
		for p, last := range c.by {
			if time.Since(last.at) >= challengeFor {
				delete(c.by, p)
			}
		}
	}
	if len(c.by) >= maxChallenges {
		return // the server behind says it again
	}
	if c.by == nil {
		c.by = map[string]challenged{}
	}
	c.by[principal] = challenged{text, time.Now()}
}

// challenging returns next with its challenges remembered, and leading to the bridge's own metadata document if there is one.
func (b *Bridge) challenging(next exchange.Handler) exchange.Handler {
	if !b.s.Auth.PassThrough {
		return next
	}
	return &challengeHandler{next, b.s, &b.challenges}
}

type challengeHandler struct {
	next exchange.Handler
	s    *settings
	seen *challenges
}

func (h *challengeHandler) Open(ctx context.Context, c exchange.Client) (exchange.Session, error) {
	s, err := h.next.Open(ctx, c)
	if err != nil {
		return nil, h.see(c, err)
	}
	return &challengeSession{s, h, c}, nil
}

type challengeSession struct {
	exchange.Session
	h *challengeHandler
	c exchange.Client
}

func (s *challengeSession) Call(ctx context.Context, req exchange.Request, back exchange.Peer) (exchange.Response, error) {
	resp, err := s.Session.Call(ctx, req, back)
	return resp, s.h.see(s.c, err)
}

// see takes note of a challenge. A 403 is about one request and not about the token.
func (h *challengeHandler) see(c exchange.Client, err error) error {
	f, ok := errors.AsType[*exchange.Failure](err)
	if !ok || f.Challenge == "" {
		return err
	}
	own := *f
	own.Challenge = h.rewrite(c, own.Challenge)
	if own.Status == http.StatusUnauthorized && c.Principal != "" {
		h.seen.add(c.Principal, own.Challenge)
	}
	return &own
}

var resourceMetadata = regexp.MustCompile(`resource_metadata="[^"]*"`)

// rewrite makes a challenge name the bridge's metadata document in the place of the server's, if there is one.
func (h *challengeHandler) rewrite(c exchange.Client, text string) string {
	if strings.ContainsAny(text, "\r\n") || len(h.s.servers()) == 0 {
		return text
	}
	resource := h.s.MCPPath
	if c.Transport == exchange.HTTPSSE {
		resource = h.s.SSEPath
	}
	own := `resource_metadata="` + h.s.publicURL.JoinPath(guard.WellKnown, resource).String() + `"` // #nosec G125 -- a path of the bridge's own
	return resourceMetadata.ReplaceAllLiteralString(text, own)
}
