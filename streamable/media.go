package streamable

import (
	"mime"
	"net/http"
	"strings"
)

const (
	mediaJSON   = "application/json"
	mediaStream = "text/event-stream"
)

// accepted tells which of the two media types the Accept header lines admit (RFC 9110, section 12.5.1).
// Ranges, and a header that is absent or empty, admit what they cover; a quality of zero admits nothing.
func accepted(h http.Header) (json, stream bool) {
	lines := h["Accept"]
	any := false
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(item, ";")
			name = strings.TrimSpace(name)
			if name == "" {
				continue
			}
			any = true
			if refusedQuality(params) {
				continue
			}
			switch {
			case strings.EqualFold(name, mediaJSON), strings.EqualFold(name, "application/*"):
				json = true
			case strings.EqualFold(name, mediaStream), strings.EqualFold(name, "text/*"):
				stream = true
			case name == "*/*":
				json, stream = true, true
			}
		}
	}
	if !any {
		return true, true
	}
	return json, stream
}

// refusedQuality reports whether the parameters of a media range have a quality of zero.
func refusedQuality(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		key, v, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(key, "q") {
			return strings.Trim(v, "0.") == "" && strings.HasPrefix(v, "0")
		}
	}
	return false
}

// isJSON reports whether the body is said to be JSON in UTF-8 (RFC 9110, section 8.3).
func isJSON(h http.Header) bool {
	lines := h["Content-Type"]
	if len(lines) != 1 {
		return false
	}
	if lines[0] == mediaJSON {
		return true
	}
	name, params, err := mime.ParseMediaType(strings.TrimSpace(lines[0]))
	if err != nil || name != mediaJSON {
		return false
	}
	charset, ok := params["charset"]
	return !ok || strings.EqualFold(charset, "utf-8")
}

// isEncoded reports whether the body is said to be in a content coding (RFC 9110, section 8.4).
func isEncoded(h http.Header) bool {
	for _, coding := range h["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return true
		}
	}
	return false
}
