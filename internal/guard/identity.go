package guard

import (
	"context"
	"net/http"
	"time"
)

// An Identity is who sent a request. The zero value is a caller nobody has authenticated.
type Identity struct {
	// Principal names the caller: the issuer and the subject of a token, the name of a static one, the name in a
	// client certificate, or the hash of a token that somebody else checks. Empty: nobody was authenticated.
	Principal string
	// Grants are the caller's scopes and groups, as "scope:NAME" and "group:NAME".
	Grants []string
	// Expires is when the credential is worth nothing any more; zero: never, as far as is known.
	Expires time.Time

	revoked context.Context // ends when the credential is taken back; nil: that is never known
}

// Has reports whether the caller has that scope.
func (id Identity) Has(scope string) bool {
	for _, g := range id.Grants {
		if g == grantScope+scope {
			return true
		}
	}
	return false
}

// What the grants of an Identity begin with.
const (
	grantScope = "scope:"
	grantGroup = "group:"
)

// A caller is what Identify has found out about who sent a request.
type caller struct {
	id      Identity
	refused *refusal // why the caller may not use what Demand guards; nil: it may
}

type callerKey struct{}

func callerOf(r *http.Request) *caller {
	c, _ := r.Context().Value(callerKey{}).(*caller)
	return c
}

// Admitted reports whether Demand would let r in.
func Admitted(r *http.Request) bool {
	c := callerOf(r)
	return c == nil || c.refused == nil
}

// IdentityOf returns who sent r, as an Authenticator has found out. It is nobody as long as Demand would refuse r.
func IdentityOf(r *http.Request) Identity {
	c := callerOf(r)
	if c == nil || c.refused != nil {
		return Identity{}
	}
	return c.id
}
