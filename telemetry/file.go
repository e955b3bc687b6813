package telemetry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
)

// SQLite's primary result codes for a file that is not, or no longer, a database (sqlite3.h).
const (
	codeBusy     = 5
	codeReadOnly = 8
	codeCorrupt  = 11
	codeCantOpen = 14
	codeNotADB   = 26
)

// A damagedError says that the file's content cannot be used.
type damagedError struct{ err error }

func (e *damagedError) Error() string { return "damaged: " + e.err.Error() }
func (e *damagedError) Unwrap() error { return e.err }

func damaged(err error) bool {
	if _, ok := errors.AsType[*damagedError](err); ok {
		return true
	}
	code := resultCode(err)
	return code == codeCorrupt || code == codeNotADB
}

// resultCode returns SQLite's primary result code in err, or 0.
func resultCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// fileStore is the store in a SQLite file.
type fileStore struct {
	db     *sql.DB
	limits limits
	at     os.FileInfo // of the file
}

// openFile opens or creates the ledger in file. A damaged one is moved aside first.
func openFile(file string, o *Options, now int64) (*fileStore, error) {
	if err := create(file); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	before, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	s, err := connect(file, o, now)
	if damaged(err) {
		s, err = replace(file, before, err, o, now)
	}
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", file, err)
	}
	return s, nil
}

// create makes the file with its folder, readable for its owner only, if there is none.
func create(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600) // #nosec G304 -- the operator's file
	if err != nil {
		return err
	}
	return f.Close()
}

// connect opens a file that exists, checks it and brings its schema up to date.
func connect(file string, o *Options, now int64) (*fileStore, error) {
	db, err := dial(file, "rw", o.BusyTimeout)
	if err != nil {
		return nil, err
	}
	s := &fileStore{db: db, limits: o.limits()}
	if err := s.prepare(now); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if s.at, err = os.Stat(file); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// strayed reports whether the file has been moved or removed, so that what is written can be read by nobody after Close.
func (s *fileStore) strayed(file string) bool {
	now, err := os.Stat(file)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(s.at, now)
}

// dial returns a handle with one connection; mode is that of an SQLite URI.
func dial(file, mode string, busy time.Duration) (*sql.DB, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	// The driver sets the time to wait before it does anything else.
	q := url.Values{"mode": {mode}, "_busy_timeout": {fmt.Sprint(busy.Milliseconds())}}
	if mode == "rw" {
		q.Set("_txlock", "immediate") // so that a transaction never has to give up half way for another writer
		q.Set("_synchronous", "NORMAL")
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// prepare switches the file to WAL, checks it, and migrates it.
func (s *fileStore) prepare(now int64) error {
	if err := s.useWAL(); err != nil {
		return err
	}
	var verdict string
	if err := s.db.QueryRow("PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return &damagedError{errors.New(verdict)}
	}
	if err := migrate(s.db); err != nil {
		return err
	}
	if err := s.setMeta("observed_from", now); err != nil {
		return err
	}
	return s.noteDowntime(now)
}

// noteDowntime records that nobody watched from the last write up to now. Where another server has the file open that is at most its
// heartbeat.
func (s *fileStore) noteDowntime(now int64) error {
	var last int64
	err := s.db.QueryRow("SELECT value FROM meta WHERE name = 'last_flush'").Scan(&last)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("read last_flush: %w", err)
	case now-last >= shortestGap:
		return s.addGap(gap{last, now, GapDowntime})
	case last-now >= smallestStep.Milliseconds(): // the clock was set back, and for how long nobody watched is not known
		return s.addGap(gap{now, last, GapClock})
	}
	return nil
}

func (s *fileStore) addGap(g gap) error {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := addGaps(tx, []gap{g}); err != nil {
		return err
	}
	return tx.Commit()
}

// useWAL asks several times: SQLite does not wait for another process that changes the mode at the
// same moment.
func (s *fileStore) useWAL() error {
	for try := 0; ; try++ {
		var mode string
		err := s.db.QueryRow("PRAGMA journal_mode = WAL").Scan(&mode)
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return fmt.Errorf("the file system does not allow the WAL journal (SQLite stays with %q)", mode)
		case resultCode(err) != codeBusy || try == 20:
			return err
		}
		time.Sleep(25 * time.Millisecond)
	}
}

// replace moves a damaged file aside and opens a fresh one in its place. before is the file that was
// found to be damaged: if it is no longer there, another server has been faster.
func replace(file string, before os.FileInfo, cause error, o *Options, now int64) (*fileStore, error) {
	aside := ""
	if current, err := os.Stat(file); err == nil && os.SameFile(before, current) {
		aside, err = moveAside(file, time.Now().UTC())
		if err != nil {
			return nil, fmt.Errorf("%w; it could not be moved aside: %w", cause, err)
		}
		o.Logger.LogAttrs(context.Background(), slog.LevelError, "ledger file is damaged; it was moved aside and a new one is started, what it recorded no longer counts",
			slog.String("event", "ledger.damaged"), slog.String("file", file), slog.String("moved_to", aside), slog.Any("err", cause))
	}
	if err := create(file); err != nil {
		return nil, err
	}
	s, err := connect(file, o, now)
	if err != nil || aside == "" {
		return s, err
	}
	if err := errors.Join(s.setMeta("moved_aside", filepath.Base(aside)), s.addGap(gap{0, now, GapDamaged})); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// moveAside renames file, with its journal, to FILE.damaged-TIME, and returns that name.
func moveAside(file string, now time.Time) (string, error) {
	base := file + ".damaged-" + now.Format("20060102T150405Z")
	aside := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s-%d", base, n)
	}
	if err := os.Rename(file, aside); err != nil {
		return "", err
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Rename(file+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}

func (s *fileStore) close() error { return s.db.Close() }

// setMeta sets a meta value that is not set yet.
func (s *fileStore) setMeta(name string, value any) error {
	_, err := s.db.Exec("INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", name, value)
	return err
}
