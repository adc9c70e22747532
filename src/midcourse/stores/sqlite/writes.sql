-- What the writer thread runs, inside its transaction.

-- name: session_fence
SELECT key, position, seal, epoch, owner FROM sessions WHERE id = ?;

-- name: insert_session
INSERT INTO sessions (id, agent, created_at, epoch, owner, seal, status, wake_at, position, head, head_seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_head
UPDATE sessions SET status = ?, wake_at = ?, position = ?, head = ?, head_seal = ? WHERE key = ?;

-- name: update_owner
UPDATE sessions SET epoch = ?, owner = ?, seal = ? WHERE key = ?;

-- name: insert_record
INSERT INTO journal (place, record, digest) VALUES (?, ?, ?);

-- name: insert_blob
INSERT OR IGNORE INTO blobs (digest, content) VALUES (?, ?);

-- name: use_blob
INSERT OR IGNORE INTO blob_uses (session, digest) VALUES (?, ?);

-- name: replace_record
UPDATE journal SET record = ?, digest = ? WHERE place = ?;

-- name: delete_snapshots
DELETE FROM snapshots WHERE place BETWEEN ? AND ?;

-- name: commands_of
SELECT place, id, put_at FROM inbox WHERE place BETWEEN ? AND ?;

-- name: empty_command
UPDATE inbox SET content = x'', seal = ?, outcome = ?, outcome_seal = ? WHERE place = ?;

-- name: delete_blobs
DELETE FROM blobs WHERE digest IN (SELECT digest FROM blob_uses WHERE session = :session)
AND NOT EXISTS (SELECT 1 FROM blob_uses AS u WHERE u.digest = blobs.digest AND u.session != :session);

-- name: forget_blobs
DELETE FROM blob_uses WHERE session = ?;

-- Not of an anchor: the log may have been trimmed meanwhile.
-- name: replace_audit
UPDATE audit SET entry = ? WHERE seq = ? AND length(entry) > 0;

-- name: last_command
SELECT max(place) FROM inbox WHERE place BETWEEN ? AND ?;

-- name: insert_command
INSERT INTO inbox (place, session, id, put_at, content, seal) VALUES (?, ?, ?, ?, ?, ?);

-- name: command_to_decide
SELECT place, seal, outcome IS NOT NULL OR outcome_seal IS NOT NULL FROM inbox WHERE session = ? AND id = ?;

-- name: decide_command
UPDATE inbox SET outcome = ?, outcome_seal = ? WHERE place = ?;

-- name: any_undecided
SELECT 1 FROM inbox WHERE session = ? AND outcome IS NULL LIMIT 1;

-- name: insert_snapshot
INSERT OR REPLACE INTO snapshots (place, content, seal) VALUES (?, ?, ?);

-- name: delete_older_snapshots
DELETE FROM snapshots
WHERE place BETWEEN :first AND :last
AND place < (SELECT place FROM snapshots WHERE place BETWEEN :first AND :last ORDER BY place DESC LIMIT 1 OFFSET 1);

-- One row, also while the log is empty: what it ends with, and the highest seq there ever was.
-- name: audit_end
SELECT a.seq, CAST(a.digest AS BLOB), CAST(coalesce(s.seq, 0) AS INTEGER)
FROM (SELECT 1)
LEFT JOIN (SELECT seq, digest FROM audit ORDER BY seq DESC LIMIT 1) AS a
LEFT JOIN sqlite_sequence AS s ON s.name = 'audit'
LIMIT 1;

-- name: insert_audit
INSERT INTO audit (seq, entry, digest) VALUES (?, ?, ?);

-- name: trim_audit
DELETE FROM audit WHERE seq < ?;

-- The last row that is taken away leaves its number and its digest: what follows is checked from there.
-- name: anchor_audit
UPDATE audit SET entry = x'' WHERE seq = ?;

-- name: shelf_item
SELECT value, seal FROM shelves WHERE shelf = ? AND key = ?;

-- name: shelve
INSERT INTO shelves (shelf, key, value, seal) VALUES (?, ?, ?, ?)
ON CONFLICT (shelf, key) DO UPDATE SET value = excluded.value, seal = excluded.seal;

-- name: unshelve
DELETE FROM shelves WHERE shelf = ? AND key = ?;

-- name: worker_is_known
SELECT EXISTS (SELECT 1 FROM workers WHERE id = :id) OR EXISTS (SELECT 1 FROM sessions WHERE owner = :id);

-- name: insert_worker
INSERT INTO workers (id, pid, address, started_at) VALUES (?, ?, ?, ?);

-- name: delete_worker
DELETE FROM workers WHERE id = ?;
