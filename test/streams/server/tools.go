package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

var errCancelled = errors.New("cancelled")

// arguments are those of every tool together.
type arguments struct {
	Tag     string  `json:"tag"`     // names the call in reports
	Text    string  `json:"text"`    // echo
	Seconds float64 `json:"seconds"` // silent: how long it says nothing; progress: between two notifications
	N       int     `json:"n"`       // progress: how many notifications
}

const subscription = "io.modelcontextprotocol/subscriptionId"

// result returns the result of a request, errCancelled if it was cancelled, or what is wrong with it.
func (s *server) result(c *call, m *message) (map[string]any, error) {
	capabilities := map[string]any{"tools": map[string]any{"listChanged": true}}
	info := map[string]any{"name": "streams-server", "version": "1"}
	switch m.Method {
	case "initialize":
		return map[string]any{"protocolVersion": m.Params.ProtocolVersion, "capabilities": capabilities, "serverInfo": info}, nil
	case "server/discover":
		return map[string]any{
			"supportedVersions": []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"},
			"capabilities":      capabilities,
			"_meta":             map[string]any{"io.modelcontextprotocol/serverInfo": info},
			"ttlMs":             0, "cacheScope": "public",
		}, nil
	case "tools/list":
		r := map[string]any{"tools": tools()}
		if c.modern {
			r["ttlMs"], r["cacheScope"] = 0, "public"
		}
		return r, nil
	case "tools/call":
		return s.callTool(c, m)
	case "subscriptions/listen":
		return s.listen(c, m)
	case "ping":
		return map[string]any{}, nil
	default:
		return nil, fmt.Errorf("no method %s", m.Method)
	}
}

func tools() []any {
	var all []any
	for _, name := range []string{"echo", "silent", "progress", "ask", "notify"} {
		all = append(all, map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}})
	}
	return all
}

func text(s string) map[string]any {
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": s}}}
}

func (s *server) callTool(c *call, m *message) (map[string]any, error) {
	s.report("begin", c.args.Tag)
	r, err := s.runTool(c, m)
	if err == nil {
		s.report("end", c.args.Tag)
	}
	return r, err
}

func (s *server) runTool(c *call, m *message) (map[string]any, error) {
	switch m.Params.Name {
	case "echo":
		return text(c.args.Text), nil
	case "silent":
		return text("silent"), c.wait(c.args.Seconds)
	case "progress":
		return s.progress(c)
	case "ask":
		return s.ask(c, m)
	case "notify":
		s.notify()
		return text("notified"), nil
	default:
		return nil, fmt.Errorf("no tool %s", m.Params.Name)
	}
}

// wait returns after the seconds, or errCancelled.
func (c *call) wait(seconds float64) error {
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
		return nil
	case <-c.cancelled:
		return errCancelled
	}
}

// progress says 1 to n with a pause before each, then answers "progress n".
func (s *server) progress(c *call) (map[string]any, error) {
	for i := range c.args.N {
		if err := c.wait(c.args.Seconds); err != nil {
			return nil, err
		}
		if c.token != nil {
			s.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/progress", "params": map[string]any{
				"progressToken": c.token, "progress": i + 1, "total": c.args.N,
			}})
		}
	}
	return text("progress " + strconv.Itoa(c.args.N)), nil
}

// ask asks the user for a name in the way of the era and answers with what was said.
func (s *server) ask(c *call, m *message) (map[string]any, error) {
	question := map[string]any{"mode": "form", "message": "name?", "requestedSchema": map[string]any{
		"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
	}}
	if c.modern {
		if m.Params.InputResponses != nil {
			return text(string(m.Params.InputResponses)), nil
		}
		return map[string]any{"resultType": "input_required", "inputRequests": map[string]any{
			"name": map[string]any{"method": "elicitation/create", "params": question},
		}}, nil
	}
	answer := make(chan json.RawMessage, 1)
	s.mu.Lock()
	s.ids++
	id := strconv.Itoa(s.ids)
	s.asked[id] = answer
	s.mu.Unlock()
	s.send(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": "elicitation/create", "params": question})
	select {
	case a := <-answer:
		return text(string(a)), nil
	case <-c.cancelled:
		return nil, errCancelled
	}
}

// answered takes the client's answer to a question.
func (s *server) answered(m *message) {
	s.mu.Lock()
	answer := s.asked[string(m.ID)]
	delete(s.asked, string(m.ID))
	s.mu.Unlock()
	if answer == nil {
		return
	}
	if m.Error != nil {
		m.Result = m.Error
	}
	answer <- m.Result
}

// notify tells that the list of tools has changed, on every listen that wants it; without any listen, to the
// one client of the handshake era.
func (s *server) notify() {
	s.mu.Lock()
	var listens []*call
	for _, c := range s.running {
		if c.listens {
			listens = append(listens, c)
		}
	}
	s.mu.Unlock()
	const method = "notifications/tools/list_changed"
	if listens == nil {
		s.send(map[string]any{"jsonrpc": "2.0", "method": method})
	}
	for _, c := range listens {
		s.send(map[string]any{"jsonrpc": "2.0", "method": method, "params": map[string]any{"_meta": map[string]any{subscription: c.id}}})
	}
}

// listen acknowledges a subscription and lasts until it is cancelled.
func (s *server) listen(c *call, m *message) (map[string]any, error) {
	s.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": map[string]any{
		"notifications": map[string]any{"toolsListChanged": m.Params.Notifications.ToolsListChanged},
		"_meta":         map[string]any{subscription: c.id},
	}})
	s.mu.Lock()
	c.listens = m.Params.Notifications.ToolsListChanged
	s.mu.Unlock()
	<-c.cancelled
	return nil, errCancelled
}
