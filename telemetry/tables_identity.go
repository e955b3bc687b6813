package telemetry

import (
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// The tables that have rows of an identity, by its id.
var identityTables = []string{"identities", "identity_names", "identity_revisions", "identity_transports", "identity_days", "identity_signs"}

const (
	hasIdentitySQL = `SELECT EXISTS (SELECT 1 FROM identities WHERE id = ?)`

	addIdentitySQL = `INSERT INTO identities (id, kind, prefix, agent, first_seen, last_seen, legacy_last) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET first_seen = min(first_seen, excluded.first_seen), last_seen = max(last_seen, excluded.last_seen),
			legacy_last = max(legacy_last, excluded.legacy_last)`

	addNameSQL = `INSERT INTO identity_names (id, name, version, proxy, last_seen) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET last_seen = max(last_seen, excluded.last_seen)`
	trimNamesSQL = `DELETE FROM identity_names WHERE id = ?1 AND (name, version, proxy) NOT IN
		(SELECT name, version, proxy FROM identity_names WHERE id = ?1 ORDER BY last_seen DESC, name DESC, version DESC, proxy DESC LIMIT ?2)`

	addRevisionSQL = `INSERT INTO identity_revisions (id, transport, role, revision, last_seen) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET last_seen = max(last_seen, excluded.last_seen)`
	trimRevisionsSQL = `DELETE FROM identity_revisions WHERE id = ?1 AND transport = ?2 AND role = ?3 AND revision NOT IN
		(SELECT revision FROM identity_revisions WHERE id = ?1 AND transport = ?2 AND role = ?3 ORDER BY last_seen DESC, revision DESC LIMIT ?4)`

	addCarriedSQL = `INSERT INTO identity_transports (id, transport, ` + columns + `, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes, ` + addUp

	addDaySQL = `INSERT INTO identity_days (id, transport, day, sessions, calls, errors, refusals) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET sessions = sessions + excluded.sessions, calls = calls + excluded.calls,
			errors = errors + excluded.errors, refusals = refusals + excluded.refusals`

	addSignSQL = `INSERT INTO identity_signs (id, kind, detail, count, first_seen, last_seen) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET count = count + excluded.count,
			first_seen = min(first_seen, excluded.first_seen), last_seen = max(last_seen, excluded.last_seen)`
	trimSignsSQL = `DELETE FROM identity_signs WHERE id = ?1 AND (kind, detail) NOT IN
		(SELECT kind, detail FROM identity_signs WHERE id = ?1 ORDER BY last_seen DESC, kind DESC, detail DESC LIMIT ?2)`

	addEvictedSQL = `INSERT INTO evicted (transport, ` + columns + `, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes, ` + addUp

	// The order is that of content.evict.
	victimsSQL = `SELECT id, kind FROM identities WHERE (kind <> '` + KindPrincipal + `') = ? ORDER BY min(legacy_last, 1), last_seen, id LIMIT ?`

	evictSQL = `INSERT INTO evicted SELECT transport, sum(sessions), sum(uses), sum(reopened), sum(calls), sum(errors), sum(refusals), sum(failures),
			min(first_seen), max(last_seen), sum(bytes) FROM identity_transports WHERE id IN (SELECT value FROM json_each(?)) GROUP BY transport
		ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes, ` + addUp
)

// A prepared runs statements of one transaction, each compiled once.
type prepared struct {
	tx    *sql.Tx
	stmts map[string]*sql.Stmt
}

func (p *prepared) stmt(query string) (*sql.Stmt, error) {
	if s := p.stmts[query]; s != nil {
		return s, nil
	}
	s, err := p.tx.Prepare(query) // closed with the transaction
	if err == nil {
		p.stmts[query] = s
	}
	return s, err
}

func (p *prepared) exec(query string, args ...any) error {
	s, err := p.stmt(query)
	if err == nil {
		_, err = s.Exec(args...)
	}
	return err
}

// addIdentities adds those of a batch and returns how many others had to make room.
func (s *fileStore) addIdentities(tx *sql.Tx, batch *content) (dropped evictions, err error) {
	p := &prepared{tx, make(map[string]*sql.Stmt)}
	if err := addEvicted(p, batch.evicted); err != nil {
		return nil, err
	}
	if len(batch.identities) == 0 {
		return nil, nil
	}
	held, err := countIdentities(tx)
	if err != nil {
		return nil, err
	}
	dropped = make(evictions)
	bounds := newContent(s.limits)
	for _, id := range slices.Sorted(maps.Keys(batch.identities)) {
		d := batch.identities[id]
		has, err := p.stmt(hasIdentitySQL)
		if err != nil {
			return nil, err
		}
		var known bool
		if err := has.QueryRow(id).Scan(&known); err != nil {
			return nil, err
		}
		if a := d.anonymous(); !known {
			if held[a] >= bounds.quota(a) {
				n, err := evictIdentities(tx, a, bounds.quota(a)/evictedAtOnce+1, dropped)
				if err != nil {
					return nil, err
				}
				held[a] -= n
			}
			held[a]++
		}
		if err := p.addDossier(d); err != nil {
			return nil, err
		}
	}
	return dropped, nil
}

// countIdentities returns how many there are, by whether they are anonymous.
func countIdentities(tx *sql.Tx) (map[bool]int, error) {
	held := make(map[bool]int)
	err := each(tx, "SELECT kind <> '"+KindPrincipal+"', count(*) FROM identities GROUP BY 1", func(rows *sql.Rows) error {
		var anonymous bool
		var n int
		err := rows.Scan(&anonymous, &n)
		held[anonymous] = n
		return err
	})
	return held, err
}

func (p *prepared) addDossier(d *dossier) error {
	errs := []error{p.exec(addIdentitySQL, d.id, d.kind, d.prefix, d.agent, d.first, d.last, d.legacyLast())}
	do := func(query string, args ...any) { errs = append(errs, p.exec(query, args...)) }
	for n, at := range d.names {
		do(addNameSQL, d.id, n.name, n.version, n.proxy, at)
	}
	if len(d.names) > 0 {
		do(trimNamesSQL, d.id, maxKept)
	}
	for r, at := range d.revisions {
		do(addRevisionSQL, d.id, r.transport, r.role, r.revision, at)
		do(trimRevisionsSQL, d.id, r.transport, r.role, maxKept)
	}
	for transport, t := range d.transports {
		do(addCarriedSQL, append(append([]any{d.id, transport}, t.values()...), t.bytes)...)
	}
	for k, n := range d.days {
		do(addDaySQL, d.id, k.transport, k.day, n.sessions, n.calls, n.errors, n.refusals)
	}
	for k, s := range d.signs {
		do(addSignSQL, d.id, k.kind, k.detail, s.n, s.first, s.last)
	}
	if len(d.signs) > 0 {
		do(trimSignsSQL, d.id, maxSigns)
	}
	return errors.Join(errs...)
}

func addEvicted(p *prepared, transports map[string]carried) error {
	for transport, t := range transports {
		if err := p.exec(addEvictedSQL, append(append([]any{transport}, t.values()...), t.bytes)...); err != nil {
			return err
		}
	}
	return nil
}

// evictIdentities removes up to n identities, returns how many, and counts them in dropped. What they did is kept per transport.
func evictIdentities(tx *sql.Tx, anonymous bool, n int, dropped evictions) (int, error) {
	rows, err := tx.Query(victimsSQL, anonymous, n)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id, kind string
		if err := rows.Scan(&id, &kind); err != nil {
			return 0, err
		}
		ids = append(ids, id)
		dropped[kind]++
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec(evictSQL, string(list)); err != nil {
		return 0, err
	}
	return len(ids), removeIdentities(tx, ids)
}

// removeIdentities deletes all rows of identities.
func removeIdentities(tx *sql.Tx, ids []string) error {
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	for _, table := range identityTables {
		if _, err := tx.Exec("DELETE FROM "+table+" WHERE id IN (SELECT value FROM json_each(?))", string(list)); err != nil { // #nosec G202 -- one of the tables of this file
			return err
		}
	}
	return nil
}

func addGaps(tx *sql.Tx, gaps []gap) error {
	if len(gaps) == 0 {
		return nil
	}
	c := newContent(limits{})
	if err := readGaps(tx, c); err != nil {
		return err
	}
	before := slices.Clone(c.gaps)
	for _, g := range gaps {
		c.addGap(g)
	}
	for _, g := range before { // of which some may have become one
		if !slices.Contains(c.gaps, g) {
			if _, err := tx.Exec("DELETE FROM gaps WHERE from_time = ? AND to_time = ? AND kind = ?", g.from, g.to, g.kind); err != nil {
				return err
			}
		}
	}
	for _, g := range c.gaps {
		if slices.Contains(before, g) {
			continue
		}
		if _, err := tx.Exec("INSERT OR IGNORE INTO gaps (from_time, to_time, kind) VALUES (?, ?, ?)", g.from, g.to, g.kind); err != nil {
			return err
		}
	}
	return nil
}

func readGaps(tx *sql.Tx, c *content) error {
	return each(tx, "SELECT from_time, to_time, kind FROM gaps", func(rows *sql.Rows) error {
		var g gap
		err := rows.Scan(&g.from, &g.to, &g.kind)
		c.addGap(g)
		return err
	})
}

func readIdentities(tx *sql.Tx, c *content) error {
	if err := each(tx, "SELECT id, kind, prefix, agent, first_seen, last_seen FROM identities", func(rows *sql.Rows) error {
		d := newDossier(ident{})
		err := rows.Scan(&d.id, &d.kind, &d.prefix, &d.agent, &d.first, &d.last)
		c.identities[d.id] = d
		c.held[d.anonymous()]++
		return err
	}); err != nil {
		return err
	}
	// of reads a table of identities. scan gets the targets of the columns and, after it was read, keep is called.
	of := func(query string, targets []any, keep func(*dossier)) error {
		var id string
		return each(tx, query, func(rows *sql.Rows) error {
			if err := rows.Scan(append([]any{&id}, targets...)...); err != nil {
				return err
			}
			if d := c.identities[id]; d != nil {
				keep(d)
			}
			return nil
		})
	}
	var n person
	var r spoken
	var transport string
	var t carried
	var k dayOf
	var day dayCounts
	var s signOf
	var seen sight
	var at int64
	return errors.Join(
		of("SELECT id, name, version, proxy, last_seen FROM identity_names", []any{&n.name, &n.version, &n.proxy, &at},
			func(d *dossier) { d.names[n] = at }),
		of("SELECT id, transport, role, revision, last_seen FROM identity_revisions", []any{&r.transport, &r.role, &r.revision, &at},
			func(d *dossier) { d.revisions[r] = at }),
		of("SELECT id, transport, "+columns+", bytes FROM identity_transports", append(append([]any{&transport}, t.targets()...), &t.bytes),
			func(d *dossier) { d.transports[transport] = t }),
		of("SELECT id, transport, day, sessions, calls, errors, refusals FROM identity_days",
			[]any{&k.transport, &k.day, &day.sessions, &day.calls, &day.errors, &day.refusals}, func(d *dossier) { d.days[k] = day }),
		of("SELECT id, kind, detail, count, first_seen, last_seen FROM identity_signs",
			[]any{&s.kind, &s.detail, &seen.n, &seen.first, &seen.last}, func(d *dossier) { d.signs[s] = seen }),
		each(tx, "SELECT transport, "+columns+", bytes FROM evicted", func(rows *sql.Rows) error {
			err := rows.Scan(append(append([]any{&transport}, t.targets()...), &t.bytes)...)
			c.evicted[transport] = t
			return err
		}),
	)
}

// pruneSQL removes what was last seen before ?1, in Unix milliseconds, or on a day before ?2.
var pruneSQL = []string{
	"DELETE FROM clients WHERE last_seen < ?1",
	"DELETE FROM overflow WHERE last_seen < ?1",
	"DELETE FROM evidence WHERE last_seen < ?1",
	"DELETE FROM evicted WHERE last_seen < ?1",
	"DELETE FROM gaps WHERE to_time < ?1",
	"DELETE FROM totals WHERE day < ?2",
	"DELETE FROM identities WHERE last_seen < ?1",
	"DELETE FROM identity_days WHERE day < ?2",
	"DELETE FROM identity_days WHERE id NOT IN (SELECT id FROM identities)",
	"DELETE FROM identity_names WHERE id NOT IN (SELECT id FROM identities)",
	"DELETE FROM identity_revisions WHERE id NOT IN (SELECT id FROM identities)",
	"DELETE FROM identity_transports WHERE id NOT IN (SELECT id FROM identities)",
	"DELETE FROM identity_signs WHERE id NOT IN (SELECT id FROM identities)",
}

func (s *fileStore) prune(before int64) error {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, statement := range pruneSQL {
		if _, err := tx.Exec(statement, before, before/dayMillis); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (s *fileStore) forget(id string) (bool, error) {
	tx, err := s.db.Begin()
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	var known bool
	if err := tx.QueryRow(hasIdentitySQL, id).Scan(&known); err != nil {
		return false, err
	}
	if !known {
		return false, nil
	}
	if err := removeIdentities(tx, []string{id}); err != nil {
		return false, err
	}
	return true, tx.Commit()
}
