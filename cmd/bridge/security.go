package main

import (
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	bridge "github.com/mcp-dualstack/bridge"
)

const (
	defaultMaxAllBodies = 128 << 20
	defaultClockSkew    = time.Minute
)

// Values of --client-cert.
const (
	certRequired = "required"
	certOptional = "optional"
)

// addSecurity adds the flags of who may do what, and how much of it.
func addSecurity(fs *pflag.FlagSet) {
	fs.String("auth-token-file", "", "file of bearer tokens, one a line: NAME sha256:HEX [scope:NAME] [group:NAME] [expires:TIME]; read again when it changes")
	fs.String("auth-issuer", "", "URL of an OpenID Connect provider whose tokens are good")
	fs.StringSlice("auth-audience", nil, "what the aud claim of its tokens may be (repeatable; default --public-url with and without the paths of MCP)")
	fs.String("auth-keys-url", "", "URL of the issuer's keys, where it has no discovery document")
	fs.String("auth-groups-claim", "groups", "claim of its tokens that has the caller's groups")
	fs.Duration("auth-clock-skew", defaultClockSkew, "how far the issuer's clock may be ahead")
	fs.StringSlice("auth-scope", nil, "scope that every token must have (repeatable)")
	fs.StringSlice("auth-server", nil, "authorization server that the metadata document names (repeatable; default --auth-issuer)")
	fs.Bool("auth-pass-through", false, "the server at --upstream checks the clients' credentials itself, and gets them as they are")
	fs.StringArray("tool-rule", nil, "who has which tools, such as 'scope:admin allow *' or '* deny delete_*' (repeatable; none: everybody every tool)")
	fs.String("tls-cert-file", "", "PEM certificate chain of the bridge; read again when it changes")
	fs.String("tls-key-file", "", "PEM private key of it")
	fs.String("tls-min-version", "1.2", "oldest version of TLS: 1.2 or 1.3")
	fs.String("client-ca-file", "", "PEM certificates that vouch for client certificates, which then name the caller where no token does")
	fs.String("client-cert", certRequired, "with --client-ca-file: required, or optional")
	fs.String("hsts", off, "time for which browsers are to use https only, such as 8760h")
	fs.Bool("proxy-protocol", false, "every --trusted-proxy begins its connections with a PROXY protocol header, version 1 or 2")
	fs.String("admin-token-file", "", "file with the bearer token that /admin and /metrics ask for; read again when it changes")
	fs.Bool("admin-tls", false, "serve --admin with the certificate of --tls-cert-file too")
	fs.String("principal-rate", off, "requests per second of one authenticated caller")
	fs.String("principal-calls", off, "calls in flight of one authenticated caller")
	fs.String("principal-streams", off, "streams without a call, and listens, of one authenticated caller")
	fs.String("address-rate", off, "requests per second of one address (IPv6: of its /64)")
	fs.String("address-calls", off, "calls in flight of one address")
	fs.String("address-streams", off, "streams without a call, and listens, of one address")
	fs.Int("max-body-bytes-in-total", defaultMaxAllBodies, "bytes of all request bodies being read or answered")
}

// A transportSecurity is how the listeners talk.
type transportSecurity struct {
	cert, key     string // files; empty: no TLS
	min           uint16 // version
	clientCA      string // file; empty: clients have no certificates
	required      bool   // of every client
	admin         bool   // the admin listener too
	proxyProtocol []string
}

// security reads the flags of addSecurity into c.
func (s *source) security(c *config) {
	o := &c.bridge
	o.Auth = bridge.Auth{
		TokenFile:   s.text("auth_token_file"),
		Issuer:      s.text("auth_issuer"),
		Audience:    s.list("auth_audience"),
		KeysURL:     s.text("auth_keys_url"),
		GroupsClaim: s.text("auth_groups_claim"),
		ClockSkew:   s.duration("auth_clock_skew"),
		Scopes:      s.list("auth_scope"),
		Servers:     s.list("auth_server"),
		PassThrough: s.bool("auth_pass_through"),
	}
	o.ToolRules = s.toolRules()
	o.HSTS = s.optional("hsts")
	o.AdminTokenFile = s.text("admin_token_file")
	o.PrincipalLimit = s.limit("principal")
	o.AddressLimit = s.limit("address")
	o.MaxBodyBytesInTotal = int64(s.number("max_body_bytes_in_total"))
	c.tls = s.transportSecurity(c)
	o.Auth.ClientCertificates = c.tls.clientCA != ""
	c.server.HTTP.PassThrough = o.Auth.PassThrough
	if o.Auth.PassThrough && c.upstream == "" {
		s.problem("auth_pass_through", "a stdio server sees no credentials; name the server by --upstream")
	}
}

func (s *source) transportSecurity(c *config) transportSecurity {
	t := transportSecurity{
		cert: s.text("tls_cert_file"), key: s.text("tls_key_file"), clientCA: s.text("client_ca_file"),
		min:      map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}[s.oneOf("tls_min_version", "1.2", "1.3")],
		required: s.oneOf("client_cert", certRequired, certOptional) == certRequired,
		admin:    s.bool("admin_tls"),
	}
	if (t.cert == "") != (t.key == "") {
		s.problem("tls_cert_file", "a certificate and its key belong together: name both --tls-cert-file and --tls-key-file")
	}
	if t.cert == "" && t.clientCA != "" {
		s.problem("client_ca_file", "client certificates come over TLS only; name --tls-cert-file and --tls-key-file")
	}
	if t.cert == "" && t.admin {
		s.problem("admin_tls", "there is no certificate; name --tls-cert-file and --tls-key-file")
	}
	if t.cert != "" && t.key != "" {
		if _, err := newCertificates(t); err != nil {
			s.problem("tls_cert_file", "%w", err)
		}
	}
	if s.bool("proxy_protocol") {
		if t.proxyProtocol = c.bridge.TrustedProxies; len(t.proxyProtocol) == 0 {
			s.problem("proxy_protocol", "say whose headers are believed: name the proxies by --trusted-proxy")
		}
	}
	return t
}

// limit reads the limits of one kind of caller.
func (s *source) limit(kind string) bridge.Limit {
	return bridge.Limit{
		Rate: s.rate(kind + "_rate"), Calls: s.bound(kind + "_calls"), Streams: s.bound(kind + "_streams"),
	}
}

// rate returns a number per second, zero for off.
func (s *source) rate(key string) float64 {
	v := s.text(key)
	if v == off || v == "0" {
		return 0
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n > 0 && n < 1e9) {
		s.problem(key, "%q is not a number per second such as 20, or off", v)
		return 0
	}
	return n
}

// bound returns a number of things, zero for off.
func (s *source) bound(key string) int {
	if v := s.text(key); v == off || v == "0" {
		return 0
	}
	return s.number(key)
}

// toolRules reads lines such as "scope:admin allow *". What stands before the verb may have blanks: an issuer and a subject, or a group.
func (s *source) toolRules() []bridge.ToolRule {
	var rules []bridge.ToolRule
	for _, line := range s.words("tool_rule") {
		words := strings.Fields(line)
		verb := slices.IndexFunc(words, func(w string) bool { return w == "allow" || w == "deny" })
		if verb < 1 || verb == len(words)-1 {
			s.problem("tool_rule", "%q is not written as: scope:NAME allow TOOL,TOOL (or group:NAME, principal:NAME, *; or deny)", line)
			continue
		}
		var tools []string
		for _, word := range words[verb+1:] {
			for tool := range strings.SplitSeq(word, ",") {
				if tool != "" {
					tools = append(tools, tool)
				}
			}
		}
		rule := bridge.ToolRule{Grant: strings.Join(words[:verb], " "), Allow: tools}
		if words[verb] == "deny" {
			rule.Allow, rule.Deny = nil, tools
		}
		rules = append(rules, rule)
	}
	return rules
}

// checkReach refuses addresses that others could reach without anybody asking who they are.
func (s *source) checkReach(c *config) {
	a := &c.bridge.Auth
	known := a.TokenFile != "" || a.Issuer != "" || a.ClientCertificates || a.PassThrough
	s.checkAddress("listen", c.listen, c.insecure || known,
		"listen on 127.0.0.1 behind a proxy that asks, name --auth-token-file, --auth-issuer or --client-ca-file, or say --insecure")
	if c.admin != off {
		s.checkAddress("admin", c.admin, c.insecure || c.bridge.AdminTokenFile != "",
			"listen on 127.0.0.1, name --admin-token-file, or say --insecure")
	}
}

// warnPlain says so when tokens can be read on the way.
func warnPlain(c *config, log *slog.Logger) {
	a := &c.bridge.Auth
	tokens := a.TokenFile != "" || a.Issuer != "" || a.PassThrough
	host, _, _ := net.SplitHostPort(c.listen)
	if tokens && c.tls.cert == "" && len(c.bridge.TrustedProxies) == 0 && !isLoopback(host) {
		log.Warn("tokens come in unencrypted; name --tls-cert-file, or put a proxy with TLS in front and name it by --trusted-proxy", "listen", c.listen)
	}
	for _, file := range []string{a.TokenFile, c.bridge.AdminTokenFile, c.tls.key} {
		if info, err := os.Stat(file); file != "" && err == nil && info.Mode().Perm()&0o044 != 0 {
			log.Warn("others on this machine can read this file", "file", file, "mode", info.Mode().Perm().String())
		}
	}
}
