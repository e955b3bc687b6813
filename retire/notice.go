package retire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Links are what refusals and headers name.
type Links struct {
	Successor string // absolute URL of the Streamable HTTP endpoint, as this client sees it
	Docs      string // absolute URL of the migration guide, may be empty
	Policy    string // absolute URL of the sunset policy, may be empty
}

// Names of the header fields that Header writes.
const (
	headerDeprecation = "Deprecation" // RFC 9745: a structured date
	headerSunset      = "Sunset"      // RFC 8594: an HTTP date
	headerLink        = "Link"        // RFC 8288
	headerExpose      = "Access-Control-Expose-Headers"
)

// Header writes Deprecation, Sunset, Link and Access-Control-Expose-Headers from announce on (retirement.md R6), and nothing before.
// A date that is not decided is left out. It belongs on the legacy routes only: the scope is the resource.
func (s *State) Header(h http.Header, l Links) {
	if !s.Stage.Reached(Announce) {
		return
	}
	var names []string
	if since := s.deprecated(); !since.IsZero() {
		h.Set(headerDeprecation, "@"+strconv.FormatInt(since.Unix(), 10))
		names = append(names, headerDeprecation)
	}
	if !s.Sunset.IsZero() {
		h.Set(headerSunset, s.Sunset.UTC().Format(http.TimeFormat))
		names = append(names, headerSunset)
	}
	var links []string
	for _, link := range []struct{ target, params string }{
		{l.Successor, `; rel="successor-version"`},
		{l.Docs, `; rel="deprecation"; type="text/html"`},
		{l.Policy, `; rel="sunset"; type="text/html"`},
	} {
		if link.target != "" && !strings.ContainsFunc(link.target, notInLink) {
			links = append(links, "<"+link.target+">"+link.params)
		}
	}
	if len(links) > 0 {
		h.Add(headerLink, strings.Join(links, ", "))
		names = append(names, headerLink)
	}
	if len(names) > 0 {
		h.Add(headerExpose, strings.Join(names, ", "))
	}
}

// notInLink says what ends or breaks a URI reference in a Link field.
func notInLink(r rune) bool { return r <= ' ' || r >= 0x7f || r == '<' || r == '>' || r == '"' }

// deprecated returns since when the routes are deprecated, the zero time if that is not known.
func (s *State) deprecated() time.Time {
	if s.Deprecation.IsZero() {
		return s.Since
	}
	return s.Deprecation
}

// MaxSentence bounds the text of a refusal, in bytes (retirement.md R3).
const MaxSentence = 240

// Sentence is what clients are told, at most MaxSentence bytes: why d refuses, or at the stages before that what is to come (the notice
// of R7). It names the absolute new URL and the guide as long as that fits, the new URL first.
func (s *State) Sentence(d Decision, l Links) string {
	const transport = "The HTTP+SSE transport (MCP 2024-11-05) "
	head := transport + "is no longer served here"
	switch {
	case d.Code == http.StatusServiceUnavailable:
		head = transport + "is switched off here for a test until " + d.RetryAt.UTC().Format(time.RFC3339)
	case !d.Refuse && !d.Tombstone && !s.Sunset.IsZero():
		head = transport + "ends here on " + s.Sunset.UTC().Format(time.DateOnly)
	case !d.Refuse && !d.Tombstone:
		head = transport + "is deprecated here and will end"
	}
	head += "; connect with Streamable HTTP to "
	if l.Docs != "" {
		if text := head + l.Successor + " instead, see " + l.Docs + "."; len(text) <= MaxSentence {
			return text
		}
	}
	for _, to := range []string{l.Successor, "the path " + pathOf(l.Successor)} {
		if text := head + to + " instead."; len(text) <= MaxSentence {
			return text
		}
	}
	return head + "the URL in the Link header instead."
}

func pathOf(successor string) string {
	u, err := url.Parse(successor)
	if err != nil {
		return "/"
	}
	return u.EscapedPath()
}

// Data is the data member of a refusal, raw JSON: {"stage", "sunset"?, "successor", "docs"?, "retryAt"?} (retirement.md R3), strings all;
// the times are RFC 3339.
func (s *State) Data(d Decision, l Links) []byte {
	data := struct {
		Stage     Stage     `json:"stage"`
		Sunset    time.Time `json:"sunset,omitzero"`
		Successor string    `json:"successor"`
		Docs      string    `json:"docs,omitempty"`
		RetryAt   time.Time `json:"retryAt,omitzero"`
	}{s.Stage, s.Sunset.UTC(), l.Successor, l.Docs, d.RetryAt.UTC()}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(data); err != nil {
		panic("retire: a checked state cannot be written: " + err.Error()) // only years beyond 9999 could
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
