package sse_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/internal/sse"
)

// chunked reads in pieces whose sizes follow the bytes of plan.
type chunked struct {
	r    io.Reader
	plan []byte
	n    int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.plan) == 0 {
		return c.r.Read(p)
	}
	size := int(c.plan[c.n%len(c.plan)])
	c.n++
	return c.r.Read(p[:min(len(p), size+1)])
}

var oneLineEnd = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// What the writer wrote the reader reads, whatever the line ends and the pieces it arrives in.
func FuzzRoundTrip(f *testing.F) {
	f.Add("1", "message", []byte("{}"), int64(1500), false, []byte{0})
	f.Add("", "", []byte("a\r\nb\rc\n"), int64(0), false, []byte{3, 1})
	f.Add("x\x00", "a\nb", []byte("\u2028"), int64(-1), true, []byte(nil))
	f.Add("\ufeff", "\ufeff", []byte("\ufeff"), int64(-1), false, []byte(nil))
	f.Fuzz(func(t *testing.T, id, name string, data []byte, retryMillis int64, noData bool, plan []byte) {
		if len(id) > 4096 || len(name) > 4096 {
			t.Skip()
		}
		retryMillis = max(0, retryMillis%1e12)
		e := sse.Event{ID: id, Name: name, Data: data, NoData: noData, Retry: time.Duration(retryMillis) * time.Millisecond}
		wire := sse.AppendEvent(nil, e)
		wire = sse.AppendComment(wire, name)
		wire = sse.AppendEvent(wire, e)

		want := seen{Retry: e.Retry, NoData: noData}
		if id != "" && !strings.ContainsAny(id, "\r\n\x00") {
			want.ID, want.HasID = id, true
		}
		if !strings.ContainsAny(name, "\r\n") {
			want.Name = name
		}
		if !noData {
			want.Data = oneLineEnd.Replace(string(data))
		}
		wants := []seen{want, want}
		if noData && !want.HasID && want.Retry == 0 {
			wants = nil
		}
		for _, end := range []string{"\n", "\r\n", "\r"} {
			text := bytes.ReplaceAll(wire, []byte("\n"), []byte(end))
			got := readAll(t, &chunked{r: bytes.NewReader(text), plan: plan}, len(data))
			if !slices.Equal(wants, got) {
				t.Errorf("line end %q: -want +got\n%s", end, cmp.Diff(wants, got))
			}
		}
	})
}

// The reader agrees with the algorithm of the standard on any stream in any pieces.
func FuzzReader(f *testing.F) {
	f.Add([]byte("\ufeff: hi\r\nid: 1\rdata: a\ndata\n\nevent: x\r\n\r\n"), []byte{0}, 4)
	f.Add([]byte("data: 12345\ndata: 6\n\nretry: 5\n\n"), []byte{1, 30}, 5)
	f.Add([]byte("\xef\xbbdata: x\n\n"), []byte{}, 5)
	f.Add([]byte("eventual: x\nidx: 1\nid:\x00\ndata:a\n\n"), []byte{5}, 5)
	f.Fuzz(func(t *testing.T, text, plan []byte, maxBytes int) {
		want := byTheStandard(string(text), maxBytes)
		got := readAll(t, &chunked{r: bytes.NewReader(text), plan: plan}, maxBytes)
		if !slices.Equal(want, got) {
			t.Errorf("-want +got\n%s", cmp.Diff(want, got))
		}
	})
}

// byTheStandard is the algorithm of WHATWG HTML 9.2.6 on a whole text, with the limits and the
// additional events of this package.
func byTheStandard(text string, maxBytes int) []seen {
	const maxFieldBytes = 4 << 10
	text = strings.TrimPrefix(text, "\ufeff")
	text = oneLineEnd.Replace(text)
	lines := strings.Split(text, "\n")
	var all []seen
	var data []string
	e := seen{}
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			joined := strings.Join(data, "\n")
			e.TooLong = e.TooLong || len(data) > 0 && len(joined) > maxBytes
			e.NoData = len(data) == 0 || e.TooLong
			if !e.TooLong {
				e.Data = joined
			}
			if e.TooLong || len(data) > 0 || e.HasID || e.Retry > 0 {
				all = append(all, e)
			}
			e, data = seen{}, nil
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		long := len(value) > maxFieldBytes
		switch name {
		case "data":
			data = append(data, value)
		case "event":
			e.TooLong = e.TooLong || long
			if !long {
				e.Name = value
			}
		case "id":
			e.TooLong = e.TooLong || long
			if !long && !strings.Contains(value, "\x00") {
				e.ID, e.HasID = value, true
			}
		case "retry":
			if n, err := strconv.ParseUint(value, 10, 64); !long && (err == nil || errors.Is(err, strconv.ErrRange)) {
				e.Retry = time.Duration(min(n, 9223372036854)) * time.Millisecond
			}
		}
	}
	return all
}
