package upstream

import (
	"bytes"
	"slices"
	"strings"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// A class is what a client of the pool can be asked, as one comparable text: capability words and
// extensions in order, a line each. Clients of one class are the same to the server
// (translation.md 12). The empty class can be asked nothing.
type class string

// The words of a class.
const (
	capForm     = "elicitation.form"
	capURL      = "elicitation.url"
	capRoots    = "roots"
	capSampling = "sampling"
	capContext  = "sampling.context"
	capTools    = "sampling.tools"
)

// extensionMark begins the line of an extension; its quoted id and its settings follow.
const extensionMark = "extension "

// classify reads a ClientCapabilities object of any revision. Capabilities named in masked do not
// count: words of a class, "elicitation" and "sampling" as a whole, or ids of extensions. An
// elicitation object that names no mode means form.
func classify(capabilities []byte, masked []string) class {
	var lines []string
	add := func(declared bool, word string) {
		if declared && !isMasked(word, masked) {
			lines = append(lines, word)
		}
	}
	if e := jsonrpc.Get(capabilities, "elicitation"); jsonrpc.IsObject(e) {
		url := declares(e, "url")
		add(url, capURL)
		add(!url || declares(e, "form"), capForm)
	}
	if s := jsonrpc.Get(capabilities, "sampling"); jsonrpc.IsObject(s) {
		add(true, capSampling)
		add(declares(s, "context"), capContext)
		add(declares(s, "tools"), capTools)
	}
	add(declares(capabilities, "roots"), capRoots)
	lines = append(lines, extensionLines(jsonrpc.Get(capabilities, "extensions"), masked)...)
	slices.Sort(lines)
	return class(strings.Join(lines, "\n"))
}

// maxExtensions bounds what the extensions of a class may take, in bytes. A client that declares more
// counts as one without: its text is kept as long as a session of its class lives.
const maxExtensions = 16 << 10

// extensionLines returns a line for each member of a raw extensions object; of two with one id the first counts.
func extensionLines(extensions []byte, masked []string) []string {
	if len(extensions) > maxExtensions {
		return nil
	}
	var lines []string
	seen := make(map[string]struct{})
	jsonrpc.Members(extensions, func(id string, settings []byte) bool {
		_, again := seen[id]
		seen[id] = struct{}{}
		if !again && id != negotiate.ExtensionTasks && !slices.Contains(masked, id) {
			lines = append(lines, extensionLine(id, settings))
		}
		return true
	})
	return lines
}

func declares(obj []byte, name string) bool { return !jsonrpc.IsNull(jsonrpc.Get(obj, name)) }

// isMasked reports whether a word, or the capability that it is a part of, is hidden.
func isMasked(word string, masked []string) bool {
	whole, _, _ := strings.Cut(word, ".")
	return slices.Contains(masked, word) || slices.Contains(masked, whole)
}

// extensionLine holds the settings too: what is declared upstream is exactly what the client declared.
func extensionLine(id string, settings []byte) string {
	if !jsonrpc.IsObject(settings) {
		settings = []byte("{}")
	}
	return extensionMark + string(jsonrpc.Quote(id)) + string(jsonrpc.OneLine(settings))
}

// has reports whether a word is in the class.
func (c class) has(word string) bool {
	for line := range strings.SplitSeq(string(c), "\n") {
		if line == word {
			return true
		}
	}
	return false
}

// capabilities returns the ClientCapabilities of 2025-11-25 that declare the class. Roots may change: the
// pool says so when a session gets another client (translation.md 4).
func (c class) capabilities() []byte {
	caps := []byte("{}")
	if c == "" {
		return caps
	}
	for line := range strings.SplitSeq(string(c), "\n") {
		if extension, ok := strings.CutPrefix(line, extensionMark); ok {
			quoted, settings := cutQuoted(extension)
			id, _ := jsonrpc.String([]byte(quoted))
			caps = jsonrpc.Set(caps, []byte(settings), "extensions", id)
			continue
		}
		value := []byte("{}")
		if line == capRoots {
			value = []byte(`{"listChanged":true}`)
		}
		caps = jsonrpc.Set(caps, value, strings.Split(line, ".")...)
	}
	return caps
}

// cutQuoted cuts s behind the JSON string that it begins with.
func cutQuoted(s string) (quoted, rest string) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i+1], s[i+1:]
		}
	}
	return s, ""
}

// masking describes to a person what the options hide from the server, "" if nothing. It stands in the
// instructions that clients see (translation.md 12).
func (o *Options) masking() string {
	var text []string
	if len(o.MaskCapabilities) > 0 {
		text = append(text, "The bridge does not tell this server of these client capabilities, so it cannot use them: "+
			strings.Join(o.MaskCapabilities, ", ")+".")
	}
	if o.MayAsk != nil {
		text = append(text, "Only during these tools can this server ask something of the client: "+strings.Join(o.MayAsk, ", ")+".")
	}
	return strings.Join(text, " ")
}

// withNote returns instructions, a raw JSON string or nil, with a further paragraph.
func withNote(instructions []byte, note string) []byte {
	text, _ := jsonrpc.String(bytes.TrimSpace(instructions))
	if text != "" {
		text += "\n\n"
	}
	return jsonrpc.Quote(text + note)
}
