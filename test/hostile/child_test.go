package hostile

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// childWord is the argument by which the test binary becomes the server behind the bridge.
const childWord = "hostile-child"

// A child is a stdio server of the handshake era whose tools do what a test says:
//
//	echo   answers with its arguments
//	slow   answers when a call of the tool free comes in
//	free   lets the slow ones answer
//	say    writes the lines of {"lines":[...]}, in which $ID is the id of the call and $TOKEN its progress token, and
//	       answers unless one of the lines does
//	ask    asks for an elicitation and answers with the answer
//	spill  writes {"bytes":N} to stdout without a line end, and to stderr, and answers
//	mutter writes the lines of {"lines":[...]} to stderr, and answers
//	stay   starts a process of its own, ignores SIGTERM from then on, and answers with the id of that process
//
// Every line that it reads goes to the end of the file record.
type child struct {
	record *os.File
	name   string // that it says it has

	mu    sync.Mutex
	freed chan struct{}
	asked map[string]chan json.RawMessage
	next  int
}

// serveChild serves on stdin and stdout until the former ends, and returns the exit code. The name is what the server calls itself, as it
// would stand in a Go string; none: hostile.
func serveChild(record, name string) int {
	f, err := os.OpenFile(record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if name == "" {
		name = "hostile"
	} else if unquoted, err := strconv.Unquote(`"` + name + `"`); err == nil {
		name = unquoted
	}
	c := &child{record: f, name: name, freed: make(chan struct{}), asked: make(map[string]chan json.RawMessage)}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0
		}
		if _, err := io.WriteString(f, line); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		c.take(line)
	}
}

// message is what the child reads: any JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
}

func (c *child) take(line string) {
	var m message
	if json.Unmarshal([]byte(line), &m) != nil || m.ID == nil {
		return
	}
	switch m.Method {
	case "":
		c.mu.Lock()
		if w := c.asked[string(m.ID)]; w != nil {
			w <- m.Result
		}
		c.mu.Unlock()
	case "initialize":
		c.answer(m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{},"resources":{}},"serverInfo":{"name":`+quoted(c.name)+`,"version":"1"}}`)
	case "tools/list":
		c.answer(m.ID, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		go c.call(&m) // ends with the process at the latest
	default:
		c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID))
	}
}

func (c *child) call(m *message) {
	var args struct {
		Lines []string `json:"lines"`
		Bytes int      `json:"bytes"`
	}
	_ = json.Unmarshal(m.Params.Arguments, &args) // of echo they may be anything
	text := string(m.Params.Arguments)
	switch m.Params.Name {
	case "slow":
		c.mu.Lock()
		freed := c.freed
		c.mu.Unlock()
		<-freed
	case "free":
		c.mu.Lock()
		close(c.freed)
		c.freed = make(chan struct{})
		c.mu.Unlock()
	case "say":
		answered := false
		for _, line := range args.Lines {
			answered = answered || strings.Contains(line, `"id":$ID`)
			c.write(strings.NewReplacer("$ID", string(m.ID), "$TOKEN", string(m.Params.Meta.Token)).Replace(line))
		}
		if answered {
			return
		}
	case "ask":
		text = string(c.ask())
	case "spill":
		junk := strings.Repeat("x", args.Bytes)
		fmt.Fprint(os.Stderr, junk)
		c.write(junk)
		text = ""
	case "mutter":
		for _, line := range args.Lines {
			fmt.Fprintln(os.Stderr, line)
		}
	case "stay":
		text = c.stay()
	}
	quoted, _ := json.Marshal(text)
	c.answer(m.ID, fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, quoted))
}

// ask asks the client and returns its answer.
func (c *child) ask() json.RawMessage {
	c.mu.Lock()
	c.next++
	id := fmt.Sprintf(`"q%d"`, c.next)
	answer := make(chan json.RawMessage, 1)
	c.asked[id] = answer
	c.mu.Unlock()
	c.write(`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":{"message":"Which?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}}`)
	return <-answer
}

func (c *child) stay() string {
	signal.Ignore(syscall.SIGTERM)
	sleep := exec.Command("sleep", "600")
	if err := sleep.Start(); err != nil {
		return err.Error()
	}
	return fmt.Sprint(sleep.Process.Pid)
}

func (c *child) answer(id json.RawMessage, result string) {
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

func (c *child) write(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(os.Stdout, line+"\n") // nobody may be there any more
}

// heard returns what the children wrote to their record, all of it.
func heard(tb testing.TB, record string) string {
	tb.Helper()
	text, err := os.ReadFile(record)
	if err != nil && !os.IsNotExist(err) {
		tb.Fatal(err)
	}
	return string(text)
}
