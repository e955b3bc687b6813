package upstream

import (
	"strings"
	"testing"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"Listening on größe":            "Listening on größe",
		"a\tb":                          "a\tb",
		"a\x1b[2J\u009b2J\u202eb\u0085": "a\ufffd[2J\ufffd2J\ufffdb\ufffd",
		"a\u2028b\x00\r":                "a\ufffdb\ufffd\ufffd",
		"a\xffb":                        "a\ufffdb",
		strings.Repeat("x", 159) + "ü":  strings.Repeat("x", 159) + "\ufffd", // cut in the middle
	} {
		if got := printable([]byte(text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
