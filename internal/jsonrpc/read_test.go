package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// numbered returns n bytes, no two places of which are easily taken for each other.
func numbered(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d,", i)
	}
	return b.Bytes()[:n]
}

// What is read is what came, whatever length was said and in whatever pieces it comes, to the end or to the error.
func TestReadText(t *testing.T) {
	broken := errors.New("broken")
	readers := map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader, "end with the last": iotest.DataErrReader, "bytes": iotest.OneByteReader,
	}
	for _, size := range []int{0, 1, shortBytes, shortBytes + 1, blockBytes - 1, blockBytes, blockBytes + 1, 2 * blockBytes, 5*blockBytes + 7} {
		text := numbered(size)
		for _, said := range []int64{-1, 0, int64(size), int64(size) / 2, int64(size) + 1, 1 << 40} {
			for name, reader := range readers {
				got, err := ReadText(reader(bytes.NewReader(text)), said)
				if err != nil || !bytes.Equal(got, text) {
					t.Errorf("%d bytes, %d said, %s: got %d bytes, %v", size, said, name, len(got), err)
				}
				got, err = ReadText(io.MultiReader(reader(bytes.NewReader(text)), iotest.ErrReader(broken)), said)
				if err != broken || !bytes.Equal(got, text) {
					t.Errorf("%d bytes, %d said, %s, then an error: got %d bytes, %v", size, said, name, len(got), err)
				}
			}
		}
	}
	if _, err := ReadText(iotest.ErrReader(io.ErrUnexpectedEOF), -1); err != io.ErrUnexpectedEOF {
		t.Errorf("cut: got %v", err)
	}
}

// A text is not changed by the texts that are read after it.
func TestReadTextKeeps(t *testing.T) {
	one := numbered(3 * blockBytes)
	got, err := ReadText(bytes.NewReader(one), int64(len(one)))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := ReadText(strings.NewReader(strings.Repeat("x", 4*blockBytes)), -1); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, one) {
		t.Error("it was changed")
	}
}

// A length that is only said takes no memory, and a text that is still coming not much more than has come of it.
func TestReadTextMemory(t *testing.T) {
	for _, come := range []int{0, 1 << 20, 3 << 20} {
		feed, w := io.Pipe()
		done := make(chan error)
		before := liveBytes()
		go func() {
			_, err := ReadText(feed, 1<<40)
			done <- err
		}()
		if _, err := w.Write(make([]byte, come)); err != nil {
			t.Fatal(err)
		}
		if grown, most := liveBytes()-before, int64(come)+1<<20; grown > most {
			t.Errorf("%d bytes have come: %d are held, want %d at most", come, grown, most)
		}
		w.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// liveBytes returns how much memory is in use after a collection.
func liveBytes() int64 {
	runtime.GC()
	runtime.GC() // what pools had kept is gone after the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A text of ordinary size takes one allocation, for what is kept of it.
func TestReadTextAllocs(t *testing.T) {
	for _, size := range []int{200, 16 << 10, blockBytes} {
		text, from := numbered(size), bytes.NewReader(nil)
		got := testing.AllocsPerRun(100, func() {
			from.Reset(text)
			if _, err := ReadText(from, int64(size)); err != nil {
				t.Fatal(err)
			}
		})
		if got != 1 {
			t.Errorf("%d bytes: got %v allocations, want 1", size, got)
		}
	}
}

func BenchmarkReadText(b *testing.B) {
	for _, size := range []int{200, 64 << 10, 8 << 20} {
		for _, said := range []int64{int64(size), -1} {
			b.Run(fmt.Sprintf("%d bytes, %d said", size, said), func(b *testing.B) {
				text, from := numbered(size), bytes.NewReader(nil)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					from.Reset(text)
					if _, err := ReadText(from, said); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
