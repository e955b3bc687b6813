package upstream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mcp-dualstack/bridge/internal/sse"
)

func TestEventTapEnds(t *testing.T) {
	large := strings.Repeat("x", 200_000)
	for name, test := range map[string]string{
		"id first": "event: message\ndata: {\"id\":4,\"result\":{\"x\":\"" + large + "\"}}\n\n",
		"id last":  "event: message\ndata: {\"result\":{\"x\":\"" + large + "\"},\"id\":4}\n\n",
		"CRLF":     "event: message\r\ndata: {\"result\":{\"x\":\"" + large + "\"},\"id\":4}\r\n\r\n",
		"CR":       "data: {\"result\":{\"x\":\"" + large + "\"},\"id\":4}\revent: message\r\r",
		"no space": "data:{\"id\":4,\"result\":{\"x\":\"" + large + "\"}}\nid: 1\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			tap := newEventTap(strings.NewReader("data: {\"id\":3,\"result\":{}}\n\n"+test+"data: {\"id\":5,\"result\":{}}\n\n"), nil)
			r := sse.NewReader(tap, 1000)
			for i, want := range []error{nil, sse.ErrTooLong, nil, io.EOF} {
				_, err := r.Next()
				if !errors.Is(err, want) {
					t.Fatalf("event %d: got %v, want %v", i, err, want)
				}
				if err == sse.ErrTooLong { //nolint:errorlint // as Next returns it
					l := tap.longLine()
					if e := readEnds(l.head, l.tail); string(e.id) != "4" || e.method {
						t.Errorf("got id %q of %.40q ... %.40q", e.id, l.head, last(l.tail))
					}
				}
			}
		})
	}
}

// FuzzEventTap: a tap changes nothing, whatever the pieces that the stream comes in.
func FuzzEventTap(f *testing.F) {
	for _, seed := range []string{"", "data: x\n\n", "event: a\r\ndata: b\r\n\r\ndata: c\r\rdata: d\n\r\n", ": c\n\n\n\nid: 1\n\n", "\ufeffdata: x\n\nda", "data: " + strings.Repeat("y", 20_000) + "\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, r := range []io.Reader{bytes.NewReader(text), iotest.OneByteReader(bytes.NewReader(text)), iotest.DataErrReader(bytes.NewReader(text))} {
			tap := newEventTap(r, nil)
			got, err := io.ReadAll(tap)
			if err != nil || !bytes.Equal(got, text) {
				t.Fatalf("got %q, %v, want %q", got, err, text)
			}
		}
		plain, tapped := sse.NewReader(bytes.NewReader(text), 50), sse.NewReader(newEventTap(bytes.NewReader(text), nil), 50)
		for {
			want, wantErr := plain.Next()
			got, err := tapped.Next()
			if !errors.Is(err, wantErr) || got.Name != want.Name || got.ID != want.ID || !bytes.Equal(got.Data, want.Data) {
				t.Fatalf("got %v, %v, want %v, %v", got, err, want, wantErr)
			}
			if err != nil && !errors.Is(err, sse.ErrTooLong) {
				return
			}
		}
	})
}
