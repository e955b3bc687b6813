package upstream

import (
	"log/slog"
	"time"
)

// Options configure an Upstream. The zero value of each field is the default.
type Options struct {
	Era    string       // "legacy" or "modern": the operator knows; anything else, such as "auto": probe
	Info   []byte       // raw Implementation object shown to the server where no client gave one; nil: the bridge's name
	Logger *slog.Logger // nil: silent

	MaxSessions     int // connections (children) at once, the shared, the probed and the closing ones included; 0: 64
	MaxMessageBytes int // one line from the server; 0: 64 MiB
	MaxQueueBytes   int // waiting to be written to one connection; a single larger message still passes; 0: 1 MiB
	MaxAnswerBytes  int // the same with answers to the server's own requests, which cannot wait; over it the connection ends; 0: 16 MiB
	MaxQuestions    int // requests of the server's that wait for a client, per connection; 0: 64

	ProbeTimeout time.Duration // for an answer to server/discover before the server counts as legacy; 0: 3 s
	OpenTimeout  time.Duration // for a connection and its handshake; 0: 30 s

	CloseGrace time.Duration // between end of input and SIGTERM, and for what is still to be written; 0: 2 s
	TermGrace  time.Duration // between SIGTERM and SIGKILL; 0: 2 s
}

const defaultInfo = `{"name":"mcp-dualstack-bridge","version":"0"}`

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Info == nil {
		d.Info = []byte(defaultInfo)
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	def(&d.MaxSessions, 64)
	def(&d.MaxMessageBytes, 64<<20)
	def(&d.MaxQueueBytes, 1<<20)
	def(&d.MaxAnswerBytes, 16<<20)
	def(&d.MaxQuestions, 64)
	def(&d.ProbeTimeout, 3*time.Second)
	def(&d.OpenTimeout, 30*time.Second)
	def(&d.CloseGrace, 2*time.Second)
	def(&d.TermGrace, 2*time.Second)
	return d
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
