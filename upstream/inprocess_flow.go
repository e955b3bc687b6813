package upstream

import (
	"io"
	"os"
	"sync"
	"time"
)

// flowBytes is how much a flow keeps before a write waits.
const flowBytes = 64 << 10

// A flow carries bytes from writers to one reader. The zero value is empty and goes on.
type flow struct {
	mu       sync.Mutex
	changed  chan struct{} // closed at the next change of the fields below; nil when nobody waits
	buf      []byte
	err      error // what the reader finds after buf, and writers at once; nil while the flow goes on
	deadline time.Time
}

// wake tells everybody who waits. The caller holds mu.
func (f *flow) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// change returns what is closed at the next change. The caller holds mu.
func (f *flow) change() <-chan struct{} {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// write adds p, piece by piece as there is room. The error is that of end, io.ErrClosedPipe after drop, or
// os.ErrDeadlineExceeded.
func (f *flow) write(p []byte) (n int, err error) {
	for {
		f.mu.Lock()
		if err := f.unwritable(); err != nil {
			f.mu.Unlock()
			return n, err
		}
		k := min(len(p)-n, max(0, flowBytes-len(f.buf)))
		if k > 0 {
			f.buf = append(f.buf, p[n:n+k]...)
			n += k
			f.wake()
		}
		if n == len(p) {
			f.mu.Unlock()
			return n, nil
		}
		changed, deadline := f.change(), f.deadline
		f.mu.Unlock()
		await(changed, deadline)
	}
}

// unwritable says why nothing can be written. The caller holds mu.
func (f *flow) unwritable() error {
	switch {
	case f.err == io.EOF: //nolint:errorlint // as end was given it
		return io.ErrClosedPipe
	case f.err != nil:
		return f.err
	case !f.deadline.IsZero() && !time.Now().Before(f.deadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// await waits for a change, or until the deadline if there is one.
func await(changed <-chan struct{}, deadline time.Time) {
	if deadline.IsZero() {
		<-changed
		return
	}
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	}
}

// read takes what has been written; it waits for something.
func (f *flow) read(p []byte) (int, error) {
	for {
		f.mu.Lock()
		if len(f.buf) > 0 {
			n := copy(p, f.buf)
			f.buf = f.buf[:copy(f.buf, f.buf[n:])]
			if len(f.buf) == 0 && cap(f.buf) > flowBytes/4 {
				f.buf = nil // an idle stream holds little
			}
			f.wake()
			f.mu.Unlock()
			return n, nil
		}
		if err := f.err; err != nil || len(p) == 0 {
			f.mu.Unlock()
			return 0, err
		}
		changed := f.change()
		f.mu.Unlock()
		<-changed
	}
}

// end says that nothing more comes; the reader gets err after the rest. Only the first counts.
func (f *flow) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		f.wake()
	}
}

// drop says that nobody reads any more.
func (f *flow) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf = nil
	if f.err == nil || f.err == io.EOF { //nolint:errorlint // as end was given it
		f.err = io.ErrClosedPipe
	}
	f.wake()
}

func (f *flow) setDeadline(t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deadline = t
	f.wake()
}

// failure is why nobody reads what is written; nil while it is read.
func (f *flow) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unwritable()
}
