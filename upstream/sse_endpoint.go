package upstream

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// resolveEndpoint returns the URL to POST to, from the data of an endpoint event and the URL that its stream came from: a
// relative reference or an absolute URL (RFC 3986, section 5). The origin stays that of base, with its user, unless
// anyOrigin. The error shows of the endpoint only its origin: the rest names the session.
func resolveEndpoint(base *url.URL, data string, anyOrigin bool) (*url.URL, error) {
	data = strings.TrimSpace(data)
	if data == "" {
		return nil, errNoEndpoint
	}
	if len(data) > maxEndpointBytes {
		return nil, errLongEndpoint
	}
	ref, err := url.Parse(data)
	if err != nil {
		return nil, errors.New("the endpoint event holds no URL")
	}
	u := base.ResolveReference(ref)
	u.Fragment, u.RawFragment = "", ""
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "" {
		return nil, errors.New("the endpoint event names no http or https URL")
	}
	if origin(u) == origin(base) {
		u.User, u.Host = base.User, base.Host
		return u, nil
	}
	if !anyOrigin {
		return nil, fmt.Errorf("the endpoint event names another origin, %s, which needs HTTPOptions.AllowOtherOrigin", origin(u))
	}
	u.User = nil
	return u, nil
}

var (
	errNoEndpoint   = errors.New("the endpoint event is empty")
	errLongEndpoint = errors.New("the URL of the endpoint event is longer than 64 KiB")
)

// origin returns scheme, host and port of u in one spelling (RFC 6454, section 4).
func origin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
