package telemetry

import (
	"sync"
	"sync/atomic"

	"github.com/mcp-dualstack/bridge/exchange"
)

// A use counts what one identity does over one transport since the last flush. Recording a call takes no lock.
type use struct {
	user      *user
	transport string

	sessions, uses, reopened, calls, errors, refusals, failures, bytes atomic.Int64

	good atomic.Int64 // requests answered without an error
	open atomic.Int64 // conversations that are open; a user with one stays in memory

	// Unix milliseconds. first is of this process, last zero when not used since the last flush, day that of last.
	first, last, day atomic.Int64

	mu   sync.Mutex
	past []dayTally // the days that ended since the last flush
}

// A dayTally is what was done on a day.
type dayTally struct {
	day int64
	carried
}

// touch notes a use at now, in Unix milliseconds. It comes before the counting.
func (u *use) touch(now int64) {
	if u.first.Load() == 0 {
		u.first.CompareAndSwap(0, now)
	}
	if day := now / dayMillis; u.day.Load() != day {
		u.turn(day)
	}
	u.last.Store(now)
	u.user.used.Store(now)
}

// turn begins another day. What is counted at the same moment may fall on either.
func (u *use) turn(day int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if old := u.day.Swap(day); old != day && u.last.Load() != 0 {
		u.past = append(u.past, dayTally{old, u.swap()})
	}
}

// swap moves the counters out.
func (u *use) swap() (c carried) {
	c.Counts = Counts{
		Sessions: u.sessions.Swap(0), Uses: u.uses.Swap(0), Reopened: u.reopened.Swap(0), Calls: u.calls.Swap(0),
		Errors: u.errors.Swap(0), Refusals: u.refusals.Swap(0), Failures: u.failures.Swap(0),
	}
	c.bytes = u.bytes.Swap(0)
	return c
}

// maxIdleTouch is how long an open conversation may be silent before it is noted to be still there, in milliseconds.
const maxIdleTouch = 60 * 60 * 1000

// take moves what has been counted into d. A conversation that is open is a use of the day, whether anything is said or not.
func (u *use) take(d *dossier, now int64) {
	if u.open.Load() > 0 && (now-u.user.used.Load() >= maxIdleTouch || u.day.Load() != now/dayMillis) {
		u.touch(now)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	last := u.last.Swap(0)
	if now := u.swap(); last != 0 || now.Counts != (Counts{}) || now.bytes != 0 {
		u.past = append(u.past, dayTally{u.day.Load(), now})
	}
	for _, t := range u.past {
		t.first = u.first.Load()
		t.last = max(last, t.first)
		sum := d.transports[u.transport]
		sum.add(t.carried)
		d.transports[u.transport] = sum
		day := dayOf{u.transport, t.day}
		d.days[day] = d.days[day].plus(dayCounts{t.Sessions + t.Reopened, t.Calls, t.Errors, t.Refusals})
		d.first, d.last = span(d.first, d.last, t.first, t.last)
	}
	u.past = nil
	if n := u.good.Swap(0); n > 0 && u.transport == exchange.StreamableHTTP {
		s := d.signs[signOf{kind: SignStreamable}]
		s.add(sight{n: n, first: u.first.Load(), last: max(last, u.first.Load())})
		d.signs[signOf{kind: SignStreamable}] = s
	}
}

// A user is an identity that has been seen since the start, or since it was let go of.
type user struct {
	ident
	legacy, streamable use

	used atomic.Int64 // Unix milliseconds

	spokeAs atomic.Pointer[row] // what was noted last in spoke,
	spokeAt atomic.Int64        // and when, in Unix milliseconds

	// What was seen since the last flush: descriptions at most maxSpoken, signs at most maxSigns.
	mu     sync.Mutex
	spoke  map[key]int64
	signs  map[signOf]sight
	marked bool // there is something in signs or spoke
}

// maxSpoken is how many descriptions of itself a user has room for between two flushes.
const maxSpoken = 4 * maxKept

func newUser(who ident) *user {
	u := &user{ident: who, spoke: make(map[key]int64), signs: make(map[signOf]sight)}
	u.legacy.user, u.legacy.transport = u, exchange.HTTPSSE
	u.streamable.user, u.streamable.transport = u, exchange.StreamableHTTP
	return u
}

// over returns the use of a transport.
func (u *user) over(transport string) *use {
	if transport == exchange.HTTPSSE {
		return &u.legacy
	}
	return &u.streamable
}

func (u *user) idle() bool { return u.legacy.open.Load() == 0 && u.streamable.open.Load() == 0 }

// maxSpokeAge is for how long nothing is noted of a user that says the same again, in milliseconds.
const maxSpokeAge = 1000

// speakAs is speak with k being what r is about. It is cheap for a user that says the same all the time, as a stateless one does.
func (u *user) speakAs(r *row, k key, now int64) {
	if u.spokeAs.Load() == r && !r.folded && now-u.spokeAt.Load() < maxSpokeAge && now >= u.spokeAt.Load() {
		return
	}
	u.speak(k, now)
	u.spokeAs.Store(r)
	u.spokeAt.Store(now)
}

// speak notes what the user calls itself and which revisions it asked for and speaks.
func (u *user) speak(k key, now int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.spoke[k]; !ok && len(u.spoke) >= maxSpoken {
		for victim := range u.spoke {
			delete(u.spoke, victim)
			break
		}
	}
	u.spoke[k] = now
	u.marked = true
}

// sign notes a piece of evidence.
func (u *user) sign(kind, detail string, now int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	k := signOf{kind, detail}
	if _, ok := u.signs[k]; !ok && len(u.signs) >= maxSigns {
		k.detail = other
	}
	s := u.signs[k]
	s.add(sight{n: 1, first: now, last: now})
	u.signs[k] = s
	u.marked = true
	u.used.Store(now)
}

// take moves what has been seen into a dossier; nil if that is nothing.
func (u *user) take(now int64) *dossier {
	if !u.busy() {
		return nil
	}
	d := newDossier(u.ident)
	u.legacy.take(d, now)
	u.streamable.take(d, now)
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.marked && len(d.days) == 0 {
		return nil
	}
	for k, at := range u.spoke {
		d.describe(k, at)
	}
	for k, s := range u.signs {
		sum := d.signs[k]
		sum.add(s)
		d.signs[k] = sum
		d.first, d.last = span(d.first, d.last, s.first, s.last)
	}
	clear(u.spoke)
	clear(u.signs)
	u.marked = false
	d.trim()
	return d
}

// busy reports whether there can be anything to take.
func (u *user) busy() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.marked || u.legacy.busy() || u.streamable.busy()
}

func (u *use) busy() bool {
	return u.last.Load() != 0 || u.open.Load() > 0 || u.errors.Load()+u.bytes.Load()+u.sessions.Load()+u.refusals.Load()+u.failures.Load() > 0
}

// describe adds what a client said when it opened a conversation.
func (d *dossier) describe(k key, at int64) {
	d.names[person{k.name, k.version, k.proxy}] = at
	for role, revision := range map[string]string{roleRequested: k.requested, roleNegotiated: k.negotiated} {
		if revision != "" {
			d.revisions[spoken{k.transport, role, revision}] = at
		}
	}
}
