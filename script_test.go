package bridge_test

import (
	"bufio"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// serveScript is an MCP server on a newline-delimited connection that does what a script says. The script is a list
// of rules, "METHOD: ACTION" lines, the indented lines below a rule going on with it. A rule's actions are carried
// out, in order, for each message of that method (the request "tools/call" may be narrowed by tool name: "tools/call echo"):
//
//	result JSON     answer the request
//	error JSON      answer with that error object
//	rounds JSON JSON  answer with the first result, and with the second when the request has inputResponses
//	send JSON       write a message; jsonrpc is added
//	ask JSON        write a request and wait for its answer
//	wait 2s         let time pass, while other messages are handled
//	exit            close the connection
//
// $id, $token, $requestId and $args stand for the raw id, progress token, requestId and arguments of the message, $answer for the result
// of the last ask. A request without a rule is answered with -32601. Every message that comes in is recorded.
func serveScript(conn io.ReadWriteCloser, script string, record func(who, line string)) {
	s := &scriptedServer{conn: conn, rules: parseScript(script), asked: map[string]chan []byte{}, gone: make(chan struct{})}
	defer s.hangUp()
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		record("server", "< "+strings.TrimSpace(string(line)))
		m, bad := jsonrpc.Scan(line)
		if bad != nil {
			record("server", "! "+bad.Error())
			return
		}
		if m.Kind == jsonrpc.Response {
			s.mu.Lock()
			answer := s.asked[string(m.ID)]
			s.mu.Unlock()
			if answer != nil {
				result := m.Result
				if m.Error != nil {
					result = m.Error.Raw
				}
				answer <- result
			}
			continue
		}
		go s.handle(&m)
	}
}

type scriptedServer struct {
	conn  io.ReadWriteCloser
	gone  chan struct{} // closed when the connection has ended
	rules map[string][]string

	mu    sync.Mutex
	asked map[string]chan []byte
}

// hangUp ends the connection and the waiting of actions for answers.
func (s *scriptedServer) hangUp() {
	s.conn.Close()
	close(s.gone)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, answer := range s.asked {
		close(answer)
	}
}

func parseScript(script string) map[string][]string {
	rules := map[string][]string{}
	name := ""
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if head, action, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, " ") {
			name, line = head, action
		}
		if action := strings.TrimSpace(line); action != "" {
			rules[name] = append(rules[name], action)
		}
	}
	return rules
}

func (s *scriptedServer) handle(m *jsonrpc.Message) {
	name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name"))
	actions, ok := s.rules[m.Method+" "+name]
	if !ok {
		actions, ok = s.rules[m.Method]
	}
	if !ok && m.Kind == jsonrpc.Request {
		actions = []string{`error {"code":-32601,"message":"no rule"}`}
	}
	vars := map[string]string{
		"$id": string(m.ID), "$token": string(jsonrpc.Get(m.Meta, "progressToken")),
		"$requestId": string(jsonrpc.Get(m.Params, "requestId")), "$args": string(jsonrpc.Get(m.Params, "arguments")),
		"$inputs": string(jsonrpc.Get(m.Params, "inputResponses")),
	}
	for _, action := range actions {
		s.do(action, vars)
	}
}

func (s *scriptedServer) do(action string, vars map[string]string) {
	verb, text, _ := strings.Cut(action, " ")
	for _, k := range []string{"$requestId", "$answer", "$token", "$args", "$id"} {
		text = strings.ReplaceAll(text, k, vars[k])
	}
	switch verb {
	case "result":
		s.write(string(jsonrpc.AppendResult(nil, []byte(vars["$id"]), []byte(text))))
	case "rounds":
		first, last, _ := strings.Cut(text, "} {")
		result := first + "}"
		if vars["$inputs"] != "" {
			result = "{" + last
		}
		s.write(string(jsonrpc.AppendResult(nil, []byte(vars["$id"]), []byte(result))))
	case "error":
		s.write(string(jsonrpc.AppendError(nil, []byte(vars["$id"]), &jsonrpc.Error{Raw: []byte(text)})))
	case "send":
		s.write(`{"jsonrpc":"2.0",` + strings.TrimPrefix(text, "{"))
	case "ask":
		answer := make(chan []byte, 1)
		s.mu.Lock()
		s.asked[string(jsonrpc.Get([]byte(text), "id"))] = answer
		s.mu.Unlock()
		s.write(`{"jsonrpc":"2.0",` + strings.TrimPrefix(text, "{"))
		vars["$answer"] = string(<-answer)
	case "wait":
		d, err := time.ParseDuration(text)
		if err != nil {
			panic(err)
		}
		select {
		case <-time.After(d):
		case <-s.gone:
		}
	case "exit":
		s.conn.Close()
	default:
		panic("unknown action " + verb)
	}
}

func (s *scriptedServer) write(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.conn, line+"\n") // the bridge may have hung up: then nobody is there to be told
}
