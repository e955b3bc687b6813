package main

import (
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report writes table.md and shows it. It fails on a fault in front of the bridge, and on a missed goal where strict asks for it.
func (s *suite) report(scenarios []scenario, strict bool) error {
	name := filepath.Join(s.out, "table.md")
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := io.MultiWriter(f, os.Stdout)
	fmt.Fprintf(w, "# Load, %s\n\n%d CPUs, %s, %s/%s. Rates are medians of rounds, ratios medians of the ratios within a round.\n",
		time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	goals := s.goals()
	missed := writeGoals(w, goals)
	for _, sc := range scenarios {
		switch sc.mode {
		case "idle":
			s.idleTable(w, sc)
		case "fanout":
			s.fanTable(w, sc)
		case "slow":
			s.slowTable(w, sc)
		default:
			s.runTable(w, sc)
		}
	}
	log.Print("written to ", name)
	switch faults := s.bridgeFaults(); {
	case len(faults) > 0:
		return fmt.Errorf("the bridge is at fault:\n%s", strings.Join(faults, "\n"))
	case strict && missed > 0:
		return fmt.Errorf("%d goals missed", missed)
	}
	return nil
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	if len(v)%2 == 1 {
		return v[len(v)/2]
	}
	return (v[len(v)/2-1] + v[len(v)/2]) / 2
}

// over returns the median of f over the rounds of a target; base is the result of another target in the same round, where one
// is named. Runs that shared the machine with much else count only if fewer than three others are left. NaN: not measured.
func (s *suite) over(scenario, kind, target, base string, f func(r, base *result) float64) float64 {
	var quiet, all []float64
	for _, l := range s.done {
		if l.Scenario != scenario || l.Kind != kind || l.Target != target || l.Run == nil {
			continue
		}
		var b *result
		if base != "" {
			if b = s.at(scenario, kind, base, l.Round); b == nil {
				continue
			}
		}
		v := f(l.Run, b)
		all = append(all, v)
		if l.Run.Other < .5 && (b == nil || b.Other < .5) {
			quiet = append(quiet, v)
		}
	}
	if len(quiet) >= 3 {
		return median(quiet)
	}
	return median(all)
}

func (s *suite) at(scenario, kind, target string, round int) *result {
	for _, l := range s.done {
		if l.Scenario == scenario && l.Kind == kind && l.Target == target && l.Round == round {
			return l.Run
		}
	}
	return nil
}

// ratio is the calls/s of a target as a part of another's.
func (s *suite) ratio(scenario, kind, target, base string) float64 {
	return s.over(scenario, kind, target, base, func(r, b *result) float64 { return r.Rate / b.Rate })
}

// cpuPerCall is infinite where there was no call.
func cpuPerCall(r, _ *result) float64 {
	if r.Calls == 0 {
		return math.Inf(1)
	}
	return r.CPUus
}

func (s *suite) lineOf(sc scenario, target string) *line {
	for i, l := range s.done {
		if l.Scenario == sc.name && l.Kind == sc.o.Kind && l.Target == target {
			return &s.done[i]
		}
	}
	return nil
}

func heading(w io.Writer, sc scenario) {
	o := sc.o
	fmt.Fprintf(w, "\n## %s, %s\n\n", sc.name, kindNames[o.Kind])
	switch sc.mode {
	case "idle":
		fmt.Fprintf(w, "%d streams.\n\n", o.C)
	case "fanout":
		fmt.Fprintf(w, "%d subscribers, %d notifications.\n\n", o.C, o.N)
	case "slow":
		fmt.Fprintf(w, "%d clients ask for %d MiB together and do not read, %d sessions do.\n\n", o.M, o.M*slowCalls*slowBytes>>20, o.C)
	case "run":
		if o.W > 0 {
			fmt.Fprintf(w, "%d sessions in turn, %d calls in flight, %d B, %v.\n\n", o.C, o.W, o.P, o.T)
			return
		}
		fmt.Fprintf(w, "%d sessions with %d in flight, %d B, %d notifications and %d questions per call, %d rounds of %v.\n\n", o.C, o.D, o.P, o.K, o.R, sc.rounds, o.T)
	}
}

func (s *suite) runTable(w io.Writer, sc scenario) {
	heading(w, sc)
	fmt.Fprintln(w, "| target | calls/s | of direct | of nginx | p50 us | p99 us | p99.9 us | +p50 us | +p99 us | CPU us/call | RSS MiB | faults |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, t := range sc.targets {
		col := func(base string, f func(r, b *result) float64) float64 { return s.over(sc.name, sc.o.Kind, t, base, f) }
		faults := "0"
		if f := s.faultsOf(sc.name, sc.o.Kind, t); len(f) > 0 {
			faults = strings.Join(f, ", ")
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", t,
			num("%.0f", col("", func(r, _ *result) float64 { return r.Rate })),
			num("%.2f", s.ratio(sc.name, sc.o.Kind, t, direct)),
			num("%.2f", s.ratio(sc.name, sc.o.Kind, t, nginx)),
			num("%.0f", col("", func(r, _ *result) float64 { return r.P50 })),
			num("%.0f", col("", func(r, _ *result) float64 { return r.P99 })),
			num("%.0f", col("", func(r, _ *result) float64 { return r.P999 })),
			num("%+.0f", col(direct, func(r, b *result) float64 { return r.P50 - b.P50 })),
			num("%+.0f", col(direct, func(r, b *result) float64 { return r.P99 - b.P99 })),
			num("%.1f", col("", cpuPerCall)),
			num("%.1f", col("", func(r, _ *result) float64 { return float64(r.RSS) / 1024 })), faults)
	}
	other := s.over(sc.name, sc.o.Kind, sc.targets[len(sc.targets)-1], "", func(r, _ *result) float64 { return r.Other })
	fmt.Fprintf(w, "\nCores taken by other processes: %s.\n", num("%.2f", other))
}

func num(format string, v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf(format, v)
}

func (s *suite) idleTable(w io.Writer, sc scenario) {
	heading(w, sc)
	fmt.Fprintln(w, "| target | open | KiB per stream | RSS MiB | children's KiB per stream | opens/s | CPU us per open | CPU ms/s idle | RSS MiB after close | first error |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|")
	for _, t := range sc.targets {
		if l := s.lineOf(sc, t); l != nil && l.Idle != nil {
			r := l.Idle
			fmt.Fprintf(w, "| %s | %d | %.1f | %.0f | %.1f | %.0f | %.0f | %.1f | %.0f | %s |\n", t, r.Open, r.Per, float64(r.RSS1)/1024, r.KidPer, r.OpenRate, r.OpenCPU, r.IdleCPU, float64(r.RSSClose)/1024, r.Err)
		}
	}
}

func (s *suite) fanTable(w io.Writer, sc scenario) {
	heading(w, sc)
	fmt.Fprintln(w, "| target | subscribers | p50 us | p99 us | last p50 us | CPU us/delivery | missing | extra | first error |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|")
	for _, t := range sc.targets {
		if l := s.lineOf(sc, t); l != nil && l.Fan != nil {
			r := l.Fan
			fmt.Fprintf(w, "| %s | %d | %.0f | %.0f | %.0f | %.1f | %d | %d | %s |\n", t, r.Subs, r.P50, r.P99, r.LastP50, r.CPUus, r.Missing, r.Extra, r.Err)
		}
	}
}

func (s *suite) slowTable(w io.Writer, sc scenario) {
	heading(w, sc)
	fmt.Fprintln(w, "| target | calls/s before | ratio | p99 ratio | asked MiB | streams cut | growth MiB | faults |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|")
	for _, t := range sc.targets {
		if l := s.lineOf(sc, t); l != nil && l.Slow != nil {
			r := l.Slow
			fmt.Fprintf(w, "| %s | %.0f | %.2f | %.2f | %d | %d | %.1f | %s |\n", t, r.Before.Rate, r.RateRatio, r.P99Ratio, r.SlowBytes>>20, r.SlowCut, float64(r.RSSGrow)/1024,
				strings.Join(append(r.Before.faults(), r.During.faults()...), ", "))
		}
	}
}
