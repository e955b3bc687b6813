package main

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	bridge "github.com/mcp-dualstack/bridge"
)

// Defaults of the program. Where a default is the library's own it is taken from there.
const (
	defaultListen          = "127.0.0.1:8420"
	defaultAdmin           = "127.0.0.1:8421"
	defaultKeepAlive       = 15 * time.Second
	defaultGrace           = "10ms"
	defaultShutdownTimeout = 10 * time.Second
	defaultMaxSessions     = 1024
	defaultMaxStateless    = 4096
	defaultMaxChildren     = 64
)

// keyOf returns the configuration key of a flag: public-url is public_url.
func keyOf(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// flagOf returns the flag of a configuration key.
func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }

// envOf returns the environment variable of a configuration key: BRIDGE_PUBLIC_URL.
func envOf(key string) string { return envPrefix + strings.ToUpper(key) }

const envPrefix = "BRIDGE_"

// addSettings adds one flag for each setting. Their names are the configuration keys (keyOf), but for
// --config itself; the command of the server has a key and no flag.
func addSettings(fs *pflag.FlagSet) {
	legacy := "on"
	if !bridge.LegacyBuilt {
		legacy = "off"
	}
	fs.String("listen", defaultListen, "address that clients connect to")
	fs.String("admin", defaultAdmin, "address of the admin listener, or off")
	fs.Bool("pprof", false, "serve /debug/pprof/ on the admin listener, for go tool pprof")
	fs.String("upstream", "", "URL of the server to wrap, of any era and HTTP transport; a stdio server is a command after --")
	addChild(fs)
	fs.String("era", "auto", "what the server speaks: auto (ask it), legacy or modern")
	fs.Bool("translate", true, "serve clients of the era that the server does not speak; false refuses them")
	addTranslation(fs)
	fs.String("sharing", "auto", "how clients share a server with a handshake: auto, dedicated, pool or shared")
	fs.Bool("stateless", false, "the server keeps nothing for a client between requests; --sharing shared needs it")
	fs.StringSlice("may-ask", nil, "tool that may ask the client; others share one server session (repeatable; none: every tool)")
	fs.StringSlice("mask-capability", nil, "client capability that the server is not told of, such as sampling (repeatable)")
	fs.StringArray("upstream-header", nil, "header for every request to --upstream, as Name: value (repeatable)")
	fs.String("upstream-bearer-file", "", "file with the token for --upstream, read again when it changes")
	fs.String("upstream-ca-file", "", "PEM certificates that --upstream is trusted by, beside the system's")
	fs.String("upstream-timeout", off, "longest time of one call to --upstream")
	fs.String("legacy", legacy, "serve the HTTP+SSE routes: on, or off to answer as gone")
	fs.String("public-url", "", "URL under which clients see the bridge, such as https://mcp.example.com/tools")
	fs.String("sse-path", bridge.DefaultSSEPath, "path of the HTTP+SSE stream; POST there is Streamable HTTP")
	fs.String("message-path", bridge.DefaultMessagePath, "path of the HTTP+SSE messages")
	fs.String("mcp-path", bridge.DefaultMCPPath, "path of Streamable HTTP")
	fs.String("endpoint-url", "auto", "URL form in the endpoint event: auto, absolute or relative")
	fs.StringSlice("allowed-host", nil, "further name that the Host header may carry (repeatable)")
	fs.StringSlice("allowed-origin", nil, "further origin that browsers may call from (repeatable)")
	fs.StringSlice("trusted-proxy", nil, "address or prefix whose X-Forwarded headers are believed (repeatable)")
	fs.Duration("keep-alive", defaultKeepAlive, "time between comments on an idle stream")
	fs.Bool("hijack", true, "take HTTP/1.1 streams that may be silent for long over from net/http, which takes half of the memory")
	fs.String("grace", defaultGrace, "time that the head of a session's answer waits for the answer itself, to go out with it; or off")
	fs.String("poll-after", off, "release the connection of a 2025-11-25 call after this time; the client comes back for the result")
	fs.String("max-stream-age", off, "end streams that no call belongs to after this time, so that clients open others")
	fs.String("reattach", "authenticated", "which HTTP+SSE clients get their session back after a lost stream: authenticated, all or off")
	addBounds(fs)
	addSecurity(fs)
	fs.Int("max-children", defaultMaxChildren, "processes of the server at once; each session needs one of its own")
	fs.Duration("drain-delay", 0, "time after SIGTERM in which /readyz fails and everything is still served")
	fs.Duration("shutdown-timeout", defaultShutdownTimeout, "time for calls in flight after SIGTERM and --drain-delay")
	fs.Bool("insecure", false, "listen on other than loopback addresses although nobody is asked who they are")
	fs.String("state", "", "folder of ledger.db, retirement.json and audit.jsonl, or off to keep them in memory (default $XDG_STATE_HOME/bridge or ~/.local/state/bridge)")
	addStageSettings(fs)
	addLedgerSettings(fs)
	addMetrics(fs)
	fs.String("log-format", "auto", "log as text, json, or auto: text on a terminal")
	fs.String("log-level", "info", "least level logged: debug, info, warn or error")
}

// addConfig adds --config, which is no setting.
func addConfig(fs *pflag.FlagSet) {
	fs.String("config", "", "YAML file of settings; its keys are the flags with _ for -, and command")
}
