-- Ranks that are slower than their peers, and ranks that differ in a stuck collective. Queue pairs: queue_pairs.sql.
-- Input: steps, ranks, events.

-- name: rank_ratio
-- needs: steps
-- One row per step and rank with a time of its own: its time over the median of all ranks of that step.
CREATE TEMP TABLE rank_ratio AS
WITH own AS (SELECT attempt, step, rank, min(step_time_ms) AS ms, min(ts) AS ts, min(file) AS file, min(line) AS line FROM steps WHERE rank IS NOT NULL AND step_time_ms > 0 GROUP BY attempt, step, rank),
med AS (SELECT attempt, step, median(ms) AS mid, count(*) AS n, max(ms) AS top FROM own GROUP BY attempt, step HAVING count(*) >= 3)
SELECT o.attempt, o.step, o.rank, o.ts, o.ms / m.mid AS ratio, o.ms >= m.top AS is_slowest, o.file, o.line, row_number() OVER (PARTITION BY o.rank ORDER BY o.attempt DESC, o.step DESC) AS from_end, m.n
FROM own o JOIN med m USING (attempt, step);

-- name: slow_ranks
-- needs: rank_ratio
-- Ranks slow to the end of the record (rule I2 over its last steps): ratio, since which step, how often beyond 5 %.
CREATE TEMP TABLE slow_ranks AS
WITH tail AS (
  SELECT rank, median(ratio) AS ratio, avg((ratio >= 1.05)::INT) AS share, count(*) AS steps FROM rank_ratio WHERE from_end <= 20 GROUP BY rank
), spread AS (SELECT greatest(mad(ratio) * 1.4826, 0.01) AS s, median(ratio) AS m FROM tail),
hit AS (SELECT t.*, (t.ratio - s.m) / s.s AS z FROM tail t, spread s WHERE t.steps >= 5 AND t.share >= 0.8 AND t.ratio >= 1.05)
SELECT h.rank, h.ratio, h.z, h.steps, coalesce((SELECT max(step) FROM rank_ratio r WHERE r.rank = h.rank AND r.ratio < 1 + (h.ratio - 1) / 2), (SELECT min(step) - 1 FROM rank_ratio r WHERE r.rank = h.rank)) + 1 AS since_step
FROM hit h WHERE h.z > 3.5 OR (SELECT count(*) FROM hit) <= (SELECT count(*) FROM tail) * 0.5 ORDER BY h.rank;

-- name: process_devs
-- needs: nccl.ib_device
-- The list of HCAs of each process in NCCL's own order: index in a trace -> device name.
CREATE TEMP TABLE process_devs AS
SELECT host, pid, row_number() OVER (PARTITION BY host, pid, line ORDER BY "offset", event_id) - 1 AS idx, dev, port, file, line FROM events WHERE event = 'nccl.ib_device' AND dev IS NOT NULL;

-- name: watchdog_votes
-- needs: torch.watchdog_timeout
-- One row per rank of the first stuck collective: what it says it waits in (rule H3).
CREATE TEMP TABLE watchdog_votes AS
WITH w AS (
  SELECT coalesce(rank, -1) AS rank, seq, op, numel, coalesce(pg, '0') AS pg, event_id, ts, row_number() OVER (PARTITION BY rank, coalesce(pg, '0') ORDER BY ts NULLS LAST, event_id) AS k
  FROM events WHERE event = 'torch.watchdog_timeout' AND rank IS NOT NULL AND seq IS NOT NULL
) SELECT * FROM w WHERE k = 1;

-- name: collective_votes
-- needs: collectives
-- The same from flight-recorder entries: signature of every rank at the last sequence number that most ranks have.
CREATE TEMP TABLE collective_votes AS
WITH open AS (
  -- Members of the other operations may give and take different amounts.
  SELECT rank, pg, seq, op, CASE WHEN op IN ('allreduce', 'allgather', 'reducescatter', 'broadcast') THEN numel_in END AS numel_in,
    CASE WHEN op IN ('allreduce', 'allgather', 'reducescatter', 'broadcast') THEN numel_out END AS numel_out, state, file, line
  FROM collectives WHERE NOT coalesce(is_p2p, false) AND rank IS NOT NULL AND seq IS NOT NULL AND op IS NOT NULL
), firsts AS (
  SELECT pg, min(seq) AS seq FROM (SELECT pg, seq FROM open GROUP BY pg, seq HAVING count(DISTINCT rank) > 1 AND count(DISTINCT (op, coalesce(numel_in, -1), coalesce(numel_out, -1))) > 1) GROUP BY pg
) SELECT o.* FROM open o JOIN firsts f USING (pg, seq);
