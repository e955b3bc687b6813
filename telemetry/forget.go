package telemetry

import (
	"context"
	"errors"
	"fmt"
)

// ErrUnknown is the error of an identity that the ledger does not know.
var ErrUnknown = errors.New("the ledger knows no such identity")

// Forget removes all that is known of an identity: its names, counts, days and evidence. What a client did stays in the totals, and in the
// rows per client and revision, which do not say where it came from. If it comes back it is a new one. The errors are ErrUnknown,
// ErrClosed, ctx's, and those of the file.
func (l *Ledger) Forget(ctx context.Context, id string) error {
	o := oblivion{id, make(chan forgotten, 1)}
	select {
	case l.forgets <- o:
	case <-l.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	f := <-o.reply
	if f.err == nil && !f.ok {
		return ErrUnknown
	}
	return f.err
}

// Forget removes all that a ledger file knows of identities, as the method of Ledger does; ones that it does not know are in the error,
// which is ErrUnknown. A server that has the file open may write once more what it had in memory; ask it instead.
func Forget(file string, ids ...string) error {
	if err := present(file); err != nil {
		return fmt.Errorf("ledger %s: %w", file, err)
	}
	db, err := dial(file, "rw", DefaultBusyTimeout)
	if err != nil {
		return err
	}
	s := &fileStore{db: db, limits: unlimited}
	if _, err := s.read(); err != nil { // and with it the schema
		return errors.Join(fmt.Errorf("ledger %s: %w", file, err), s.close())
	}
	var errs []error
	for _, id := range ids {
		ok, err := s.forget(id)
		if err == nil && !ok {
			err = fmt.Errorf("%q: %w", id, ErrUnknown)
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.close())...)
}
