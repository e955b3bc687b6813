package telemetry

import (
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
)

// writeSQL runs statements on a file.
func writeSQL(t *testing.T, file string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		_, execErr := db.Exec(s)
		err = errors.Join(err, execErr)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// A file of schema version 1 keeps its rows, and the legacy use in it counts for the verdict.
func TestMigrateFromClients(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	now := time.Now()
	ms := func(days int) int64 { return now.Add(-time.Duration(days) * 24 * time.Hour).UnixMilli() }
	writeSQL(t, file, migrations[0], "UPDATE schema SET version = 1")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range [][]any{
		{"desk", "1.0", "", exchange.HTTPSSE, "2025-06-18", "2025-06-18", 0, 3, 0, 1, 30, 2, 1, 0, ms(80), ms(33)},
		{"desk", "1.1", "", exchange.StreamableHTTP, "2025-11-25", "2025-11-25", 0, 5, 0, 0, 50, 0, 0, 0, ms(32), ms(1)},
		{"", "", "", exchange.HTTPSSE, "2024-11-05", "2024-11-05", 0, 1, 0, 0, 7, 0, 0, 0, ms(20), ms(20)},
		{probeName, "0.0.0", "", exchange.StreamableHTTP, "2025-11-25", "2025-11-25", 1, 9, 0, 0, 0, 0, 0, 0, ms(80), ms(1)},
	} {
		if _, err := db.Exec("INSERT INTO clients VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec("INSERT INTO meta VALUES ('observed_from', ?), ('last_flush', ?)", ms(80), ms(0)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Read([]string{file}, Question{}); err == nil {
		t.Error("a reader must not migrate, and cannot do without")
	}
	l, err := Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Read([]string{file}, Question{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Clients) != 4 || len(r.Identities) != 3 || len(r.Observation.Replicas) != 1 || len(r.Observation.Replicas[0].ID) != 16 {
		t.Fatalf("got %d rows, %+v and %+v", len(r.Clients), r.Identities, r.Observation)
	}
	got := make(map[string]Identity)
	for _, i := range r.Identities {
		got[i.ID] = i
	}
	if i := got["@;"]; i.Class != ClassUnknown || !i.Blocks || i.Window.Calls != 7 {
		t.Errorf("nameless: got %+v", i)
	}
	if i := got["desk@;"]; i.Class != ClassMigrated || i.Blocks || i.Transports[exchange.HTTPSSE].Calls != 30 || i.Cadence.ActiveDays != 2 || !i.Reattached || len(i.Clients) != 2 {
		t.Errorf("desk: got %+v", i)
	}
	if i := got[probeName+"@;"]; i.Class != ClassProbe {
		t.Errorf("throw-away: got %+v", i)
	}
	if r.Verdict != Blocked {
		t.Errorf("got %s, want blocked by the nameless one", r.Verdict)
	}
}

// What is older than the retention goes, in memory and in a file, and nothing else does.
func TestRetention(t *testing.T) {
	for _, file := range []string{"", filepath.Join(t.TempDir(), "ledger.db")} {
		synctest.Test(t, func(t *testing.T) {
			l, use := pruned(t, file, &Options{Heartbeat: 24 * time.Hour})
			use("old")
			use("both")
			time.Sleep(200 * 24 * time.Hour)
			use("both")
			time.Sleep(201 * 24 * time.Hour)
			r, err := l.Report() // prunes
			if err == nil {
				r, err = l.Report()
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Identities) != 1 || len(r.Clients) != 1 || len(r.Evidence) != 1 || r.Clients[0].Name != "both" || r.Identities[0].Cadence.ActiveDays != 1 {
				t.Errorf("%q: got %+v, %+v and %+v, want what is younger than 400 days", file, r.Identities, r.Clients, r.Evidence)
			}
			if days, err := l.Days(1000); err != nil || len(days) != 1 {
				t.Errorf("%q: got days %v, %v", file, days, err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A clock that is far ahead for a while, when the program starts or as it runs, makes nobody forgotten.
func TestWrongClockPrunesNothing(t *testing.T) {
	for _, file := range []string{"", filepath.Join(t.TempDir(), "ledger.db")} {
		synctest.Test(t, func(t *testing.T) {
			var ahead atomic.Int64 // a time.Duration
			o := &Options{Heartbeat: time.Hour, clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}
			l, use := pruned(t, file, o)
			known := func(when string) {
				t.Helper()
				for range 3 {
					time.Sleep(time.Minute)
					r, err := l.Report()
					if err != nil {
						t.Fatal(err)
					}
					if len(r.Identities) != 1 {
						t.Errorf("%q, %s: got %d identities, want the one", file, when, len(r.Identities))
					}
				}
			}
			use("daily")
			time.Sleep(48 * time.Hour)
			ahead.Store(int64(500 * 24 * time.Hour))
			known("as it runs")
			ahead.Store(0)
			known("set right")
			if file != "" {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				ahead.Store(int64(500 * 24 * time.Hour))
				l, _ = pruned(t, file, o)
				known("at the start")
				ahead.Store(0)
				known("set right again")
			}
			ahead.Store(int64(500 * 24 * time.Hour))
			time.Sleep(time.Minute)
			if _, err := l.Report(); err != nil { // notices the step
				t.Error(err)
			}
			time.Sleep(25 * time.Hour)
			_, err := l.Report() // prunes
			r, err2 := l.Report()
			if err != nil || err2 != nil || len(r.Identities) != 0 {
				t.Errorf("%q: got %d identities, %v, %v; want none: the clock has held for a day", file, len(r.Identities), err, err2)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a clock removed that was far ahead for more than a day is a doubt once it is set right, whatever gap the policy tolerates.
func TestPrunedByAWrongClockIsDoubtful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64 // a time.Duration
		l, use := pruned(t, "", &Options{clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		p := DefaultPolicy()
		p.MaxGap = 3 * Day
		for range 60 {
			use("daily")
			time.Sleep(24 * time.Hour)
		}
		ahead.Store(int64(500 * 24 * time.Hour))
		if _, err := l.Report(); err != nil { // notices the step
			t.Fatal(err)
		}
		time.Sleep(25 * time.Hour)
		if _, err := l.Report(); err != nil { // prunes
			t.Fatal(err)
		}
		ahead.Store(0)
		r, err := l.Answer(Question{Policy: &p})
		if err != nil {
			t.Fatal(err)
		}
		if lost := slices.ContainsFunc(r.Doubts, func(f Finding) bool { return f.Code == DoubtDamaged }); !lost || r.Verdict == Ready || len(r.Identities) != 0 {
			t.Errorf("got %s with doubts %v and %d identities", r.Verdict, r.Doubts, len(r.Identities))
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// pruned opens a ledger and returns it with what makes a client of a name use it, and flushes.
func pruned(t *testing.T, file string, o *Options) (*Ledger, func(name string)) {
	t.Helper()
	l, err := Open(file, o)
	if err != nil {
		t.Fatal(err)
	}
	return l, func(name string) {
		t.Helper()
		sess, err := l.Handler(opener(func() {})).Open(t.Context(), exchange.Client{Info: []byte(`{"name":"` + name + `"}`), Transport: exchange.HTTPSSE, Session: name})
		if err != nil {
			t.Fatal(err)
		}
		sess.(*session).use.open.Add(-1) // opener gives nothing that could be closed
		l.Observe(exchange.Observation{Kind: exchange.SeenBound, Version: name})
		if _, err := l.Report(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForget(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	for _, file := range []string{"", file} {
		l, err := Open(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := exchange.Client{Info: []byte(`{"name":"a"}`), Transport: exchange.HTTPSSE, Session: "s"}
		for _, name := range []string{"a", "b", "c"} {
			c.Info = []byte(`{"name":"` + name + `"}`)
			l.attempt(&c, l.now(), func(*user) {})
		}
		if err := l.Forget(t.Context(), "a@;"); err != nil { // before it was ever written
			t.Error(err)
		}
		if _, err := l.Report(); err != nil {
			t.Fatal(err)
		}
		if err := l.Forget(t.Context(), "b@;"); err != nil {
			t.Error(err)
		}
		if err := l.Forget(t.Context(), "b@;"); !errors.Is(err, ErrUnknown) {
			t.Errorf("twice: got %v, want ErrUnknown", err)
		}
		r, err := l.Report()
		if err != nil || len(r.Identities) != 1 || r.Identities[0].ID != "c@;" {
			t.Errorf("%q: got %+v, %v, want c alone", file, r.Identities, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Forget(t.Context(), "c@;"); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: got %v, want ErrClosed", err)
		}
	}
	if err := Forget(file, "c@;", "x"); !errors.Is(err, ErrUnknown) {
		t.Errorf("in the file: got %v, want ErrUnknown", err)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, table := range identityTables {
		var n int
		if err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: got %d rows, %v, want none", table, n, err)
		}
	}
}

func TestKnownClients(t *testing.T) {
	table := readKnown("# a comment\n\nold-thing\t2.0.0\tcannot\tread its source\nvia mcp-remote\t0.1.16\tcapable\trun\n")
	tests := []struct {
		p    person
		want Class
	}{
		{person{name: "old-thing", version: "2.1"}, ClassCannot},
		{person{name: "old-thing", version: "v2"}, ClassCannot},
		{person{name: "old-thing", version: "1.9.9"}, ""},
		{person{name: "old-thing", version: "latest"}, ""},
		{person{name: "old-thing", version: ""}, ""},
		{person{name: "other", version: "9", proxy: "mcp-remote 0.15.1"}, ClassCapable},
		{person{name: "other", version: "9", proxy: "mcp-remote 0.1.15"}, ""},
		{person{name: "mcp-remote", version: "9"}, ""},
		{person{name: "via mcp-remote", version: "9"}, ""},
	}
	for _, tt := range tests {
		if got, _ := find(table, tt.p); got.class != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.p, got.class, tt.want)
		}
	}
	if shipped := readKnown(knownText); slices.ContainsFunc(shipped, func(k known) bool { return k.source == "" }) {
		t.Error("a row without a source")
	}
}
