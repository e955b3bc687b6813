package telemetry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

const (
	columns = "sessions, uses, reopened, calls, errors, refusals, failures, first_seen, last_seen"

	addUp = `sessions = sessions + excluded.sessions, uses = uses + excluded.uses,
		reopened = reopened + excluded.reopened, calls = calls + excluded.calls,
		errors = errors + excluded.errors, refusals = refusals + excluded.refusals,
		failures = failures + excluded.failures,
		first_seen = min(first_seen, excluded.first_seen), last_seen = max(last_seen, excluded.last_seen)`

	hasClientSQL = `SELECT EXISTS (SELECT 1 FROM clients WHERE name = ? AND version = ? AND proxy = ?
		AND transport = ? AND requested = ? AND negotiated = ?)`

	addClientSQL = `INSERT INTO clients (name, version, proxy, transport, requested, negotiated, probe, ` + columns + `)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET ` + addUp

	addOverflowSQL = `INSERT INTO overflow (transport, ` + columns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET ` + addUp

	hasEvidenceSQL = `SELECT EXISTS (SELECT 1 FROM evidence WHERE kind = ? AND transport = ? AND version = ?)`

	addEvidenceSQL = `INSERT INTO evidence (kind, transport, version, count, first_seen, last_seen)
		VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET count = count + excluded.count,
			first_seen = min(first_seen, excluded.first_seen), last_seen = max(last_seen, excluded.last_seen)`

	lastFlushSQL = `INSERT INTO meta (name, value) VALUES ('last_flush', ?)
		ON CONFLICT DO UPDATE SET value = max(value, excluded.value)`
)

// add writes the batch in one transaction. The counts are added, never set, so several servers can
// share the file; the room is counted under the same lock.
func (s *fileStore) add(batch *content) error {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := s.addClients(tx, batch); err != nil {
		return fmt.Errorf("write clients: %w", err)
	}
	if err := s.addEvidence(tx, batch.evidence); err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	dropped, err := s.addIdentities(tx, batch)
	if err != nil {
		return fmt.Errorf("write identities: %w", err)
	}
	if err := addTotals(tx, batch.totals); err != nil {
		return fmt.Errorf("write totals: %w", err)
	}
	if err := addGaps(tx, batch.gaps); err != nil {
		return fmt.Errorf("write gaps: %w", err)
	}
	if _, err := tx.Exec(lastFlushSQL, batch.flushed); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	batch.dropped.join(dropped)
	return nil
}

func (s *fileStore) addClients(tx *sql.Tx, batch *content) error {
	folded := newContent(limits{})
	folded.merge(&content{overflow: batch.overflow})
	rows, err := newTable(tx, "SELECT count(*) FROM clients", s.limits.clients, hasClientSQL, addClientSQL)
	if err != nil {
		return err
	}
	for k, t := range batch.clients {
		id := []any{k.name, k.version, k.proxy, k.transport, k.requested, k.negotiated}
		done, err := rows.add(id, append([]any{k.probe()}, t.values()...))
		if err != nil {
			return err
		}
		if !done {
			folded.addOverflow(k.transport, t)
		}
	}
	for transport, t := range folded.overflow {
		if _, err := tx.Exec(addOverflowSQL, append([]any{transport}, t.values()...)...); err != nil {
			return err
		}
	}
	return nil
}

func (s *fileStore) addEvidence(tx *sql.Tx, facts map[fact]sight) error {
	rows, err := newTable(tx, "SELECT count(*) FROM evidence WHERE version <> '"+other+"'", s.limits.evidence, hasEvidenceSQL, addEvidenceSQL)
	if err != nil {
		return err
	}
	for f, n := range facts {
		if f.version != other {
			done, err := rows.add([]any{f.kind, f.transport, f.version}, []any{n.n, n.first, n.last})
			if err != nil {
				return err
			}
			if done {
				continue
			}
		}
		if _, err := tx.Exec(addEvidenceSQL, f.kind, f.transport, other, n.n, n.first, n.last); err != nil {
			return err
		}
	}
	return nil
}

// A table takes rows up to a bound within one transaction, whose lock keeps other processes from
// taking the room meanwhile.
type table struct {
	tx       *sql.Tx
	room     int
	has, put string // statements: is there a row of that id, and add to it or insert it
}

func newTable(tx *sql.Tx, size string, max int, has, put string) (*table, error) {
	var have int
	if err := tx.QueryRow(size).Scan(&have); err != nil {
		return nil, err
	}
	return &table{tx: tx, room: max - have, has: has, put: put}, nil
}

// add adds values to the row of that id, which it makes if there is room; done is false if there is none.
func (t *table) add(id, values []any) (done bool, err error) {
	var known bool
	if err := t.tx.QueryRow(t.has, id...).Scan(&known); err != nil {
		return false, err
	}
	if !known {
		if t.room <= 0 {
			return false, nil
		}
		t.room--
	}
	_, err = t.tx.Exec(t.put, append(id, values...)...)
	return err == nil, err
}

// values are the columns of a tally, in their order.
func (t tally) values() []any {
	return []any{t.Sessions, t.Uses, t.Reopened, t.Calls, t.Errors, t.Refusals, t.Failures, t.first, t.last}
}

// targets are where the columns of a tally are read to, in their order.
func (t *tally) targets() []any {
	return []any{&t.Sessions, &t.Uses, &t.Reopened, &t.Calls, &t.Errors, &t.Refusals, &t.Failures, &t.first, &t.last}
}

func (s *fileStore) read() (*content, error) {
	return readContent(s.db, s.limits)
}

// readContent reads a file as it was at one moment.
func readContent(db *sql.DB, l limits) (*content, error) {
	// Read only, so that it begins without the writer's lock.
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	version, err := schemaVersion(tx)
	switch {
	case err != nil:
		return nil, err
	case version > len(migrations):
		return nil, newer(version)
	case version < len(migrations):
		return nil, fmt.Errorf("it has schema version %d and this version of the bridge needs %d; a server brings it up to date when it starts", version, len(migrations))
	}
	c := newContent(l)
	return c, errors.Join(readClients(tx, c), readOverflow(tx, c), readEvidence(tx, c), readIdentities(tx, c), readTotals(tx, c), readGaps(tx, c), readMeta(tx, c))
}

// each calls scan for every row of a query.
func each(tx *sql.Tx, query string, scan func(*sql.Rows) error) error {
	rows, err := tx.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func readClients(tx *sql.Tx, c *content) error {
	return each(tx, "SELECT name, version, proxy, transport, requested, negotiated, "+columns+" FROM clients", func(rows *sql.Rows) error {
		var k key
		var t tally
		err := rows.Scan(append([]any{&k.name, &k.version, &k.proxy, &k.transport, &k.requested, &k.negotiated}, t.targets()...)...)
		c.clients[k] = t
		return err
	})
}

func readOverflow(tx *sql.Tx, c *content) error {
	return each(tx, "SELECT transport, "+columns+" FROM overflow", func(rows *sql.Rows) error {
		var transport string
		var t tally
		err := rows.Scan(append([]any{&transport}, t.targets()...)...)
		c.overflow[transport] = t
		return err
	})
}

func readEvidence(tx *sql.Tx, c *content) error {
	return each(tx, "SELECT kind, transport, version, count, first_seen, last_seen FROM evidence", func(rows *sql.Rows) error {
		var f fact
		var n sight
		err := rows.Scan(&f.kind, &f.transport, &f.version, &n.n, &n.first, &n.last)
		c.addEvidence(f, n)
		return err
	})
}

func readMeta(tx *sql.Tx, c *content) error {
	values := map[string]any{"observed_from": &c.from, "last_flush": &c.flushed, "moved_aside": &c.movedAside, "replica": &c.replica}
	for name, target := range values {
		err := tx.QueryRow("SELECT value FROM meta WHERE name = ?", name).Scan(target)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
	return nil
}
