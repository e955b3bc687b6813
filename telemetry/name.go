package telemetry

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxRunes = 64 // of every string that is kept

	// The throw-away client of mcp-remote (clients.md 10).
	probeName = "mcp-remote-fallback-test"

	viaRemote = " (via mcp-remote "
)

// readInfo returns the clean name and version of a raw Implementation object ({name, version}, every
// revision) and, if the name says "NAME (via mcp-remote VERSION)", NAME and the proxy "mcp-remote VERSION".
// What is missing or not a string is empty.
func readInfo(info []byte) (name, version, proxy string) {
	// A map, because encoding/json takes a struct's field names in any case.
	var members map[string]json.RawMessage
	if len(info) == 0 || json.Unmarshal(info, &members) != nil {
		return "", "", ""
	}
	name, proxy = splitProxy(text(members["name"]))
	return clean(name), clean(text(members["version"])), clean(proxy)
}

func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// splitProxy takes mcp-remote's addition off a name.
func splitProxy(name string) (client, proxy string) {
	i := strings.LastIndex(name, viaRemote)
	if i < 0 || !strings.HasSuffix(name, ")") {
		return name, ""
	}
	return name[:i], "mcp-remote " + name[i+len(viaRemote):len(name)-1]
}

// clean returns s without anything that could hide, turn around or break a line of a report: valid
// UTF-8, no control, format (bidi) and unassigned characters, every kind of space a blank, none at the
// ends, at most 64 runes. It does not share memory with s unless it is s.
func clean(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	n := 0
	for len(s) > 0 && n < maxRunes {
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		switch {
		case r == utf8.RuneError && size == 1:
			continue
		case unicode.Is(unicode.Zs, r):
			r = ' '
		case !unicode.IsPrint(r):
			continue
		}
		if r == ' ' && n == 0 {
			continue
		}
		b.WriteRune(r)
		n++
	}
	return strings.TrimRight(b.String(), " ")
}

// plain reports whether s is clean at first sight: short printable ASCII without blanks.
func plain(s string) bool {
	if len(s) > maxRunes {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// probe reports whether the row is of a program's test connection and no client in use (retirement.md R9).
func (k key) probe() bool { return k.name == probeName }
