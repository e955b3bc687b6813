package upstream

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// read takes in what the server says, in order, until the input ends.
func (c *conn) read() error {
	lines := newLineReader(c.rwc, c.o.MaxMessageBytes)
	lines.most = mostOf(c.o.MaxMessageBytes)
	for {
		line, err := lines.next()
		if long, ok := errors.AsType[*longLine](err); ok {
			c.tooLong(long)
			continue
		}
		if err != nil {
			return err
		}
		c.line(line)
	}
}

func (c *conn) line(line []byte) {
	if jsonrpc.IsArray(line) {
		c.batch(line)
		return
	}
	m, err := jsonrpc.Scan(line)
	if err != nil {
		c.unreadable(&m, err, line)
		return
	}
	c.message(&m)
}

// batches reports whether the server may send arrays (translation.md 2).
func (c *conn) batches() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision.Has(negotiate.Batching)
}

// batch takes an array apart. Where the revision knows none its messages are not taken in, but answers among them
// end the calls that wait for them.
func (c *conn) batch(line []byte) {
	if _, err := jsonrpc.Split(line); err != nil && err.Code == jsonrpc.CodeParse {
		c.noise.report("line skipped: "+err.Message, line)
		return
	}
	known := c.batches()
	if !known {
		c.noise.report("array refused: the revision has no batches", nil)
	}
	jsonrpc.Elements(line, func(elem []byte) bool {
		m, err := jsonrpc.Scan(elem)
		if err != nil {
			c.unreadable(&m, err, elem)
			return true
		}
		if known {
			c.message(&m)
		} else if id, ok := spoiltID(m.Raw); ok {
			c.settle(id, outcome{err: exchange.Fail(exchange.ReasonInvalid, errBatch)})
		}
		return true
	})
}

var errBatch = errors.New("the answer came in an array, which the revision does not have")

func (c *conn) message(m *jsonrpc.Message) {
	switch m.Kind {
	case jsonrpc.Response:
		c.response(m)
	case jsonrpc.Request:
		c.request(m)
	case jsonrpc.Notification:
		c.note(m)
	}
}

func (c *conn) response(m *jsonrpc.Message) {
	if id, ok := ownID(m.ID); ok {
		c.settle(id, outcomeOf(m))
		return
	}
	if id, ok := meantID(m.ID); ok {
		c.settle(id, outcome{err: exchange.Fail(exchange.ReasonInvalid, errOtherID(m.ID))})
	}
	if m.Error != nil {
		c.noise.report("error response without an id of ours", nil)
		return
	}
	c.noise.report("response with an id that was never sent", nil)
}

// settle ends the call of that id. A late one is dropped: the call has been cancelled.
func (c *conn) settle(id int64, a outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ghosts.drop(id)
	if cl := c.calls[id]; cl != nil {
		c.finish(cl, a)
	}
}

// unreadable deals with a line that is no JSON-RPC message: mostly something that was printed by
// mistake, but it may be the answer that somebody waits for, or a question.
func (c *conn) unreadable(m *jsonrpc.Message, err *jsonrpc.Error, line []byte) {
	if m.ID != nil && m.Method != "" {
		c.noise.report("request refused: "+err.Message, nil)
		c.answer(jsonrpc.AppendError(nil, m.ID, err))
		return
	}
	if id, ok := c.spoilt(m, line); ok {
		c.noise.report("response refused: "+err.Message, nil)
		c.settle(id, outcome{err: exchange.Fail(exchange.ReasonInvalid, err)})
		return
	}
	if len(bytes.TrimSpace(line)) > 0 {
		c.noise.report("line skipped: "+err.Message, line)
	}
}

// spoilt returns the id of the call that an unreadable line answers, if that can be seen.
func (c *conn) spoilt(m *jsonrpc.Message, line []byte) (int64, bool) {
	if m.Raw != nil {
		return spoiltID(m.Raw)
	}
	e := readEnds(line, last(line))
	if e.method {
		return 0, false
	}
	return ownID(e.id)
}

// tooLong deals with a line over the limit: it fails the one call that it answers.
func (c *conn) tooLong(l *longLine) {
	c.log.Warn("message over the limit", "bytes", l.size, "limit", c.o.MaxMessageBytes)
	e := readEnds(l.head, l.tail)
	if e.method {
		if e.id != nil {
			c.answer(jsonrpc.AppendError(nil, e.id, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "message is too large")))
		}
		return
	}
	if id, ok := ownID(e.id); ok {
		c.settle(id, outcome{err: tooLargeAnswer(c.o.MaxMessageBytes, l)})
	}
}

// tooLargeAnswer is the error of a call whose answer is over the limit.
func tooLargeAnswer(limit int, err error) error {
	return &exchange.Failure{Reason: exchange.ReasonInvalid, Err: err,
		Message: fmt.Sprintf("the answer of the server behind the bridge is larger than %d bytes, which is the bridge's limit", limit)}
}
