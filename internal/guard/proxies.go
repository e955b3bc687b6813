package guard

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/realclientip/realclientip-go"
)

// Proxies are the operator's own, whose word about where a request came from is believed. The zero value is none.
type Proxies struct {
	ranges   []netip.Prefix
	strategy realclientip.Strategy // nil without ranges
}

// NewProxies returns the proxies at the addresses and in the prefixes of a list, or an error that names every entry that is neither.
func NewProxies(list []string) (Proxies, error) {
	var p Proxies
	var errs []error
	for _, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			a, addrErr := netip.ParseAddr(text)
			if addrErr != nil || a.Zone() != "" {
				errs = append(errs, fmt.Errorf("trusted proxy: %q is neither an address nor a prefix such as 10.0.0.0/8", text))
				continue
			}
			prefix = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())
		}
		p.ranges = append(p.ranges, prefix.Masked())
	}
	if err := errors.Join(errs...); err != nil || len(p.ranges) == 0 {
		return Proxies{}, err
	}
	nets := make([]net.IPNet, len(p.ranges))
	for i, r := range p.ranges {
		nets[i] = net.IPNet{IP: r.Addr().AsSlice(), Mask: net.CIDRMask(r.Bits(), r.Addr().BitLen())}
	}
	strategy, err := realclientip.NewRightmostTrustedRangeStrategy("X-Forwarded-For", nets)
	if err != nil {
		return Proxies{}, fmt.Errorf("trusted proxies: %w", err)
	}
	p.strategy = strategy
	return p, nil
}

// Trusts reports whether a trusted proxy is at the other end of the connection of r.
func (p Proxies) Trusts(r *http.Request) bool {
	a := remoteAddr(r).WithZone("")
	for _, prefix := range p.ranges {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// Addr returns the client's address: the last of X-Forwarded-For that is none of the proxies', if one of these is at the other end
// of the connection. Where that header has no such address, or has nonsense in its place, it is the connection's.
func (p Proxies) Addr(r *http.Request) netip.Addr {
	if p.strategy == nil || !p.Trusts(r) {
		return remoteAddr(r).WithZone("")
	}
	a, err := netip.ParseAddr(p.strategy.ClientIP(r.Header, r.RemoteAddr))
	if err != nil {
		return remoteAddr(r).WithZone("")
	}
	return a.Unmap().WithZone("")
}
