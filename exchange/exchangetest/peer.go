package exchangetest

import (
	"context"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A Peer records what it is told and answers what it is asked.
type Peer struct {
	Answer func(ctx context.Context, req exchange.Request) (exchange.Response, error) // nil: -32601

	mu    sync.Mutex
	notes []exchange.Request
	told  chan struct{}
}

// Call answers by the Answer field.
func (p *Peer) Call(ctx context.Context, req exchange.Request) (exchange.Response, error) {
	if p.Answer == nil {
		return exchange.Response{Error: &exchange.Error{Code: -32601, Message: "nobody asks me"}}, nil
	}
	return p.Answer(ctx, req)
}

// Notify records the note.
func (p *Peer) Notify(_ context.Context, note exchange.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, note)
	if p.told != nil {
		close(p.told)
		p.told = nil
	}
	return nil
}

// Notes returns what the peer has been told so far.
func (p *Peer) Notes() []exchange.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notes[:len(p.notes):len(p.notes)]
}

// Wait returns the notes when there are at least n of them, or those there are when ctx ends.
func (p *Peer) Wait(ctx context.Context, n int) []exchange.Request {
	for {
		p.mu.Lock()
		if len(p.notes) >= n {
			p.mu.Unlock()
			return p.Notes()
		}
		if p.told == nil {
			p.told = make(chan struct{})
		}
		told := p.told
		p.mu.Unlock()
		select {
		case <-told:
		case <-ctx.Done():
			return p.Notes()
		}
	}
}
