package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mcp-dualstack/bridge/test/load/scan"
)

// openLegacy opens the stream, waits for its endpoint event and shakes hands.
func (s *session) openLegacy(c *conn, timeout time.Duration) error {
	st := s.stream
	if st == nil {
		st = newConn(s.ep.host)
		s.stream = st
	}
	if err := st.write("GET "+s.ep.path+" HTTP/1.1\r\nHost: "+s.ep.host+"\r\nAccept: text/event-stream\r\n", nil, timeout); err != nil {
		return err
	}
	r, err := st.readHead()
	if err != nil {
		return err
	}
	if r.status != 200 {
		return fmt.Errorf("stream: status %d", r.status)
	}
	s.pend = map[int64]*call{}
	init := &call{id: 0, done: make(chan struct{}, 1)}
	s.pend[0] = init
	where := s.follow(st)
	select {
	case p := <-where:
		ep := endpoint{s.ep.host, p}
		if len(p) > 4 && p[:4] == "http" {
			if ep, err = parseURL(p); err != nil {
				return err
			}
		}
		s.setHeads(ep.path)
	case <-s.closed:
		return errors.New("stream closed before endpoint")
	case <-time.After(timeout):
		return errors.New("no endpoint event")
	}
	version := "2024-11-05"
	if s.asks {
		version = "2025-06-18"
	}
	if r, err := c.post(s.head, s.initialize(version), timeout, nil); err != nil || r.status/100 != 2 {
		return fmt.Errorf("initialize: status %d %v", r.status, err)
	}
	select {
	case <-init.done:
	case <-s.closed:
		return errStreamClosed
	case <-time.After(timeout):
		return errors.New("no initialize result")
	}
	if err := s.initialized(c, timeout); err != nil {
		return err
	}
	st.nc.SetDeadline(time.Time{})
	return nil
}

// follow reads the stream until it ends; the endpoint comes on the channel returned.
func (s *session) follow(st *conn) <-chan string {
	where := make(chan string, 1)
	go func() { // ends with the stream, which shut closes
		defer close(s.closed)
		st.events(func(name, data []byte) bool {
			if string(name) == "endpoint" {
				select {
				case where <- string(data):
				default:
				}
				return false
			}
			s.legacyMessage(data)
			return false
		})
	}()
	return where
}

func (s *session) legacyMessage(msg []byte) {
	s.mu.Lock()
	stalled := s.stalled
	s.mu.Unlock()
	if stalled {
		select {} // stop reading for good; the process exits with it
	}
	e := scan.Envelope(msg)
	if e.Method != nil {
		if e.ID != nil {
			s.answer(e.ID)
			return
		}
		s.notification(e, func(tok int64) *call {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.pend[tok]
		})
		return
	}
	id, err := strconv.ParseInt(string(e.ID), 10, 64)
	if err != nil {
		s.st.unknown.Add(1)
		return
	}
	s.mu.Lock()
	cl := s.pend[id]
	s.mu.Unlock()
	if cl == nil {
		switch {
		case bytes.Contains(msg, []byte(`"`+s.run+`s`+strconv.Itoa(s.n)+`-`)):
			s.st.dup.Add(1)
		case bytes.Contains(msg, []byte(`"`+s.run+`s`)), id == 0:
			s.st.misrouted.Add(1)
		default:
			s.st.unknown.Add(1)
		}
		return
	}
	if cl.token != nil && e.Result != nil && !bytes.Contains(msg, cl.token) {
		s.st.misrouted.Add(1)
		return
	}
	cl.ok = s.check(cl, e, msg)
	cl.end = time.Now()
	s.st.bytes.Add(int64(len(msg)))
	s.mu.Lock()
	delete(s.pend, id)
	s.mu.Unlock()
	cl.done <- struct{}{}
}

func (s *session) doLegacy(c *conn, cl *call, payload []byte, head string, timeout time.Duration) (time.Duration, bool) {
	s.mu.Lock()
	s.pend[cl.id] = cl
	s.mu.Unlock()
	cl.t0 = time.Now()
	r, err := c.post(head, payload, timeout, nil)
	if err != nil || r.status/100 != 2 {
		if err == nil {
			err = fmt.Errorf("post: status %d", r.status)
		}
		s.st.err(err)
		s.mu.Lock()
		delete(s.pend, cl.id)
		s.mu.Unlock()
		return 0, false
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-cl.done:
		return cl.end.Sub(cl.t0), cl.ok
	case <-s.closed:
		s.st.err(errStreamClosed)
		return 0, false
	case <-t.C:
	}
	s.mu.Lock()
	_, still := s.pend[cl.id]
	delete(s.pend, cl.id)
	s.mu.Unlock()
	if still {
		s.st.lost.Add(1)
	} else {
		<-cl.done
	}
	return 0, false
}
