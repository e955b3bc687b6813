package translate

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// salientDigest returns the SHA-256 of a request's params without _meta, inputResponses and requestState, in
// canonical form (translation.md 7.2). Nil and {} are one.
func salientDigest(params []byte) [sha256.Size]byte {
	params = jsonrpc.DeleteFunc(params, func(name string) bool {
		return name == "_meta" || name == "inputResponses" || name == "requestState"
	})
	return canonicalDigest(params)
}

// canonicalDigest returns the SHA-256 of the canonical form of checked JSON text. Nil counts as {}.
func canonicalDigest(text []byte) [sha256.Size]byte {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}")
	}
	return sha256.Sum256(appendCanonical(make([]byte, 0, len(text)), text))
}

// appendCanonical appends checked JSON text with the members of objects sorted by the bytes of their names, numbers as
// written, strings in one form of escapes, and no blanks. Members of one name keep their order.
func appendCanonical(dst, text []byte) []byte {
	c := canonical{in: text, out: dst}
	c.value()
	return c.out
}

type canonical struct {
	in  []byte
	pos int
	out []byte
}

// peek skips blanks and returns the byte there, 0 at the end.
func (c *canonical) peek() byte {
	for ; c.pos < len(c.in); c.pos++ {
		switch b := c.in[c.pos]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

func (c *canonical) value() {
	switch c.peek() {
	case '{':
		c.object()
	case '[':
		c.array()
	case '"':
		c.out = appendString(c.out, c.str())
	default:
		start := c.pos
		for c.pos < len(c.in) && bytes.IndexByte([]byte(" \t\r\n,]}"), c.in[c.pos]) < 0 {
			c.pos++
		}
		c.out = append(c.out, c.in[start:c.pos]...)
	}
}

// str consumes a string and returns it with its quotes.
func (c *canonical) str() []byte {
	start := c.pos
	for c.pos++; c.pos < len(c.in) && c.in[c.pos] != '"'; c.pos++ {
		if c.in[c.pos] == '\\' {
			c.pos++
		}
	}
	c.pos = min(c.pos+1, len(c.in))
	return c.in[start:c.pos]
}

func (c *canonical) array() {
	c.pos++
	c.out = append(c.out, '[')
	for first := true; ; first = false {
		switch c.peek() {
		case ']', 0:
			c.pos++
			c.out = append(c.out, ']')
			return
		case ',':
			c.pos++
		}
		if !first {
			c.out = append(c.out, ',')
		}
		c.value()
	}
}

// A canonicalMember is where a member lies in the output, with its name unescaped.
type canonicalMember struct {
	name       []byte
	start, end int
}

func (c *canonical) object() {
	c.pos++
	c.out = append(c.out, '{')
	begin := len(c.out)
	var space [8]canonicalMember
	members, sorted := space[:0], true
	for {
		b := c.peek()
		if b == '}' || b == 0 {
			c.pos++
			break
		}
		if b == ',' {
			c.pos++
			c.peek()
		}
		if len(members) > 0 {
			c.out = append(c.out, ',')
		}
		m := c.member()
		sorted = sorted && (len(members) == 0 || bytes.Compare(members[len(members)-1].name, m.name) <= 0)
		members = append(members, m)
	}
	if !sorted {
		c.sort(begin, members)
	}
	c.out = append(c.out, '}')
}

// member consumes a member and writes it.
func (c *canonical) member() canonicalMember {
	start := len(c.out)
	name := c.str()
	c.out = append(appendString(c.out, name), ':')
	name = name[1 : len(name)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, c.in[c.pos-len(name)-2:c.pos])
	}
	c.peek()
	c.pos++ // the colon
	c.value()
	return canonicalMember{name, start, len(c.out)}
}

// sort puts the members that were written from begin on in order, with commas between them.
func (c *canonical) sort(begin int, members []canonicalMember) {
	slices.SortStableFunc(members, func(a, b canonicalMember) int { return bytes.Compare(a.name, b.name) })
	sorted := make([]byte, 0, len(c.out)-begin)
	for i, m := range members {
		if i > 0 {
			sorted = append(sorted, ',')
		}
		sorted = append(sorted, c.out[m.start:m.end]...)
	}
	c.out = append(c.out[:begin], sorted...)
}

// appendString appends a raw JSON string in the one form of escapes. A lone surrogate, which is no character, keeps
// the string's escapes as they are.
func appendString(dst, raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return append(dst, raw...)
	}
	plain, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return append(dst, raw...)
	}
	dst, _ = jsontext.AppendQuote(dst, plain) // valid UTF-8
	return dst
}
