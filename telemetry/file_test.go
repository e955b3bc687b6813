package telemetry_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/telemetry"
)

const recordEnv = "TELEMETRY_TEST_RECORD"

// recordAndHang is a server that counts two clients, says so after the promised second, and goes on
// until it is killed.
func recordAndHang(file string) {
	l, err := telemetry.Open(file, nil)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	h := l.Handler(&server{})
	for _, name := range []string{"first", "second"} {
		if _, err := h.Open(context.Background(), legacyClient(name)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	time.Sleep(time.Second)
	fmt.Println("recorded")
	select {}
}

// After kill -9 the clients seen more than a second before are in the file, while the server has it open
// and after its death, for a reader and for the next server.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	file := filepath.Join(t.TempDir(), "ledger.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), recordEnv+"="+file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said string
	if _, err := fmt.Fscan(out, &said); err != nil || said != "recorded" {
		t.Errorf("child said %q, %v", said, err)
	}
	wantClients(t, "while it runs", file, "first", "second")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed is what it was
	wantClients(t, "after the kill", file, "first", "second")

	l := openLedger(t, file, nil)
	if _, err := l.Handler(&server{}).Open(t.Context(), legacyClient("third")); err != nil {
		t.Fatal(err)
	}
	if got := len(report(t, l).Clients); got != 3 {
		t.Errorf("next server: got %d clients, want 3", got)
	}
}

func wantClients(t *testing.T, when, file string, names ...string) {
	t.Helper()
	r, err := telemetry.Read([]string{file}, telemetry.Question{})
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return
	}
	got := map[string]bool{}
	for _, c := range r.Clients {
		got[c.Name] = c.Transport == exchange.HTTPSSE && !c.LastSeen.IsZero()
	}
	for _, name := range names {
		if !got[name] {
			t.Errorf("%s: %q is missing in %v", when, name, r.Clients)
		}
	}
}

// sum returns what all clients of a report did.
func sum(r telemetry.Report) (c telemetry.Counts) {
	for _, t := range r.Transports {
		c.Sessions += t.Sessions
		c.Uses += t.Uses
		c.Reopened += t.Reopened
		c.Calls += t.Calls
		c.Errors += t.Errors
		c.Refusals += t.Refusals
		c.Failures += t.Failures
	}
	return c
}

func TestRestartAddsUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "a b%20?#", "ledger.db")
	var first telemetry.Report
	for i := range 3 {
		l := openLedger(t, file, nil)
		converse(t, l.Handler(&server{}), legacyClient("c"), 5)
		l.Observe(exchange.Observation{Kind: exchange.SeenDiscover, Transport: exchange.HTTPSSE, Version: "2026-07-28"})
		r := report(t, l)
		closeLedger(t, l)
		if i == 0 {
			first = r
		}
	}
	r, err := telemetry.Read([]string{file}, telemetry.Question{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Clients) != 1 {
		t.Fatalf("got %d rows, want 1", len(r.Clients))
	}
	got := r.Clients[0]
	if want := (telemetry.Counts{Sessions: 3, Calls: 15}); got.Counts != want {
		t.Errorf("got %+v, want %+v", got.Counts, want)
	}
	if was := first.Clients[0]; !got.FirstSeen.Equal(was.FirstSeen) || got.LastSeen.Before(was.LastSeen) {
		t.Errorf("seen %v to %v, want from %v on", got.FirstSeen, got.LastSeen, was.FirstSeen)
	}
	if !r.Observation.From.Equal(first.Observation.From) || !r.Observation.To.Equal(r.Observation.LastFlush) || r.Observation.To.Before(got.LastSeen) {
		t.Errorf("got observation %+v, want it from %v until the last flush", r.Observation, first.Observation.From)
	}
	if len(r.Evidence) != 1 || r.Evidence[0].Count != 3 || r.Evidence[0].Version != "2026-07-28" {
		t.Errorf("got evidence %+v, want one row of 3", r.Evidence)
	}
}

// Two servers that start at once on a new file, write at once and are read meanwhile add up.
func TestTwoServers(t *testing.T) {
	const rounds, perRound = 20, 10
	file := filepath.Join(t.TempDir(), "ledger.db")
	var servers sync.WaitGroup
	for i := range 2 {
		servers.Go(func() {
			l, err := telemetry.Open(file, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer closeLedger(t, l)
			h := l.Handler(&server{})
			for range rounds {
				converse(t, h, legacyClient("both"), perRound)
				converse(t, h, legacyClient(fmt.Sprint("own", i)), perRound)
				report(t, l) // flushes
				if _, err := telemetry.Read([]string{file}, telemetry.Question{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	servers.Wait()
	r, err := telemetry.Read([]string{file}, telemetry.Question{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sum(r), (telemetry.Counts{Sessions: 4 * rounds, Calls: 4 * rounds * perRound}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, c := range r.Clients {
		want := map[string]int64{"both": 2 * rounds, "own0": rounds, "own1": rounds}[c.Name]
		if c.Sessions != want {
			t.Errorf("%s: got %d sessions, want %d", c.Name, c.Sessions, want)
		}
	}
}

// Nothing is lost or counted twice when calls, new clients, flushes and reports meet.
func TestConcurrency(t *testing.T) {
	const workers, each = 8, 100
	file := filepath.Join(t.TempDir(), "ledger.db")
	l := openLedger(t, file, &telemetry.Options{FlushEvery: time.Millisecond, FlushSoon: time.Millisecond, MaxInfos: 3})
	h := l.Handler(&server{})
	var work sync.WaitGroup
	for w := range workers {
		work.Go(func() {
			for i := range each {
				converse(t, h, legacyClient(fmt.Sprint("c", (w+i)%10)), 3)
				l.Observe(exchange.Observation{Kind: exchange.SeenStream, Transport: exchange.HTTPSSE})
				if i%25 == 0 {
					report(t, l)
				}
			}
		})
	}
	work.Wait()
	closeLedger(t, l)
	r, err := telemetry.Read([]string{file}, telemetry.Question{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sum(r), (telemetry.Counts{Sessions: workers * each, Calls: 3 * workers * each}); got != want || len(r.Clients) != 10 {
		t.Errorf("got %+v in %d rows, want %+v in 10", got, len(r.Clients), want)
	}
	if len(r.Evidence) != 1 || r.Evidence[0].Count != workers*each {
		t.Errorf("got evidence %+v, want %d", r.Evidence, workers*each)
	}
}

// spoil makes a ledger with many clients, closes it and writes over a part of it.
func spoil(t *testing.T, file string, at int64, what []byte) {
	t.Helper()
	l := openLedger(t, file, nil)
	h := l.Handler(&server{})
	for i := range 500 {
		converse(t, h, legacyClient(fmt.Sprint("client", i)), 1)
	}
	closeLedger(t, l)
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if what == nil {
		err = f.Truncate(at)
	} else {
		_, err = f.WriteAt(what, at)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedFile(t *testing.T) {
	tests := []struct {
		name string
		at   int64
		what []byte // nil: cut off there
	}{
		{"no database", 0, []byte("this is not a database, it is a text of some length")},
		{"garbage in the middle", 4096, bytes.Repeat([]byte{0xa5}, 20_000)},
		{"cut off", 9000, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ledger.db")
			spoil(t, file, tt.at, tt.what)
			if _, err := telemetry.Read([]string{file}, telemetry.Question{}); err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), file) {
				t.Errorf("Read: got %v, want an error that says which file is damaged", err)
			}
			var log bytes.Buffer
			l := openLedger(t, file, &telemetry.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			converse(t, l.Handler(&server{}), legacyClient("after"), 1)
			r := report(t, l)
			if len(r.Clients) != 1 || r.Clients[0].Name != "after" {
				t.Errorf("got %v, want a fresh ledger", r.Clients)
			}
			aside := filepath.Join(filepath.Dir(file), r.Observation.MovedAside)
			if r.Observation.MovedAside == "" || !strings.HasPrefix(aside, file+".damaged-20") {
				t.Errorf("moved to %q, want the name and the time", aside)
			}
			if _, err := os.Stat(aside); err != nil {
				t.Error(err)
			}
			if got := log.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, aside) {
				t.Errorf("got log %q, want an error with the new name", got)
			}
			closeLedger(t, l)
			if _, err := telemetry.Read([]string{file}, telemetry.Question{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// sqlExec runs statements on a file.
func sqlExec(t *testing.T, file, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(statements)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestSchemaVersions(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	openLedger(t, empty, nil)
	if _, err := telemetry.Read([]string{empty}, telemetry.Question{}); err != nil {
		t.Errorf("an empty file after a start: %v", err)
	}

	newer := filepath.Join(dir, "newer.db")
	closeLedger(t, openLedger(t, newer, nil))
	sqlExec(t, newer, "UPDATE schema SET version = 99")
	foreign := filepath.Join(dir, "foreign.db")
	sqlExec(t, foreign, "CREATE TABLE clients (name TEXT); INSERT INTO clients VALUES ('important')")
	for file, want := range map[string]error{newer: telemetry.ErrNewer, foreign: telemetry.ErrForeign} {
		if _, err := telemetry.Open(file, nil); !errors.Is(err, want) || !strings.Contains(err.Error(), file) {
			t.Errorf("Open: got %v, want %v with the name of the file", err, want)
		}
		if _, err := telemetry.Read([]string{file}, telemetry.Question{}); !errors.Is(err, want) {
			t.Errorf("Read: got %v, want %v", err, want)
		}
	}
	sqlExec(t, foreign, "INSERT INTO clients VALUES ('still there')")
	if left, err := filepath.Glob(filepath.Join(dir, "*damaged*")); err != nil || len(left) != 0 {
		t.Errorf("moved aside: %v %v, want nothing", left, err)
	}
}

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := telemetry.Read([]string{filepath.Join(dir, "none.db")}, telemetry.Question{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v, want that it does not exist", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("reading made %v %v", left, err)
	}
	if _, err := telemetry.Read([]string{dir}, telemetry.Question{}); err == nil {
		t.Error("a folder: got no error")
	}
	if _, err := telemetry.Open(dir, nil); err == nil {
		t.Error("Open of a folder: got no error")
	}
}

// While another process keeps the file locked nothing is lost: the report is complete, and what could
// not be written is written later.
func TestLockedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	l := openLedger(t, file, &telemetry.Options{BusyTimeout: time.Millisecond})
	db, err := sql.Open("sqlite", file+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	converse(t, l.Handler(&server{}), legacyClient("c"), 1)
	for range 3 {
		if got, want := sum(report(t, l)), (telemetry.Counts{Sessions: 1, Calls: 1}); got != want {
			t.Errorf("while locked: got %+v, want %+v", got, want)
		}
	}
	wantClients(t, "while locked", file)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	closeLedger(t, l)
	wantClients(t, "afterwards", file, "c")
}

func TestClose(t *testing.T) {
	l := openLedger(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
	closeLedger(t, l)
	closeLedger(t, l)
	if _, err := l.Report(); !errors.Is(err, telemetry.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	converse(t, l.Handler(&server{}), legacyClient("late"), 1)
}
