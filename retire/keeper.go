package retire

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Readiness is the answer of a readiness check.
type Readiness struct {
	Ready  bool
	Digest string // of the report it is based on
	Detail string // why not, for people: "blocked: 3 clients", "insufficient evidence: ..."
}

// Options configure a Keeper. The zero value works: nothing is checked.
type Options struct {
	// Ready is asked before every forward step past warn, with the stage to come. An error counts as not ready. Nil: always ready.
	// It is not called under a lock and may take its time.
	Ready func(context.Context, Stage) (Readiness, error)
	// Logger hears of changes, of windows that begin and end, and of files that are damaged. Nil: silent.
	Logger *slog.Logger

	Poll     time.Duration // between looks at the document file; zero: 2 s
	PollOnly bool          // do without notices of the file system, which network file systems do not give
	LockWait time.Duration // for another process that changes the state; zero: 5 s
	// Passive keepers read the files when they are opened and when they change something, and do nothing by themselves: for a
	// program that makes one change while another serves.
	Passive bool
}

// Defaults of Options.
const (
	DefaultPoll     = 2 * time.Second
	DefaultLockWait = 5 * time.Second
)

// A Keeper owns the state: it holds the document in memory, keeps it and the audit log in files, follows what other processes write
// there, and takes the steps of the schedule. Methods may be called concurrently.
type Keeper struct {
	o     Options
	dir   string // "": in memory
	store store
	state atomic.Pointer[State]
	turn  chan struct{} // holds one token: who has it may change the state

	done    chan struct{} // closed by Close
	once    sync.Once
	working sync.WaitGroup
	changed chan struct{} // something for the goroutine of tell; capacity 1
	recheck chan struct{} // something for the goroutine of keepTime; capacity 1

	mu      sync.Mutex
	damage  error
	readers map[int]func(old, now *State)
	serial  int
}

// A store keeps the document and its records.
type store interface {
	// load reads what is current and changes nothing. known is what the keeper has in memory, nil at first.
	load(known *State) (*found, error)
	// begin locks the store against other processes and reads what is current.
	begin(ctx context.Context, known *State) (*transaction, error)
	// history returns the records, oldest first.
	history() ([]Record, error)
}

// A transaction is one turn at a store.
type transaction struct {
	found
	write func(*State, *Record) error // puts a document in place of the current one, and its record behind the last
	end   func()
}

// OpenKeeper opens the state in the folder dir, which need not exist; "" keeps it in memory. Without files the stage is open. A damaged
// document is an error only if the audit log does not say what it was.
func OpenKeeper(dir string, o *Options) (*Keeper, error) {
	k := &Keeper{
		dir: dir, turn: make(chan struct{}, 1), done: make(chan struct{}),
		changed: make(chan struct{}, 1), recheck: make(chan struct{}, 1),
		readers: make(map[int]func(old, now *State)),
	}
	if o != nil {
		k.o = *o
	}
	if k.o.Logger == nil {
		k.o.Logger = slog.New(slog.DiscardHandler)
	}
	k.o.Poll = cmp.Or(max(k.o.Poll, 0), DefaultPoll)
	k.o.LockWait = cmp.Or(max(k.o.LockWait, 0), DefaultLockWait)
	k.store = &memory{}
	if dir != "" {
		k.store = &files{dir: dir, wait: k.o.LockWait, put: replace}
	}
	if err := k.open(); err != nil {
		return nil, err
	}
	if !k.o.Passive {
		k.start()
	}
	return k, nil
}

// open reads the state, and if k is to serve by it records what was changed by hand.
func (k *Keeper) open() error {
	f, err := k.store.load(nil)
	if err == nil && f.foreign && !k.o.Passive {
		var t *transaction
		if t, err = k.store.begin(context.Background(), nil); err == nil {
			f = &t.found
			t.end()
		}
	}
	if err != nil {
		return err
	}
	k.state.Store(f.current)
	k.setDamage(f.damage)
	return nil
}

const damageMessage = "the retirement state cannot be read; the last known stage stays"

// start begins what k does by itself, until Close.
func (k *Keeper) start() {
	ctx, stop := context.WithCancel(context.Background())
	k.working.Go(func() {
		<-k.done
		stop()
	})
	first := k.State()
	k.working.Go(func() { k.tell(first) })
	k.working.Go(func() { k.keepTime(ctx) })
	if k.dir != "" {
		k.working.Go(func() { k.follow(ctx) })
	}
}

// State returns the current document, which nobody may change. It costs next to nothing.
func (k *Keeper) State() *State { return k.state.Load() }

// Damage returns why the document in force is not the one in the file, nil if it is. The last known document stays in force
// (retirement.md R10).
func (k *Keeper) Damage() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.damage
}

// History returns the changes, oldest first. What cannot be read as a record is left out; Verify says what it is.
func (k *Keeper) History() ([]Record, error) { return k.store.history() }

// Verify checks the audit log in the folder. A keeper without one has records that nobody else can touch.
func (k *Keeper) Verify() (*Verification, error) {
	if k.dir != "" {
		return Verify(k.dir)
	}
	records, err := k.History()
	if err != nil {
		return nil, err
	}
	return &Verification{Records: len(records), Version: k.State().Version, Faults: []Fault{}, Notes: []Fault{}}, nil
}

// Subscribe calls f after each change with the document it was told of last and the one in force now. Calls come one after
// another from one goroutine; documents in between may be left out. f must not call Close. A passive keeper never calls it.
func (k *Keeper) Subscribe(f func(old, now *State)) (cancel func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.serial++
	id := k.serial
	k.readers[id] = f
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.readers, id)
	}
}

// Close ends the keeper and waits for what it does by itself. The state stays readable.
func (k *Keeper) Close() error {
	k.once.Do(func() { close(k.done) })
	k.working.Wait()
	return nil
}

// take puts a document in force and tells everybody who waits for one.
func (k *Keeper) take(s *State, damage error) {
	k.setDamage(damage)
	old := k.state.Swap(s)
	if old.Version == s.Version && old.Stage == s.Stage {
		return
	}
	event := "retire.state.changed"
	if old.Stage != s.Stage {
		event = "retire.stage.changed"
	}
	k.o.Logger.Info("retirement state changed", "event", event, "from", old.Stage, "to", s.Stage, "version", s.Version, "by", s.By)
	for _, c := range []chan struct{}{k.changed, k.recheck} {
		select {
		case c <- struct{}{}:
		default: // it is awake already
		}
	}
}

// setDamage notes why the document in force is not the one in the file, and says it once.
func (k *Keeper) setDamage(err error) {
	k.mu.Lock()
	news := err != nil && (k.damage == nil || k.damage.Error() != err.Error())
	k.damage = err
	k.mu.Unlock()
	if news {
		k.o.Logger.Error(damageMessage, "stage", k.State().Stage, "err", err)
	}
}

// tell calls the subscribers until Close. told is what they know.
func (k *Keeper) tell(told *State) {
	for {
		select {
		case <-k.changed:
		case <-k.done:
			return
		}
		now := k.State()
		for _, f := range k.subscribers() {
			f(told, now)
		}
		told = now
	}
}

func (k *Keeper) subscribers() []func(old, now *State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := make([]func(old, now *State), 0, len(k.readers))
	for id := range k.serial + 1 {
		if f := k.readers[id]; f != nil {
			list = append(list, f)
		}
	}
	return list
}
