package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// watched is a memory store that notes when it is written.
type watched struct {
	*memory
	writes []time.Time
}

func (w *watched) add(batch *content) error {
	w.writes = append(w.writes, time.Now())
	return w.memory.add(batch)
}

// watch starts a ledger on a watched store. A file name makes it beat as one with a file does.
func watch(t *testing.T, file string) (*Ledger, *watched) {
	t.Helper()
	opts := (*Options)(nil).withDefaults()
	l := newLedger(opts)
	w := &watched{memory: newMemory(opts.limits(), l.started)}
	go l.run(file, w) // ends by Close below
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, w
}

// wantWrites compares when the store has been written since start.
func wantWrites(t *testing.T, w *watched, start time.Time, want ...time.Duration) {
	t.Helper()
	synctest.Wait()
	if len(w.writes) != len(want) {
		t.Fatalf("got writes %v since %v, want %v", w.writes, start, want)
	}
	for i, at := range w.writes {
		if got := at.Sub(start); got != want[i] {
			t.Errorf("write %d: got it after %v, want %v", i, got, want[i])
		}
	}
	w.writes = nil
}

func TestFlushTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := watch(t, "")
		client := exchange.Client{Info: []byte(`{"name":"c"}`), Transport: exchange.HTTPSSE}
		use := func() {
			r, _ := l.clients.row(&client)
			r.touch(l.now())
			r.count(&r.calls)
		}
		start := time.Now()
		use() // a new client
		time.Sleep(200 * time.Millisecond)
		client.Transport = exchange.StreamableHTTP
		use() // another, which must not put the first off
		time.Sleep(time.Minute)
		wantWrites(t, w, start, 250*time.Millisecond)

		start = time.Now()
		for range 12 { // a known client
			use()
			time.Sleep(900 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		wantWrites(t, w, start, 5*time.Second, 10400*time.Millisecond)

		time.Sleep(24 * time.Hour)
		wantWrites(t, w, start)
		start = time.Now()
		use() // not legacy: no hurry
		time.Sleep(time.Minute)
		wantWrites(t, w, start, 5*time.Second)
		client.Transport = exchange.HTTPSSE
		start = time.Now()
		use() // the first legacy use of the day
		time.Sleep(time.Minute)
		use()
		time.Sleep(time.Minute)
		wantWrites(t, w, start, 250*time.Millisecond, 65*time.Second)
	})
}

// An Open that takes longer than the flush of its new row is written soon after it ended: a kill right
// after must not leave a client without a session.
func TestSlowFirstOpenIsWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l, w := watch(t, "ledger.db")
		slow := opener(func() { time.Sleep(600 * time.Millisecond) })
		for range 2 { // the second is nothing new
			if _, err := l.Handler(slow).Open(t.Context(), exchange.Client{Session: "s", Transport: exchange.StreamableHTTP}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		wantWrites(t, w, start, 250*time.Millisecond, 850*time.Millisecond)
	})
}

// opener is a handler that only opens.
type opener func()

func (o opener) Open(context.Context, exchange.Client) (exchange.Session, error) {
	o()
	return nil, nil
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, w := watch(t, "ledger.db")
		time.Sleep(3*time.Minute + time.Second)
		wantWrites(t, w, start, time.Minute, 2*time.Minute, 3*time.Minute)
	})
}

// A ledger whose file turns out to be damaged while it is open goes on with a fresh one and keeps what it
// has counted meanwhile.
func TestDamagedWhileOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(file, []byte("no database at all, of some length"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLedger((*Options)(nil).withDefaults())
	go l.run(file, broken{errors.New("damaged")}) // ends by Close below
	r, _ := l.clients.row(&exchange.Client{Info: []byte(`{"name":"c"}`)})
	r.touch(l.now())
	r.count(&r.calls)
	got, err := l.Report()
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Clients) != 1 || got.Clients[0].Calls != 1 || got.Observation.MovedAside == "" {
		t.Errorf("got %+v, want a fresh ledger with what was counted", got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if read, err := Read([]string{file}, Question{}); err != nil || len(read.Clients) != 1 {
		t.Errorf("got %+v, %v, want the client in the file", read, err)
	}
}

// What a long-running server recorded is lost with its file, however long it has been running: that leaves a doubt.
func TestDamagedWhileOpenIsDoubtful(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(file, []byte("no database at all, of some length"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		o := (&Options{Heartbeat: time.Hour}).withDefaults()
		l := newLedger(o)
		time.Sleep(100 * 24 * time.Hour) // since it was started
		go l.run(file, broken{errors.New("damaged")})
		r, err := l.Report()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(r.Doubts, func(d Finding) bool { return d.Code == DoubtDamaged }) || r.Verdict != Insufficient {
			t.Errorf("got %s with the doubts %v and gaps %v, want insufficient, for damage", r.Verdict, r.Doubts, r.Observation.Gaps)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A file that is moved while it is open goes on being written, where nobody will find that: the log says so, once, and when it is back.
func TestFileIsMoved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	var log bytes.Buffer
	l, err := Open(file, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	reports := func() {
		t.Helper()
		for range 2 {
			if _, err := l.Report(); err != nil {
				t.Fatal(err)
			}
		}
	}
	reports()
	for _, move := range [][2]string{{file, file + ".away"}, {file + ".away", file}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
		reports()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Count(text, "event=ledger.astray") != 1 || strings.Count(text, "event=ledger.returned") != 1 {
		t.Errorf("got the log %s, want one line for each", text)
	}
}
