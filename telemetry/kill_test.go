package telemetry_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/telemetry"
)

const (
	loadEnv   = "TELEMETRY_TEST_LOAD"
	loadFlush = 100 * time.Millisecond
)

// recordUnderLoad is a server that counts calls of twenty clients as fast as it can, and says after each hundred how many there were and
// when, until it is killed.
func recordUnderLoad(file string) {
	l, err := telemetry.Open(file, &telemetry.Options{FlushEvery: loadFlush, FlushSoon: loadFlush / 4})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	h := l.Handler(&server{})
	var sessions []exchange.Session
	for i := range 20 {
		c := legacyClient(fmt.Sprint("client", i))
		c.Session = fmt.Sprint("s", i)
		sess, err := h.Open(context.Background(), c)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		sessions = append(sessions, sess)
	}
	if _, err := l.Report(); err != nil { // writes, so that there is something whatever comes
		fmt.Println(err)
		os.Exit(1)
	}
	for n := 1; ; n++ {
		_, _ = sessions[n%20].Call(context.Background(), exchange.Request{}, nil)
		if n%100 == 0 {
			fmt.Println(n, time.Now().UnixMilli())
		}
	}
}

// Killed at any moment, the ledger opens again, has all but what was counted within about the flush interval, nothing twice, and
// knows for how long nobody watched.
func TestKillUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	file := filepath.Join(t.TempDir(), "ledger.db")
	var before, beforeOf int64 // calls of earlier rounds, in the rows and of the identities
	for round := range 5 {
		said, killed := killedUnderLoad(t, file, time.Duration(200+rand.IntN(600))*time.Millisecond)
		r, err := telemetry.Read([]string{file}, telemetry.Question{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		got, gotOf := sum(r).Calls-before, legacyCalls(r)-beforeOf
		// A flush takes its time on a busy machine: what was counted before the last one ended is there.
		var promised int64
		last := r.Observation.LastFlush.UnixMilli()
		for _, s := range said {
			if s.at < last {
				promised = s.n
			}
		}
		if most := said[len(said)-1].n + 100; min(got, gotOf) < promised || max(got, gotOf) > most+100 || len(r.Identities) != 20 {
			t.Errorf("round %d: got %d calls in the rows and %d of %d identities, want %d (those before the last flush) to about %d of 20",
				round, got, gotOf, len(r.Identities), promised, most)
		}
		t.Logf("round %d: the last flush was %d ms before the end", round, killed.UnixMilli()-last)
		if behind := killed.Sub(r.Observation.LastFlush); behind > 100*loadFlush { // a busy machine takes its time
			t.Errorf("round %d: the last flush was %v before the end, want about %v", round, behind, loadFlush)
		}
		before, beforeOf = sum(r).Calls, legacyCalls(r)

		hour := time.Now().Add(time.Hour)
		o := &telemetry.Options{}
		telemetry.SetClock(o, func() time.Time { return hour })
		l := openLedger(t, file, o)
		gaps := report(t, l).Observation.Gaps
		closeLedger(t, l)
		if n := len(gaps); n == 0 || gaps[n-1].From.UnixMilli() != last || gaps[n-1].To.UnixMilli() != hour.UnixMilli() || gaps[n-1].Kind != telemetry.GapDowntime {
			t.Errorf("round %d: got gaps %v, want one from the last flush on", round, gaps)
		}
		sqlExec(t, file, fmt.Sprint("UPDATE meta SET value = ", last, " WHERE name = 'last_flush'"))
	}
}

func legacyCalls(r telemetry.Report) (n int64) {
	for _, i := range r.Identities {
		n += i.Transports[exchange.HTTPSSE].Calls
	}
	return n
}

type progress struct{ n, at int64 }

// killedUnderLoad lets a server record for a time, kills it, and returns what it said and when it was killed.
func killedUnderLoad(t *testing.T, file string, d time.Duration) ([]progress, time.Time) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), loadEnv+"="+file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []progress
	var killed time.Time
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var p progress
		if _, err := fmt.Sscan(lines.Text(), &p.n, &p.at); err != nil {
			if killed.IsZero() {
				t.Errorf("child said %s", strconv.Quote(lines.Text()))
			}
			break // it was killed in the middle of a line
		}
		said = append(said, p)
		if p.at-said[0].at >= d.Milliseconds() && killed.IsZero() {
			killed = time.Now()
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed is what it was
	if len(said) == 0 || killed.IsZero() {
		t.Fatal("the child said nothing")
	}
	return said, killed
}
