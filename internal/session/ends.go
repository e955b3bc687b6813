package session

import "sync"

// Ends tell sessions that their server has gone. One goroutine waits for each server, however many sessions it has, and ends with
// the last of them. The zero value is ready.
type Ends struct {
	mu sync.Mutex
	of map[<-chan struct{}]*end // by what is closed when the server has gone
}

// An end is that of one server.
type end struct {
	waiting map[*Session]struct{}
	left    chan struct{} // closed when nobody waits any more
}

// await makes s.o.Ended be called, once and in a goroutine of its own, when gone is closed.
func (e *Ends) await(gone <-chan struct{}, s *Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.of[gone]
	if x == nil {
		x = &end{waiting: make(map[*Session]struct{}), left: make(chan struct{})}
		if e.of == nil {
			e.of = make(map[<-chan struct{}]*end)
		}
		e.of[gone] = x
		go e.watch(gone, x)
	}
	x.waiting[s] = struct{}{}
}

func (e *Ends) watch(gone <-chan struct{}, x *end) {
	select {
	case <-gone:
	case <-x.left:
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of[gone] == x { // else the last has left just now
		delete(e.of, gone)
	}
	for s := range x.waiting {
		go s.o.Ended() // the front will close the session, which comes here
	}
	x.waiting = nil
}

// forget takes s back.
func (e *Ends) forget(gone <-chan struct{}, s *Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.of[gone]
	if x == nil {
		return // it has been told
	}
	delete(x.waiting, s)
	if len(x.waiting) == 0 {
		delete(e.of, gone)
		close(x.left)
	}
}
