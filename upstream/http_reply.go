package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/internal/sse"
)

// errOversize is the error of a message over Options.MaxMessageBytes.
var errOversize = errors.New("message over the limit")

// isStream reports whether a response is a stream of events.
func isStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get(headerContentType))
	return resp.StatusCode/100 == 2 && kind == typeStream
}

// readBody returns the body of a response that is no stream, of at most max bytes.
func readBody(resp *http.Response, max int) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(max)+1))
	if err != nil {
		return nil, &transportError{err: err}
	}
	if len(body) > max {
		return nil, errOversize
	}
	return body, nil
}

// each calls yield with the messages of a body or event: one, or the elements of a batch where batches are allowed.
// What cannot be read is given to unreadable. It ends when yield returns false.
func each(text []byte, batches bool, yield func(*jsonrpc.Message) bool, unreadable func(*jsonrpc.Message, *jsonrpc.Error)) {
	one := func(text []byte) bool {
		m, err := jsonrpc.Scan(text)
		if err != nil {
			unreadable(&m, err)
			return true
		}
		return yield(&m)
	}
	if !batches || !jsonrpc.IsArray(text) {
		one(text)
		return
	}
	if _, err := jsonrpc.Split(text); err != nil && err.Code == jsonrpc.CodeParse {
		unreadable(&jsonrpc.Message{}, err)
		return
	}
	jsonrpc.Elements(text, one)
}

// An events is the place in a stream of events, kept over the responses that carry it.
type events struct {
	lastID string        // of the last event that had one; empty: the stream cannot be resumed
	retry  time.Duration // 0: the server has not said
	count  int           // of events, those without data included
	last   []byte        // data of the last event that had an id; nil: none
	again  bool          // the next event may be the last one once more
}

// read yields the data of each message event, nil for one over the limit, until the stream ends or yield returns
// false, for which the error is nil; it is upstream_invalid for an event without end. Events without data, which prime a stream (2025-11-25 transports, Sending
// Messages to the Server), only leave their id.
func (e *events) read(body io.Reader, max int, yield func(data []byte) bool) error {
	e.again = e.last != nil && e.lastID != ""
	gate := &floodgate{r: body, most: mostOf(max)}
	r := sse.NewReader(gate, max)
	for {
		gate.open()
		ev, err := r.Next()
		if errors.Is(err, errEndless) {
			return exchange.Fail(exchange.ReasonInvalid, err)
		}
		if err != nil && !errors.Is(err, sse.ErrTooLong) {
			return &transportError{err: fmt.Errorf("stream of events: %w", err)}
		}
		e.count++
		repeated := e.again && err == nil && ev.HasID && ev.ID == e.lastID && bytes.Equal(ev.Data, e.last)
		e.again = false
		if repeated { // the server counts from the event that it was told, not from the next (translation.md 14.5)
			continue
		}
		if ev.HasID {
			e.lastID, e.last = ev.ID, nil
			if len(ev.Data) <= maxRepeated {
				e.last = append([]byte{}, ev.Data...)
			}
		}
		if ev.Retry > 0 {
			e.retry = ev.Retry
		}
		if err != nil {
			if !yield(nil) {
				return nil
			}
			continue
		}
		if ev.NoData || len(bytes.TrimSpace(ev.Data)) == 0 || ev.Name != "" && ev.Name != "message" {
			continue
		}
		if !yield(bytes.Clone(ev.Data)) {
			return nil
		}
	}
}

// maxRepeated is the largest event that is recognised when it comes again.
const maxRepeated = 4 << 10

// drainFor bounds how long a response that has said everything is read to its end, so that its connection can be used
// again.
const drainFor = time.Second

// drain reads what is left of a response and closes it.
func drain(resp *http.Response) {
	t := time.AfterFunc(drainFor, func() { _ = resp.Body.Close() })
	defer t.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // for the connection only
	_ = resp.Body.Close()
}
