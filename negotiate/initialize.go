package negotiate

import "github.com/mcp-dualstack/bridge/internal/jsonrpc"

// An Initialize is what an initialize request says.
type Initialize struct {
	Requested    string   // protocolVersion as sent; "" when params are absent or {}
	Answer       Revision // what to answer, by translation.md 4
	Capabilities []byte   // raw object; nil when absent
	Info         []byte   // raw clientInfo object; nil when absent
}

// firstDraft is a draft that the first SDKs list among their versions. They mean 2024-11-05.
const firstDraft = "2024-10-07"

// ReadInitialize reads the params of an initialize request (InitializeRequestParams of 2024-11-05 to
// 2025-11-25) and chooses the revision to answer from the enabled ones (never a modern one), by
// translation.md 4 "Answer to the client".
//
// The error is -32602. Its data has {supported, requested} beside the reason when the version is
// what is wrong (supported: the enabled legacy revisions, newest first; requested: as sent, null if
// absent), and the reason alone when capabilities or clientInfo are not objects. An absent or null
// one of these is let pass.
func ReadInitialize(params []byte, enabled Set) (Initialize, *jsonrpc.Error) {
	var in Initialize
	enabled &= Legacy
	if jsonrpc.IsNull(params) || isEmptyObject(params) {
		in.Answer = enabled.notAfter(dates[Rev20241105])
		if in.Answer == None {
			return in, refuseInitialize(enabled, nil, "no protocolVersion, which stands for 2024-11-05, and that revision is not enabled here")
		}
		return in, nil
	}
	requested := jsonrpc.Get(params, "protocolVersion")
	var ok bool
	if in.Requested, ok = jsonrpc.String(requested); !ok {
		return in, refuseInitialize(enabled, requested, "protocolVersion must be a string such as 2025-11-25")
	}
	if in.Capabilities, ok = objectMember(params, "capabilities"); !ok {
		return in, Refused(jsonrpc.CodeInvalidParams, ReasonMalformedRequest, "Invalid params: capabilities of initialize must be an object")
	}
	if in.Info, ok = objectMember(params, "clientInfo"); !ok {
		return in, Refused(jsonrpc.CodeInvalidParams, ReasonMalformedRequest, "Invalid params: clientInfo of initialize must be an object")
	}
	in.Answer = answer(in.Requested, enabled)
	if in.Answer == None {
		return in, refuseInitialize(enabled, requested, "neither %s nor an earlier revision is enabled here; use one of data.supported", quote(in.Requested))
	}
	return in, nil
}

// answer chooses from enabled, which has legacy revisions only; None if nothing fits.
func answer(requested string, enabled Set) Revision {
	switch {
	case requested == firstDraft:
		return enabled.notAfter(dates[Rev20241105])
	case !isDate(requested), requested < dates[Rev20241105], requested > dates[Legacy.Newest()]:
		return enabled.Newest()
	}
	// A legacy revision or a date between two of them. A client that asked for an old revision aborts
	// when told a newer one (measured with the 2024-11-05 SDKs), so later ones are no answer.
	return enabled.notAfter(requested)
}

func refuseInitialize(enabled Set, requested []byte, format string, args ...any) *jsonrpc.Error {
	e := jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "Unsupported protocol version: "+format, args...)
	e.Data = versions(enabled, requested, ReasonRevision)
	return e
}

// objectMember returns a member that must be an object if it is there; nil if it is absent or null.
func objectMember(obj []byte, name string) (raw []byte, ok bool) {
	raw = jsonrpc.Get(obj, name)
	if jsonrpc.IsNull(raw) {
		return nil, true
	}
	return raw, jsonrpc.IsObject(raw)
}

func isEmptyObject(raw []byte) bool { return jsonrpc.IsObject(raw) && len(members(raw)) == 0 }
