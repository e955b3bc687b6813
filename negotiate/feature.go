package negotiate

// A Feature is something that some revisions have and others do not.
type Feature uint8

// The features the bridge decides by. The table in this file has the section of the specification for each.
const (
	Handshake           Feature = iota // initialize, and sessions on Streamable HTTP
	Batching                           // JSON-RPC arrays are accepted
	Resumption                         // event ids and Last-Event-ID
	PrimingEvent                       // event with id and empty data first, retry, polling by disconnect
	ServerRequests                     // the server may send requests
	InputRequired                      // multi round-trip requests
	RequestMeta                        // version and capabilities in every request's _meta
	StandardHeaders                    // Mcp-Method, Mcp-Name, Mcp-Param-*
	VersionHeader                      // MCP-Protocol-Version on every HTTP request
	AudioContent                       // content blocks of type audio
	ResourceLinks                      // content blocks of type resource_link
	Elicitation                        // elicitation/create, form mode
	URLElicitation                     // elicitation/create, URL mode
	SamplingTools                      // tools, toolChoice and array content in sampling/createMessage
	Tasks                              // core tasks: tasks/*, task params, execution.taskSupport
	AnyOutput                          // outputSchema and structuredContent of any JSON type
	TitledEnums                        // elicitation forms with oneOf of const and title, and with multi-select fields
	ListenSubscriptions                // subscriptions/listen

	features = iota
)

// The revisions that have each feature, read from the sections named. Sampling and elicitation of
// 2026-07-28 have the same payload and travel as input requests (InputRequired).
var featureTable = [features]Set{
	Handshake:           from(Rev20241105, Rev20251125), // basic/lifecycle, Initialization; removed by 2026-07-28 changelog, major 1 and 2
	Batching:            from(Rev20241105, Rev20250326), // 2025-03-26 basic/index, Batching; removed by 2025-06-18 changelog, major 1. 2024-11-05 is silent, tolerated by translation.md 2
	Resumption:          from(Rev20250326, Rev20251125), // basic/transports, Resumability and Redelivery; removed by 2026-07-28 changelog, major 9
	PrimingEvent:        from(Rev20251125, Rev20251125), // 2025-11-25 basic/transports, Sending Messages to the Server, point 6 (SEP-1699)
	ServerRequests:      from(Rev20241105, Rev20251125), // client/sampling, client/roots; forbidden by 2026-07-28 streamable-http, Receiving Messages
	InputRequired:       from(Rev20260728, Rev20260728), // 2026-07-28 basic/patterns/mrtr
	RequestMeta:         from(Rev20260728, Rev20260728), // 2026-07-28 basic/index, _meta, Per-request protocol fields
	StandardHeaders:     from(Rev20260728, Rev20260728), // 2026-07-28 basic/transports/streamable-http, Request Metadata
	VersionHeader:       from(Rev20250618, Rev20260728), // 2025-06-18 basic/transports, Protocol Version Header; 2026-07-28 streamable-http, same title
	AudioContent:        from(Rev20250326, Rev20260728), // 2025-03-26 server/tools, server/prompts, client/sampling, Audio Content
	ResourceLinks:       from(Rev20250618, Rev20260728), // 2025-06-18 server/tools, Resource Links
	Elicitation:         from(Rev20250618, Rev20260728), // 2025-06-18 client/elicitation
	URLElicitation:      from(Rev20251125, Rev20260728), // 2025-11-25 client/elicitation, URL Mode Elicitation Requests
	SamplingTools:       from(Rev20251125, Rev20260728), // 2025-11-25 client/sampling, Sampling with Tools
	Tasks:               from(Rev20251125, Rev20251125), // 2025-11-25 basic/utilities/tasks; an extension since 2026-07-28 changelog, major 6
	ListenSubscriptions: from(Rev20260728, Rev20260728), // 2026-07-28 basic/patterns/subscriptions
	AnyOutput:           from(Rev20260728, Rev20260728), // 2026-07-28 server/tools, Output Schema (SEP-2106)
	TitledEnums:         from(Rev20251125, Rev20260728), // 2025-11-25 client/elicitation, Requested Schema (SEP-1330)
}

// Has reports whether r has feature f. None has nothing.
func (r Revision) Has(f Feature) bool { return f < features && featureTable[f].Has(r) }

// from returns the revisions from first to last, both included.
func from(first, last Revision) Set { return (1<<(last+1) - 1) &^ (1<<first - 1) }
