package guard

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	codeInvalidRequest = -32600 // JSON-RPC 2.0
	codeInternal       = -32603
	maxQuoteRunes      = 64
)

// A refusal is the answer to a request that goes no further.
type refusal struct {
	status     int
	code       int // of JSON-RPC; zero: -32600
	reason     string
	message    string
	challenge  string        // WWW-Authenticate; empty: none
	retryAfter time.Duration // zero: not said
}

// write answers with a JSON-RPC error without an id: the body has not been read.
func (x *refusal) write(w http.ResponseWriter) {
	text, err := json.Marshal(x.message)
	if err != nil {
		panic("a string has no JSON form: " + err.Error())
	}
	code := x.code
	if code == 0 {
		code = codeInvalidRequest
	}
	body := `{"jsonrpc":"2.0","error":{"code":` + strconv.Itoa(code) + `,"message":` + string(text) +
		`,"data":{"bridge":{"reason":"` + x.reason + `"}}}}`
	h := w.Header()
	if x.challenge != "" {
		h.Set("Www-Authenticate", x.challenge)
	}
	if x.retryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((x.retryAfter+time.Second-1)/time.Second), 10))
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(x.status)
	_, _ = w.Write([]byte(body)) // #nosec G705 -- JSON, no page; the client may be gone; there is nothing left to do for it
}

// quote returns what a request said in single quotes, fit for a message: printable characters only,
// at most 64 of them.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	n := 0
	for _, r := range s {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar || r == '\'' {
			continue
		}
		if n == maxQuoteRunes {
			b.WriteString("...")
			break
		}
		b.WriteRune(r)
		n++
	}
	b.WriteByte('\'')
	return b.String()
}
