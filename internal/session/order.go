package session

import "sync"

// ticket takes the next place in the order in which messages are handed to the server (exchange
// contract, Order). wait is closed when the message before has been handed over; done says that this one has been, or never will
// be, and may be called more than once. It must not be called before wait is closed: what comes after would overtake what was
// before. The caller holds s.mu.
func (s *Session) ticket() (wait <-chan struct{}, done func()) {
	wait = s.tail
	if wait == nil {
		wait = noWait
	}
	mine := make(chan struct{})
	s.tail = mine
	s.waiting++
	var once sync.Once
	return wait, func() {
		once.Do(func() {
			close(mine)
			s.mu.Lock()
			s.waiting--
			s.mu.Unlock()
		})
	}
}

var noWait = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
