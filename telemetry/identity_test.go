package telemetry_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
	"github.com/mcp-dualstack/bridge/telemetry"
)

// at puts a client somewhere.
func at(c exchange.Client, addr, agent string) exchange.Client {
	c.Addr, c.UserAgent = netip.MustParseAddr(addr), agent
	return c
}

// over makes a client use another transport.
func over(c exchange.Client, transport string) exchange.Client {
	c.Transport = transport
	return c
}

func asks(c exchange.Client, requested string) exchange.Client {
	c.Requested = requested
	c.Revision, _ = negotiate.Parse(requested)
	return c
}

func TestKeys(t *testing.T) {
	named := at(legacyClient("desk"), "10.4.7.20", "node")
	nameless := named
	nameless.Info = nil
	verified := named
	verified.Principal = "https://issuer.example alice"
	tests := []struct {
		name    string
		privacy telemetry.Privacy
		client  exchange.Client
		want    []string // * is a hash
	}{
		{"name, network and agent", "", named, []string{"desk@10.4.7.0/24;node", "desk@10.4.7.0/24", "@10.4.7.0/24;node", "@10.4.7.0/24"}},
		{"network and agent", "", nameless, []string{"@10.4.7.0/24;node", "@10.4.7.0/24"}},
		{"principal", "", verified, []string{"sub:*"}},
		{"address", telemetry.PrivacyFull, named, []string{"desk@10.4.7.20;node", "desk@10.4.7.20", "@10.4.7.20;node", "@10.4.7.20"}},
		{"hash of the network", telemetry.PrivacyHash, nameless, []string{"@h:*;node", "@h:*"}},
		{"nothing of the network", telemetry.PrivacyOff, named, []string{"desk@;node", "desk@", "@;node", "@"}},
		{"IPv6", "", at(legacyClient("desk"), "2001:db8:1:2::3%eth0", "Go-http-client/1.1"), []string{
			"desk@2001:db8:1::/48;Go-http-client", "desk@2001:db8:1::/48", "@2001:db8:1::/48;Go-http-client", "@2001:db8:1::/48"}},
		{"IPv4 in IPv6", "", at(legacyClient("desk"), "::ffff:10.4.7.9", ""), []string{"desk@10.4.7.0/24;", "desk@10.4.7.0/24", "@10.4.7.0/24;", "@10.4.7.0/24"}},
		{"names that look like ids", "", at(legacyClient("sub:1@x;y"), "10.4.7.9", "a@b;c"), []string{"sub:1@x;y@10.4.7.0/24;a", "sub:1@x;y@10.4.7.0/24", "@10.4.7.0/24;a", "@10.4.7.0/24"}},
		{"throw-away of a principal", "", func() exchange.Client {
			c := verified
			c.Info = info("mcp-remote-fallback-test", "0.0.0")
			return c
		}(), []string{"mcp-remote-fallback-test@10.4.7.0/24;node", "mcp-remote-fallback-test@10.4.7.0/24", "@10.4.7.0/24;node", "@10.4.7.0/24"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := openLedger(t, "", &telemetry.Options{Privacy: tt.privacy})
			got := l.IDs(tt.client)
			if !slices.EqualFunc(got, tt.want, hashed) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			converse(t, l.Handler(&server{}), tt.client, 0)
			if r := report(t, l); len(r.Identities) != 1 || r.Identities[0].ID != got[0] {
				t.Errorf("recorded as %+v, want %q", r.Identities, got[0])
			}
		})
	}
}

// hashed reports whether s is pattern with twelve hexadecimal digits for *.
func hashed(s, pattern string) bool {
	before, after, ok := strings.Cut(pattern, "*")
	if !ok {
		return s == pattern
	}
	hash := strings.TrimSuffix(strings.TrimPrefix(s, before), after)
	return len(hash) == 12 && strings.Trim(hash, "0123456789abcdef") == "" && s == before+hash+after
}

// A principal has one id for the life of a ledger file, another one in every other, and its name is nowhere in the file.
func TestPrincipals(t *testing.T) {
	dir := t.TempDir()
	alice, bob := legacyClient("c"), legacyClient("c")
	alice.Principal, bob.Principal = "https://issuer.example alice", "https://issuer.example bob"
	var ids []string
	for _, file := range []string{"a.db", "a.db", "b.db"} {
		l := openLedger(t, filepath.Join(dir, file), nil)
		converse(t, l.Handler(&server{}), alice, 1)
		converse(t, l.Handler(&server{}), bob, 1)
		ids = append(ids, l.IDs(alice)[0])
		if got := len(report(t, l).Identities); got != 2 {
			t.Errorf("got %d identities, want two of one name", got)
		}
		closeLedger(t, l)
	}
	if ids[0] != ids[1] || ids[0] == ids[2] {
		t.Errorf("got %q, want the same in one file and another in the other", ids)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 4 {
		t.Errorf("got files %q, %v, want two ledgers with a key each", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(text), "alice") {
			t.Errorf("%s: %v, or the principal is in it", file, err)
		}
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: got mode %v, want that only its owner reads it", file, st.Mode())
		}
	}
}

func TestBadKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(file+".key", []byte("too short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := telemetry.Open(file, nil); err == nil || !strings.Contains(err.Error(), file+".key") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

// play is what a client does before its class is asked for.
type play func(t *testing.T, l *telemetry.Ledger)

func opens(c exchange.Client) play {
	return func(t *testing.T, l *telemetry.Ledger) { converse(t, l.Handler(&server{}), c, 1) }
}

func sees(os ...exchange.Observation) play {
	return func(t *testing.T, l *telemetry.Ledger) {
		for _, o := range os {
			l.Observe(o)
		}
	}
}

func waits(d time.Duration) play {
	return func(*testing.T, *telemetry.Ledger) { time.Sleep(d) }
}

func TestClasses(t *testing.T) {
	old := at(asks(legacyClient("desk"), "2024-11-05"), "10.0.0.1", "node")
	seen := func(kind string) exchange.Observation {
		return exchange.Observation{Kind: kind, Transport: exchange.HTTPSSE, Session: old.Session, Addr: old.Addr, UserAgent: "node"}
	}
	tried := seen(exchange.SeenRefused)
	tried.Transport = exchange.StreamableHTTP
	sameURL := seen(exchange.SeenSameURL)
	sameURL.Transport = exchange.StreamableHTTP
	named := func(o exchange.Observation, version string) exchange.Observation {
		o.Version, o.Info = version, old.Info
		return o
	}
	refused := named(seen(exchange.SeenRefused), "2024-11-05")
	refused.Session, refused.Detail = "", "closed: initialize"
	stopped := seen(exchange.SeenRefused)
	stopped.Session, stopped.Stage = "", "gone"
	throwAway := old
	throwAway.Info = info("mcp-remote-fallback-test", "0.0.0")
	proxied := old
	proxied.Info = info("Cursor (via mcp-remote 0.15.1)", "1.0")
	reopened := old
	reopened.Reopened, reopened.Info = true, nil

	tests := []struct {
		name   string
		plays  []play
		class  telemetry.Class
		signs  []string
		blocks bool
	}{
		{"2024-11-05 only", []play{opens(old)}, telemetry.ClassUnknown, nil, true},
		{"asks for more", []play{opens(asks(old, "2025-03-26"))}, telemetry.ClassCapable, []string{"requested"}, true},
		{"asks for what nobody knows", []play{opens(asks(old, "2024-12-24"))}, telemetry.ClassUnknown, nil, true},
		{"discovers, then shakes hands", []play{sees(seen(exchange.SeenStream), named(seen(exchange.SeenDiscover), "2026-07-28")), opens(old)},
			telemetry.ClassCapable, []string{"discover"}, true},
		{"discovers and gives up", []play{sees(seen(exchange.SeenStream), named(seen(exchange.SeenDiscover), "2026-07-28")), waits(40 * time.Second)},
			telemetry.ClassCapable, []string{"discover"}, true},
		{"version header", []play{sees(seen(exchange.SeenStream)), opens(old)}, telemetry.ClassUnknown, nil, true},
		{"falls back", []play{sees(tried), waits(9 * time.Second), sees(seen(exchange.SeenStream)), opens(old)}, telemetry.ClassProbing, []string{"fallback"}, true},
		{"falls back from the same URL", []play{sees(sameURL), waits(time.Second), sees(seen(exchange.SeenStream)), opens(old)}, telemetry.ClassProbing, []string{"fallback"}, true},
		{"much later", []play{sees(tried), waits(11 * time.Second), sees(seen(exchange.SeenStream)), opens(old)}, telemetry.ClassUnknown, nil, true},
		{"had connected", []play{sees(sameURL), opens(over(at(legacyClient("other"), "10.0.0.2", "node"), exchange.StreamableHTTP)), sees(seen(exchange.SeenStream)), opens(old)},
			telemetry.ClassUnknown, nil, true},
		{"both", []play{opens(old), opens(over(old, exchange.StreamableHTTP))}, telemetry.ClassProven, []string{"streamable"}, true},
		{"migrated", []play{opens(old), waits(31 * 24 * time.Hour), opens(over(old, exchange.StreamableHTTP))}, telemetry.ClassMigrated, []string{"streamable"}, false},
		{"never was there", []play{opens(over(old, exchange.StreamableHTTP))}, telemetry.ClassModern, []string{"streamable"}, false},
		{"through mcp-remote", []play{opens(proxied)}, telemetry.ClassCapable, []string{"client_table"}, true},
		{"throw-away", []play{opens(throwAway)}, telemetry.ClassProbe, nil, false},
		{"silent", []play{sees(seen(exchange.SeenStream), seen(exchange.SeenSilent))}, telemetry.ClassProbe, nil, false},
		{"silent and not", []play{sees(seen(exchange.SeenStream), seen(exchange.SeenSilent)), opens(reopened)}, telemetry.ClassUnknown, []string{"reattached"}, true},
		{"refused by name", []play{sees(refused)}, telemetry.ClassUnknown, nil, true},
		{"refused by the stage", []play{sees(stopped)}, telemetry.ClassUnknown, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := openLedger(t, "", nil)
				for _, p := range tt.plays {
					p(t, l)
				}
				r := report(t, l)
				i := r.Identities[slices.IndexFunc(r.Identities, func(i telemetry.Identity) bool {
					return !strings.HasPrefix(i.ID, "other@") && !strings.HasPrefix(i.ID, "other")
				})]
				var signs []string
				for _, s := range i.Evidence {
					signs = append(signs, s.Kind)
				}
				if i.Class != tt.class || !slices.Equal(signs, tt.signs) || i.Blocks != tt.blocks {
					t.Errorf("got %s %v blocks %v, want %s %v %v: %+v", i.Class, signs, i.Blocks, tt.class, tt.signs, tt.blocks, i)
				}
				closeLedger(t, l)
			})
		})
	}
}

// A refusal that is not retirement's, of somebody who did not say who it is, is no use of the route: there was nothing to lose.
func TestStrangersAreNoUsers(t *testing.T) {
	l := openLedger(t, "", nil)
	l.Observe(exchange.Observation{Kind: exchange.SeenRefused, Transport: exchange.HTTPSSE, Detail: "401 Unauthorized"})
	l.Observe(exchange.Observation{Kind: exchange.SeenRefused, Transport: exchange.HTTPSSE, Detail: "404 Not Found"})
	if got := report(t, l).Identities; len(got) != 0 {
		t.Errorf("got %+v, want nobody", got)
	}
}

// All that an identity did is in its row, and in a row of each day.
func TestIdentityFields(t *testing.T) {
	stores(t, func(t *testing.T, file string) {
		start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
		now, add := telemetry.NewClock(start)
		o := &telemetry.Options{}
		telemetry.SetClock(o, now)
		l := openLedger(t, file, o)
		for n := range 10 {
			c := at(asks(legacyClient("desk"), "2025-06-18"), "10.0.0.1", "node")
			c.Info, c.Principal = info("desk", fmt.Sprint("1.", n)), "alice"
			converse(t, l.Handler(&server{}), c, 2)
			add(5 * 24 * time.Hour)
		}
		add(-5 * 24 * time.Hour)
		r := report(t, l)
		if len(r.Identities) != 1 {
			t.Fatalf("got %+v, want one", r.Identities)
		}
		i := r.Identities[0]
		legacy := i.Transports[exchange.HTTPSSE]
		if legacy.Sessions != 10 || legacy.Calls != 20 || legacy.Bytes != 40 || !legacy.FirstSeen.Equal(start) || !legacy.LastSeen.Equal(now()) {
			t.Errorf("got %+v", legacy)
		}
		if want := (telemetry.Counts{Sessions: 7, Calls: 14}); i.Window != want { // days 15 to 45, as a whole
			t.Errorf("window: got %+v, want %+v", i.Window, want)
		}
		if want := (telemetry.Cadence{ActiveDays: 10, LongestGapDays: 5, NeedsDays: 60}); i.Cadence != want {
			t.Errorf("got %+v, want %+v", i.Cadence, want)
		}
		if i.Label != "desk 1.9" || len(i.Clients) != 8 || i.Clients[7].Version != "1.2" || i.Kind != telemetry.KindPrincipal {
			t.Errorf("got %q and %v, want the eight newest", i.Label, i.Clients)
		}
		if diff := cmp.Diff([][]string{i.Requested, i.Negotiated}, [][]string{{"2025-06-18"}, {"2025-06-18"}}); diff != "" {
			t.Error(diff)
		}
		days, err := l.Days(6)
		if err != nil || len(days) != 2 || days[1].Calls != 2 || days[1].Revision != "2025-06-18" || !days[1].Day.Equal(now().Truncate(24*time.Hour)) {
			t.Errorf("days: got %+v, %v", days, err)
		}
	})
}
