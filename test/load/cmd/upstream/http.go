package main

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"github.com/mcp-dualstack/bridge/test/load/scan"
)

func readBody(r *http.Request) ([]byte, error) {
	if n := r.ContentLength; n >= 0 {
		b := make([]byte, n)
		_, err := io.ReadFull(r.Body, b)
		return b, err
	}
	return io.ReadAll(r.Body)
}

// mcp is Streamable HTTP, with sessions and without.
func mcp(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		standing(w, r)
	case http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPost:
		post(w, r)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func standing(w http.ResponseWriter, r *http.Request) {
	sid := r.Header.Get("Mcp-Session-Id")
	if sid == "" || !speaksLegacy() {
		http.Error(w, "a stream needs a session", http.StatusMethodNotAllowed)
		return
	}
	s := &sub{ch: make(chan []byte, subQueue)}
	defer subscribe(sid, s)()
	sseHeader(w)
	pump(w, r, s.ch, nil)
}

func post(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	e := scan.Envelope(body)
	if e.ID == nil || e.Method == nil {
		handle(body, caller{all: broadcast})
		w.WriteHeader(http.StatusAccepted)
		return
	}
	switch {
	case string(e.Method) == "initialize":
		w.Header().Set("Mcp-Session-Id", newID())
	case *era == "legacy" && r.Header.Get("Mcp-Session-Id") == "":
		http.Error(w, "no session", http.StatusBadRequest)
		return
	case string(e.Method) == "subscriptions/listen":
		listen(w, r, e.ID)
		return
	}
	if *sseReply || bytes.Contains(e.Params, []byte(`"progressToken"`)) {
		sseHeader(w)
		event(w, handle(body, caller{emit: func(b []byte) { event(w, b) }, all: broadcast}))
		return
	}
	if bytes.Contains(e.Params, []byte(`"rounds"`)) && !isModern(e) {
		questioning(w, r, body)
		return
	}
	out := handle(body, caller{all: broadcast})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	w.Write(out)
}

// questioning streams the questions of a call and then its answer.
func questioning(w http.ResponseWriter, r *http.Request, body []byte) {
	ch := make(chan []byte, 2)
	sseHeader(w)
	if out := handle(body, caller{emit: func(b []byte) { ch <- b }, all: broadcast}); out != nil {
		event(w, out)
		return
	}
	pump(w, r, ch, func(m []byte) bool { return scan.Envelope(m).Method == nil })
}

func listen(w http.ResponseWriter, r *http.Request, id []byte) {
	s := &sub{ch: make(chan []byte, subQueue), meta: id}
	sseHeader(w)
	event(w, acknowledgement(id))
	defer subscribe(newID(), s)()
	pump(w, r, s.ch, nil)
}
