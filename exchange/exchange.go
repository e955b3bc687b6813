// Package exchange defines the one handler that every client transport serves and every upstream
// implements.
//
// A transport (a front) opens one [Session] per client and hands it requests; what the server says
// meanwhile comes back through a [Peer]. Params and results are raw JSON from edge to edge. The rules
// that bind both sides are written at the methods; architecture.md section 3 has them as one list.
package exchange

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// An Error is a JSON-RPC error object.
type Error = jsonrpc.Error

// A Peer is the far end of a conversation as seen from here: it can be asked and it can be told.
// Methods may be called concurrently.
type Peer interface {
	// Call asks the peer and returns what it answered, result or error. A Go error means that no
	// answer was had. The end of ctx takes the question back; Call then returns at once.
	Call(ctx context.Context, req Request) (Response, error)

	// Notify tells the peer. It returns when the note has been handed over; it does not wait for a
	// slow reader. An error means the note will not arrive.
	Notify(ctx context.Context, note Request) error
}

// A Handler is the MCP server behind the bridge.
type Handler interface {
	// Open starts a conversation for one client, including whatever handshake the server needs. ctx
	// governs Open only. The error is a *Failure when the reason is known, or an *Error when
	// the server itself refused the handshake.
	Open(ctx context.Context, c Client) (Session, error)
}

// A Session is one client's conversation with the server. Methods may be called concurrently.
type Session interface {
	// Server says who answers. It is fixed after Open.
	Server() Server

	// Call asks the server. What the server says because of this call, it says to back, before Call
	// returns. A Go error means that no answer was had; a refusal by the server is Response.Error. The end of
	// ctx is cancellation and its cause the reason; Call then returns at once.
	Call(ctx context.Context, req Request, back Peer) (Response, error)

	// Notify tells the server and returns when the note has been handed over. A note for which this
	// server has no use is dropped without an error.
	Notify(ctx context.Context, note Request) error

	// Done is closed when the server's side has ended by itself; nil if it cannot.
	Done() <-chan struct{}

	// Close cancels what is in flight and lets go of the server. It may be called more than once.
	Close() error
}

// A Request is a request or a notification without its id: an id belongs to a connection.
type Request struct {
	Method string
	Params []byte      // raw JSON object, nil when absent
	Header http.Header // the Mcp-Param-* fields of a stateless tools/call as they came, else nil
	Sent   func()      // if set, called once, when the request has been handed to the server
}

// A Response is what a server or client answered. Error is nil for a result.
type Response struct {
	Result []byte // raw JSON
	Error  *Error
}

// A Client describes who is calling.
type Client struct {
	Revision     negotiate.Revision // answered to the client, or claimed by a stateless one
	Requested    string             // the revision as sent, for the record
	Info         []byte             // raw Implementation object, nil if not given
	Capabilities []byte             // raw ClientCapabilities object, nil if not given
	Principal    string             // the authenticated caller; empty when nobody is authenticated

	// Back is the way to say things that belong to no call. It is nil for a stateless client, which has
	// no standing stream.
	Back Peer

	Authorization string // pass-through mode only; never logged

	// For the record only: nothing behind the seam decides by these.
	Transport string     // HTTPSSE or StreamableHTTP
	Session   string     // the front's session id, empty for a stateless client
	Addr      netip.Addr // after trusted proxies
	UserAgent string
	Reopened  bool // the conversation was opened without an initialize (retirement.md R8)
}

// The client transports, as recorded and reported (retirement.md 7).
const (
	HTTPSSE        = "http_sse"
	StreamableHTTP = "streamable_http"
)

// A Server describes the server of a session.
type Server struct {
	Revision     negotiate.Revision // spoken with the server on this session
	Served       negotiate.Set      // what clients may speak through this handler
	Info         []byte             // raw Implementation object, nil if not given
	Capabilities []byte             // raw ServerCapabilities object, nil: {}
	Instructions []byte             // raw JSON string, nil if not given

	// Discover is the server's own server/discover result, nil unless it speaks 2026-07-28. A front
	// answers with it after replacing supportedVersions.
	Discover []byte
	// Initialize is the server's own initialize result, nil unless the session began with a handshake. A front
	// answers with it after replacing protocolVersion.
	Initialize []byte
}

// An Observation reports something that never becomes a conversation, or that only a front can see.
// Fronts give it to the Observe option.
type Observation struct {
	Kind      string // one of the Seen constants
	Transport string
	Session   string     // the front's session id, if any
	Version   string     // the revision named by the message or header, as sent
	Info      []byte     // raw clientInfo, if the message had one
	Principal string     // the authenticated caller, as in Client; empty: nobody has been
	Addr      netip.Addr // after trusted proxies
	UserAgent string
	Detail    string // short and fixed text, such as the reason of a refusal

	// What the retirement had to do with it, in the words of retirement.md 7; empty: nothing. Stage is a stage (open to gone), Point
	// where the request stood (get, initialize, request or message), Mode that of the brownout window (initialize, calls or hard), empty
	// outside one. They are set on SeenRefused by a stage (Detail is "STAGE: POINT", with " MODE" in a brownout), SeenWouldRefuse, SeenExempt,
	// SeenTombstone, SeenTombstoneEnd and SeenNotice.
	Stage, Point, Mode string
}

// Kinds of observation.
const (
	SeenStream        = "stream"          // a legacy stream was opened
	SeenSilent        = "silent"          // a legacy stream ended without any message (a probe, retirement.md R9)
	SeenDiscover      = "discover"        // server/discover or another 2026 claim on the legacy stream
	SeenVersionHeader = "version_header"  // an MCP-Protocol-Version header on the legacy route
	SeenSameURL       = "same_url"        // Streamable HTTP on the legacy URL
	SeenRefused       = "refused"         // a request refused before it reached a conversation
	SeenMismatch      = "header_mismatch" // another served revision in the header than negotiated
	SeenDuplicateID   = "duplicate_id"    // a request id equal to one in flight
	SeenDropped       = "dropped"         // a message to the client that could not be delivered
	SeenReattached    = "reattached"      // a client that lost its legacy stream has its session again (retirement.md R8)
	SeenBound         = "bound"           // a bound was reached; Detail is the name of the option, such as max_sessions
	SeenWouldRefuse   = "would_refuse"    // at warn: a later stage would have refused this handshake
	SeenExempt        = "exempt"          // an exemption kept a request from being refused by the stage
	SeenTombstone     = "tombstone"       // a legacy stream was opened on which everything is refused; in place of SeenStream
	SeenTombstoneEnd  = "tombstone_end"   // such a stream ended, or an exempt client began a conversation on it
	SeenNotice        = "notice"          // a legacy client was told of the retirement by a log notification
)

// A Failure is the error of Open and Call when the bridge knows why there is no answer.
type Failure struct {
	Reason     string        // a word of translation.md, for data.bridge.reason
	Message    string        // public sentence; empty: the standard one of the reason
	RetryAfter time.Duration // zero: not said
	Answered   bool          // with ReasonBusy: the server said so itself, which may have carried the request out
	Status     int           // with Challenge: the upstream's 401 or 403 and its WWW-Authenticate,
	Challenge  string        // in pass-through mode only
	Served     negotiate.Set // with ReasonEra: what clients may speak through this handler
	Err        error         // for the log, never for the client
}
