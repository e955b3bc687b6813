package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

func TestReadEnds(t *testing.T) {
	for _, test := range []struct {
		name, head, tail string
		id               string
		method           bool
	}{
		{"id first", `{"jsonrpc":"2.0","id":7,"result":{"a":`, `}`, "7", false},
		{"id last", `{"jsonrpc":"2.0","result":{"id":3,`, `"x"},"id":7}`, "7", false},
		{"id of a nested object at the end", `{"jsonrpc":"2.0","result":{"x":`, `{"id":7}}}`, "", false},
		{"id in a string at the end", `{"jsonrpc":"2.0","result":{"x":`, `,\"id\":7}"}`, "", false},
		{"string id", `{"id":"a","result":`, ``, `"a"`, false},
		{"request", `{"jsonrpc":"2.0","id":7,"method":"m","params":{`, `}}`, "7", true},
		{"request with its id last", `{"jsonrpc":"2.0","method":"m","params":{`, `},"id":7}`, "", true},
		{"no object", `["id",1`, `,"id":7}`, "", false},
		{"empty", ``, ``, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := readEnds([]byte(test.head), []byte(test.tail))
			if string(e.id) != test.id || e.method != test.method {
				t.Errorf("got id %q, method %t, want id %q, method %t", e.id, e.method, test.id, test.method)
			}
		})
	}
}

// The lines are those that splitting by LF gives, however the input comes in pieces; those over the
// limit say how long they were and what they begin and end with.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\n\r\n{}\r\r\nlast"), 10)
	f.Add([]byte(strings.Repeat("x", 5000)+"\nnext\n"), 4990)
	f.Add([]byte(strings.Repeat("0123456789", 500)+"\r\nnext\n"), 20)
	f.Add([]byte("a\u2028b\u2029c\u0085d\x0be\n"), 100)
	f.Fuzz(func(t *testing.T, input []byte, limit int) {
		if limit < 1 || limit > 1<<20 {
			return
		}
		for _, buffer := range []int{16, 64 << 10} { // lines in pieces, and in one
			r := &lineReader{r: bufio.NewReaderSize(iotest.HalfReader(bytes.NewReader(input)), buffer), max: limit}
			checkLines(t, r, input, limit)
		}
	})
}

func checkLines(t *testing.T, r *lineReader, input []byte, limit int) {
	parts := bytes.Split(input, []byte("\n"))
	for _, part := range parts[:len(parts)-1] {
		want := bytes.TrimSuffix(part, []byte("\r"))
		got, err := r.next()
		if long, ok := errors.AsType[*longLine](err); ok {
			if len(part) <= limit {
				t.Fatalf("line of %d bytes is over the limit %d", len(part), limit)
			}
			if head := chomp(long.head); !bytes.HasPrefix(want, head) || !bytes.HasSuffix(want, long.tail) || long.size != len(part)+1 {
				t.Fatalf("got head %.40q, tail %.40q, size %d of a line of %d", long.head, long.tail, long.size, len(part))
			}
			if len(long.tail) != min(len(want), endBytes) {
				t.Fatalf("got %d bytes of the tail of a line of %d", len(long.tail), len(want))
			}
			continue
		}
		if err != nil || len(part) > limit || !bytes.Equal(got, want) {
			t.Fatalf("got %.40q, %v, want %.40q", got, err, want)
		}
	}
	if _, err := r.next(); err == nil {
		t.Fatal("got a line after the last LF")
	}
}

// An id is found only where the whole message has it.
func FuzzReadEnds(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","result":{"a":"x"},"id":7}`), 20)
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"result":{"id":8}}`), 30)
	f.Add([]byte(`{"id":1,"method":"x","params":{"id":"\",\"id\":3}"}}`), 12)
	f.Fuzz(func(t *testing.T, line []byte, cut int) {
		m, err := jsonrpc.Scan(line)
		if err != nil || cut < 0 || cut > len(line) {
			return
		}
		e := readEnds(line[:cut], line[cut:])
		if e.id != nil && !bytes.Equal(e.id, m.ID) && !(m.ID == nil && jsonrpc.IsNull(e.id)) {
			t.Fatalf("got id %s, want %s", e.id, m.ID)
		}
		if e.method && m.Kind == jsonrpc.Response {
			t.Fatal("a response was taken for a request")
		}
	})
}
