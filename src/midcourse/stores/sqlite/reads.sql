-- What both threads may ask. Casts: a damaged row may hold another type than it should, and must not surprise the code.

-- name: session
SELECT s.id, s.epoch, s.owner, s.seal, s.status, s.agent, s.created_at, s.wake_at, s.head, s.head_seal, w.address
FROM sessions AS s LEFT JOIN workers AS w ON w.id = s.owner
WHERE s.id = ?;

-- name: newest_sessions
SELECT id, status, agent, created_at, wake_at, head, head_seal
FROM sessions
WHERE created_at <= CASE WHEN :before IS NULL THEN 9e999 ELSE (SELECT created_at FROM sessions WHERE id = :before) END
AND (:before IS NULL OR (created_at, key) < (SELECT created_at, key FROM sessions WHERE id = :before))
AND (:agent IS NULL OR agent = :agent)
AND (:tenant IS NULL OR substr(id, 1, instr(id, '~')) = :tenant)
AND (:any_status OR status IN (SELECT value FROM json_each(:statuses)))
ORDER BY created_at DESC, key DESC;

-- name: sessions_below
SELECT id, status, agent, created_at, wake_at, head, head_seal
FROM sessions
WHERE id > :session || '.' AND id < :session || '/'  -- '/' comes next after '.'
AND status IN (SELECT value FROM json_each(:statuses));

-- name: session_key
SELECT key FROM sessions WHERE id = ?;

-- name: records
SELECT CAST(place & 4294967295 AS INTEGER), CAST(coalesce(record, x'') AS BLOB), CAST(coalesce(digest, x'') AS BLOB)
FROM journal WHERE place > ? AND place <= ? ORDER BY place LIMIT ?;

-- name: snapshots
SELECT place & 4294967295, content, seal FROM snapshots WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 2;

-- name: blob
SELECT CAST(content AS BLOB) FROM blobs WHERE digest = ?;

-- name: undecided_commands
SELECT place & 4294967295, id, put_at, content, seal, outcome, outcome_seal
FROM inbox WHERE session = ? AND outcome IS NULL ORDER BY place;

-- The same commands, counted once over the rows and once over the index that finds them.
-- name: inbox_counts
SELECT
    (SELECT count(*) FROM inbox NOT INDEXED WHERE place BETWEEN :first AND :last),
    (SELECT count(*) FROM inbox NOT INDEXED WHERE place BETWEEN :first AND :last AND outcome IS NULL),
    (SELECT count(*) FROM inbox INDEXED BY inbox_undecided WHERE session = :key AND outcome IS NULL),
    (SELECT max(place) FROM inbox NOT INDEXED WHERE place BETWEEN :first AND :last);

-- name: command
SELECT place & 4294967295, id, put_at, content, seal, outcome, outcome_seal
FROM inbox WHERE session = ? AND id = ?;

-- name: shelved
SELECT key, value, seal FROM shelves WHERE shelf = ? AND key BETWEEN ? AND ? ORDER BY key LIMIT ?;

-- name: shelved_newest
SELECT key, value, seal FROM shelves WHERE shelf = ? AND key BETWEEN ? AND ? ORDER BY key DESC LIMIT ?;

-- name: shelf_keys
SELECT key FROM shelves WHERE shelf = ? AND key BETWEEN ? AND ? ORDER BY key;

-- A loose scan, as for the owners below.
-- name: shelves
WITH RECURSIVE names (name) AS (
    SELECT min(shelf) FROM shelves WHERE shelf >= :prefix
    UNION ALL
    SELECT (SELECT min(shelf) FROM shelves WHERE shelf > names.name) FROM names
    WHERE substr(names.name, 1, length(:prefix)) = :prefix
)
SELECT name FROM names WHERE substr(name, 1, length(:prefix)) = :prefix;

-- name: audit_highest
SELECT CAST(max(seq) AS INTEGER) FROM sqlite_sequence WHERE name = 'audit';

-- name: audit_last
SELECT CAST(max(seq) AS INTEGER) FROM audit;

-- name: audit
SELECT seq, CAST(coalesce(entry, x'') AS BLOB), CAST(coalesce(digest, x'') AS BLOB)
FROM audit WHERE seq > ? ORDER BY seq LIMIT ?;

-- A loose scan: one step per distinct owner, however many sessions each of them has.
-- name: owners
WITH RECURSIVE owners (id) AS (
    SELECT min(owner) FROM sessions WHERE owner IS NOT NULL
    UNION ALL
    SELECT (SELECT min(owner) FROM sessions WHERE owner > owners.id) FROM owners WHERE owners.id IS NOT NULL
)
SELECT id FROM owners WHERE id IS NOT NULL;

-- The four reasons to take a session. Each begins at an index that holds only what may need somebody.
-- name: addressed_sessions
SELECT s.id, s.epoch, s.owner, s.seal, s.status, s.agent, s.created_at, s.wake_at, s.head, s.head_seal, ''
FROM inbox AS i CROSS JOIN sessions AS s ON s.key = i.session
WHERE i.outcome IS NULL;

-- name: waking_sessions
SELECT s.id, s.epoch, s.owner, s.seal, s.status, s.agent, s.created_at, s.wake_at, s.head, s.head_seal, ''
FROM sessions AS s WHERE s.wake_at <= ?;

-- name: owned_sessions_in_status
SELECT s.id, s.epoch, s.owner, s.seal, s.status, s.agent, s.created_at, s.wake_at, s.head, s.head_seal, ''
FROM sessions AS s WHERE s.owner = ? AND s.status = ?;

-- name: free_sessions_in_status
SELECT s.id, s.epoch, s.owner, s.seal, s.status, s.agent, s.created_at, s.wake_at, s.head, s.head_seal, ''
FROM sessions AS s WHERE s.owner IS NULL AND s.status = ?;

-- name: pending_sessions
SELECT DISTINCT s.id FROM inbox AS i CROSS JOIN sessions AS s ON s.key = i.session
WHERE i.outcome IS NULL AND s.owner = ?;

-- By the index of undecided commands, which holds nothing else: a list is looked at often, and seldom is there one.
-- name: unanswered_commands
SELECT s.id, i.place & 4294967295, i.id, i.put_at, i.content, i.seal, i.outcome, i.outcome_seal
FROM inbox AS i INDEXED BY inbox_undecided CROSS JOIN sessions AS s ON s.key = i.session
WHERE i.outcome IS NULL AND i.put_at <= ? ORDER BY i.put_at, i.place LIMIT ?;

-- name: worker_processes
SELECT id, pid FROM workers ORDER BY started_at;

-- name: data_version
PRAGMA data_version;
