package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// otherName stands for every client name that is no label value.
const otherName = "other"

// maxWords bounds the label values that only the bridge's own code chooses, such as reasons of refusals.
const maxWords = 96

// A vocabulary is the words that a label may have. Words are added and never removed: a series that was
// there once stays, so what counts is how many there have ever been.
type vocabulary struct {
	rest    string // stands for what is not in it
	max     int
	reached func() // called when a word found no room; may be nil

	words atomic.Pointer[map[string]string] // immutable; replaced under mu
	mu    sync.Mutex
}

func newVocabulary(rest string, max int, reached func()) *vocabulary {
	v := &vocabulary{rest: rest, max: max, reached: reached}
	v.words.Store(&map[string]string{})
	return v
}

// find returns the word with that text, which it allocates nothing for, or what stands for the rest.
func (v *vocabulary) find(text []byte) string {
	if w, ok := (*v.words.Load())[string(text)]; ok {
		return w
	}
	return v.rest
}

// has returns word if it is in the vocabulary, or what stands for the rest.
func (v *vocabulary) has(word string) string {
	if _, ok := (*v.words.Load())[word]; ok {
		return word
	}
	return v.rest
}

// admit adds word if there is room and returns it, or what stands for the rest.
func (v *vocabulary) admit(word string) string {
	if _, ok := (*v.words.Load())[word]; ok {
		return word
	}
	v.mu.Lock()
	words := *v.words.Load()
	room := len(words) < v.max
	if room {
		more := maps.Clone(words)
		more[word] = word
		v.words.Store(&more)
	}
	v.mu.Unlock()
	if room {
		return word
	}
	if v.reached != nil {
		v.reached()
	}
	return v.rest
}

// methods are the requests and notifications of every revision that a client or a server sends (schema.ts, 2024-11-05 to
// 2026-07-28).
var methods = wordSet(
	"completion/complete", "elicitation/create", "initialize", "logging/setLevel", "notifications/cancelled",
	"notifications/elicitation/complete", "notifications/initialized", "notifications/message", "notifications/progress",
	"notifications/prompts/list_changed", "notifications/resources/list_changed", "notifications/resources/updated",
	"notifications/roots/list_changed", "notifications/subscriptions/acknowledged", "notifications/tasks/status",
	"notifications/tools/list_changed", "ping", "prompts/get", "prompts/list", "resources/list", "resources/read",
	"resources/subscribe", "resources/templates/list", "resources/unsubscribe", "roots/list", "sampling/createMessage",
	"server/discover", "subscriptions/listen", "tasks/cancel", "tasks/get", "tasks/list", "tasks/result", "tasks/update",
	"tools/call", "tools/list",
)

func wordSet(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}

// methodLabel returns a method as a label value.
func methodLabel(method string) string {
	if methods[method] {
		return method
	}
	return other
}

// failures are the reasons why there was no answer, as error.type.
var failures = wordSet(
	exchange.ReasonEra, exchange.ReasonLost, exchange.ReasonSessionLost, exchange.ReasonUnavailable, exchange.ReasonVersion,
	exchange.ReasonInvalid, exchange.ReasonTimeout, exchange.ReasonBusy, exchange.ReasonAuth, exchange.ReasonStreamLost,
	exchange.ReasonHeaders, exchange.ReasonClientTimeout, exchange.ReasonNoChannel, exchange.ReasonClosed, exchange.ReasonTooManyCalls,
	exchange.ReasonBridge, exchange.ReasonStreamCut, exchange.ReasonNoCapability,
)

// errorCodes are the JSON-RPC error codes that are label values: those of JSON-RPC, those that MCP defines in any revision, and those of
// a retirement stage (retirement.md R3).
var errorCodes = map[int]string{
	-32700: "-32700", -32600: "-32600", -32601: "-32601", -32602: "-32602", -32603: "-32603",
	-32000: "-32000", -32001: "-32001", -32002: "-32002", -32020: "-32020", -32021: "-32021", -32022: "-32022",
	-32042: "-32042", -1: "-1", 410: "410", 503: "503",
}

func codeLabel(code int) string {
	if s, ok := errorCodes[code]; ok {
		return s
	}
	return other
}

// revisionLabel returns the date of a published revision, or what stands for another.
func revisionLabel(text string) string {
	if text == "" {
		return unstated
	}
	if _, ok := negotiate.Parse(text); ok {
		return text
	}
	return other
}

// unstated is the label value of a revision that was not named.
const unstated = "none"
