package negotiate_test

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/mcp-dualstack/bridge/negotiate"
)

// The rows are those of 2026-07-28 streamable-http, Value Encoding, and of SEP-2243, Value Encoding Edge Cases.
func TestEncodeValue(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"plain", "us-west1", "us-west1"},
		{"empty", "", ""},
		{"inner spaces", "us west 1", "us west 1"},
		{"inner tab", "a\tb", "a\tb"},
		{"last visible", "a~", "a~"},
		{"non-ascii", "Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{"non-ascii only", "日本語", "=?base64?5pel5pys6Kqe?="},
		{"padded", " padded ", "=?base64?IHBhZGRlZCA=?="},
		{"leading space", " us-west1", "=?base64?IHVzLXdlc3Qx?="},
		{"trailing space", "us-west1 ", "=?base64?dXMtd2VzdDEg?="},
		{"leading tab", "\tindented", "=?base64?CWluZGVudGVk?="},
		{"newline", "line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"carriage return", "line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="},
		{"delete", "a\x7f", "=?base64?YX8=?="},
		{"sentinel", "=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
		{"sentinel marks that overlap", "=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="},
		{"sentinel without end", "=?base64?SGVsbG8=", "=?base64?SGVsbG8="},
		{"upper-case sentinel", "=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="},
	}
	for _, tt := range tests {
		if got := EncodeValue(tt.value); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if got, ok := DecodeValue(tt.want); got != tt.value || !ok {
			t.Errorf("%s: decoded %q %v, want %q", tt.name, got, ok, tt.value)
		}
	}
}

func TestDecodeValueRefuses(t *testing.T) {
	tests := []struct{ name, value string }{
		{"raw utf-8", "世界"},
		{"control character", "a\x01b"},
		{"newline", "a\nb"},
		{"delete", "a\x7f"},
		{"no padding", "=?base64?SGVsbG8?="},
		{"stray characters", "=?base64?SGVs!!!bG8=?="},
		{"stray bits", "=?base64?SGVsbG9=?="},
		{"url alphabet", "=?base64?_-__?="},
		{"space inside", "=?base64?SGVs bG8=?="},
		{"payload not utf-8", "=?base64?/w==?="},
		{"marks that overlap", "=?base64?="},
	}
	for _, tt := range tests {
		if got, ok := DecodeValue(tt.value); got != "" || ok {
			t.Errorf("%s: got %q %v, want a refusal", tt.name, got, ok)
		}
	}
}

func TestHeaderNamesAreCanonical(t *testing.T) {
	for _, name := range []string{HeaderVersion, HeaderSession, HeaderMethod, HeaderName, HeaderParamPrefix, HeaderLastEventID} {
		if got := http.CanonicalHeaderKey(name); got != name {
			t.Errorf("got %s, want %s", name, got)
		}
	}
}

func FuzzValueRoundTrip(f *testing.F) {
	for _, s := range []string{"", "us-west1", " padded ", "世界", "a\r\nSet-Cookie: x", "=?base64?literal?=", "=?base64?=", "\t", "\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			s = strings.ToValidUTF8(s, "\uFFFD")
		}
		v := EncodeValue(s)
		for i := range len(v) {
			if c := v[i]; c != '\t' && (c < ' ' || c > '~') {
				t.Fatalf("EncodeValue(%q) has byte %#x, which no header may carry", s, c)
			}
		}
		if trimmed := strings.Trim(v, " \t"); trimmed != v {
			t.Fatalf("EncodeValue(%q) has outer blanks, which HTTP drops", s)
		}
		if got, ok := DecodeValue(v); got != s || !ok {
			t.Fatalf("DecodeValue(EncodeValue(%q)): got %q %v", s, got, ok)
		}
	})
}

// What DecodeValue accepts has one meaning: encoding it again and decoding that gives the same.
func FuzzDecodeValue(f *testing.F) {
	for _, s := range []string{"=?base64?SGVsbG8=?=", "=?base64?SGVsbG8?=", "=?base64?=", "plain", "=?base64??=", "=?base64?/w==?="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v string) {
		s, ok := DecodeValue(v)
		if !ok {
			return
		}
		if !utf8.ValidString(s) {
			t.Fatalf("DecodeValue(%q) is not UTF-8", v)
		}
		if strings.HasPrefix(v, "=?base64?") && strings.HasSuffix(v, "?=") && s == v {
			t.Fatalf("DecodeValue(%q) took a sentinel value as it stands", v)
		}
		if again, ok := DecodeValue(EncodeValue(s)); again != s || !ok {
			t.Fatalf("DecodeValue(%q): %q comes back as %q %v", v, s, again, ok)
		}
	})
}
