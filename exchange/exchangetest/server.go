package exchangetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// The result of initialize without protocolVersion, and of server/discover without supportedVersions. Their
// unknown members must come through.
const (
	serverInfo  = `{"name":"contract","version":"1.0","x-info":25.0}`
	initialized = `{"capabilities":{"tools":{},"x-cap":[1.50]},"serverInfo":` + serverInfo + `,"instructions":"ask \u0041"}`
	discovered  = `{"resultType":"complete","capabilities":{"tools":{},"x-cap":[1.50]},"_meta":{"` + negotiate.MetaServerInfo + `":` + serverInfo + `},"instructions":"ask \u0041","ttlMs":0,"cacheScope":"private"}`
)

// Serve is the server that TestHandler expects behind the handler under test. It speaks
// newline-delimited JSON-RPC on rw until that ends or a call asks it to: the handshake with any of the
// legacy revisions of served, and 2026-07-28 if served has it. It returns nil at the end of input.
//
// It understands initialize, server/discover, ping and tools/call of these tools, each with what its
// arguments say: echo, fail, progress, wait, cancels, ask, tell, seen, client, exit.
func Serve(rw io.ReadWriter, served negotiate.Set) error {
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{w: rw, served: served, ctx: ctx, waiting: map[string]*waiting{}, asked: map[string]chan exchange.Response{}}
	defer s.wg.Wait()
	defer cancel()
	r := bufio.NewReader(rw)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
				return nil
			}
			return err
		}
		m, refusal := jsonrpc.Scan(line)
		if refusal != nil {
			return fmt.Errorf("received %q: %w", line, refusal)
		}
		if s.take(&m) {
			return nil
		}
	}
}

type server struct {
	served negotiate.Set
	ctx    context.Context // of this running server
	wg     sync.WaitGroup

	write sync.Mutex
	w     io.Writer

	mu          sync.Mutex
	client      []byte // params of initialize
	initialized int
	early       bool // a request came before notifications/initialized
	lastID      int
	seen        []byte // raw tags of calls in order of arrival, joined by commas
	waiting     map[string]*waiting
	cancels     []byte // raw tags and reasons of cancelled calls, joined by commas
	asked       map[string]chan exchange.Response
	changed     chan struct{}
}

type waiting struct{ tag []byte }

// take deals with one message and reports whether the server is to end.
func (s *server) take(m *jsonrpc.Message) (end bool) {
	switch m.Kind {
	case jsonrpc.Response:
		s.mu.Lock()
		answer := s.asked[string(m.ID)]
		delete(s.asked, string(m.ID))
		s.mu.Unlock()
		if answer != nil {
			answer <- exchange.Response{Result: m.Result, Error: m.Error}
		}
	case jsonrpc.Notification:
		s.note(m)
	case jsonrpc.Request:
		return s.request(m)
	}
	return false
}

func (s *server) note(m *jsonrpc.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Method {
	case "notifications/initialized":
		s.initialized++
	case "notifications/cancelled":
		id := string(jsonrpc.Get(m.Params, "requestId"))
		w := s.waiting[id]
		if w == nil {
			return
		}
		delete(s.waiting, id)
		reason := jsonrpc.Get(m.Params, "reason")
		if reason == nil {
			reason = []byte("null")
		}
		s.cancels = join(s.cancels, w.tag)
		s.cancels = join(s.cancels, reason)
		if s.changed != nil {
			close(s.changed)
			s.changed = nil
		}
	}
}

func join(list, elem []byte) []byte {
	if len(list) > 0 {
		list = append(list, ',')
	}
	return append(list, elem...)
}

func (s *server) request(m *jsonrpc.Message) (end bool) {
	switch m.Method {
	case "initialize":
		s.initialize(m)
		return false
	case "server/discover":
		if s.served&negotiate.Modern != 0 {
			s.result(m, jsonrpc.Set([]byte(discovered), s.served.JSON(), "supportedVersions"))
			return false
		}
	case "tools/call":
		return s.call(m)
	}
	s.fault(m, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found"))
	return false
}

func (s *server) initialize(m *jsonrpc.Message) {
	s.mu.Lock()
	s.client = m.Params
	s.mu.Unlock()
	asked, _ := jsonrpc.String(jsonrpc.Get(m.Params, "protocolVersion"))
	r, _ := negotiate.Parse(asked)
	legacy := s.served & negotiate.Legacy
	if legacy == 0 {
		s.fault(m, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "Method not found"))
		return
	}
	if jsonrpc.Get(m.Params, "capabilities", "refuseMe") != nil {
		s.fault(m, &exchange.Error{Raw: []byte(refusal)})
		return
	}
	if !legacy.Has(r) {
		r = legacy.Newest()
	}
	s.result(m, jsonrpc.Set([]byte(initialized), jsonrpc.Quote(r.String()), "protocolVersion"))
}

// refusal is what the server says to a client with the capability refuseMe.
const refusal = `{"code":-32010,"message":"not you","data":{"x":1.0},"x-more":true}`

func (s *server) call(m *jsonrpc.Message) (end bool) {
	args := jsonrpc.Get(m.Params, "arguments")
	name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name"))
	tag := jsonrpc.Get(args, "tag")
	s.mu.Lock()
	s.early = s.early || s.initialized == 0
	if tag != nil {
		s.seen = join(s.seen, tag)
	}
	if name == "wait" {
		s.waiting[string(m.ID)] = &waiting{tag: tag}
	}
	s.mu.Unlock()
	switch name {
	case "exit":
		return true
	case "wait":
		if jsonrpc.Get(args, "announce") != nil { // so that the test knows that it has arrived
			s.progress(m, 0)
		}
	case "echo":
		s.result(m, fmt.Appendf(nil, `{"echo":%s}`, m.Params))
	case "fail":
		s.fault(m, &exchange.Error{Raw: jsonrpc.Get(args, "error")})
	case "progress":
		n, _ := strconv.Atoi(string(jsonrpc.Get(args, "count")))
		for i := range n {
			s.progress(m, i)
		}
		s.result(m, []byte(`{"content":[]}`))
	case "tell":
		method, _ := jsonrpc.String(jsonrpc.Get(args, "method"))
		s.send(jsonrpc.AppendNotification(nil, method, jsonrpc.Get(args, "params")))
		s.result(m, []byte(`{"content":[]}`))
	case "ask":
		s.wg.Go(func() { s.ask(m, args) })
	case "cancels":
		s.wg.Go(func() { s.tellCancels(m, string(jsonrpc.Get(args, "count"))) })
	case "seen":
		s.mu.Lock()
		seen := fmt.Appendf(nil, `{"seen":[%s]}`, s.seen)
		s.mu.Unlock()
		s.result(m, seen)
	case "client":
		s.mu.Lock()
		client := fmt.Appendf(nil, `{"params":%s,"initialized":%d,"early":%t}`, s.client, s.initialized, s.early)
		s.mu.Unlock()
		s.result(m, client)
	default:
		s.fault(m, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "unknown tool"))
	}
	return false
}

func (s *server) progress(m *jsonrpc.Message, i int) {
	if token := jsonrpc.Get(m.Meta, negotiate.MetaProgressToken); token != nil {
		s.send(jsonrpc.AppendNotification(nil, "notifications/progress",
			fmt.Appendf(nil, `{"x-i":%d.0,"progressToken":%s,"progress":%d}`, i, token, i)))
	}
}

// ask puts args.method with args.params to the client and answers with what it said.
func (s *server) ask(m *jsonrpc.Message, args []byte) {
	method, _ := jsonrpc.String(jsonrpc.Get(args, "method"))
	answer := make(chan exchange.Response, 1)
	s.mu.Lock()
	s.lastID++
	id := fmt.Appendf(nil, `"q%d"`, s.lastID)
	s.asked[string(id)] = answer
	s.mu.Unlock()
	s.send(jsonrpc.AppendRequest(nil, id, method, jsonrpc.Get(args, "params")))
	select {
	case a := <-answer:
		if a.Error != nil {
			s.result(m, fmt.Appendf(nil, `{"error":%s}`, a.Error.Raw))
			return
		}
		s.result(m, fmt.Appendf(nil, `{"answer":%s}`, a.Result))
	case <-s.ctx.Done():
	}
}

// tellCancels waits until that many cancellations have come and answers with them.
func (s *server) tellCancels(m *jsonrpc.Message, count string) {
	want, _ := strconv.Atoi(count)
	for {
		s.mu.Lock()
		list := append([]byte(nil), s.cancels...)
		n := 0
		jsonrpc.Elements(fmt.Appendf(nil, "[%s]", list), func([]byte) bool { n++; return true })
		if n >= 2*want {
			s.mu.Unlock()
			s.result(m, fmt.Appendf(nil, `{"cancels":[%s]}`, list))
			return
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *server) result(m *jsonrpc.Message, result []byte) {
	s.send(jsonrpc.AppendResult(nil, m.ID, result))
}

func (s *server) fault(m *jsonrpc.Message, e *exchange.Error) {
	s.send(jsonrpc.AppendError(nil, m.ID, e))
}

// send writes a line. A failure shows at the reader, which ends then.
func (s *server) send(msg []byte) {
	s.write.Lock()
	defer s.write.Unlock()
	_, _ = s.w.Write(append(msg, '\n'))
}
