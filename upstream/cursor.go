package upstream

import (
	"strconv"
	"strings"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// sealMark begins a cursor that names the session of the pool that made it; its number and the server's
// cursor follow. It hides nothing and decides nothing but which session is asked.
const sealMark = "b1."

// seal makes the cursor of a list name the session that made it, so that the next page comes from there
// (translation.md 6.2, Cursors).
func (m *member) seal(method string, resp exchange.Response) exchange.Response {
	if !strings.HasSuffix(method, "/list") || resp.Error != nil {
		return resp
	}
	if cursor, ok := jsonrpc.String(jsonrpc.Get(resp.Result, "nextCursor")); ok {
		sealed := sealMark + strconv.FormatUint(m.id, 10) + "." + cursor
		resp.Result = jsonrpc.Set(resp.Result, jsonrpc.Quote(sealed), "nextCursor")
	}
	return resp
}

// unseal returns a request with the server's own cursor, and which session made it. want is 0 if any session
// will do.
func unseal(req exchange.Request) (_ exchange.Request, want uint64) {
	if !strings.HasSuffix(req.Method, "/list") {
		return req, 0
	}
	sealed, _ := jsonrpc.String(jsonrpc.Get(req.Params, "cursor"))
	rest, ok := strings.CutPrefix(sealed, sealMark)
	if !ok {
		return req, 0
	}
	id, cursor, ok := strings.Cut(rest, ".")
	want, err := strconv.ParseUint(id, 10, 64)
	if !ok || err != nil || want == 0 {
		return req, 0
	}
	req.Params = jsonrpc.Set(req.Params, jsonrpc.Quote(cursor), "cursor")
	return req, want
}
