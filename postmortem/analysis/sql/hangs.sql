-- Where each rank stands in each process group when its flight recorder was dumped, and what it waits for (rules H1 to H7).
-- Input: collectives, groups, files.

-- name: hang_dumps
-- needs: groups | collectives
-- One row per dump whose rank is known and that says something: one that was cut off before its entries is as good as missing. `newest` is the one to judge a rank by: of several the one that has got furthest; `has_moved`: an
-- earlier dump of the rank stands further back.
CREATE TEMP TABLE hang_dumps AS
WITH cut AS (SELECT file FROM files WHERE contains(note, 'cut off or damaged')),
seen AS (
  SELECT file, rank, sum(greatest(coalesce(last_enqueued, 0), 0)) AS reached, sum(greatest(coalesce(last_completed, 0), 0)) AS done FROM groups
  WHERE rank IS NOT NULL AND (last_enqueued IS NOT NULL OR entries > 0) GROUP BY file, rank HAVING sum(entries) > 0 OR file NOT IN (FROM cut)
  UNION ALL
  SELECT file, rank, sum(seq), 0 FROM collectives c WHERE rank IS NOT NULL AND file NOT IN (SELECT file FROM groups) AND state IN ('scheduled', 'started', 'completed') GROUP BY file, rank
)
SELECT file, rank, row_number() OVER w = 1 AS newest, (max(reached) OVER r, max(done) OVER r) > (min(reached) OVER r, min(done) OVER r) AS has_moved FROM seen
WINDOW w AS (PARTITION BY rank ORDER BY reached DESC, done DESC, file), r AS (PARTITION BY rank);

-- name: hang_entries
-- needs: hang_dumps, collectives
-- Entries of those dumps; `is_open`: not completed. gloo never marks an entry as done but counts it in the status (last_completed is
-- the last enqueued one), so what the status calls done is.
CREATE TEMP TABLE hang_entries AS
SELECT c.rank, c.pg, c.seq, c.op, c.is_p2p, c.peer_rank, c.file, c.line, c.ts, c.frames,
  c.state <> 'completed' AND NOT coalesce(g.last_completed >= g.last_enqueued AND g.last_enqueued > 0 AND c.seq <= g.last_completed AND NOT coalesce(c.is_p2p, false), false) AS is_open
FROM collectives c JOIN hang_dumps d ON d.file = c.file AND d.newest LEFT JOIN groups g ON g.file = c.file AND g.pg = c.pg
WHERE c.pg IS NOT NULL AND c.seq IS NOT NULL AND c.state IS NOT NULL;

-- name: hang_standings
-- needs: hang_dumps
-- One row per rank with a dump and group it is in: last enqueued and completed collective, the first that is open. Sends and receives count
-- apart but share the status, so in a group that has them only the entries of collectives count.
CREATE TEMP TABLE hang_standings AS
WITH mixed AS (SELECT DISTINCT pg FROM hang_entries WHERE is_p2p),
e AS (
  SELECT rank, pg, max(seq) FILTER (NOT is_p2p) AS top, max(seq) FILTER (NOT is_p2p AND NOT is_open) AS done, min(seq) FILTER (NOT is_p2p AND is_open) AS waits,
    arg_min(op, seq) FILTER (NOT is_p2p AND is_open) AS op, arg_min(line, seq) FILTER (NOT is_p2p AND is_open) AS line, arg_min(ts, seq) FILTER (NOT is_p2p AND is_open) AS ts,
    count(*) FILTER (is_open) AS open, min(line) AS first_line
  FROM hang_entries GROUP BY rank, pg
), s AS (
  SELECT g.rank, g.pg, g.last_enqueued, g.last_completed, g.file FROM groups g JOIN hang_dumps d ON d.file = g.file AND d.rank = g.rank AND d.newest
)
SELECT coalesce(s.rank, e.rank) AS rank, coalesce(s.pg, e.pg) AS pg,
  CASE WHEN coalesce(s.pg, e.pg) IN (FROM mixed) THEN e.top ELSE greatest(s.last_enqueued, e.top) END AS enqueued,
  coalesce(e.waits - 1, CASE WHEN coalesce(s.pg, e.pg) NOT IN (FROM mixed) THEN s.last_completed END, e.done) AS completed,
  e.waits, e.op, coalesce(e.open, 0) AS open, coalesce(s.file, (SELECT min(d.file) FROM hang_dumps d WHERE d.rank = e.rank AND d.newest)) AS file, coalesce(e.line, e.first_line, 1) AS line, e.ts
FROM s FULL JOIN e USING (rank, pg);

-- name: hang_waits
-- needs: hang_standings | hang_entries
-- What a rank waits for: of each group the first collective that is open, of each peer the first send or receive; `peer_rank` is the
-- peer's place in the list of members.
CREATE TEMP TABLE hang_waits AS
SELECT rank, pg, waits AS seq, op, NULL::BIGINT AS peer_rank, file, line FROM hang_standings WHERE waits IS NOT NULL
UNION ALL
SELECT rank, pg, arg_min(seq, line), arg_min(op, line), peer_rank, any_value(file), min(line) FROM hang_entries WHERE is_open AND is_p2p AND peer_rank IS NOT NULL GROUP BY rank, pg, peer_rank;

-- name: hang_groups_seen
-- needs: groups
-- One row per group: description and members as the dumps agree on them.
CREATE TEMP TABLE hang_groups_seen AS
SELECT pg, mode(description ORDER BY description) AS description, mode(members ORDER BY members) AS members FROM groups WHERE members IS NOT NULL GROUP BY pg;

-- name: hang_collective_rows
-- needs: hang_standings
-- Where ranks stand, per group. `lags`: half of the group's dumps have seen the end of what this one has open; `missing`: not called what
-- others wait in. These are facts of one group; who is at fault is decided over all of them.
INSERT INTO hang_groups
WITH g AS (
  SELECT pg, list(completed ORDER BY completed DESC)[ceil((count(completed) - 1) / 2)::INTEGER] AS usual, min(waits) FILTER (waits > coalesce(sure, -1)) AS next
  FROM (SELECT *, max(completed) OVER (PARTITION BY pg) AS sure FROM hang_standings) GROUP BY pg
), busy AS (SELECT DISTINCT rank FROM hang_waits)
SELECT 'dump', s.pg, n.description, s.rank, s.enqueued, s.completed, s.open, s.waits, s.op, CASE WHEN s.rank IN (FROM busy) THEN 'waits' ELSE 'idle' END,
  CASE WHEN s.waits <= g.usual THEN 'lags' WHEN s.enqueued < g.next THEN 'missing' END,
  false, s.file, s.line
FROM hang_standings s JOIN g USING (pg) LEFT JOIN hang_groups_seen n USING (pg) ORDER BY s.pg, s.rank;

-- name: hang_absent_rows
-- needs: hang_groups_seen, hang_waits
-- Members without a dump of groups in which somebody waits, at most 1000.
INSERT INTO hang_groups
SELECT 'dump', m.pg, m.description, m.rank, NULL, NULL, NULL, NULL, NULL, 'absent', 'absent', false, NULL, NULL
FROM (SELECT pg, description, unnest(from_json(members, '["BIGINT"]')) AS rank FROM hang_groups_seen WHERE pg IN (SELECT pg FROM hang_waits)) m
WHERE m.rank NOT IN (SELECT rank FROM hang_dumps) ORDER BY m.pg, m.rank LIMIT 1000;

-- name: hang_differs
-- needs: hang_groups, collective_votes
-- Ranks whose call at the first collective that is not the same everywhere is another than that of more than half (rule H3).
UPDATE hang_groups SET verdict = 'differs' FROM (
  WITH v AS (SELECT DISTINCT pg, rank, concat_ws('/', op, numel_in, numel_out) AS sig FROM collective_votes),
  n AS (SELECT pg, sig, count(*) AS n, sum(count(*)) OVER (PARTITION BY pg) AS total FROM v GROUP BY pg, sig)
  SELECT v.pg, v.rank FROM v JOIN n ON n.pg = v.pg AND n.n * 2 > n.total AND n.sig <> v.sig
) d WHERE hang_groups.basis = 'dump' AND hang_groups.pg = d.pg AND hang_groups.rank = d.rank;

-- name: hang_watchdogs
-- needs: torch.watchdog_timeout | torch.watchdog_error
-- What the watchdog lines of each rank say of a group: the first collective that timed out, the last enqueued and completed one.
CREATE TEMP TABLE hang_watchdogs AS
SELECT rank, coalesce(pg, '0') AS pg, min(seq) AS seq, arg_min(op, (seq, op IS NULL, event_id)) AS op, greatest(max(last_enqueued), min(seq)) AS enqueued,
  coalesce(min(last_completed), min(seq) - 1) AS completed, arg_min(file, event_id) AS file, arg_min(line, event_id) AS line, min(event_id) AS event_id
FROM events WHERE event IN ('torch.watchdog_timeout', 'torch.watchdog_error') AND rank IS NOT NULL AND seq IS NOT NULL GROUP BY rank, coalesce(pg, '0');

-- name: hang_watchdog_rows
-- needs: hang_watchdogs
INSERT INTO hang_groups
WITH g AS (SELECT pg, list(completed ORDER BY completed DESC)[ceil((count(completed) - 1) / 2)::INTEGER] AS usual, max(seq) AS next FROM hang_watchdogs GROUP BY pg)
SELECT 'watchdog', w.pg, NULL, w.rank, w.enqueued, w.completed, w.enqueued - w.completed, w.seq, w.op, 'waits',
  CASE WHEN w.seq <= g.usual THEN 'lags' WHEN w.enqueued < g.next THEN 'missing' END, false, w.file, w.line
FROM hang_watchdogs w JOIN g USING (pg) ORDER BY w.pg, w.rank;

-- name: hang_launches
-- needs: nccl.collective
-- The last call of each rank in each communicator by NCCL's own lines (NCCL_DEBUG=INFO, subsystem COLL); pointers are joined to communicators
-- by the process that printed them.
INSERT INTO hang_groups
WITH c AS (SELECT DISTINCT host, pid, comm, comm_hash, rank FROM events WHERE event IN ('nccl.init_done', 'nccl.init_start') AND comm IS NOT NULL AND comm_hash IS NOT NULL AND rank IS NOT NULL),
l AS (
  SELECT c.comm_hash, c.rank, max(e.seq) AS seq, arg_max(e.op, (e.seq, e.event_id)) AS op, arg_max(e.file, (e.seq, e.event_id)) AS file, arg_max(e.line, (e.seq, e.event_id)) AS line
  FROM events e JOIN c ON c.host IS NOT DISTINCT FROM e.host AND c.pid = e.pid AND c.comm = e.comm WHERE e.event = 'nccl.collective' AND e.seq IS NOT NULL AND e.op NOT IN ('send', 'recv') GROUP BY ALL
), g AS (SELECT comm_hash, quantile_disc(seq, 0.5) AS usual, mode(op ORDER BY op) AS op, max(seq) AS top, count(*) AS n FROM l GROUP BY comm_hash)
SELECT 'nccl', l.comm_hash, NULL, l.rank, l.seq, NULL, NULL, NULL, l.op, 'waits', CASE WHEN g.n > 1 AND l.seq < g.usual THEN 'missing' WHEN g.n > 2 AND l.seq = g.top AND l.op <> g.op THEN 'differs' END,
  false, l.file, l.line
FROM l JOIN g USING (comm_hash) ORDER BY l.comm_hash, l.rank;

-- name: hang_ras
-- needs: nccl.ras
-- Ranks that RAS names. It lists the smaller side, which may be ahead (rule H4): `differs` says no more than that.
INSERT INTO hang_groups
SELECT 'ras', coalesce(comm, '?'), NULL, rank, max(seq), NULL, NULL, NULL, any_value(op), 'waits',
  CASE WHEN bool_or(code IN ('DEAD', 'INCOMPLETE')) THEN 'absent' WHEN bool_or(code = 'MISMATCH') THEN 'differs' END, false, min(file), arg_min(line, event_id)
FROM events WHERE event = 'nccl.ras' AND rank IS NOT NULL GROUP BY coalesce(comm, '?'), rank ORDER BY 2, 4;

-- name: stack_groups
-- needs: stacks | hang_entries
-- Main threads by the functions they stand in (rule H8), and call sites of what each rank has open first.
INSERT INTO stack_groups
WITH main AS (
  SELECT rank, file, line, frames FROM stacks WHERE rank IS NOT NULL AND frames <> ''
  QUALIFY row_number() OVER (PARTITION BY rank ORDER BY coalesce(name, '') ILIKE 'MainThread' DESC, file, line) = 1
), site AS (
  SELECT rank, arg_min(file, line) AS file, min(line) AS line, arg_min(frames, line) AS frames FROM hang_entries WHERE is_open AND frames IS NOT NULL GROUP BY rank
), f AS (
  SELECT 'stack' AS source, rank, file, line, array_to_string(list_transform(string_split(frames, chr(10)), lambda x: regexp_replace(x, ' \(.*$', '')), ' < ') AS functions FROM main
  UNION ALL SELECT 'dump', rank, file, line, array_to_string(list_transform(string_split(frames, ' < '), lambda x: regexp_replace(x, ' \(.*$', '')), ' < ') FROM site
), g AS (SELECT source, functions, count(*) AS n, to_json(list(rank ORDER BY rank)[1:1000])::VARCHAR AS ranks, arg_min(file, rank) AS file, arg_min(line, rank) AS line FROM f GROUP BY source, functions)
SELECT source, functions, ranks, n, n * 4 <= sum(n) OVER s AND max(n) OVER s * 2 > sum(n) OVER s, file, line FROM g WINDOW s AS (PARTITION BY source) ORDER BY source, n DESC, functions;
