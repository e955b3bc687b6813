package translate

import (
	"encoding/binary"
	"time"
)

// The methods that may suspend (translation.md 7.3.9), by their number in a token.
var suspendable = [...]string{1: "tools/call", 2: "prompts/get", 3: "resources/read"}

// methodNumber returns the number of a method that may suspend, 0 for the others.
func methodNumber(method string) byte {
	for n, m := range suspendable {
		if m == method && n > 0 {
			return byte(n)
		}
	}
	return 0
}

// room returns how many bytes append needs at most.
func (t *token) room() int {
	return 2 + 8 + len(t.principal) + len(t.digest) + len(t.call) + 3*binary.MaxVarintLen64 + len(t.upstream) + len(t.owner) + len(t.inner)
}

// append appends the plaintext: kind, method, exp, principal, digest, call, round, upstream, owner, inner.
func (t *token) append(dst []byte) []byte {
	dst = append(dst, byte(t.kind), methodNumber(t.method))
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.exp.Unix())) // #nosec G115 -- read back by the reverse
	dst = append(dst, t.principal[:]...)
	dst = append(dst, t.digest[:]...)
	dst = append(dst, t.call[:]...)
	dst = binary.AppendUvarint(dst, t.round)
	dst = binary.AppendUvarint(dst, uint64(len(t.upstream)))
	dst = append(dst, t.upstream...)
	dst = binary.AppendUvarint(dst, uint64(len(t.owner)))
	dst = append(dst, t.owner...)
	return append(dst, t.inner...)
}

// readToken reads what append wrote.
func readToken(plain []byte) (t *token, ok bool) {
	r := tokenReader{rest: plain}
	t = &token{}
	head := r.take(2)
	exp := r.take(8)
	copy(t.principal[:], r.take(len(t.principal)))
	copy(t.digest[:], r.take(len(t.digest)))
	copy(t.call[:], r.take(len(t.call)))
	t.round = r.number()
	t.upstream = string(r.take(int(min(r.number(), maxInner))))
	t.owner = string(r.take(int(min(r.number(), maxInner))))
	if r.short || head[0] < byte(kindSuspend) || head[0] > byte(kindJournal) || head[1] == 0 || int(head[1]) >= len(suspendable) {
		return nil, false
	}
	t.kind, t.method = tokenKind(head[0]), suspendable[head[1]]
	t.exp = time.Unix(int64(binary.BigEndian.Uint64(exp)), 0) // #nosec G115 -- what this bridge wrote: the seal is checked
	t.inner = r.rest
	return t, true
}

// A tokenReader takes fields off the front of a plaintext.
type tokenReader struct {
	rest  []byte
	short bool // something was missing
}

func (r *tokenReader) take(n int) []byte {
	if n > len(r.rest) {
		r.short = true
		return nil
	}
	field := r.rest[:n]
	r.rest = r.rest[n:]
	return field
}

func (r *tokenReader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.short = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}
