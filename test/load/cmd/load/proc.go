package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type usage struct {
	CPU    float64 `json:"cpu_s"`      // user+system seconds
	RSS    int64   `json:"rss_kib"`    // now
	HWM    int64   `json:"hwm_kib"`    // peak
	KidCPU float64 `json:"kids_cpu_s"` // descendants now alive
	KidRSS int64   `json:"kids_rss_kib"`
	Kids   int     `json:"kids"`
}

func stat(pid int) (ppid int, cpu float64, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+2:]))
	ppid, _ = strconv.Atoi(f[1])
	u, _ := strconv.ParseFloat(f[11], 64)
	s, _ := strconv.ParseFloat(f[12], 64)
	return ppid, (u + s) / 100, true
}

func mem(pid int) (rss, hwm int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for _, l := range strings.Split(string(b), "\n") {
		f := strings.Fields(l)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "VmRSS:":
			rss, _ = strconv.ParseInt(f[1], 10, 64)
		case "VmHWM:":
			hwm, _ = strconv.ParseInt(f[1], 10, 64)
		}
	}
	return
}

// measure reads a process and its descendants. Where whole is set the
// descendants count as the process itself (nginx workers, npx wrappers).
func measure(pid int, whole bool) (u usage) {
	if pid <= 0 {
		return
	}
	_, u.CPU, _ = stat(pid)
	u.RSS, u.HWM = mem(pid)
	parent := map[int]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		p, _ := strconv.Atoi(filepath.Base(d))
		if pp, _, ok := stat(p); ok {
			parent[p] = pp
		}
	}
	for p := range parent {
		for q := parent[p]; q > 1; q = parent[q] {
			if q == pid {
				_, c, _ := stat(p)
				r, h := mem(p)
				if whole {
					u.CPU, u.RSS, u.HWM = u.CPU+c, u.RSS+r, u.HWM+h
				} else {
					u.KidCPU, u.KidRSS, u.Kids = u.KidCPU+c, u.KidRSS+r, u.Kids+1
				}
				break
			}
		}
	}
	return
}

// busy returns the seconds all cores have spent working since boot.
func busy() float64 {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	var t float64
	for i, f := range strings.Fields(strings.TrimPrefix(line, "cpu")) {
		if i == 3 || i == 4 || i > 7 { // idle, iowait, guest (already in user)
			continue
		}
		v, _ := strconv.ParseFloat(f, 64)
		t += v
	}
	return t / 100
}
