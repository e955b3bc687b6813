package telemetry

import (
	"database/sql"
	"errors"
	"fmt"
)

// ErrNewer is the error of a file written by a later version of the bridge.
var ErrNewer = errors.New("the ledger was written by a newer version of the bridge")

// ErrForeign is the error of an SQLite file that is not a ledger.
var ErrForeign = errors.New("the file is an SQLite database but not a ledger of the bridge")

// migrations brings a file from schema version i to i+1. Version 0 is an empty file. An entry that has
// been released is never changed.
var migrations = []string{
	// Times are Unix milliseconds. The names are those of the report.
	`CREATE TABLE schema (version INTEGER NOT NULL) STRICT;
	INSERT INTO schema (version) VALUES (0);
	CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
	CREATE TABLE clients (
		name TEXT NOT NULL, version TEXT NOT NULL, proxy TEXT NOT NULL, transport TEXT NOT NULL,
		requested TEXT NOT NULL, negotiated TEXT NOT NULL, probe INTEGER NOT NULL,
		sessions INTEGER NOT NULL, uses INTEGER NOT NULL, reopened INTEGER NOT NULL, calls INTEGER NOT NULL,
		errors INTEGER NOT NULL, refusals INTEGER NOT NULL, failures INTEGER NOT NULL,
		first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL,
		PRIMARY KEY (name, version, proxy, transport, requested, negotiated)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE overflow (
		transport TEXT PRIMARY KEY,
		sessions INTEGER NOT NULL, uses INTEGER NOT NULL, reopened INTEGER NOT NULL, calls INTEGER NOT NULL,
		errors INTEGER NOT NULL, refusals INTEGER NOT NULL, failures INTEGER NOT NULL,
		first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE TABLE evidence (
		kind TEXT NOT NULL, transport TEXT NOT NULL, version TEXT NOT NULL, count INTEGER NOT NULL,
		first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL,
		PRIMARY KEY (kind, transport, version)
	) STRICT, WITHOUT ROWID;`,
	identitiesSchema + identitiesOfClients,
}

// schemaVersion returns the version of the file, 0 if it is empty. The errors are ErrForeign and those
// of reading.
func schemaVersion(tx *sql.Tx) (int, error) {
	var tables, known, version int
	err := tx.QueryRow("SELECT count(*), coalesce(sum(type = 'table' AND name IN ('schema', 'clients')), 0) FROM sqlite_schema").Scan(&tables, &known)
	if err != nil || tables == 0 {
		return 0, err
	}
	if known != 2 {
		return 0, ErrForeign
	}
	if err := tx.QueryRow("SELECT version FROM schema").Scan(&version); err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return version, nil
}

// migrate brings the file to the current version in one transaction, so that of two servers that start
// at once one does it and the other finds it done.
func migrate(db *sql.DB) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	version, err := schemaVersion(tx)
	if err != nil {
		return err
	}
	if version > len(migrations) {
		return newer(version)
	}
	for ; version < len(migrations); version++ {
		if _, err := tx.Exec(migrations[version]); err != nil {
			return fmt.Errorf("migrate from schema version %d: %w", version, err)
		}
	}
	if _, err := tx.Exec("UPDATE schema SET version = ?", version); err != nil {
		return err
	}
	return tx.Commit()
}

func newer(version int) error {
	return fmt.Errorf("%w: it has schema version %d and this one knows up to %d; use that version, or another file", ErrNewer, version, len(migrations))
}
