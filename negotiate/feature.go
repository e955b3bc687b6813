package negotiate

// A Feature is something that some revisions have and others do not.
type Feature uint8

// The features the bridge decides by. The table in this file has the section of the specification for each.
const (
	Handshake           Feature = iota // initialize and sessions (2024-11-05 to 2025-11-25 basic/lifecycle)
	Batching                           // 2025-03-26 basic/index, Batching; tolerated from 2024-11-05
	Resumption                         // event ids and Last-Event-ID (2025-03-26 to 2025-11-25 basic/transports)
	PrimingEvent                       // event with id and empty data first, retry, polling (2025-11-25 basic/transports, SEP-1699)
	ServerRequests                     // the server may send requests (handshake era)
	InputRequired                      // multi round-trip requests (2026-07-28 basic/patterns/mrtr)
	RequestMeta                        // version and capabilities in every request's _meta (2026-07-28 basic/index)
	StandardHeaders                    // Mcp-Method, Mcp-Name, Mcp-Param-* (2026-07-28 basic/transports/streamable-http)
	VersionHeader                      // MCP-Protocol-Version on every request (2025-06-18 basic/transports)
	AudioContent                       // 2025-03-26 server/tools
	ResourceLinks                      // 2025-06-18 server/tools
	Elicitation                        // 2025-06-18 client/elicitation
	URLElicitation                     // 2025-11-25 client/elicitation
	SamplingTools                      // 2025-11-25 client/sampling
	Tasks                              // core tasks, 2025-11-25 only
	ListenSubscriptions                // subscriptions/listen (2026-07-28 basic/patterns/subscriptions)
)

// Has reports whether r has feature f.
func (r Revision) Has(f Feature) bool { panic("not built") }
