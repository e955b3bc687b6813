package upstream

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"
)

// A noise reports what the server says that it should not, a few times per interval and cut short.
type noise struct {
	log   *slog.Logger
	level slog.Level
	text  string // the log's message

	mu     sync.Mutex
	since  time.Time
	count  int
	hidden int
}

const (
	noiseInterval = 10 * time.Second
	noiseLines    = 5   // per interval
	noiseBytes    = 160 // of a line
)

// report logs what was wrong, with the beginning of text unless that is nil.
func (n *noise) report(what string, text []byte) {
	hidden, ok := n.admit()
	if !ok {
		return
	}
	attrs := make([]slog.Attr, 0, 4)
	if what != "" {
		attrs = append(attrs, slog.String("what", what))
	}
	if text != nil {
		attrs = append(attrs, slog.String("line", printable(text)), slog.Int("bytes", len(text)))
	}
	if hidden > 0 {
		attrs = append(attrs, slog.Int("hidden", hidden))
	}
	n.log.LogAttrs(context.Background(), n.level, n.text, attrs...)
}

// printable returns the beginning of text with U+FFFD for whatever is no visible character and no blank: a terminal that shows the log
// would act upon some, such as U+009B, and show others in another order.
func printable(text []byte) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, string(text[:min(len(text), noiseBytes)]))
}

// admit reports whether there is still room in this interval, and how many reports were hidden before.
func (n *noise) admit() (hidden int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := time.Now(); now.Sub(n.since) >= noiseInterval {
		n.since, n.count = now, 0
	}
	if n.count++; n.count > noiseLines {
		n.hidden++
		return 0, false
	}
	hidden, n.hidden = n.hidden, 0
	return hidden, true
}
