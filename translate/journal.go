package translate

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"sync"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

// A journal is the answers so far of a tool that is run again from the start in each round (translation.md 7.3.11). Nil is
// that of a call that is held instead. Methods may be called concurrently.
type journal struct {
	round uint64 // of the token that it came with

	mu       sync.Mutex
	answered []entry
	asked    []entry // without an answer yet
}

// An entry is one question of an earlier run.
type entry struct {
	key    string
	method string
	digest string // base64 of the SHA-256 of its canonical params
	answer []byte // raw, nil if there is none yet
	used   bool   // by this run
}

// journalOf returns a fresh journal if the request is of a tool that the operator listed.
func (s *suspender) journalOf(req exchange.Request) *journal {
	if req.Method != "tools/call" || len(s.o.Journal) == 0 {
		return nil
	}
	if name, _ := jsonrpc.String(jsonrpc.Get(req.Params, "name")); !slices.Contains(s.o.Journal, name) {
		return nil
	}
	return &journal{}
}

// again reports whether the call is not the first of its kind.
func (j *journal) again() bool { return j != nil && j.round > 0 }

// digestOf names the params of a question.
func digestOf(q *question) string {
	sum := canonicalDigest(q.params)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// answerTo returns the answer that an equal question got in an earlier round. Each answer is given once in a run.
func (j *journal) answerTo(q *question) (answer []byte, ok bool) {
	if j == nil {
		return nil, false
	}
	digest := digestOf(q)
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := find(j.answered, q.method, digest); e != nil {
		e.used = true
		return e.answer, true
	}
	return nil, false
}

// keyOf returns the key that an equal question had, and key if there was none.
func (j *journal) keyOf(q *question, key string) string {
	if j == nil {
		return key
	}
	digest := digestOf(q)
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := find(j.asked, q.method, digest); e != nil {
		e.used = true
		return e.key
	}
	return key
}

func find(entries []entry, method, digest string) *entry {
	for i := range entries {
		if e := &entries[i]; !e.used && e.method == method && e.digest == digest {
			return e
		}
	}
	return nil
}

// encode returns the journal with the questions that are asked now, as {"n":round,"a":[entry...],"q":[entry...]}, an entry being
// {"k":key,"m":method,"d":digest,"v":answer}.
func (j *journal) encode(asked []*question) []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := strconv.AppendUint([]byte(`{"n":`), j.round+1, 10)
	out = append(out, `,"a":[`...)
	for i, e := range j.answered {
		out = e.append(out, i)
	}
	out = append(out, `],"q":[`...)
	for i, q := range asked {
		e := entry{key: q.key, method: q.method, digest: digestOf(q)}
		out = e.append(out, i)
	}
	return append(out, `]}`...)
}

func (e *entry) append(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	dst = append(append(dst, `{"k":`...), jsonrpc.Quote(e.key)...)
	dst = append(append(dst, `,"m":`...), jsonrpc.Quote(e.method)...)
	dst = append(append(dst, `,"d":`...), jsonrpc.Quote(e.digest)...)
	if e.answer != nil {
		dst = append(append(dst, `,"v":`...), e.answer...)
	}
	return append(dst, '}')
}

func readJournal(raw []byte) *journal {
	j := &journal{answered: readEntries(jsonrpc.Get(raw, "a")), asked: readEntries(jsonrpc.Get(raw, "q"))}
	j.round, _ = strconv.ParseUint(string(jsonrpc.Get(raw, "n")), 10, 64)
	return j
}

func readEntries(raw []byte) []entry {
	var all []entry
	jsonrpc.Elements(raw, func(v []byte) bool {
		e := entry{answer: jsonrpc.Get(v, "v")}
		e.key, _ = jsonrpc.String(jsonrpc.Get(v, "k"))
		e.method, _ = jsonrpc.String(jsonrpc.Get(v, "m"))
		e.digest, _ = jsonrpc.String(jsonrpc.Get(v, "d"))
		all = append(all, e)
		return true
	})
	return all
}

// take moves the questions that responses answer to the answered ones. The error is that of readAnswers.
func (j *journal) take(responses []byte) error {
	qs := make([]*question, len(j.asked))
	for i, e := range j.asked {
		qs[i] = &question{key: e.key, method: e.method}
	}
	answers, err := readAnswers(qs, responses)
	if err != nil {
		return err
	}
	rest := j.asked[:0:0]
	for i, e := range j.asked {
		if e.answer = answers[i]; e.answer == nil {
			rest = append(rest, e)
			continue
		}
		j.answered = append(j.answered, e)
	}
	j.asked = rest
	return nil
}

// rerun serves the retry of a tool that is run again in each round.
func (s *suspendSession) rerun(ctx context.Context, t *token, req exchange.Request, v *visit) (exchange.Response, error) {
	if s.s.journalOf(req) == nil {
		return exchange.Response{Error: s.s.refuseState(req.Method, reasonStateInvalid, "the tool is not run again any more")}, nil
	}
	j := readJournal(t.inner)
	if err := j.take(jsonrpc.Get(req.Params, "inputResponses")); err != nil {
		return failed(err)
	}
	return s.begin(ctx, attempt{req: req, journal: j}, v)
}
