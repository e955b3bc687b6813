// Upstream is the MCP server at the end of every measurement: raw net/http and raw stdio, no SDK, so that what stands in front
// of it is what is measured.
//
//	upstream -stdio                 newline-delimited JSON-RPC on stdin and stdout
//	upstream -addr 127.0.0.1:23001  POST, GET, DELETE /mcp; GET /sse, POST /message
//
// Its tools are echo, progress, notify and ask. It keeps nothing for a client but its open streams and questions.
package main

import (
	"flag"
	"log"
	"net/http"
	"time"
)

var (
	era      = flag.String("era", "both", "what to speak: both, legacy (sessions) or modern (2026-07-28)")
	fault    = flag.String("fault", "", "break every 50th HTTP+SSE reply, to test the generator: drop, dup, swap, corrupt, cut or order")
	gap      = flag.Duration("gap", 0, "stdio: wait after each message written")
	sseReply = flag.Bool("sse", false, "answer POST /mcp with text/event-stream instead of application/json")
)

func speaksLegacy() bool { return *era != "modern" }
func speaksModern() bool { return *era != "legacy" }

func main() {
	log.SetFlags(0)
	std := flag.Bool("stdio", false, "serve one client on stdin and stdout")
	addr := flag.String("addr", "127.0.0.1:23001", "address to listen on")
	flag.Parse()
	if *std {
		stdio()
		return
	}
	m := http.NewServeMux()
	m.HandleFunc("/mcp", mcp)
	if speaksLegacy() {
		m.HandleFunc("GET /sse", legacyStream)
		m.HandleFunc("POST /message", legacyPost)
	}
	s := &http.Server{Addr: *addr, Handler: m, ReadHeaderTimeout: time.Minute}
	log.Fatal(s.ListenAndServe())
}
