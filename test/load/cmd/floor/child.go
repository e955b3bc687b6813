package main

import (
	"bufio"
	"log"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/mcp-dualstack/bridge/test/load/scan"
)

// send passes one client message to the child. sub is a slice of msg.
func send(msg []byte, e scan.Env, sink *queue) {
	if e.ID == nil {
		lines <- msg
		return
	}
	id := next.Add(1)
	num := strconv.AppendInt(nil, id, 10)
	p := &pending{id: append([]byte(nil), e.ID...), sink: sink}
	if tok := scan.Get(e.Params, "_meta", "progressToken"); tok != nil {
		p.tok = append([]byte(nil), tok...)
		// Replace the later of the two spans first so offsets stay valid.
		tpos := cap(msg) - cap(tok)
		if tpos > e.IDPos {
			msg = splice(msg, tpos, len(tok), num)
			msg = splice(msg, e.IDPos, len(e.ID), num)
		} else {
			msg = splice(msg, e.IDPos, len(e.ID), num)
			msg = splice(msg, tpos, len(tok), num)
		}
	} else {
		msg = splice(msg, e.IDPos, len(e.ID), num)
	}
	pmu.Lock()
	pend[id] = p
	pmu.Unlock()
	lines <- msg
}

func child(cmd string) {
	f := strings.Fields(cmd)
	c := exec.Command(f[0], f[1:]...)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Start(); err != nil {
		log.Fatal(err)
	}
	go func() {
		w := bufio.NewWriterSize(in, 1<<16)
		for m := range lines {
			w.Write(m)
			w.WriteByte('\n')
			for n := len(lines); n > 0; n-- {
				w.Write(<-lines)
				w.WriteByte('\n')
			}
			w.Flush()
		}
	}()
	go func() {
		r := bufio.NewReaderSize(out, 1<<16)
		for {
			line, err := r.ReadBytes('\n')
			if len(line) > 1 {
				route(line[:len(line)-1])
			}
			if err != nil {
				log.Fatal("child: ", err)
			}
		}
	}()
}

func route(msg []byte) {
	e := scan.Envelope(msg)
	if e.ID != nil && e.Method == nil {
		id, _ := strconv.ParseInt(string(e.ID), 10, 64)
		pmu.Lock()
		p := pend[id]
		delete(pend, id)
		pmu.Unlock()
		if p != nil {
			p.sink.push(splice(msg, e.IDPos, len(e.ID), p.id))
		}
		return
	}
	if tok := scan.Get(e.Params, "progressToken"); tok != nil {
		id, _ := strconv.ParseInt(string(tok), 10, 64)
		pmu.Lock()
		p := pend[id]
		pmu.Unlock()
		if p != nil && p.tok != nil {
			p.sink.push(splice(msg, cap(msg)-cap(tok), len(tok), p.tok))
		}
		return
	}
	smu.RLock()
	for _, s := range sess {
		s.push(msg)
	}
	smu.RUnlock()
}
