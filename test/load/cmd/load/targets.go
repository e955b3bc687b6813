package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// A target is one program that is measured. Its words are joined from the suite's folders and ports when it starts.
type target struct {
	name  string
	peer  bool              // only measured when -peers names it
	needs string            // the upstream process it stands in front of; empty: it starts its own
	paths map[string]string // kind -> path
	whole bool
	args  func(s *suite, port int) []string
	of    map[string]string // kind -> the target whose process serves it; else its own
}

var (
	both      = map[string]string{kindSSE: "/sse", kindSH: "/mcp", kindSL: "/mcp"}
	listening = "127.0.0.1:%d"
)

// upstreams are the servers at the end.
var upstreams = map[string][]string{
	"up":        nil,
	"up legacy": {"-era", "legacy"},
	"up modern": {"-era", "modern"},
}

const (
	direct          = "direct"
	nginx           = "nginx"
	revproxy        = "Go ReverseProxy"
	floor           = "floor (stdio)"
	bridgeStdio     = "bridge, stdio, one child"
	bridgeChildren  = "bridge, stdio, a child each"
	bridgeSession   = "bridge, HTTP sessions"
	bridgeStateless = "bridge, HTTP stateless"
	bridgeSSE       = "bridge, HTTP+SSE"
	bridgeModern    = "bridge, stdio 2026-07-28"
	bridgeLegacy    = "bridge, stdio legacy"
)

var targets = []target{
	{name: direct, needs: "up", paths: both},
	{name: nginx, needs: "up", paths: both, whole: true, args: func(s *suite, port int) []string {
		return []string{"nginx", "-p", s.out, "-c", s.nginxConf(port)}
	}},
	{name: revproxy, needs: "up", paths: both, args: func(s *suite, port int) []string {
		return []string{s.bin("revproxy"), "-addr", addr(port), "-to", s.upstream("up", "")}
	}},
	{name: floor, paths: both, args: func(s *suite, port int) []string {
		return []string{s.bin("floor"), "-addr", addr(port), "-stdio", s.bin("upstream") + " -stdio"}
	}},
	{name: bridgeStdio, paths: both, of: map[string]string{kindSL: bridgeModern}, args: func(s *suite, port int) []string {
		return s.bridge(port, "--stateless", "--sharing", "shared", "--era", "legacy", "--", s.bin("upstream"), "-stdio", "-era", "legacy")
	}},
	{name: bridgeChildren, paths: both, args: func(s *suite, port int) []string {
		return s.bridge(port, "--", s.bin("upstream"), "-stdio")
	}},
	{name: bridgeSession, needs: "up legacy", paths: both, args: func(s *suite, port int) []string {
		return s.bridge(port, "--upstream", s.upstream("up legacy", "/mcp"))
	}},
	{name: bridgeStateless, needs: "up modern", paths: both, args: func(s *suite, port int) []string {
		return s.bridge(port, "--upstream", s.upstream("up modern", "/mcp"))
	}},
	{name: bridgeSSE, needs: "up legacy", paths: both, args: func(s *suite, port int) []string {
		return s.bridge(port, "--upstream", s.upstream("up legacy", "/sse"))
	}},
	{name: bridgeModern, paths: both, args: func(s *suite, port int) []string {
		return s.bridge(port, "--", s.bin("upstream"), "-stdio", "-era", "modern")
	}},
	{name: bridgeLegacy, paths: both, args: func(s *suite, port int) []string {
		return s.bridge(port, "--", s.bin("upstream"), "-stdio", "-era", "legacy")
	}},
	{name: "go-sdk in process", peer: true, paths: map[string]string{kindSSE: "/sse", kindSH: "/mcp", kindSL: "/mcp-stateless"}, args: func(s *suite, port int) []string {
		return []string{s.bin("gosdk"), "-addr", addr(port)}
	}},
	{name: "go-sdk proxy (stdio)", peer: true, paths: map[string]string{kindSSE: "/sse", kindSH: "/mcp", kindSL: "/mcp-stateless"}, args: func(s *suite, port int) []string {
		return []string{s.bin("gosdk"), "-addr", addr(port), "-stdio", s.bin("upstream") + " -stdio"}
	}},
	{name: "mcp-go in process", peer: true, paths: map[string]string{kindSSE: "/sse", kindSH: "/mcp"}, args: func(s *suite, port int) []string {
		return []string{s.bin("mcpgo"), "-addr", addr(port)}
	}},
	{name: "npm mcp-proxy", peer: true, paths: both, args: func(s *suite, port int) []string {
		return []string{"node", filepath.Join(s.npm, "mcp-proxy/dist/bin/mcp-proxy.mjs"), "--host", "127.0.0.1", "--port", fmt.Sprint(port), "--", s.bin("upstream"), "-stdio"}
	}},
	{name: "npm supergateway (SSE)", peer: true, paths: map[string]string{kindSSE: "/sse"}, args: func(s *suite, port int) []string {
		return s.supergateway(port)
	}},
	{name: "npm supergateway (sessions)", peer: true, paths: map[string]string{kindSH: "/mcp"}, args: func(s *suite, port int) []string {
		return s.supergateway(port, "--outputTransport", "streamableHttp", "--stateful")
	}},
}

func addr(port int) string { return fmt.Sprintf(listening, port) }

// bridge returns the command line of the bridge with everything on that is on by default, and room for the streams of idle.
func (s *suite) bridge(port int, args ...string) []string {
	return append([]string{s.bin("bridge"), "serve", "--listen", addr(port), "--admin", "off", "--state", s.state(port),
		"--max-sessions", "40000", "--max-stateless", "40000", "--max-children", "256"}, args...)
}

// supergateway listens on every address by itself; the file loaded first keeps it on loopback.
func (s *suite) supergateway(port int, args ...string) []string {
	return append([]string{"node", "-r", s.loopback(), filepath.Join(s.npm, "supergateway/dist/index.js"), "--logLevel", "none",
		"--stdio", s.bin("upstream") + " -stdio", "--port", fmt.Sprint(port)}, args...)
}

func find(name string) *target {
	for i := range targets {
		if targets[i].name == name {
			return &targets[i]
		}
	}
	return nil
}

func isBridge(name string) bool { return strings.HasPrefix(name, "bridge") }
