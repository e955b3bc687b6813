//go:build !nolegacy

package main

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

func TestDemoOverSSE(t *testing.T) {
	r := startServe(t)
	stream, err := http.Get(r.base + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	events := bufio.NewReader(stream.Body)
	endpoint := ""
	for endpoint == "" {
		line, err := events.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		endpoint, _ = strings.CutPrefix(strings.TrimSpace(line), "data: "+r.base)
		if !strings.HasPrefix(endpoint, "/") {
			endpoint = ""
		}
	}
	say := func(body string) {
		t.Helper()
		if res := r.post(t, endpoint, body); res.StatusCode != http.StatusAccepted {
			t.Fatalf("%s: got %s", body, res.Status)
		}
	}
	say(initialize)
	if m := next(t, events); string(m.ID) != "1" || m.Error != nil {
		t.Fatalf("initialize: got %+v", m)
	}
	say(initialized)
	say(callSlow)
	checkSlow(t, events)
	say(callAsk)
	question := next(t, events)
	if question.Method != "elicitation/create" {
		t.Fatalf("got %+v, want a question", question)
	}
	say(`{"jsonrpc":"2.0","id":` + string(question.ID) + `,` + answer)
	checkGreeting(t, next(t, events))
}
