package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	bridge "github.com/mcp-dualstack/bridge"
	"github.com/mcp-dualstack/bridge/retire"
	"github.com/mcp-dualstack/bridge/upstream"
)

// A screen is what serve tells its user at the start.
type screen struct {
	c      *config
	listen net.Addr
	admin  net.Listener // nil when off
	stage  retire.Stage // of the HTTP+SSE routes; empty: open
}

// probeWait is how long the screen waits for the verdict on the server.
const probeWait = 4 * time.Second

// announce writes the screen when the probe has ended, or without its finding if that takes long.
func announce(w io.Writer, s screen, found <-chan finding) {
	f, known := finding{}, false
	select {
	case f = <-found:
		known = true
	case <-time.After(probeWait):
	}
	fmt.Fprint(w, s.text(f, known))
}

func (s screen) text(f finding, known bool) string {
	o := s.c.bridge
	base := s.base()
	var b strings.Builder
	fmt.Fprintf(&b, "\nbridge %s serves MCP in front of %s\n\n", version(), s.behind(f, known))
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	row := func(name, value, what string) { fmt.Fprintf(table, "  %s\t%s\t%s\n", name, value, what) }
	stateless, sessions := served(f, known)
	row("Streamable HTTP", base+o.MCPPath, forms(stateless, sessions))
	legacyOpen := !o.LegacyOff && s.stage != retire.Gone
	row("HTTP+SSE", s.legacyPlace(base, legacyOpen), s.legacyState(legacyOpen))
	if o.PublicURL != "" {
		row("clients use", o.PublicURL, "as --public-url says")
	}
	if who := s.callers(); who != "" {
		row("callers", "known", who)
	}
	if s.admin != nil {
		row("admin", scheme(s.c.tls.admin)+s.admin.Addr().String(), "dashboard; /healthz /readyz /metrics")
	} else {
		row("admin", "off", "no dashboard, no /healthz, no /metrics")
	}
	if s.c.state != "" {
		row("who speaks what", filepath.Join(homely(s.c.state), bridge.LedgerFile), "read it with: bridge report"+s.stateFlag())
	} else {
		row("who speaks what", "in memory", "lost at the end; --state DIR keeps it")
	}
	_ = table.Flush() // into memory: no error
	b.WriteString("\nTry:\n")
	if sessions && legacyOpen {
		fmt.Fprintf(&b, "\n  curl -N %s%s%s\n", base, o.SSEPath, s.credential())
	}
	if sessions {
		fmt.Fprintf(&b, tryInitialize, base+o.MCPPath+s.credential())
	}
	if stateless {
		fmt.Fprintf(&b, tryStateless, base+o.MCPPath+s.credential())
	}
	b.WriteString("\n")
	return b.String()
}

func (s screen) legacyPlace(base string, open bool) string {
	switch {
	case s.c.bridge.LegacyOff:
		return "off"
	case !open:
		return string(retire.Gone)
	}
	return base + s.c.bridge.SSEPath
}

func (s screen) legacyState(open bool) string {
	o := s.c.bridge
	text, post := "2024-11-05", "; Streamable HTTP is served there too"
	if s.stage != "" && s.stage != retire.Open {
		text += ", stage " + string(s.stage) + " (bridge retire show)"
	}
	if !open {
		text, post = o.SSEPath+" answers as gone", "; Streamable HTTP is served there by POST"
	}
	if o.Retirement.SameURLOff {
		return text
	}
	return text + post
}

// served says which forms of Streamable HTTP clients can use; both as long as nothing is known.
func served(f finding, known bool) (stateless, sessions bool) {
	if !known || f.err != nil {
		return true, true
	}
	return f.verdict.Modern, f.verdict.Legacy
}

func forms(stateless, sessions bool) string {
	var words []string
	if stateless {
		words = append(words, "2026-07-28 stateless")
	}
	if sessions {
		words = append(words, "2025-11-25 to 2025-03-26 with sessions")
	}
	return strings.Join(words, "; ")
}

const tryInitialize = `
  curl %s -H 'Content-Type: application/json' \
    -H 'Accept: application/json, text/event-stream' -d '{"jsonrpc":"2.0","id":1,
    "method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},
    "clientInfo":{"name":"curl","version":"8"}}}'
`

const tryStateless = `
  curl %s -H 'Content-Type: application/json' \
    -H 'Accept: application/json, text/event-stream' \
    -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/list' -d '{"jsonrpc":"2.0",
    "id":1,"method":"tools/list","params":{"_meta":{
    "io.modelcontextprotocol/protocolVersion":"2026-07-28",
    "io.modelcontextprotocol/clientInfo":{"name":"curl","version":"8"},
    "io.modelcontextprotocol/clientCapabilities":{}}}}'
`

// base returns the URL by which this machine reaches the clients' listener, without the port's default spelled
// out for an unspecified address.
func (s screen) base() string {
	host, port, err := net.SplitHostPort(s.listen.String())
	if err != nil {
		return scheme(s.c.tls.cert != "") + s.listen.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme(s.c.tls.cert != "") + net.JoinHostPort(host, port)
}

// callers says how callers are known, nothing if they are not.
func (s screen) callers() string {
	a, ways := s.c.bridge.Auth, []string(nil)
	if a.TokenFile != "" {
		ways = append(ways, "tokens of "+homely(a.TokenFile))
	}
	if a.Issuer != "" {
		ways = append(ways, "tokens of "+printable(a.Issuer))
	}
	if a.ClientCertificates {
		ways = append(ways, "client certificates")
	}
	if a.PassThrough {
		ways = append(ways, "what the server makes of their credentials")
	}
	if len(ways) == 0 {
		return ""
	}
	return "by " + strings.Join(ways, ", ")
}

// credential returns what curl needs to be let in, to stand after the URL; nothing where anybody is.
func (s screen) credential() string {
	a := s.c.bridge.Auth
	switch {
	case a.TokenFile != "" || a.Issuer != "" || a.PassThrough:
		return ` -H "Authorization: Bearer $TOKEN"`
	case a.ClientCertificates:
		return " --cert $CERT --key $KEY"
	}
	return ""
}

func scheme(encrypted bool) string {
	if encrypted {
		return "https://"
	}
	return "http://"
}

// behind names the server, without its arguments, which may be secrets.
func (s screen) behind(f finding, known bool) string {
	name := "the built-in demo server"
	switch {
	case s.c.upstream != "":
		name = printable(upstream.Shown(s.c.upstream))
	case len(s.c.command) > 0:
		name = filepath.Base(s.c.command[0])
	}
	switch {
	case !known:
		return name + ", which has not said yet what it speaks"
	case f.err != nil:
		return name + ", which does not answer (see the log)"
	}
	if n := serverName(f.verdict); n != "" && (len(s.c.command) > 0 || s.c.upstream != "") {
		name += fmt.Sprintf(" (%s)", n)
	}
	return fmt.Sprintf("%s,\nwhich speaks %s: %s", name, eras(f.verdict), strings.Join(f.verdict.Served.Strings(), ", "))
}

// stateFlag returns the flag that report needs to find the same ledger.
func (s screen) stateFlag() string {
	if dir, err := userState(); err == nil && dir == s.c.state {
		return ""
	}
	return " --state " + homely(s.c.state)
}

// homely writes a path under the user's home with ~.
func homely(path string) string {
	home, err := os.UserHomeDir()
	if err != nil || home == "/" {
		return path
	}
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok {
		return "~" + string(filepath.Separator) + rest
	}
	return path
}
