package bridge

import "testing"

// A session id is all that is needed to use a session, so logs have its beginning only.
func TestSessionIDsAreShortenedForLogs(t *testing.T) {
	for in, want := range map[string]string{"": "", "SHORT": "SHORT", "Q5KVUOT3MDGAGQ4V2UHXM2T5": "Q5KVUOT3"} {
		if got := shortened(in); got != want {
			t.Errorf("shortened(%q) = %q, want %q", in, got, want)
		}
	}
}
