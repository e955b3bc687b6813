package streams

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/test/harness"
)

// limit is how long a single answer may take that nothing holds up. It is no measure of speed.
const limit = 20 * time.Second

// newHTTP returns an HTTP client of many connections, whose idle ones are closed when the test ends.
func newHTTP(tb testing.TB) *http.Client {
	t := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: limit}).DialContext,
		MaxIdleConnsPerHost: 1024,
		DisableCompression:  true,
	}
	tb.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// A stream is an HTTP answer that is read as it comes: events, or one JSON body as if it were an event.
type stream struct {
	status   int
	header   http.Header
	comments int    // keep-alive comments seen
	last     string // the last event id seen

	body   io.ReadCloser
	events *harness.EventReader // nil: JSON
	read   bool                 // the JSON body has been returned
}

// A statusError is an answer other than 2xx.
type statusError struct {
	status int
	header http.Header
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// send sends a request; headers are name and value pairs. A status from 300 up is a *statusError. The
// stream ends at the latest when ctx does.
func send(ctx context.Context, c *http.Client, method, url, body string, headers ...string) (*stream, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body) // the status says enough
		return nil, &statusError{resp.StatusCode, resp.Header, string(text)}
	}
	s := &stream{status: resp.StatusCode, header: resp.Header, body: resp.Body}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		s.events = harness.NewEventReader(resp.Body)
	}
	return s, nil
}

// close ends the stream from this side.
func (s *stream) close() { s.body.Close() }

// next returns the next event with data; io.EOF at a clean end, another error if the stream broke.
func (s *stream) next() (harness.Event, error) {
	if s.events == nil {
		if s.read {
			return harness.Event{}, io.EOF
		}
		s.read = true
		text, err := io.ReadAll(s.body)
		if err == nil && len(text) == 0 {
			err = io.EOF
		}
		return harness.Event{Data: string(text)}, err
	}
	for {
		e, err := s.events.Next()
		if err != nil {
			return e, err
		}
		if e.ID != "" {
			s.last = e.ID
		}
		if e.Comment {
			s.comments++
		}
		if e.Data != "" {
			return e, nil
		}
	}
}

// message returns the next JSON-RPC message.
func (s *stream) message() (harness.Message, error) {
	e, err := s.next()
	if err != nil {
		return harness.Message{}, err
	}
	return e.Message()
}

// answer reads to the response with the id and returns it with what came before.
func (s *stream) answer(id string) (m harness.Message, before []harness.Message, err error) {
	for {
		m, err := s.message()
		if err != nil {
			return m, before, fmt.Errorf("no answer with id %s after %d messages: %w", id, len(before), err)
		}
		if m.IsResponse() && string(m.ID) == id {
			return m, before, nil
		}
		before = append(before, m)
	}
}

// method reads to the first message with the method.
func (s *stream) method(name string) (harness.Message, error) {
	for {
		m, err := s.message()
		if err != nil || m.Method == name {
			return m, err
		}
	}
}

// event reads to the end of the next block, a comment counted, and returns it.
func (s *stream) event() (harness.Event, error) {
	e, err := s.events.Next()
	if e.ID != "" {
		s.last = e.ID
	}
	return e, err
}
