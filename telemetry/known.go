package telemetry

import (
	_ "embed"
	"strings"

	"github.com/Masterminds/semver/v3"
)

//go:embed known_clients.txt
var knownText string

// A known is a row of the client table.
type known struct {
	name    string // as in the file
	minimum *semver.Version
	class   Class // ClassCapable or ClassCannot
	source  string
}

// readKnown reads a client table: lines of name, minimum version, class and source, with tabs between them. It panics on a line that is
// none, because the table is part of the program.
func readKnown(text string) []known {
	var out []known
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.Split(line, "\t")
		if len(words) != 4 || Class(words[2]) != ClassCapable && Class(words[2]) != ClassCannot {
			panic("client table: bad line: " + line)
		}
		out = append(out, known{words[0], semver.MustParse(words[1]), Class(words[2]), words[3]})
	}
	return out
}

// find returns what is known of the program that p names. A version that cannot be read is below every minimum.
func find(table []known, p person) (known, bool) {
	for _, k := range table {
		name, version := p.name, p.version
		if proxy, ok := strings.CutPrefix(k.name, "via "); ok {
			words := strings.Fields(p.proxy)
			if len(words) != 2 || words[0] != proxy {
				continue
			}
			name, version = k.name, words[1]
		}
		if name != k.name {
			continue
		}
		v, err := semver.NewVersion(strings.TrimSpace(version))
		if err == nil && !v.LessThan(k.minimum) {
			return k, true
		}
	}
	return known{}, false
}
