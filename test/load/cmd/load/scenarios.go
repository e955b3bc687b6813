package main

import "time"

// A scenario is one kind of measurement; every target in targets gets one run of it per round.
type scenario struct {
	name    string
	mode    string // run, idle, fanout, slow
	o       options
	targets []string
	rounds  int
	fresh   bool // a process of its own for every run: memory of one must not be lent to the next
}

var (
	kinds      = []string{kindSSE, kindSH, kindSL}
	kindNames  = map[string]string{kindSSE: "HTTP+SSE", kindSH: "sessions", kindSL: "stateless"}
	compared   = []string{direct, nginx, revproxy, floor}
	bridgeMost = []string{bridgeStdio, bridgeChildren, bridgeModern, bridgeSession, bridgeStateless, bridgeSSE}
)

// short is what make load runs: some three minutes.
func short(peers []string) []scenario {
	some := join(compared, []string{bridgeStdio, bridgeSession, bridgeStateless}, peers) // an HTTP row is translated where the kind is of the other era
	var out []scenario
	for _, k := range kinds {
		out = append(out,
			scenario{name: "load", mode: "run", o: options{Kind: k, C: 16, D: 4, P: 1024, T: time.Second}, targets: some, rounds: 2},
			scenario{name: "one call", mode: "run", o: options{Kind: k, C: 1, D: 1, P: 256, T: 600 * time.Millisecond}, targets: some, rounds: 2},
			scenario{name: "progress", mode: "run", o: options{Kind: k, C: 4, D: 2, K: 50, T: 600 * time.Millisecond}, targets: join(compared, []string{bridgeStdio}), rounds: 2},
			scenario{name: "1 MiB", mode: "run", o: options{Kind: k, C: 1, D: 1, P: 1 << 20, T: 600 * time.Millisecond}, targets: []string{direct, floor, bridgeStdio}, rounds: 1},
		)
	}
	out = append(out, questions(600*time.Millisecond, 1)...)
	out = append(out, streams(2000, 300, []string{floor, bridgeStdio})...)
	return append(out, scenario{name: "slow readers", mode: "slow", o: options{Kind: kindSSE, C: 4, D: 2, P: 1024, M: 8, T: time.Second}, targets: []string{bridgeStdio}, rounds: 1, fresh: true})
}

// full is what make load-full runs: at most a quarter of an hour without peers.
func full(peers []string) []scenario {
	all := join(compared, bridgeMost, peers)
	var out []scenario
	for _, k := range kinds {
		out = append(out,
			scenario{name: "load", mode: "run", o: options{Kind: k, C: 16, D: 4, P: 1024, T: 1500 * time.Millisecond}, targets: all, rounds: 5},
			scenario{name: "one call", mode: "run", o: options{Kind: k, C: 1, D: 1, P: 256, T: time.Second}, targets: all, rounds: 3},
			scenario{name: "progress", mode: "run", o: options{Kind: k, C: 4, D: 2, K: 50, T: time.Second}, targets: join(compared, bridgeMost), rounds: 3},
			scenario{name: "1 MiB", mode: "run", o: options{Kind: k, C: 1, D: 1, P: 1 << 20, T: time.Second}, targets: join(compared, bridgeMost), rounds: 1},
			scenario{name: "8 MiB", mode: "run", o: options{Kind: k, C: 1, D: 1, P: 8<<20 - 4096, T: time.Second}, targets: join(compared, bridgeMost), rounds: 1},
		)
	}
	out = append(out, questions(time.Second, 3)...)
	out = append(out, streams(4000, 500, []string{direct, nginx, floor, bridgeStdio, bridgeStateless})...)
	out = append(out, scenario{name: "idle 19000", mode: "idle", o: options{Kind: kindSSE, C: 19000, T: 3 * time.Second}, targets: []string{bridgeStdio}, rounds: 1, fresh: true})
	for _, k := range kinds {
		out = append(out, scenario{name: "slow readers", mode: "slow", o: options{Kind: k, C: 4, D: 2, P: 1024, M: 8, T: 2 * time.Second}, targets: []string{nginx, bridgeStdio, bridgeSession}, rounds: 1, fresh: true})
	}
	return append(out, growth()...)
}

// questions are calls that the server interrupts, same era and across: rounds are suspend where a stateless client meets a
// legacy server, drive where a client with a session meets a 2026-07-28 server.
func questions(t time.Duration, rounds int) []scenario {
	var out []scenario
	for _, k := range kinds {
		out = append(out, scenario{name: "questions", mode: "run", o: options{Kind: k, C: 16, D: 2, R: 4, T: t},
			targets: []string{direct, bridgeLegacy, bridgeModern, bridgeSession, bridgeStateless}, rounds: rounds})
	}
	return out
}

func streams(idle, subscribers int, targets []string) []scenario {
	var out []scenario
	for _, k := range kinds {
		out = append(out,
			scenario{name: "idle", mode: "idle", o: options{Kind: k, C: idle, T: 2 * time.Second}, targets: targets, rounds: 1, fresh: true},
			scenario{name: "fan-out", mode: "fanout", o: options{Kind: k, C: subscribers, N: 20}, targets: targets, rounds: 1, fresh: true},
		)
	}
	return out
}

// growth is the same load on more and more sessions, 64 calls in flight at most, and a thousand at half of what they could.
func growth() []scenario {
	var out []scenario
	for _, k := range kinds {
		for _, g := range []struct {
			name string
			c    int
		}{{"growth 1", 1}, {"growth 10", 10}, {"growth 100", 100}, {"growth 1000", 1000}, {"growth 10000", 10000}} {
			out = append(out, scenario{name: g.name, mode: "run", o: options{Kind: k, C: g.c, W: min(g.c, 64), P: 1024, T: 1500 * time.Millisecond}, targets: []string{bridgeStdio}, rounds: 1, fresh: true})
		}
		out = append(out, scenario{name: halfLoad, mode: "run", o: options{Kind: k, C: 1000, W: 64, P: 1024, T: 3 * time.Second}, targets: []string{bridgeStdio}, rounds: 1, fresh: true})
	}
	return out
}

// halfLoad runs at half of the calls/s that the same number of sessions reached before.
const halfLoad = "1000 sessions at half load"

func join(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}
