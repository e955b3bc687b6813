package guard

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode"
)

const (
	codeInvalidRequest = -32600 // JSON-RPC 2.0
	maxQuoteRunes      = 64
)

// refuse answers 403 with a JSON-RPC error without an id: the body has not been read.
func refuse(w http.ResponseWriter, reason, message string) {
	text, err := json.Marshal(message)
	if err != nil {
		panic("a string has no JSON form: " + err.Error())
	}
	body := `{"jsonrpc":"2.0","error":{"code":` + strconv.Itoa(codeInvalidRequest) + `,"message":` + string(text) +
		`,"data":{"bridge":{"reason":"` + reason + `"}}}}`
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte(body)) // the client may be gone; there is nothing left to do for it
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
