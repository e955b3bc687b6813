package bridge

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/retire"
)

// A retirementStatus is the body of GET /retirement. Times are RFC 3339; what is not decided is left out.
type retirementStatus struct {
	Stage       retire.Stage  `json:"stage"`
	Since       time.Time     `json:"since,omitzero"`
	Deprecation time.Time     `json:"deprecation,omitzero"`
	Sunset      time.Time     `json:"sunset,omitzero"`
	Brownouts   []publicTime  `json:"brownouts,omitempty"` // those that are on or to come
	Schedule    []retire.Step `json:"schedule,omitempty"`
	Successor   string        `json:"successor"`
	Docs        string        `json:"docs,omitempty"`
	Policy      string        `json:"policy,omitempty"`
}

// A publicTime is a brownout as everybody may know it.
type publicTime struct {
	From  time.Time   `json:"from"`
	Until time.Time   `json:"until"`
	Mode  retire.Mode `json:"mode"`
}

// serveStatus answers GET /retirement: the stage, its dates and where to go, nothing about usage (retirement.md 6).
func (t *retirement) serveStatus(w http.ResponseWriter, r *http.Request) {
	s, l := t.state(), t.links(r)
	doc := retirementStatus{
		Stage: s.Stage, Since: s.Since, Deprecation: s.Deprecation, Sunset: s.Sunset, Successor: l.Successor, Docs: l.Docs, Policy: l.Policy,
	}
	for _, b := range s.Brownouts {
		if b.Aborted == "" && time.Now().Before(b.Until) {
			doc.Brownouts = append(doc.Brownouts, publicTime{b.From, b.Until, b.Mode})
		}
	}
	for _, st := range s.Schedule {
		st.Held = "" // may speak of clients
		doc.Schedule = append(doc.Schedule, st)
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	if err := e.Encode(doc); err != nil {
		panic("bridge: a checked state cannot be written: " + err.Error())
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(body.Bytes()) // nobody to tell: the client went away
}
