package streamable

import (
	"strconv"
	"strings"
	"testing"
)

// FuzzEventID: an id that is read is one that this session could have written, but for zeros before a number, and no other session's.
func FuzzEventID(f *testing.F) {
	for _, id := range []string{
		"ABCDEF.1.0", "ABCDEF.18446744073709551615.18446744073709551615", "ABCDEF.18446744073709551616.0", "ABCDEF.-1.0", "ABCDEF.+1.0", "ABCDEF.1", "ABCDEF.1.", "ABCDEF..1",
		"ABCDEF.1.0.0", "ABCDEG.1.0", "ABCDE.1.0", "abcdef.1.0", "ABCDEF.007.010", "ABCDEF.1_0.0", "ABCDEF.0x1.0", " ABCDEF.1.0", "ABCDEF.1.0\n", "", ".", "ABCDEF.١.٢",
	} {
		f.Add(id)
	}
	own, other, shorter := &session{tag: "ABCDEF"}, &session{tag: "ABCDEG"}, &session{tag: "ABCDE"}
	f.Fuzz(func(t *testing.T, id string) {
		stream, event, ok := own.parseEventID(id)
		if !ok {
			return
		}
		rest, found := strings.CutPrefix(id, "ABCDEF.")
		numbers := strings.Split(rest, ".")
		if !found || len(numbers) != 2 {
			t.Fatalf("%q is read", id)
		}
		for i, n := range numbers {
			numbers[i] = strings.TrimLeft(n, "0")
			if numbers[i] == "" {
				numbers[i] = "0"
			}
		}
		if got, want := own.prefix(stream)+strconv.FormatUint(event, 10), "ABCDEF."+strings.Join(numbers, "."); got != want {
			t.Errorf("%q is read as %q, want %q", id, got, want)
		}
		for _, s := range []*session{other, shorter} {
			if _, _, ok := s.parseEventID(id); ok {
				t.Errorf("%q is an id of the session %s, too", id, s.tag)
			}
		}
	})
}
