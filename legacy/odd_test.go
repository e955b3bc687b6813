package legacy_test

import (
	"testing"
	"testing/synctest"
)

// What no client sends, but a proxy on the way may make of what it sends.
func TestOddMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := serve(t, &script{}, nil)
		c := connect(t, s).begin()
		for _, m := range []struct {
			name, query string
			header      []string
			want        int
		}{
			{"two ids", "&sessionId=other", nil, 400},
			{"gzip", "", []string{"Content-Encoding", "gzip"}, 415},
			{"identity", "", []string{"Content-Encoding", "identity"}, 202},
		} {
			if status, body := post(t, c.http, c.post+m.query, call9, m.header...); status != m.want {
				t.Errorf("%s: got %d %s, want %d", m.name, status, body, m.want)
			}
		}
	})
}
