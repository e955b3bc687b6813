package upstream

import (
	"net/http"
	"strings"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// header returns the fields of a request of 2026-07-28, all made from its body so that the two cannot disagree, and the client's
// Mcp-Param-* that no annotation claims (translation.md 11). The error is -32602 for an argument for which no
// legal field exists.
func (m *stateless) header(req exchange.Request, ps []negotiate.Param) (http.Header, *exchange.Error) {
	h := http.Header{
		headerAccept:            {acceptBoth},
		negotiate.HeaderVersion: {negotiate.Rev20260728.String()},
		negotiate.HeaderMethod:  {negotiate.EncodeValue(req.Method)},
	}
	if v, ok := jsonrpc.String(jsonrpc.Get(req.Params, "_meta", negotiate.MetaVersion)); ok {
		h.Set(negotiate.HeaderVersion, negotiate.EncodeValue(v))
	}
	if name, ok := jsonrpc.String(jsonrpc.Get(req.Params, named(req.Method))); ok {
		h.Set(negotiate.HeaderName, m.encodeName(name))
	}
	mirrored, err := negotiate.ParamHeaders(jsonrpc.Get(req.Params, "arguments"), ps)
	if err != nil {
		return nil, err
	}
	for name, values := range mirrored {
		h[name] = values
	}
	for name, values := range req.Header {
		if strings.HasPrefix(name, negotiate.HeaderParamPrefix) && !claimed(name, ps) {
			h[name] = values
		}
	}
	return h, nil
}

// named returns the member of params that Mcp-Name repeats, "" for a method that has none.
func named(method string) string {
	switch method {
	case "tools/call", "prompts/get":
		return "name"
	case "resources/read":
		return "uri"
	case "tasks/get", "tasks/update", "tasks/cancel":
		return "taskId"
	}
	return ""
}

func (m *stateless) encodeName(name string) string {
	if m.l.o.SendRawMcpName && strings.TrimSpace(name) == name && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return name
	}
	return negotiate.EncodeValue(name)
}

func claimed(header string, ps []negotiate.Param) bool {
	for _, p := range ps {
		if p.Header == header {
			return true
		}
	}
	return false
}
