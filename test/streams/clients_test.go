package streams

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/mcp-dualstack/bridge/test/harness"
)

const accept = "application/json, text/event-stream"

// A session is a client of Streamable HTTP with a session.
type session struct {
	http     *http.Client
	url      string // of the endpoint
	id       string
	revision string
}

// openSession initializes a session.
func openSession(ctx context.Context, c *http.Client, base, revision string) (*session, error) {
	s := &session{http: c, url: base + "/mcp", revision: revision}
	st, err := send(ctx, c, http.MethodPost, s.url, harness.Request("0", "initialize", harness.Initialize("streams-session", revision)),
		"Content-Type", "application/json", "Accept", accept)
	if err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	defer st.close()
	if m, _, err := st.answer("0"); err != nil || m.Error != nil {
		return nil, fmt.Errorf("initialize: %w %+v", err, m.Error)
	}
	if s.id = st.header.Get("Mcp-Session-Id"); s.id == "" {
		return nil, errors.New("initialize: no Mcp-Session-Id")
	}
	note, err := s.post(ctx, harness.Initialized)
	if err != nil {
		return nil, fmt.Errorf("initialized: %w", err)
	}
	note.close()
	return s, nil
}

// post sends a message and returns its stream.
func (s *session) post(ctx context.Context, body string) (*stream, error) {
	return send(ctx, s.http, http.MethodPost, s.url, body,
		"Content-Type", "application/json", "Accept", accept, "Mcp-Session-Id", s.id, "MCP-Protocol-Version", s.revision)
}

// get opens the standing stream, or the stream with the event id if there is one.
func (s *session) get(ctx context.Context, last string) (*stream, error) {
	headers := []string{"Accept", "text/event-stream", "Mcp-Session-Id", s.id, "MCP-Protocol-Version", s.revision}
	if last != "" {
		headers = append(headers, "Last-Event-ID", last)
	}
	return send(ctx, s.http, http.MethodGet, s.url, "", headers...)
}

// call sends a request and reads its answer.
func (s *session) call(ctx context.Context, id, method, params string) (harness.Message, []harness.Message, error) {
	st, err := s.post(ctx, harness.Request(id, method, params))
	if err != nil {
		return harness.Message{}, nil, err
	}
	defer st.close()
	return st.answer(id)
}

// end deletes the session.
func (s *session) end(ctx context.Context) error {
	st, err := send(ctx, s.http, http.MethodDelete, s.url, "", "Mcp-Session-Id", s.id, "MCP-Protocol-Version", s.revision)
	if err != nil {
		return err
	}
	st.close()
	return nil
}

// postModern sends a request of 2026-07-28; name is the tool of a tools/call.
func postModern(ctx context.Context, c *http.Client, base, id, method, name, members string) (*stream, error) {
	headers := []string{"Content-Type", "application/json", "Accept", accept, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		headers = append(headers, "Mcp-Name", name)
		members = fmt.Sprintf(`"name":%q,%s`, name, members)
	}
	return send(ctx, c, http.MethodPost, base+"/mcp", harness.Request(id, method, harness.Modern(members)), headers...)
}

// callModern calls a tool with arguments and returns the answer.
func callModern(ctx context.Context, c *http.Client, base, id, name, arguments string) (harness.Message, error) {
	st, err := postModern(ctx, c, base, id, "tools/call", name, `"arguments":`+arguments)
	if err != nil {
		return harness.Message{}, err
	}
	defer st.close()
	m, _, err := st.answer(id)
	return m, err
}

// listen opens subscriptions/listen for the list of tools and reads the acknowledgement.
func listen(ctx context.Context, c *http.Client, base, id string) (*stream, error) {
	st, err := postModern(ctx, c, base, id, "subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`)
	if err != nil {
		return nil, err
	}
	if m, err := st.message(); err != nil || m.Method != "notifications/subscriptions/acknowledged" {
		st.close()
		return nil, fmt.Errorf("listen: got %s %+v, error %w; want the acknowledgement", m.Method, m.Error, err)
	}
	return st, nil
}

// tool returns the params of a tools/call; progress is asked for under the id of the call.
func tool(name, arguments string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"progressToken":"p"}}`, name, arguments)
}

// A legacyClient speaks HTTP+SSE on one stream.
type legacyClient struct {
	http     *http.Client
	data     string // of the endpoint event
	endpoint string // the URL it names
	stream   *stream
	ended    chan struct{} // closed when the stream has ended
	endErr   error         // why, to be read after that

	mu      sync.Mutex
	waiting map[string]chan harness.Message // by the text of the id
	notes   map[string]chan harness.Message // by method: the next one
	seen    []harness.Message               // everything that came, but for what somebody waited for
}

// openStream opens the stream and reads the endpoint event, no more. The stream ends with ctx.
func openStream(ctx context.Context, c *http.Client, base string) (*legacyClient, error) {
	st, err := send(ctx, c, http.MethodGet, base+"/sse", "", "Accept", "text/event-stream")
	if err != nil {
		return nil, fmt.Errorf("GET /sse: %w", err)
	}
	e, err := st.next()
	if err != nil || e.Name != "endpoint" {
		st.close()
		return nil, fmt.Errorf("GET /sse: got event %q, error %w; want endpoint", e.Name, err)
	}
	page, err := url.Parse(base + "/sse")
	if err != nil {
		return nil, err
	}
	u, err := page.Parse(e.Data)
	if err != nil {
		return nil, err
	}
	l := &legacyClient{
		http: c, data: e.Data, endpoint: u.String(), stream: st, ended: make(chan struct{}),
		waiting: make(map[string]chan harness.Message), notes: make(map[string]chan harness.Message),
	}
	if u.Host != page.Host || u.Scheme != page.Scheme { // every client checks it
		st.close()
		return nil, fmt.Errorf("endpoint %s is of another origin than %s", e.Data, base)
	}
	return l, nil
}

// openLegacy opens the stream and initializes.
func openLegacy(ctx context.Context, c *http.Client, base string) (*legacyClient, error) {
	l, err := openStream(ctx, c, base)
	if err != nil {
		return nil, err
	}
	go l.readAll() // ends with the stream
	m, err := l.call(ctx, "0", "initialize", harness.Initialize("streams-legacy", "2024-11-05"))
	if err == nil && m.Error != nil {
		err = errors.New(m.Error.Message)
	}
	if err == nil {
		err = l.post(ctx, harness.Initialized)
	}
	if err != nil {
		l.stream.close()
		return nil, fmt.Errorf("initialize on the legacy stream: %w", err)
	}
	return l, nil
}

func (l *legacyClient) readAll() {
	defer close(l.ended)
	defer l.stream.close()
	for {
		m, err := l.stream.message()
		if err != nil {
			l.endErr = err
			return
		}
		l.mu.Lock()
		to, key := l.waiting, string(m.ID)
		if m.Method != "" {
			to, key = l.notes, m.Method
		}
		if w := to[key]; w != nil {
			w <- m
			delete(to, key)
		} else {
			l.seen = append(l.seen, m)
		}
		l.mu.Unlock()
	}
}

// expect returns a channel for the response with the id, or the next message of the method.
func (l *legacyClient) expect(id, method string) <-chan harness.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan harness.Message, 1)
	if method != "" {
		l.notes[method] = c
	} else {
		l.waiting[id] = c
	}
	return c
}

// post sends a message to the endpoint.
func (l *legacyClient) post(ctx context.Context, body string) error {
	st, err := send(ctx, l.http, http.MethodPost, l.endpoint, body, "Content-Type", "application/json")
	if err != nil {
		return err
	}
	st.close()
	if st.status != http.StatusAccepted {
		return fmt.Errorf("got status %d, want 202", st.status)
	}
	return nil
}

// errStreamEnded is the error of a call whose stream ended before its answer.
var errStreamEnded = errors.New("the stream ended before the answer")

// call sends a request and waits for its answer on the stream.
func (l *legacyClient) call(ctx context.Context, id, method, params string) (harness.Message, error) {
	answer := l.expect(id, "")
	if err := l.post(ctx, harness.Request(id, method, params)); err != nil {
		return harness.Message{}, err
	}
	return l.wait(ctx, answer)
}

// wait returns what comes on the channel, or why nothing can.
func (l *legacyClient) wait(ctx context.Context, answer <-chan harness.Message) (harness.Message, error) {
	select {
	case m := <-answer:
		return m, nil
	case <-l.ended:
		select {
		case m := <-answer: // it was the last
			return m, nil
		default:
			return harness.Message{}, errStreamEnded
		}
	case <-ctx.Done():
		return harness.Message{}, ctx.Err()
	}
}
