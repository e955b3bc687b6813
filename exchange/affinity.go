package exchange

import "context"

// An Affinity travels in the ctx of a Session's Call where it matters which of several sessions of the server's serves it: a
// server that asked for a URL to be visited remembers that in the session in which it asked (translation.md 7.6). Handlers with
// one session for a conversation have no use for it.
type Affinity struct {
	Want   string // name of the session that is preferred; empty, or one that has ended: any will do
	Served string // set before Call returns to the name of the session that served it, if it has one
}

type affinityKey struct{}

// WithAffinity returns ctx with a, which belongs to one Call.
func WithAffinity(ctx context.Context, a *Affinity) context.Context {
	return context.WithValue(ctx, affinityKey{}, a)
}

// AffinityOf returns what WithAffinity put in, nil if nothing.
func AffinityOf(ctx context.Context) *Affinity {
	a, _ := ctx.Value(affinityKey{}).(*Affinity)
	return a
}
