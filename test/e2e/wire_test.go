package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// How long one answer may take, the start of a node process included.
const answerLimit = 60 * time.Second

// A message is one JSON-RPC message as read off the wire. Absent members are nil; ID keeps its text,
// so that 7 and "7" differ.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// text returns the text of the first content block of a tools/call result.
func (m message) text() string {
	var r struct {
		Content []struct{ Text string }
	}
	if json.Unmarshal(m.Result, &r) != nil || len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// An event is one server-sent event.
type event struct {
	name string
	data string
}

// An eventReader reads server-sent events. It is not the bridge's own reader on purpose.
type eventReader struct {
	lines *bufio.Scanner
}

func newEventReader(r io.Reader) *eventReader {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	return &eventReader{lines: s}
}

// next returns the next event that has data, or io.EOF.
func (r *eventReader) next() (event, error) {
	var e event
	var data []string
	for r.lines.Scan() {
		line := r.lines.Text()
		if line == "" {
			if data != nil {
				e.data = strings.Join(data, "\n")
				return e, nil
			}
			e = event{}
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "data":
			data = append(data, value)
		}
	}
	if err := r.lines.Err(); err != nil {
		return event{}, err
	}
	return event{}, io.EOF
}

// A request describes one HTTP request; headers with an empty value are left out.
type request struct {
	method  string // empty: POST
	path    string
	headers map[string]string
	body    string
}

// An answer is the whole of an HTTP answer that ends. Message is the JSON-RPC message of a JSON body,
// or the one with an id on an event stream; notes are the messages before it.
type answer struct {
	status  int
	header  http.Header
	body    string
	message message
	notes   []message
}

// do sends a request and reads the answer to its end.
func do(tb testing.TB, base string, r request) answer {
	tb.Helper()
	a, err := try(tb.Context(), base, r)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// try is do for goroutines that may not end the test.
func try(ctx context.Context, base string, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	resp, err := send(ctx, base, r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return a, a.readStream(resp.Body)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a.body = string(body)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && strings.HasPrefix(a.body, "{") {
		if err := json.Unmarshal(body, &a.message); err != nil {
			return answer{}, fmt.Errorf("body %q: %w", a.body, err)
		}
	}
	return a, nil
}

func (a *answer) readStream(r io.Reader) error {
	events := newEventReader(r)
	for {
		e, err := events.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if e.data == "" {
			continue // the priming event of 2025-11-25
		}
		var m message
		if err := json.Unmarshal([]byte(e.data), &m); err != nil {
			return fmt.Errorf("event %q: %w", e.data, err)
		}
		if m.ID == nil || m.Method != "" {
			a.notes = append(a.notes, m)
			continue
		}
		a.message = m
		a.body = e.data
	}
}

// send sends a request and returns the answer with its body open.
func send(ctx context.Context, base string, r request) (*http.Response, error) {
	method := r.method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, base+r.path, strings.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	for name, value := range r.headers {
		if name == "Host" {
			req.Host = value
			continue
		}
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	return http.DefaultClient.Do(req)
}

// streamable returns the headers of a Streamable HTTP POST, with the extra ones given in pairs.
func streamable(extra ...string) map[string]string {
	h := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	for i := 0; i < len(extra); i += 2 {
		h[extra[i]] = extra[i+1]
	}
	return h
}
