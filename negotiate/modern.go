package negotiate

import (
	"net/http"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// ExtensionTasks is the capability name of the tasks extension (SEP-2663).
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// CheckModern applies steps 2 to 8 of the ladder of translation.md 3.1 that need no upstream to a ClassModern request.
// Steps 1, 9 and 10 and the unknown methods of step 7 belong to the caller. acceptRawName is the operator's
// switch accept_raw_mcp_name of translation.md 11.
//
// The order of the steps decides which error a request with several faults gets. MCP-Protocol-Version,
// Mcp-Method and Mcp-Name must each be one header line: two lines are two values, of which at most
// one matches the body, so they are -32020.
//
// A body without a string where Mcp-Name is copied from (params.name of tools/call) is -32020 too,
// whether the header is there or not: by 2026-07-28 streamable-http, Server Validation, a missing
// required header and a header that differs from the body are both that error, and nothing in the
// text lets the header be left out because the body is wrong.
//
// Errors: -32602 status 400 for a malformed envelope, -32020 status 400, -32022 status 400,
// -32601 status 404 for a method that the revision removed, -32602 status 200 for the log level.
func CheckModern(h http.Header, m *jsonrpc.Message, served Set, acceptRawName bool) (Claim, *Refusal) {
	c := ReadClaim(m.Meta)
	version, err := c.check() // 2
	if err != nil {
		return c, &Refusal{http.StatusBadRequest, err}
	}
	if err := checkVersionHeader(h, version); err != nil { // 3
		return c, &Refusal{http.StatusBadRequest, err}
	}
	if r, _ := Parse(version); !(served & Modern).Has(r) { // 4
		return c, &Refusal{http.StatusBadRequest, UnsupportedVersion(served, c.Version)}
	}
	if err := checkMethodHeader(h, m.Method); err != nil { // 5
		return c, &Refusal{http.StatusBadRequest, err}
	}
	if member := nameMember(m.Method, c); member != "" { // 6
		if err := checkNameHeader(h, m, member, acceptRawName); err != nil {
			return c, &Refusal{http.StatusBadRequest, err}
		}
	}
	if instead, removed := removedMethods[m.Method]; removed { // 7
		return c, &Refusal{http.StatusNotFound, Refused(jsonrpc.CodeMethodNotFound, ReasonMethodRemoved,
			"Method not found: %s does not exist in %s; %s", m.Method, version, instead)}
	}
	if c.LogLevel != nil { // 8
		if level, ok := jsonrpc.String(c.LogLevel); !ok || !ValidLogLevel(level) {
			return c, &Refusal{http.StatusOK, Refused(jsonrpc.CodeInvalidParams, ReasonLogLevel,
				"Invalid params: _meta %q is none of debug, info, notice, warning, error, critical, alert, emergency", MetaLogLevel)}
		}
	}
	return c, nil
}

// The methods of the handshake era that 2026-07-28 took away (changelog, major 2 to 6), with what to do instead.
var removedMethods = map[string]string{
	"initialize":            "send requests without a handshake, or without the _meta version to negotiate a session of 2025-11-25 or earlier",
	"ping":                  "any request tells whether the server is there",
	"logging/setLevel":      "put " + MetaLogLevel + " into the _meta of each request",
	"resources/subscribe":   "use subscriptions/listen",
	"resources/unsubscribe": "close the response stream of subscriptions/listen",
	"tasks/result":          "use tasks/get of the tasks extension",
	"tasks/list":            "the tasks extension has no list",
}

// check returns the claimed version if the envelope is as 2026-07-28 basic/index, Per-request protocol fields, says. The error is -32602.
func (c Claim) check() (version string, err *jsonrpc.Error) {
	if c.Version == nil {
		return "", Refused(jsonrpc.CodeInvalidParams, ReasonMissingClaim,
			"Invalid params: params._meta has no %q; every request carries it", MetaVersion)
	}
	version, ok := jsonrpc.String(c.Version)
	if !ok {
		return "", malformedClaim(MetaVersion, "must be a string")
	}
	if c.Capabilities == nil {
		return "", malformedClaim(MetaCapabilities, "is missing; send {} for none")
	}
	if !jsonrpc.IsObject(c.Capabilities) {
		return "", malformedClaim(MetaCapabilities, "must be an object")
	}
	if c.Info != nil && !isImplementation(c.Info) {
		return "", malformedClaim(MetaClientInfo, "must be an object with the strings name and version, or be left out")
	}
	return version, nil
}

func malformedClaim(key, what string) *jsonrpc.Error {
	return Refused(jsonrpc.CodeInvalidParams, ReasonMalformedClaim, "Invalid params: params._meta %q %s", key, what)
}

// isImplementation reports whether raw is an object with string name and version (Implementation).
func isImplementation(raw []byte) bool {
	if !jsonrpc.IsObject(raw) {
		return false
	}
	return isString(jsonrpc.Get(raw, "name")) && isString(jsonrpc.Get(raw, "version"))
}

func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }

// one returns the only line of a header. The error names the header as the specification writes it.
func one(h http.Header, key, name string) (string, *jsonrpc.Error) {
	switch lines := h[key]; len(lines) {
	case 0:
		return "", mismatch("the %s header is missing", name)
	case 1:
		return lines[0], nil
	default:
		return "", mismatch("the %s header occurs %d times; send it once", name, len(lines))
	}
}

func checkVersionHeader(h http.Header, version string) *jsonrpc.Error {
	v, err := one(h, HeaderVersion, "MCP-Protocol-Version")
	if err == nil && v != version {
		err = mismatch("MCP-Protocol-Version header value %s does not match %s of _meta %q", quote(v), quote(version), MetaVersion)
	}
	return err
}

func checkMethodHeader(h http.Header, method string) *jsonrpc.Error {
	v, err := one(h, HeaderMethod, "Mcp-Method")
	if err == nil && v != method {
		err = mismatch("Mcp-Method header value %s does not match body value %s", quote(v), quote(method))
	}
	return err
}

// nameMember returns the member of params that Mcp-Name mirrors, or "" if the method has none. The
// tasks methods have one when the client declared the extension; without it they are unknown methods.
func nameMember(method string, c Claim) string {
	switch method {
	case "tools/call", "prompts/get":
		return "name"
	case "resources/read":
		return "uri"
	case "tasks/get", "tasks/update", "tasks/cancel":
		if jsonrpc.Get(c.Capabilities, "extensions", ExtensionTasks) != nil {
			return "taskId"
		}
	}
	return ""
}

// checkNameHeader compares Mcp-Name with a member of params.
func checkNameHeader(h http.Header, m *jsonrpc.Message, member string, acceptRaw bool) *jsonrpc.Error {
	v, err := one(h, HeaderName, "Mcp-Name")
	if err != nil {
		return err
	}
	body, ok := jsonrpc.String(jsonrpc.Get(m.Params, member))
	if !ok {
		return mismatch("Mcp-Name header value %s has no string params.%s to match", quote(v), member)
	}
	if acceptRaw && v == body {
		return nil
	}
	name, ok := DecodeValue(v)
	if !ok {
		return mismatch("Mcp-Name header value %s is neither visible ASCII nor valid =?base64?...?= of UTF-8", quote(v))
	}
	if name != body {
		return mismatch("Mcp-Name header value %s does not match body value %s of params.%s", quote(name), quote(body), member)
	}
	return nil
}
