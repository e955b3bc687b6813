package upstream

// Pools reports whether clients of the handshake era share the sessions of a handshake-era server too (Options.Sharing), so that
// nothing that belongs to a session is one client's.
func (u *Upstream) Pools() bool { return u.o.pools() }

// Pools is that of an Upstream.
func (r *Remote) Pools() bool { return r.o.pools() }

func (o *Options) pools() bool { return o.Sharing == "pool" || o.Sharing == "shared" }
