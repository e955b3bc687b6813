package bridge

import (
	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/translate"
	"github.com/mcp-dualstack/bridge/upstream"
)

// What Options configure of package translate.
type (
	SuspendOptions = translate.SuspendOptions
	DriveOptions   = translate.DriveOptions
	Cache          = translate.Cache
)

// A poolable server says whether handshake-era clients share its sessions, as the connectors of package upstream do.
type poolable interface{ Pools() bool }

// translation returns the options of what makes up serve clients of every era.
func (s *settings) translation(up exchange.Handler, observe func(exchange.Observation)) *translate.Options {
	o := &translate.Options{
		Logger: s.Logger, Info: s.info(), Suspend: s.Translation, Drive: s.Drive, Cache: s.Cache, Roots: s.Roots, Observe: observe, Wrap: s.Auth.enabled(),
	}
	_, o.UpstreamHTTP = up.(*upstream.Remote)
	if p, ok := up.(poolable); ok {
		o.Pooled = p.Pools()
	}
	if o.Drive.AskTimeout == 0 {
		o.Drive.AskTimeout = s.AskTimeout
	}
	o.Suspend.Bound = reporting(o.Suspend.Bound, observe)
	o.Drive.Bound = reporting(o.Drive.Bound, observe)
	return o
}

// reporting returns bound, which may be nil, as it also makes an observation.
func reporting(bound func(name string), observe func(exchange.Observation)) func(name string) {
	return func(name string) {
		if bound != nil {
			bound(name)
		}
		observe(exchange.Observation{Kind: exchange.SeenBound, Transport: exchange.StreamableHTTP, Detail: name})
	}
}

// Dropped records that a notification of the server's, which some client may have wanted, belonged to none for certain. It is for
// upstream.Options.Dropped.
func (b *Bridge) Dropped(method string) {
	b.observe(exchange.Observation{Kind: exchange.SeenDropped, Detail: method})
}
