package main

import (
	"strconv"
	"time"

	"github.com/spf13/pflag"

	bridge "github.com/mcp-dualstack/bridge"
)

// Defaults of bounds, those of bridge.Options.
const (
	defaultMaxSessionsPerPrincipal = 256
	defaultMaxCalls                = 256
	defaultMaxCallsInTotal         = 4096
	defaultMaxStreams              = 8192
	defaultMaxStreamsPerSession    = 320
	defaultMaxBodyBytes            = 8 << 20
	defaultStreamBytes             = 1 << 20
	defaultReplayEvents            = 256
	defaultReplayBytes             = 1 << 20
	defaultReplayAge               = 5 * time.Minute
	defaultIdleTimeout             = 30 * time.Minute
	defaultWriteTimeout            = 30 * time.Second
	defaultBodyTimeout             = 30 * time.Second
	defaultAskTimeout              = 10 * time.Minute
)

// addBounds adds the flags of what clients may have of the bridge, and how it answers them.
func addBounds(fs *pflag.FlagSet) {
	fs.Int("max-sessions", defaultMaxSessions, "open sessions per transport; a legacy stream is one")
	fs.Int("max-sessions-per-principal", defaultMaxSessionsPerPrincipal, "open sessions of one authenticated caller, per transport")
	fs.Int("max-stateless", defaultMaxStateless, "2026-07-28 requests in flight, listens included")
	fs.Int("max-calls", defaultMaxCalls, "calls in flight in one session")
	fs.Int("max-calls-in-total", defaultMaxCallsInTotal, "calls in flight in all sessions of a transport")
	fs.Int("max-streams", defaultMaxStreams, "streams open in sessions of Streamable HTTP")
	fs.Int("max-streams-per-session", defaultMaxStreamsPerSession, "of them in one session")
	fs.Int("max-body-bytes", defaultMaxBodyBytes, "bytes of one request body")
	fs.Int("stream-bytes", defaultStreamBytes, "bytes that wait for a slow reader before it is cut")
	fs.Int("replay-events", defaultReplayEvents, "events that a stream of a session keeps for a client that lost the connection")
	fs.Int("replay-bytes", defaultReplayBytes, "bytes that it keeps, and all finished calls of a session together")
	fs.Duration("replay-age", defaultReplayAge, "time that it keeps them")
	fs.Duration("idle-timeout", defaultIdleTimeout, "time after which a session of Streamable HTTP without a stream or call ends")
	fs.Duration("write-timeout", defaultWriteTimeout, "time for one write to a stream")
	fs.Duration("body-timeout", defaultBodyTimeout, "time for the whole of a request body to arrive")
	fs.Duration("ask-timeout", defaultAskTimeout, "time for a client's answer to a question of the server's")
	fs.Bool("json-responses", false, "answer calls of sessions with JSON where nothing but the response is to be said; such calls cannot be resumed")
	fs.Bool("accept-raw-mcp-name", false, "accept an Mcp-Name header that should have been encoded and is the name itself")
}

// bounds reads them into o.
func (s *source) bounds(o *bridge.Options) {
	o.MaxSessions = s.number("max_sessions")
	o.MaxSessionsPerPrincipal = s.number("max_sessions_per_principal")
	o.MaxStateless = s.number("max_stateless")
	o.MaxCalls = s.number("max_calls")
	o.MaxCallsInTotal = s.number("max_calls_in_total")
	o.MaxStreams = s.number("max_streams")
	o.MaxStreamsPerSession = s.number("max_streams_per_session")
	o.MaxBodyBytes = int64(s.number("max_body_bytes"))
	o.StreamBytes = s.number("stream_bytes")
	o.ReplayEvents = s.number("replay_events")
	o.ReplayBytes = s.number("replay_bytes")
	o.ReplayAge = s.duration("replay_age")
	o.IdleTimeout = s.duration("idle_timeout")
	o.WriteTimeout = s.duration("write_timeout")
	o.BodyTimeout = s.duration("body_timeout")
	o.AskTimeout = s.duration("ask_timeout")
	o.JSONResponses = s.bool("json_responses")
	o.AcceptRawName = s.bool("accept_raw_mcp_name")
}

// count returns a whole number from 0 up, 0 being the default of what it bounds.
func (s *source) count(key string) int {
	v := s.text(key)
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		s.problem(key, "%q is not a whole number", v)
	}
	return n
}
