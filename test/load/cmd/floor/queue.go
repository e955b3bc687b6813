package main

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// queue holds what one stream has still to write; it never blocks the child's
// reader, and forgets messages once a reader has stopped for too long.
type queue struct {
	mu   sync.Mutex
	q    [][]byte
	wake chan struct{}

	conn net.Conn // -lean: written by drain, which runs only while q holds something
	busy bool
}

const queueLimit = 4096

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (s *queue) push(m []byte) {
	s.mu.Lock()
	if len(s.q) < queueLimit {
		s.q = append(s.q, m)
	}
	start := s.conn != nil && !s.busy
	s.busy = s.busy || start
	s.mu.Unlock()
	if start {
		go s.drain()
	}
	if s.conn != nil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *queue) drain() {
	var buf bytes.Buffer
	for {
		s.mu.Lock()
		q := s.q
		s.q = nil
		if len(q) == 0 {
			s.busy = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		buf.Reset()
		for _, m := range q {
			event(&buf, m)
		}
		s.conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
		if _, err := s.conn.Write(buf.Bytes()); err != nil {
			s.conn.Close()
			return
		}
	}
}

func (s *queue) take() (q [][]byte) {
	s.mu.Lock()
	q, s.q = s.q, nil
	s.mu.Unlock()
	return q
}
