// Load drives MCP servers and bridges over the three HTTP transports and counts what arrives wrong.
//
//	load run    -kind sh -url http://127.0.0.1:23001/mcp -c 8 -d 4 -p 1024 -t 3s -pid N
//	load idle   -kind sse -url http://127.0.0.1:23001/sse -c 5000 -pid N
//	load fanout -kind sse -url ... -c 500 -n 20 -pid N
//	load slow   -kind sse -url ... -c 4 -d 2 -m 8 -pid N
//	load suite  [-full] -bin DIR -out DIR    everything, against the bridge and what it is compared with
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: load run|idle|fanout|slow|suite [flags]")
	}
	raise()
	if os.Args[1] == "suite" {
		if err := suiteMain(os.Args[2:]); err != nil {
			log.Fatal(err)
		}
		return
	}
	modes := map[string]func(options) any{
		"run":    func(o options) any { return run(o) },
		"idle":   func(o options) any { return idle(o) },
		"fanout": func(o options) any { return fanout(o) },
		"slow":   func(o options) any { return slow(o) },
	}
	mode := modes[os.Args[1]]
	if mode == nil {
		log.Fatalf("unknown mode %q; one of run, idle, fanout, slow, suite", os.Args[1])
	}
	b, err := json.Marshal(mode(parse(os.Args[1], os.Args[2:])))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(b))
}

func parse(mode string, args []string) options {
	fs := flag.NewFlagSet(mode, flag.ExitOnError)
	var o options
	fs.StringVar(&o.Kind, "kind", kindSH, "sh (sessions), sl (stateless) or sse (HTTP+SSE)")
	fs.StringVar(&o.URL, "url", "http://127.0.0.1:23001/mcp", "MCP or SSE endpoint")
	fs.IntVar(&o.C, "c", 1, "concurrent sessions")
	fs.IntVar(&o.D, "d", 1, "calls in flight per session")
	fs.IntVar(&o.W, "w", 0, "calls in flight altogether, on sessions in turn; 0: -c times -d")
	fs.IntVar(&o.P, "p", 128, "payload bytes")
	fs.IntVar(&o.K, "k", 0, "progress notifications per call; 0 calls echo")
	fs.IntVar(&o.R, "r", 0, "questions per call; 0 calls echo")
	fs.Int64Var(&o.N, "n", 0, "stop after this many calls (fanout: rounds)")
	fs.IntVar(&o.M, "m", 4, "slow: clients that do not read")
	fs.Float64Var(&o.Rate, "rate", 0, "calls/s of all sessions together; 0: as fast as answers come")
	fs.DurationVar(&o.T, "t", 3*time.Second, "duration")
	fs.DurationVar(&o.Timeout, "timeout", 10*time.Second, "an answer later than this is lost")
	fs.IntVar(&o.Pid, "pid", 0, "process to account")
	fs.BoolVar(&o.Whole, "whole", false, "count the process's descendants as the process")
	fs.Parse(args)
	return o
}
