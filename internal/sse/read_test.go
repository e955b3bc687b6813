package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/internal/sse"
)

// seen is an event as a test states it.
type seen struct {
	ID, Name, Data string
	HasID, NoData  bool
	Retry          time.Duration
	TooLong        bool
}

// readAll reads to the end of the stream.
func readAll(tb testing.TB, r io.Reader, maxBytes int) []seen {
	tb.Helper()
	var all []seen
	sr := sse.NewReader(r, maxBytes)
	for {
		e, err := sr.Next()
		if err == io.EOF {
			return all
		}
		if err != nil && !errors.Is(err, sse.ErrTooLong) {
			tb.Fatal(err)
		}
		all = append(all, seen{e.ID, e.Name, string(e.Data), e.HasID, e.NoData, e.Retry, err != nil})
	}
}

func TestReader(t *testing.T) {
	tests := []struct {
		name, text string
		want       []seen
	}{
		{"data", "data: a\n\n", []seen{{Data: "a"}}},
		{"no blank after the colon", "data:a\n\n", []seen{{Data: "a"}}},
		{"one of two blanks", "data:  a\n\n", []seen{{Data: " a"}}},
		{"a tab stays", "data:\ta\n\n", []seen{{Data: "\ta"}}},
		{"several lines", "data: a\ndata:\ndata: b\ndata\n\n", []seen{{Data: "a\n\nb\n"}}},
		{"field without colon", "data\n\n", []seen{{}}},
		{"empty data", "data:\n\ndata: \n\n", []seen{{}, {}}},
		{"all fields", "id: 7\nevent: message\nretry: 1500\ndata: {}\n\n", []seen{{ID: "7", HasID: true, Name: "message", Retry: 1500 * time.Millisecond, Data: "{}"}}},
		{"fields after data", "data: {}\nevent: x\nid: 7\n\n", []seen{{ID: "7", HasID: true, Name: "x", Data: "{}"}}},
		{"nothing is carried over", "id: 1\nevent: x\ndata: a\n\ndata: b\n\n", []seen{{ID: "1", HasID: true, Name: "x", Data: "a"}, {Data: "b"}}},
		{"id and empty data", "id: 1\ndata:\n\n", []seen{{ID: "1", HasID: true}}},
		{"id alone", "id: 1\n\n", []seen{{ID: "1", HasID: true, NoData: true}}},
		{"empty id", "id\ndata: a\n\n", []seen{{HasID: true, Data: "a"}}},
		{"last of two ids", "id: 1\nid: 2\ndata: a\n\n", []seen{{ID: "2", HasID: true, Data: "a"}}},
		{"id with NUL", "id: 1\x00\ndata: a\n\n", []seen{{Data: "a"}}},
		{"id with NUL after another", "id: 1\nid: 2\x00\ndata: a\n\n", []seen{{ID: "1", HasID: true, Data: "a"}}},
		{"retry alone", "retry: 20\n\n", []seen{{Retry: 20 * time.Millisecond, NoData: true}}},
		{"retry with other characters", "retry: 1s\nretry: -1\nretry: +1\nretry:\nretry: 1.5\nretry:  1\ndata: a\n\n", []seen{{Data: "a"}}},
		{"retry beyond measure", "retry: 99999999999999999999999\n\n", []seen{{Retry: 9223372036854 * time.Millisecond, NoData: true}}},
		{"comments", ": hi\n\n:\ndata: a\n:data: b\n\n", []seen{{Data: "a"}}},
		{"name alone", "event: x\n\ndata: a\n\n", []seen{{Data: "a"}}},
		{"unknown fields", "foo: 1\nDATA: x\ndata : y\n data: z\nda\ndata: a\n\n", []seen{{Data: "a"}}},
		{"blank lines", "\n\n\ndata: a\n\n\n\n\ndata: b\n\n", []seen{{Data: "a"}, {Data: "b"}}},
		{"BOM", "\ufeffdata: a\n\n", []seen{{Data: "a"}}},
		{"BOM before a blank line", "\ufeff\ndata: a\n\n", []seen{{Data: "a"}}},
		{"only one BOM", "\ufeff\ufeffdata: a\n\ndata: b\n\n", []seen{{Data: "b"}}},
		{"BOM later", "\n\ufeffdata: a\n\ndata: \ufeffb\n\n", []seen{{Data: "\ufeffb"}}},
		{"cut off", "data: a\n\ndata: b\n", []seen{{Data: "a"}}},
		{"cut off in a line", "data: a\n\ndata: b", []seen{{Data: "a"}}},
		{"characters that end no line", "data: a\u2028b\u2029c\u0085d\ve\ff\n\n", []seen{{Data: "a\u2028b\u2029c\u0085d\ve\ff"}}},
		{"broken UTF-8 stays", "data: \xff\xed\xa0\n\n", []seen{{Data: "\xff\xed\xa0"}}},
		{"nothing", "", nil},
	}
	ends := map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"}
	for _, tt := range tests {
		for end, bytes := range ends {
			t.Run(tt.name+"/"+end, func(t *testing.T) {
				text := strings.ReplaceAll(tt.text, "\n", bytes)
				for name, r := range map[string]io.Reader{
					"whole":         strings.NewReader(text),
					"byte by byte":  iotest.OneByteReader(strings.NewReader(text)),
					"end with data": iotest.DataErrReader(strings.NewReader(text)),
				} {
					if diff := cmp.Diff(tt.want, readAll(t, r, 100)); diff != "" {
						t.Errorf("%s: -want +got\n%s", name, diff)
					}
				}
			})
		}
	}
}

func TestReaderMixedLineEnds(t *testing.T) {
	got := readAll(t, strings.NewReader("data: a\rdata: b\r\ndata: c\n\r\ndata: d\r\rdata: e\n\n\r\n\rdata: f\r\n\r"), 100)
	want := []seen{{Data: "a\nb\nc"}, {Data: "d"}, {Data: "e"}, {Data: "f"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestReaderLimit(t *testing.T) {
	big := strings.Repeat("x", 5000)
	tests := []struct {
		name, text string
		want       []seen
	}{
		{"at the limit", "data: 0123456789\n\n", []seen{{Data: "0123456789"}}},
		{"one over", "data: 0123456789a\n\ndata: b\n\n", []seen{{NoData: true, TooLong: true}, {Data: "b"}}},
		{"line breaks count", "data: 01234\ndata: 5678\n\ndata: 01234\ndata: 56789\n\n", []seen{{Data: "01234\n5678"}, {NoData: true, TooLong: true}}},
		{"empty lines count", strings.Repeat("data\n", 11) + "\n" + strings.Repeat("data\n", 12) + "\n",
			[]seen{{Data: "\n\n\n\n\n\n\n\n\n\n"}, {NoData: true, TooLong: true}}},
		{"far over", "id: 1\ndata: a\ndata: " + big + "\ndata: b\nevent: x\n\ndata: c\n\n",
			[]seen{{ID: "1", HasID: true, Name: "x", NoData: true, TooLong: true}, {Data: "c"}}},
		{"small data after is no event", "data: " + big + "\ndata: b\n\n\n", []seen{{NoData: true, TooLong: true}}},
		{"twice", "data: " + big + "\n\ndata: " + big + "\n\n", []seen{{NoData: true, TooLong: true}, {NoData: true, TooLong: true}}},
		{"cut off", "data: " + big, nil},
		{"comment of any length", ":" + big + "\ndata: a\n\n", []seen{{Data: "a"}}},
		{"unknown field of any length", "foo: " + big + "\n" + big + "\ndata: a\n\n", []seen{{Data: "a"}}},
		{"long retry", "retry: " + strings.Repeat("0", 5000) + "1\ndata: a\n\n", []seen{{Data: "a"}}},
		{"long id", "id: " + big + "\ndata: a\n\ndata: b\n\n", []seen{{NoData: true, TooLong: true}, {Data: "b"}}},
		{"longest id", "id: " + big[:4096] + "\ndata: a\n\n", []seen{{ID: big[:4096], HasID: true, Data: "a"}}},
		{"an id too long by one", "id: " + big[:4097] + "\ndata: a\n\n", []seen{{NoData: true, TooLong: true}}},
		{"long name", "event: " + big + "\nid: 1\ndata: a\n\n", []seen{{ID: "1", HasID: true, NoData: true, TooLong: true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"whole":        strings.NewReader(tt.text),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.text)),
			} {
				if diff := cmp.Diff(tt.want, readAll(t, r, 10)); diff != "" {
					t.Errorf("%s: -want +got\n%s", name, diff)
				}
			}
		})
	}
}

// A live reads what is in the channel and fails the test where a real connection would block.
type live struct {
	tb     testing.TB
	chunks []string
}

func (l *live) Read(p []byte) (int, error) {
	if len(l.chunks) == 0 {
		l.tb.Fatal("waits for bytes although the event is complete")
	}
	n := copy(p, l.chunks[0])
	l.chunks = l.chunks[1:]
	return n, nil
}

func TestReaderDispatchesAtOnce(t *testing.T) {
	for _, text := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r\n", "data: a\r\n\r", "data: a\n\r"} {
		e, err := sse.NewReader(&live{t, []string{text}}, 10).Next()
		if string(e.Data) != "a" || err != nil {
			t.Errorf("%q: got %q, %v", text, e.Data, err)
		}
	}
	// The LF of the last CRLF comes with the next event.
	r := sse.NewReader(&live{t, []string{"data: a\r\n\r", "\ndata: b\r\n\r", "\n", "data: c\r\r"}}, 10)
	for _, want := range []string{"a", "b", "c"} {
		e, err := r.Next()
		if string(e.Data) != want || err != nil {
			t.Errorf("got %q, %v, want %q", e.Data, err, want)
		}
	}
}

func TestReaderKeepsTheError(t *testing.T) {
	broken := errors.New("broken")
	r := sse.NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 10)
	if e, err := r.Next(); string(e.Data) != "a" || err != nil {
		t.Errorf("got %q, %v", e.Data, err)
	}
	for range 2 {
		if _, err := r.Next(); err != broken {
			t.Errorf("got %v, want %v", err, broken)
		}
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestReaderGivesUpWithoutProgress(t *testing.T) {
	if _, err := sse.NewReader(idle{}, 10).Next(); err != io.ErrNoProgress {
		t.Errorf("got %v", err)
	}
}

// A endless yields its text again and again.
type endless struct {
	text    string
	largest int // of the slices asked to fill
}

func (e *endless) Read(p []byte) (int, error) {
	e.largest = max(e.largest, len(p))
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.text)
	}
	return n, nil
}

func TestReaderMemoryIsBounded(t *testing.T) {
	const maxBytes = 10_000
	for name, text := range map[string]string{
		"data":    "data: xxxxx",
		"comment": ": xxxxxxxx",
		"lines":   "data\n",
		"names":   "event: x\n",
		"unknown": "xxxxxxxxx",
	} {
		src := &endless{text: text}
		sse.NewReader(io.LimitReader(src, 1<<20), maxBytes).Next()
		if src.largest > 4*maxBytes {
			t.Errorf("%s: reads up to %d bytes at once", name, src.largest)
		}
	}
}

// After a large event the stream waits with a small buffer again, at the latest after one more
// piece that needs no larger one.
func TestReaderLetsGoOfLargeBuffers(t *testing.T) {
	for name, tt := range map[string]struct {
		size  int
		after string
	}{
		"very large": {1 << 20, ""},
		"large":      {64 << 10, ": keep-alive\n\n"},
	} {
		event := strings.NewReader("data: " + strings.Repeat("x", tt.size) + "\n\n")
		after := strings.NewReader(tt.after)
		var sizes []int
		r := sse.NewReader(readerFunc(func(p []byte) (int, error) {
			sizes = append(sizes, len(p))
			if event.Len() > 0 {
				return event.Read(p)
			}
			return after.Read(p)
		}), 2<<20)
		if e, err := r.Next(); len(e.Data) != tt.size || err != nil {
			t.Fatalf("%s: got %d bytes, %v", name, len(e.Data), err)
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("%s: got %v", name, err)
		}
		if last := sizes[len(sizes)-1]; last != 1<<10 {
			t.Errorf("%s: waits with %d bytes", name, last)
		}
		if n := len(sizes); n > 20 {
			t.Errorf("%s: took %d reads", name, n)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
