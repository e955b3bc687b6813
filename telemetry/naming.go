package telemetry

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// Privacy says how much of a client's address is kept.
type Privacy string

// Privacy modes.
const (
	PrivacyPrefix Privacy = "prefix" // the /24 or /48 (the default)
	PrivacyFull   Privacy = "full"   // the address
	PrivacyHash   Privacy = "hash"   // a keyed hash of the prefix
	PrivacyOff    Privacy = "off"    // nothing
)

func (p Privacy) known() bool {
	return p == PrivacyPrefix || p == PrivacyFull || p == PrivacyHash || p == PrivacyOff
}

// Bits of an address that are kept by default (retirement.md 4).
const (
	prefixBits4 = 24
	prefixBits6 = 48
)

// namer makes the ids of identities.
type namer struct {
	privacy Privacy
	key     []byte // of the hashes
}

// An ident is who an identity is. The id is unique by itself: "sub:HASH" for a principal, "NAME@PREFIX;AGENT" for a client and
// "@PREFIX;AGENT" for an address, where neither PREFIX nor AGENT has a semicolon or an at sign; "other@PREFIX" for those of a prefix
// that found no room.
type ident struct{ id, kind, prefix, agent string }

// A caller is the parts of a client that identify it. name is clean.
type caller struct {
	principal, name string
	addr            netip.Addr
	userAgent       string
}

// ident returns the identity of c by the first key that applies (retirement.md 4).
func (n *namer) ident(c caller) ident {
	out := ident{prefix: n.prefix(c.addr), agent: agentFamily(c.userAgent)}
	switch {
	case c.principal != "" && c.name != probeName: // which is no use by that principal
		out.id, out.kind = "sub:"+n.hash(c.principal), KindPrincipal
		out.agent = "" // a principal may have several
	case c.name != "":
		out.id, out.kind = c.name+"@"+out.prefix+";"+out.agent, KindClient
	default:
		out.id, out.kind = "@"+out.prefix+";"+out.agent, KindAddress
	}
	return out
}

// rest is the identity of all those of the prefix of who for which there is no room.
func (who ident) rest() ident {
	return ident{id: "other@" + who.prefix, kind: KindOther, prefix: who.prefix}
}

// short returns the id without the agent, as people write it.
func (who ident) short() string {
	id, _, _ := strings.Cut(who.id[strings.LastIndexByte(who.id, '@')+1:], ";")
	return who.id[:strings.LastIndexByte(who.id, '@')+1] + id
}

// aliases returns every id that means who, the surest first. A network or an exemption by name never means a principal.
func (who ident) aliases() []string {
	switch who.kind {
	case KindPrincipal, KindOther:
		return []string{who.id}
	}
	ids := []string{who.id, who.short()}
	if who.kind == KindClient {
		address := "@" + who.prefix
		ids = append(ids, address+";"+who.agent, address)
	}
	return ids
}

// prefix returns what is kept of an address.
func (n *namer) prefix(a netip.Addr) string {
	if !a.IsValid() || n.privacy == PrivacyOff {
		return ""
	}
	a = a.Unmap().WithZone("")
	if n.privacy == PrivacyFull {
		return a.String()
	}
	bits := prefixBits4
	if a.Is6() {
		bits = prefixBits6
	}
	p, err := a.Prefix(bits)
	if err != nil {
		panic("prefix of a valid address: " + err.Error())
	}
	if n.privacy == PrivacyHash {
		return "h:" + n.hash(p.String())
	}
	return p.String()
}

// hashHex is how many hexadecimal digits of a hash are kept: enough that 10 000 identities do not meet.
const hashHex = 12

func (n *namer) hash(s string) string {
	m := hmac.New(sha256.New, n.key)
	m.Write([]byte(s))
	return hex.EncodeToString(m.Sum(nil))[:hashHex]
}

// agentFamily reduces a User-Agent to the name of its first product (RFC 9110, 10.1.5), without the version.
func agentFamily(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool { return r == '/' || r == ' ' || r == ';' || r == '@' || r == '(' })
	if end >= 0 {
		s = s[:end]
	}
	return clean(s)
}

// IDs returns the ids of the identity that c belongs to, the surest first: an exemption that names one of them is for c. Before
// initialize c has no Info, and only its principal or its address counts.
func (l *Ledger) IDs(c exchange.Client) []string {
	name, _, _ := readInfo(c.Info)
	return l.naming.ident(caller{c.Principal, name, c.Addr, c.UserAgent}).aliases()
}

// keyBytes is the length of the key of the hashes.
const keyBytes = 32

// loadKey returns the key of the hashes of a ledger file: that of FILE.key beside it, which is made if there is none. Whoever has it can
// tell whether a principal is in the ledger, so it is readable for its owner only.
func loadKey(file string) ([]byte, error) {
	if file == "" {
		return newKey(), nil
	}
	file += ".key"
	for range 100 {
		text, err := os.ReadFile(file) // #nosec G304 -- below the state folder
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := writeKey(file, newKey()); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, fmt.Errorf("make the key of the ledger: %w", err)
			}
			continue // another server may have been faster
		case err != nil:
			return nil, fmt.Errorf("read the key of the ledger: %w", err)
		}
		key, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err == nil && len(key) == keyBytes {
			return key, nil
		}
		return nil, fmt.Errorf("the key of the ledger, %s, is not %d hexadecimal digits; put it back from a backup, or delete it and have every principal counted as a new one", file, 2*keyBytes)
	}
	return nil, fmt.Errorf("the key of the ledger, %s, appears and disappears", file)
}

func newKey() []byte {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	return key
}

// writeKey makes the file with all of its content at once, so that nobody reads a half of it. The error is fs.ErrExist if there is one.
func writeKey(file string, key []byte) error {
	temporary := fmt.Sprintf("%s.%d.tmp", file, time.Now().UnixNano())
	if err := os.WriteFile(temporary, []byte(hex.EncodeToString(key)+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(temporary)
	return os.Link(temporary, file) // unlike a rename this never replaces one
}
