package main

import (
	"net/http"
	"net/http/pprof"
)

// profiles serves what go tool pprof reads, under /debug/pprof/. It shows how the program works and costs time while it is
// asked, so it stands behind the protection of the admin listener and is off unless --pprof says otherwise.
func profiles() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("/debug/pprof/", pprof.Index) // heap, goroutine, allocs, block, mutex
	m.HandleFunc("/debug/pprof/profile", pprof.Profile)
	m.HandleFunc("/debug/pprof/trace", pprof.Trace)
	m.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	return m
}
