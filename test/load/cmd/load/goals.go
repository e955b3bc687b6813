package main

import (
	"fmt"
	"io"
	"math"
)

// A goal is one figure that the bridge has to reach.
type goal struct {
	work   string
	got    float64 // NaN: not measured
	must   float64
	atMost bool // got must not be above; else not below
	unit   string
}

func (g goal) met() bool {
	if g.atMost {
		return g.got <= g.must
	}
	return g.got >= g.must
}

// goals are the figures that the bridge is held to, one stdio child behind it unless the line says another thing.
func (s *suite) goals() []goal {
	var out []goal
	least := func(work string, got, must float64, unit string) {
		out = append(out, goal{work, got, must, false, unit})
	}
	most := func(work string, got, must float64, unit string) {
		out = append(out, goal{work, got, must, true, unit})
	}
	most("faults", float64(len(s.bridgeFaults())), 0, "runs")
	for _, k := range kinds {
		least("load, calls/s, "+kindNames[k], s.ratio("load", k, bridgeStdio, nginx), .90, "of nginx")
		least("load, calls/s, "+kindNames[k], s.ratio("load", k, bridgeStdio, direct), .60, "of direct")
		most("CPU per call, stdio, "+kindNames[k], s.over("load", k, bridgeStdio, "", cpuPerCall), 40, "us")
		most("CPU per call, HTTP, "+kindNames[k], s.over("load", k, sameEra(k), "", cpuPerCall), 75, "us")
	}
	for _, k := range kinds {
		most("one call, added p50, "+kindNames[k], s.over("one call", k, bridgeStdio, direct, func(r, b *result) float64 { return r.P50 - b.P50 }), 75, "us")
		most("one call, added p99, "+kindNames[k], s.over("one call", k, bridgeStdio, direct, func(r, b *result) float64 { return r.P99 - b.P99 }), 300, "us")
		least("50 progress notifications, calls/s, "+kindNames[k], s.ratio("progress", k, bridgeStdio, direct), .50, "of direct")
	}
	for _, k := range kinds {
		most("1 MiB echo, CPU, "+kindNames[k], s.over("1 MiB", k, bridgeStdio, "", cpuPerCall)/1000, 8, "ms")
		most("8 MiB echo, CPU, "+kindNames[k], s.over("8 MiB", k, bridgeStdio, "", cpuPerCall)/1000, 50, "ms")
	}
	for _, across := range []struct{ kind, target string }{
		{kindSSE, bridgeModern}, {kindSH, bridgeModern}, {kindSL, bridgeLegacy}, {kindSSE, bridgeStateless}, {kindSH, bridgeStateless}, {kindSL, bridgeSession},
	} {
		most("a question across eras, CPU, "+kindNames[across.kind]+", "+across.target,
			s.over("questions", across.kind, across.target, "", cpuPerRound), 150, "us")
	}
	for _, l := range s.done {
		at := kindNames[l.Kind]
		switch {
		case l.Target != bridgeStdio && (l.Slow == nil || !isBridge(l.Target)):
		case l.Idle != nil && l.Scenario == "idle":
			least("idle streams open, "+at, float64(l.Idle.Open), float64(l.Idle.Asked), "")
			most("memory per idle stream, "+at, l.Idle.Per, 36, "KiB")
		case l.Idle != nil:
			most("19000 idle streams, "+at, float64(l.Idle.RSS1)/1024, 700, "MiB")
			least("19000 idle streams open, "+at, float64(l.Idle.Open), float64(l.Idle.Asked), "")
		case l.Fan != nil:
			most("fan-out, CPU per delivery, "+at, l.Fan.CPUus, 15, "us")
			least("fan-out, subscribers, "+at, float64(l.Fan.Subs), float64(l.Fan.Asked), "")
			most("fan-out, missing, "+at, float64(l.Fan.Missing), 0, "")
		case l.Slow != nil:
			least("slow readers, rate of the others, "+at+", "+l.Target, l.Slow.RateRatio, .9, "of before")
			most("slow readers, growth, "+at+", "+l.Target, float64(l.Slow.RSSGrow)/1024, slowGrowth, "MiB")
		}
	}
	return out
}

// cpuPerRound is infinite where nothing was asked.
func cpuPerRound(r, _ *result) float64 { return r.CPUs * 1e6 / float64(r.Rounds) }

// slowGrowth is what the bridge may grow by, in MiB, when 128 MiB are asked for and not read: Options.MaxBodyBytesInTotal, and what
// waits on the streams.
const slowGrowth = 192

// sameEra is the HTTP upstream that clients of a kind are passed on to untranslated.
func sameEra(kind string) string {
	if kind == kindSL {
		return bridgeStateless
	}
	return bridgeSession
}

// writeGoals returns how many were missed.
func writeGoals(w io.Writer, goals []goal) (missed int) {
	fmt.Fprintf(w, "\n## Goals\n\n| work | got | must | |\n|---|---|---|---|\n")
	for _, g := range goals {
		if math.IsNaN(g.got) {
			continue
		}
		sign, verdict := ">=", "met"
		if g.atMost {
			sign = "<="
		}
		if !g.met() {
			verdict = "MISSED"
			missed++
		}
		fmt.Fprintf(w, "| %s | %.4g | %s %g %s | %s |\n", g.work, g.got, sign, g.must, g.unit, verdict)
	}
	return missed
}

func (s *suite) faultsOf(scenario, kind, target string) []string {
	var sum result
	for _, l := range s.done {
		if l.Scenario != scenario || l.Kind != kind || l.Target != target {
			continue
		}
		rs := []*result{l.Run}
		if l.Slow != nil {
			rs = []*result{&l.Slow.Before, &l.Slow.During}
		}
		for _, r := range rs {
			if r == nil {
				continue
			}
			sum.Errors, sum.Lost, sum.Dup, sum.Misroute = sum.Errors+r.Errors, sum.Lost+r.Lost, sum.Dup+r.Dup, sum.Misroute+r.Misroute
			sum.Wrong, sum.Unknown, sum.BadNotes = sum.Wrong+r.Wrong, sum.Unknown+r.Unknown, sum.BadNotes+r.BadNotes
			if r.Calls == 0 {
				sum.Errors++
			}
			if sum.Err == "" {
				sum.Err = r.Err
			}
		}
	}
	out := sum.faults()
	if len(out) > 0 && sum.Err != "" {
		out = append(out, "first: "+sum.Err)
	}
	return out
}

// bridgeFaults lists what arrived wrong from the bridge, one sentence for each measurement.
func (s *suite) bridgeFaults() []string {
	seen := map[string]bool{}
	var out []string
	for _, l := range s.done {
		key := l.Scenario + ", " + kindNames[l.Kind] + ", " + l.Target
		if !isBridge(l.Target) || seen[key] {
			continue
		}
		seen[key] = true
		if f := s.faultsOf(l.Scenario, l.Kind, l.Target); len(f) > 0 {
			out = append(out, fmt.Sprintf("%s: %v", key, f))
		}
		if l.Idle != nil && l.Idle.Open < l.Idle.Asked || l.Fan != nil && (l.Fan.Missing > 0 || l.Fan.Err != "") {
			out = append(out, key+": streams or deliveries are missing")
		}
	}
	return out
}
