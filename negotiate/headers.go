package negotiate

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// Header names, canonical form of net/http.
const (
	HeaderVersion     = "Mcp-Protocol-Version"
	HeaderSession     = "Mcp-Session-Id"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	HeaderParamPrefix = "Mcp-Param-"
	HeaderLastEventID = "Last-Event-Id"
)

const (
	sentinelPrefix = "=?base64?"
	sentinelSuffix = "?="
)

// EncodeValue returns s as a header value: itself if it is visible ASCII, space and tab without leading or trailing
// blanks and does not look like the sentinel, otherwise =?base64?...?= (2026-07-28 streamable-http, Value Encoding).
// s must be UTF-8, as every string out of JSON text is.
func EncodeValue(s string) string {
	if isFieldValue(s) && !looksEncoded(s) && s == strings.Trim(s, " \t") {
		return s
	}
	return sentinelPrefix + base64.StdEncoding.EncodeToString([]byte(s)) + sentinelSuffix
}

// DecodeValue is the reverse of EncodeValue; ok is false for illegal characters, bad base64 or a payload that is not UTF-8.
// The base64 must be padded and without stray bits, so that two spellings never stand for one value.
func DecodeValue(v string) (s string, ok bool) {
	if !isFieldValue(v) {
		return "", false
	}
	if !looksEncoded(v) {
		return v, true
	}
	payload, ok := strings.CutSuffix(v[len(sentinelPrefix):], sentinelSuffix)
	if !ok { // "=?base64?=", where the marks share a character
		return "", false
	}
	b, err := base64.StdEncoding.Strict().DecodeString(payload)
	if err != nil || !utf8.Valid(b) {
		return "", false
	}
	return string(b), true
}

// looksEncoded reports whether v starts and ends as the sentinel does.
func looksEncoded(v string) bool {
	return strings.HasPrefix(v, sentinelPrefix) && strings.HasSuffix(v, sentinelSuffix)
}

// isFieldValue reports whether v has visible ASCII, spaces and tabs only.
func isFieldValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; (c < ' ' && c != '\t') || c > '~' {
			return false
		}
	}
	return true
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2 (1*tchar).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
