package main

import (
	"strconv"
	"sync"
)

// A question is a call of ask that waits for its client, one elicitation after another.
type question struct {
	result []byte // the answer to the call, complete
	rounds int    // still to ask, the open one included
	emit   func([]byte)
}

var (
	asking    sync.Mutex
	asked     int64
	questions = map[string]*question{} // by the raw id of the open elicitation
)

const elicitation = `"method":"elicitation/create","params":{"mode":"form","message":"go on?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}}`

// ask puts the first question of a call.
func ask(result []byte, rounds int, emit func([]byte)) {
	put(&question{result: result, rounds: rounds, emit: emit})
}

func put(q *question) {
	asking.Lock()
	asked++
	id := strconv.FormatInt(asked, 10)
	questions[id] = q
	asking.Unlock()
	q.emit([]byte(`{"jsonrpc":"2.0","id":` + id + `,` + elicitation))
}

// answered takes the answer to an elicitation: the next question, or the result of the call, follows.
func answered(id []byte) {
	asking.Lock()
	q := questions[string(id)]
	delete(questions, string(id))
	asking.Unlock()
	if q == nil {
		return
	}
	if q.rounds--; q.rounds > 0 {
		put(q)
		return
	}
	q.emit(q.result)
}

// inputRequired is the answer of a 2026-07-28 server to the round before at.
func inputRequired(out []byte, at int) []byte {
	out = append(out, `,"result":{"resultType":"input_required","inputRequests":{"q":{`...)
	out = append(out, elicitation...)
	out = append(out, `},"requestState":"`...)
	out = strconv.AppendInt(out, int64(at), 10)
	return append(out, `"}}`...)
}
