// Command server is the stdio MCP server behind the bridge in test/streams. It speaks the handshake and
// 2026-07-28, has tools that take as long as they are told to, and reports when each call begins, ends and
// is cancelled to the TCP address that is its only argument, one JSON object a line:
//
//	{"event": "begin" | "end" | "cancel", "tag": TAG}
//
// TAG is the argument tag of the call. It is written by hand, without an SDK, so that it costs little
// memory and adds no delay of its own: hundreds of it run at once.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
)

func main() {
	s := &server{out: bufio.NewWriter(os.Stdout), running: make(map[string]*call), asked: make(map[string]chan json.RawMessage)}
	if len(os.Args) > 1 {
		c, err := net.Dial("tcp", os.Args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, "server: report:", err)
			os.Exit(1)
		}
		s.reports = json.NewEncoder(c)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		s.read(in.Bytes())
	}
	// The bridge has closed standard input: what still runs is nobody's any more.
}

// A server is one conversation on standard input and output.
type server struct {
	mu      sync.Mutex
	out     *bufio.Writer
	running map[string]*call                // by the text of the id
	asked   map[string]chan json.RawMessage // results of the client's, by the text of our id
	ids     int                             // the last id of a request of ours
	reports *json.Encoder                   // nil: nobody wants to know
}

// A call is one request being served.
type call struct {
	id        json.RawMessage
	modern    bool
	token     json.RawMessage // of progress; nil: none
	args      arguments
	cancelled chan struct{} // closed by notifications/cancelled

	listens bool // to tools/list_changed
}

// A message is what is read of a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params params          `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// params are the members that any method here needs.
type params struct {
	Name            string          `json:"name"`
	Arguments       arguments       `json:"arguments"`
	ProtocolVersion string          `json:"protocolVersion"`
	RequestID       json.RawMessage `json:"requestId"`
	InputResponses  json.RawMessage `json:"inputResponses"`
	Notifications   struct {
		ToolsListChanged bool `json:"toolsListChanged"`
	} `json:"notifications"`
	Meta struct {
		ProgressToken json.RawMessage `json:"progressToken"`
		Version       string          `json:"io.modelcontextprotocol/protocolVersion"`
	} `json:"_meta"`
}

// read serves one line. Calls run in goroutines that end with the process at the latest.
func (s *server) read(line []byte) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		fmt.Fprintln(os.Stderr, "server: unreadable line:", err)
		return
	}
	switch {
	case m.Method == "":
		s.answered(&m)
	case m.Method == "notifications/cancelled":
		s.cancel(m.Params.RequestID)
	case m.ID == nil: // another notification
	default:
		c := &call{
			id: m.ID, modern: m.Params.Meta.Version != "", token: m.Params.Meta.ProgressToken,
			args: m.Params.Arguments, cancelled: make(chan struct{}),
		}
		s.mu.Lock()
		s.running[string(m.ID)] = c
		s.mu.Unlock()
		go s.serve(c, &m)
	}
}

// serve answers a request unless it was cancelled.
func (s *server) serve(c *call, m *message) {
	result, err := s.result(c, m)
	s.mu.Lock()
	delete(s.running, string(c.id))
	s.mu.Unlock()
	switch {
	case err == errCancelled: // it gets no answer
	case err != nil:
		s.send(map[string]any{"jsonrpc": "2.0", "id": c.id, "error": map[string]any{"code": -32602, "message": err.Error()}})
	default:
		if c.modern && result["resultType"] == nil {
			result["resultType"] = "complete"
		}
		s.send(map[string]any{"jsonrpc": "2.0", "id": c.id, "result": result})
	}
}

func (s *server) cancel(id json.RawMessage) {
	s.mu.Lock()
	c := s.running[string(id)]
	delete(s.running, string(id))
	s.mu.Unlock()
	if c == nil {
		return
	}
	s.report("cancel", c.args.Tag)
	close(c.cancelled)
}

// send writes one message; a write error means that the bridge has gone, which ends the process anyway.
func (s *server) send(m map[string]any) {
	line, err := json.Marshal(m)
	if err != nil {
		panic("server: a message of our own: " + err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Write(line)
	s.out.WriteByte('\n')
	s.out.Flush()
}

func (s *server) report(event, tag string) {
	if s.reports == nil || tag == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reports.Encode(map[string]string{"event": event, "tag": tag}); err != nil {
		s.reports = nil // the test is over
	}
}
