package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A suite runs scenarios against targets, round by round, and keeps every figure as a line of JSON. A suite that was
// interrupted goes on where it stopped.
type suite struct {
	dir    string // of the programs
	out    string
	npm    string // node_modules of the npm peers
	log    *os.File
	lines  *os.File
	done   []line
	ups    map[string]*process
	shared map[string]*process // by target, for scenarios that need no fresh process
}

// A line is one measurement; one of the results is set.
type line struct {
	Scenario string      `json:"scenario"`
	Kind     string      `json:"kind"`
	Target   string      `json:"target"`
	Round    int         `json:"round"`
	Run      *result     `json:"run,omitempty"`
	Idle     *idleResult `json:"idle,omitempty"`
	Fan      *fanResult  `json:"fanout,omitempty"`
	Slow     *slowResult `json:"slow,omitempty"`
}

//go:embed nginx.conf.in
var nginxTemplate string

//go:embed loopback.cjs
var loopbackFile []byte

func suiteMain(args []string) error {
	fset := flag.NewFlagSet("suite", flag.ExitOnError)
	isFull := fset.Bool("full", false, "every scenario at full size; without it a few minutes")
	bin := fset.String("bin", "", "folder of the programs: bridge, upstream, floor, revproxy")
	out := fset.String("out", "", "folder for results.jsonl, table.md and logs; what is in it already is not measured again")
	peers := fset.String("peers", "", "comma separated peers to measure too: "+strings.Join(peerNames(), ", "))
	npm := fset.String("npm", "", "node_modules with mcp-proxy and supergateway, for those peers")
	only := fset.String("only", "", "comma separated beginnings of scenario names to run; empty: all")
	except := fset.String("except", "", "comma separated targets to leave out, such as nginx where it is not installed")
	reportOnly := fset.Bool("report", false, "measure nothing, and write table.md from what is in -out")
	strict := fset.Bool("strict", false, "exit 1 when a goal is missed, not only on a fault")
	fset.Parse(args)
	s, err := newSuite(*bin, *out, *npm)
	if err != nil {
		return err
	}
	defer s.close()
	var names []string
	if *peers != "" {
		names = strings.Split(*peers, ",")
	}
	for _, n := range names {
		if t := find(n); t == nil || !t.peer {
			return fmt.Errorf("-peers: %q is none of %s", n, strings.Join(peerNames(), ", "))
		}
	}
	scenarios := short(names)
	if *isFull {
		scenarios = full(names)
	}
	scenarios = slices.DeleteFunc(scenarios, func(sc scenario) bool {
		return *only != "" && !slices.ContainsFunc(strings.Split(*only, ","), func(p string) bool { return strings.HasPrefix(sc.name, p) })
	})
	without := strings.Split(*except, ",")
	for i := range scenarios {
		sc := &scenarios[i]
		sc.targets = slices.DeleteFunc(slices.Clone(sc.targets), func(t string) bool { return slices.Contains(without, t) || find(t).paths[sc.o.Kind] == "" })
	}
	if !*reportOnly {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := s.runAll(ctx, scenarios); err != nil {
			return err
		}
	}
	return s.report(scenarios, *strict)
}

func peerNames() (out []string) {
	for _, t := range targets {
		if t.peer {
			out = append(out, t.name)
		}
	}
	return out
}

func newSuite(bin, out, npm string) (*suite, error) {
	if bin == "" || out == "" {
		return nil, errors.New("-bin and -out are needed")
	}
	s := &suite{npm: npm, ups: map[string]*process{}, shared: map[string]*process{}}
	var err1, err2 error
	s.dir, err1 = filepath.Abs(bin)
	s.out, err2 = filepath.Abs(out)
	if err := errors.Join(err1, err2, os.MkdirAll(s.out, 0o755)); err != nil {
		return nil, err
	}
	results := filepath.Join(s.out, "results.jsonl")
	if err := s.resume(results); err != nil {
		return nil, err
	}
	s.log, err1 = os.OpenFile(filepath.Join(s.out, "programs.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	s.lines, err2 = os.OpenFile(results, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return s, errors.Join(err1, err2)
}

// resume reads what was measured before.
func (s *suite) resume(name string) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var l line
		if json.Unmarshal(sc.Bytes(), &l) == nil { // the last line of an interrupted suite may be half
			s.done = append(s.done, l)
		}
	}
	return nil
}

func (s *suite) has(l line) bool {
	return slices.ContainsFunc(s.done, func(d line) bool {
		return d.Scenario == l.Scenario && d.Kind == l.Kind && d.Target == l.Target && d.Round == l.Round
	})
}

// runAll measures round by round, so that what is compared is measured within seconds of each other. It stops between two
// measurements when ctx ends.
func (s *suite) runAll(ctx context.Context, scenarios []scenario) error {
	rounds := 0
	for _, sc := range scenarios {
		rounds = max(rounds, sc.rounds)
	}
	began := time.Now()
	for round := range rounds {
		for _, sc := range scenarios {
			if round >= sc.rounds {
				continue
			}
			for i := range sc.targets {
				t := find(sc.targets[(i+round*3)%len(sc.targets)])
				l := line{Scenario: sc.name, Kind: sc.o.Kind, Target: t.name, Round: round}
				if s.has(l) {
					continue
				}
				if ctx.Err() != nil {
					return errors.New("interrupted; the same command goes on from here")
				}
				if err := s.measure(sc, t, &l); err != nil {
					return fmt.Errorf("%s, %s, %s: %w", sc.name, kindNames[sc.o.Kind], t.name, err)
				}
				s.done = append(s.done, l)
				if err := json.NewEncoder(s.lines).Encode(l); err != nil {
					return err
				}
			}
		}
		log.Printf("round %d of %d done after %s", round+1, rounds, time.Since(began).Round(time.Second))
	}
	return nil
}

func (s *suite) measure(sc scenario, t *target, l *line) error {
	if by := t.of[sc.o.Kind]; by != "" {
		t = find(by)
	}
	p, err := s.process(t, sc.fresh)
	if err != nil {
		return err
	}
	if sc.fresh && t.args != nil {
		defer p.stop()
	}
	o := sc.o
	o.URL = "http://" + addr(p.port) + t.paths[o.Kind]
	o.Pid, o.Whole, o.Timeout = p.pid(), t.whole, 10*time.Second
	if sc.name == halfLoad {
		if o.Rate, err = s.half(l); err != nil {
			return err
		}
	}
	if sc.mode == "run" && (l.Round == 0 || sc.fresh) { // pools and caches fill unrecorded
		warm := o
		warm.T, warm.C, warm.Rate = 300*time.Millisecond, min(o.C, 16), 0
		run(warm)
	}
	switch sc.mode {
	case "idle":
		r := idle(o)
		l.Idle = &r
	case "fanout":
		r := fanout(o)
		l.Fan = &r
	case "slow":
		r := slow(o)
		l.Slow = &r
	default:
		r := run(o)
		l.Run = &r
	}
	return nil
}

// half returns half of the calls/s that the row of l reached with as many sessions. Without that nothing is measured: a run at full speed
// would pass for it.
func (s *suite) half(l *line) (float64, error) {
	for _, full := range s.done {
		if full.Scenario == "growth 1000" && full.Kind == l.Kind && full.Target == l.Target && full.Run != nil && full.Run.Rate > 0 {
			return full.Run.Rate / 2, nil
		}
	}
	return 0, errors.New(`"growth 1000" was not measured; run both`)
}

// process starts what a target needs. The upstream stays for the whole suite.
func (s *suite) process(t *target, fresh bool) (*process, error) {
	if t.needs != "" && s.ups[t.needs] == nil {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		s.ups[t.needs], err = start(t.needs, port, s.log, append([]string{s.bin("upstream"), "-addr", addr(port)}, upstreams[t.needs]...)...)
		if err != nil {
			return nil, err
		}
	}
	if t.args == nil {
		return s.ups[t.needs], nil
	}
	if p := s.shared[t.name]; p != nil && !fresh {
		return p, nil
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p, err := start(t.name, port, s.log, t.args(s, port)...)
	if err == nil && !fresh {
		s.shared[t.name] = p
	}
	return p, err
}

func (s *suite) bin(name string) string { return filepath.Join(s.dir, name) }

func (s *suite) upstream(name, path string) string { return "http://" + addr(s.ups[name].port) + path }

func (s *suite) state(port int) string { return filepath.Join(s.out, fmt.Sprint("state-", port)) }

func (s *suite) nginxConf(port int) string {
	name := filepath.Join(s.out, fmt.Sprintf("nginx-%d.conf", port))
	text := strings.NewReplacer("@DIR@", s.out, "@LISTEN@", addr(port), "@UPSTREAM@", addr(s.ups["up"].port)).Replace(nginxTemplate)
	os.WriteFile(name, []byte(text), 0o644) // nginx says so when it is missing
	return name
}

func (s *suite) loopback() string {
	name := filepath.Join(s.out, "loopback.cjs")
	os.WriteFile(name, loopbackFile, 0o644) // node says so when it is missing
	return name
}

func (s *suite) close() {
	for _, m := range []map[string]*process{s.shared, s.ups} {
		for _, p := range m {
			if err := p.stop(); err != nil {
				log.Printf("stop %s: %v", p.name, err)
			}
		}
	}
	s.lines.Close()
	s.log.Close()
}
