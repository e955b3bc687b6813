package telemetry

// identitiesSchema is what schema version 2 adds. Days are days since 1970-01-01 UTC; a row of identity_days is a day of use, even
// with nothing counted.
const identitiesSchema = `
	CREATE TABLE identities (
		id TEXT PRIMARY KEY, kind TEXT NOT NULL, prefix TEXT NOT NULL, agent TEXT NOT NULL,
		first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL, legacy_last INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE TABLE identity_names (
		id TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, proxy TEXT NOT NULL, last_seen INTEGER NOT NULL,
		PRIMARY KEY (id, name, version, proxy)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE identity_revisions (
		id TEXT NOT NULL, transport TEXT NOT NULL, role TEXT NOT NULL, revision TEXT NOT NULL, last_seen INTEGER NOT NULL,
		PRIMARY KEY (id, transport, role, revision)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE identity_transports (
		id TEXT NOT NULL, transport TEXT NOT NULL,
		sessions INTEGER NOT NULL, uses INTEGER NOT NULL, reopened INTEGER NOT NULL, calls INTEGER NOT NULL,
		errors INTEGER NOT NULL, refusals INTEGER NOT NULL, failures INTEGER NOT NULL,
		first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL, bytes INTEGER NOT NULL,
		PRIMARY KEY (id, transport)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE identity_days (
		id TEXT NOT NULL, transport TEXT NOT NULL, day INTEGER NOT NULL,
		sessions INTEGER NOT NULL, calls INTEGER NOT NULL, errors INTEGER NOT NULL, refusals INTEGER NOT NULL,
		PRIMARY KEY (id, transport, day)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE identity_signs (
		id TEXT NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL,
		count INTEGER NOT NULL, first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL,
		PRIMARY KEY (id, kind, detail)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE evicted (
		transport TEXT PRIMARY KEY,
		sessions INTEGER NOT NULL, uses INTEGER NOT NULL, reopened INTEGER NOT NULL, calls INTEGER NOT NULL,
		errors INTEGER NOT NULL, refusals INTEGER NOT NULL, failures INTEGER NOT NULL,
		first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL, bytes INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE TABLE totals (
		transport TEXT NOT NULL, revision TEXT NOT NULL, day INTEGER NOT NULL,
		sessions INTEGER NOT NULL, calls INTEGER NOT NULL, errors INTEGER NOT NULL, refusals INTEGER NOT NULL,
		PRIMARY KEY (transport, revision, day)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE gaps (
		from_time INTEGER NOT NULL, to_time INTEGER NOT NULL, kind TEXT NOT NULL,
		PRIMARY KEY (from_time, to_time, kind)
	) STRICT, WITHOUT ROWID;
	INSERT INTO meta (name, value) VALUES ('replica', lower(hex(randomblob(8))));
`

// identitiesOfClients makes identities of the clients of schema version 1, of which neither principal nor address was kept. Nobody will
// be recorded under their ids again, but legacy use must not be forgotten. All that is known of a row's days is the first and the last.
const identitiesOfClients = `
	INSERT INTO identities SELECT name || '@;', iif(name = '', 'address', 'client'), '', '', min(first_seen), max(last_seen),
		coalesce(max(iif(transport = 'http_sse', last_seen, NULL)), 0) FROM clients GROUP BY name;
	INSERT INTO identity_names SELECT name || '@;', name, version, proxy, max(last_seen) FROM clients GROUP BY name, version, proxy;
	INSERT INTO identity_revisions SELECT name || '@;', transport, 'requested', requested, max(last_seen) FROM clients
		WHERE requested <> '' GROUP BY name, transport, requested;
	INSERT INTO identity_revisions SELECT name || '@;', transport, 'negotiated', negotiated, max(last_seen) FROM clients
		WHERE negotiated <> '' GROUP BY name, transport, negotiated;
	INSERT INTO identity_transports SELECT name || '@;', transport, sum(sessions), sum(uses), sum(reopened), sum(calls), sum(errors),
		sum(refusals), sum(failures), min(first_seen), max(last_seen), 0 FROM clients GROUP BY name, transport;
	INSERT INTO identity_days SELECT name || '@;', transport, last_seen / 86400000, sum(sessions + reopened), sum(calls), sum(errors), sum(refusals)
		FROM clients GROUP BY name, transport, last_seen / 86400000;
	INSERT OR IGNORE INTO identity_days SELECT name || '@;', transport, first_seen / 86400000, 0, 0, 0, 0 FROM clients;
	INSERT INTO identity_signs SELECT name || '@;', 'requested', requested, sum(sessions), min(first_seen), max(last_seen) FROM clients
		WHERE transport = 'http_sse' AND requested IN ('2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28') GROUP BY name, requested;
	INSERT INTO identity_signs SELECT name || '@;', 'streamable', '', sum(calls - errors), min(first_seen), max(last_seen) FROM clients
		WHERE transport = 'streamable_http' AND calls > errors GROUP BY name;
	INSERT INTO identity_signs SELECT name || '@;', 'reattached', '', sum(reopened), min(first_seen), max(last_seen) FROM clients
		WHERE reopened > 0 GROUP BY name;
	INSERT INTO totals SELECT transport, negotiated, last_seen / 86400000, sum(sessions + uses + reopened), sum(calls), sum(errors), sum(refusals)
		FROM clients GROUP BY transport, negotiated, last_seen / 86400000;
	INSERT INTO evicted SELECT transport, sessions, uses, reopened, calls, errors, refusals, failures, first_seen, last_seen, 0 FROM overflow;
`
