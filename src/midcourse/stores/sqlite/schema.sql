-- The tables of a Midcourse store, version 4. A change here is a new version, and a migration beside it.
--
-- A seal is a checksum. SQLite has none for its pages, so whatever decides something is sealed: who owns a session,
-- its head, each command and its outcome, each snapshot, each item of a shelf. Journal rows carry the running digest; blobs are their own.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- status, agent, created_at and wake_at repeat what the head says, for the queries below.
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    created_at REAL NOT NULL,
    epoch INTEGER NOT NULL,
    owner TEXT,
    seal BLOB NOT NULL,
    status TEXT NOT NULL,
    wake_at REAL,
    position INTEGER NOT NULL,
    head BLOB NOT NULL,
    head_seal BLOB NOT NULL
);

CREATE INDEX sessions_newest ON sessions (created_at);
CREATE INDEX sessions_owned ON sessions (owner) WHERE owner IS NOT NULL;
CREATE INDEX sessions_free ON sessions (status) WHERE owner IS NULL;
CREATE INDEX sessions_waking ON sessions (wake_at) WHERE wake_at IS NOT NULL;

-- place = session key * 2^32 + position. One integer key, and not two in a WITHOUT ROWID table: that one keeps only
-- about 1 KB of a row on its page, so that a record of 1.5 KB would take an overflow page of 4 KB.
CREATE TABLE journal (
    place INTEGER PRIMARY KEY,
    record BLOB NOT NULL,
    digest BLOB NOT NULL
);

-- place = session key * 2^32 + seq. Rows are never deleted: an id is unique for the life of its session.
CREATE TABLE inbox (
    place INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    id TEXT NOT NULL,
    put_at REAL NOT NULL,
    content BLOB NOT NULL,
    seal BLOB NOT NULL,
    outcome BLOB,
    outcome_seal BLOB
);

CREATE UNIQUE INDEX inbox_ids ON inbox (session, id);
CREATE INDEX inbox_undecided ON inbox (session) WHERE outcome IS NULL;

CREATE TABLE snapshots (
    place INTEGER PRIMARY KEY,
    content BLOB NOT NULL,
    seal BLOB NOT NULL
);

CREATE TABLE blobs (
    digest TEXT NOT NULL UNIQUE,
    content BLOB NOT NULL
);

-- Which sessions may name a blob: it goes when the last of them is erased.
CREATE TABLE blob_uses (
    session INTEGER NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (session, digest)
) WITHOUT ROWID;

CREATE INDEX blob_uses_digests ON blob_uses (digest);

-- The audit log of all sessions, in the order of commit; each row carries the running digest over all before it.
-- AUTOINCREMENT: SQLite remembers the highest seq there ever was, so that rows removed from the end are missed.
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    entry BLOB NOT NULL,
    digest BLOB NOT NULL
);

-- What adapters keep beside the journal. Not WITHOUT ROWID, for the reason given at the journal: its values are mostly
-- a little larger than 1 KB. The index gives the keys without touching the values.
CREATE TABLE shelves (
    shelf TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    seal BLOB NOT NULL
);

CREATE UNIQUE INDEX shelves_keys ON shelves (shelf, key);

-- Where to wake a worker, and which process it is. Whether it lives is not here: see locks.py.
CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    pid INTEGER NOT NULL,
    address TEXT NOT NULL,
    started_at REAL NOT NULL
) WITHOUT ROWID;
