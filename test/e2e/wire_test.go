package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// How long one answer may take, the start of a node process included.
const answerLimit = 60 * time.Second

// A message is one JSON-RPC message as read off the wire.
type message = harness.Message

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
	events := harness.NewEventReader(r)
	for {
		e, err := events.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Data == "" {
			continue // a comment, or the priming event of 2025-11-25
		}
		m, err := e.Message()
		if err != nil {
			return err
		}
		if m.ID == nil || m.Method != "" {
			a.notes = append(a.notes, m)
			continue
		}
		a.message = m
		a.body = e.Data
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
