package hostile

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// Clients of every transport share one child and use the same ids and the same progress tokens, numbers and strings of the
// same digits: each gets its own answer and its own progress, whose ids and tokens are as it sent them, and a cancellation reaches the one call
// that it names (reports R11, R12, R15, R48).
func TestSharedChild(t *testing.T) {
	b := start(t, "--stateless", "--sharing", "shared")
	const clients, calls = 12, 25
	var calling sync.WaitGroup
	for n := range clients {
		var call func(id, params string) (harness.Message, []harness.Message, error)
		switch n % 3 {
		case 0:
			call = b.legacyCaller(t)
		case 1:
			call = b.sessionCaller(t, b.session(t))
		case 2:
			call = b.sessionCaller(t, modernHeader("say"))
		}
		calling.Go(func() {
			for i := range calls {
				id := strconv.Itoa(i)
				if i%2 == n%2 {
					id = strconv.Quote(id)
				}
				mark := fmt.Sprintf("client %d call %d", n, i)
				progress := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":%d,"message":` + quoted(mark) + `}}`
				params := harness.Modern(`"name":"say","arguments":` + lines(fmt.Sprintf(progress, 1), fmt.Sprintf(progress, 2), fmt.Sprintf(progress, 3)))
				params = strings.Replace(params, `"_meta":{`, `"_meta":{"progressToken":`+id+`,`, 1)
				if n%3 != 2 {
					params = params[:strings.Index(params, `"io.modelcontextprotocol`)-1] + "}}"
				}
				m, notes, err := call(id, params)
				if err != nil || string(m.ID) != id || !strings.Contains(m.Text(), mark) {
					t.Errorf("%s: got id %s %s %+v %v", mark, m.ID, m.Result, m.Error, err)
				}
				if len(notes) != 3 {
					t.Errorf("%s: got %d notifications, want 3", mark, len(notes))
				}
				for _, note := range notes {
					var p struct {
						ProgressToken json.RawMessage `json:"progressToken"`
						Message       string
					}
					if json.Unmarshal(note.Params, &p) != nil || p.Message != mark || string(p.ProgressToken) != id {
						t.Errorf("%s: got %s, want token %s", mark, note.Params, id)
					}
				}
			}
		})
	}
	calling.Wait()
	t.Run("cancellation", func(t *testing.T) { b.cancelOne(t) })
}

// legacyCaller returns a caller on a legacy stream of its own.
func (b *bed) legacyCaller(t *testing.T) func(id, params string) (harness.Message, []harness.Message, error) {
	s := b.legacy(t)
	return func(id, params string) (harness.Message, []harness.Message, error) {
		a, err := b.try(t.Context(), "POST", s.post, harness.Request(id, "tools/call", params))
		if err != nil || a.status != 202 {
			return harness.Message{}, nil, fmt.Errorf("POST: %d %s %w", a.status, a.body, err)
		}
		return untilResponse(s.events)
	}
}

// sessionCaller returns a caller that posts with the header.
func (b *bed) sessionCaller(t *testing.T, header []string) func(id, params string) (harness.Message, []harness.Message, error) {
	return func(id, params string) (harness.Message, []harness.Message, error) {
		a, err := b.try(t.Context(), "POST", "/mcp", harness.Request(id, "tools/call", params), header...)
		if err != nil || a.status != 200 {
			return harness.Message{}, nil, fmt.Errorf("POST: %d %s %w", a.status, a.body, err)
		}
		return untilResponse(harness.NewEventReader(strings.NewReader(a.body)))
	}
}

// untilResponse reads a stream up to a response and returns it and the notifications before it.
func untilResponse(events *harness.EventReader) (harness.Message, []harness.Message, error) {
	var notes []harness.Message
	for {
		e, err := events.Next()
		if err != nil {
			return harness.Message{}, notes, err
		}
		if e.Data == "" {
			continue
		}
		m, err := e.Message()
		if err != nil || m.IsResponse() {
			return m, notes, err
		}
		notes = append(notes, m)
	}
}

// cancelOne has two clients with calls of the same id in flight, of which one cancels its own, and others that are not there.
func (b *bed) cancelOne(t *testing.T) {
	mine, other := b.legacy(t), b.legacy(t)
	const slow = `{"name":"slow","arguments":{"who":%q}}`
	b.accepted(t, mine, harness.Request(`"101"`, "tools/call", fmt.Sprintf(slow, "mine")))
	b.accepted(t, other, harness.Request(`"101"`, "tools/call", fmt.Sprintf(slow, "other")))
	for _, id := range []string{`101`, `"102"`, `null`, `{}`, `"101"`} {
		b.accepted(t, mine, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)
	}
	b.accepted(t, mine, tool("2", "free", `{}`))
	if m := mine.message(t); string(m.ID) != "2" {
		t.Errorf("got %s %s, want the answer to 2 and none to the cancelled call", m.ID, m.Result)
	}
	if m := other.message(t); string(m.ID) != `"101"` || !strings.Contains(m.Text(), "other") {
		t.Errorf("the other client: got %s %s %+v", m.ID, m.Result, m.Error)
	}
	var of string // the id that the server knows the cancelled call by
	var cancelled []string
	for line := range strings.SplitSeq(heard(t, b.record), "\n") {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ RequestID json.RawMessage }
		}
		if json.Unmarshal([]byte(line), &m) != nil {
			continue
		}
		if strings.Contains(line, `{"who":"mine"}`) {
			of = string(m.ID)
		}
		if m.Method == "notifications/cancelled" {
			cancelled = append(cancelled, string(m.Params.RequestID))
		}
	}
	if len(cancelled) != 1 || cancelled[0] != of {
		t.Errorf("the server was told to cancel %v, want %s alone", cancelled, of)
	}
}

// initialize is answered with a revision that has a handshake, whatever it names, on every transport, and never with 2026-07-28
// (report R20).
func TestRevisionsOnEveryTransport(t *testing.T) {
	b := start(t)
	for asked, want := range map[string]string{
		`"2026-07-28"`: "2025-11-25", `"2025-11-25"`: "2025-11-25", `"2024-11-05"`: "2024-11-05", `"1900-01-01"`: "2025-11-25", `"zzz"`: "2025-11-25", `""`: "2025-11-25",
		`7`: "", `null`: "", `["2025-11-25"]`: "",
	} {
		body := harness.Request("1", "initialize", `{"protocolVersion":`+asked+`,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
		if want == "" {
			a := b.do(t, "POST", "/mcp", body, "Accept", "application/json")
			if !strings.Contains(a.body, `"code":-32602,`) {
				t.Errorf("session, %s: got %d %s, want -32602", asked, a.status, a.body)
			}
		} else if a := b.do(t, "POST", "/mcp", body); !strings.Contains(a.body, `"protocolVersion":"`+want+`"`) {
			t.Errorf("session, %s: got %d %s, want %s", asked, a.status, a.body, want)
		}
		s := b.open(t, "GET", "/sse", "")
		s.post = strings.TrimPrefix(s.next(t).Data, b.base)
		b.accepted(t, s, body)
		m := s.message(t)
		if want == "" && (m.Error == nil || m.Error.Code != -32602) || want != "" && !strings.Contains(string(m.Result), `"protocolVersion":"`+want+`"`) {
			t.Errorf("legacy, %s: got %s %+v, want %s", asked, m.Result, m.Error, want)
		}
		s.resp.Body.Close()
	}
	if got := heard(t, b.record); strings.Contains(got, `"protocolVersion":"2026-07-28","capabilities"`) {
		t.Errorf("the server was asked for 2026-07-28 by initialize: %s", got)
	}
}
