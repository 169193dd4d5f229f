-- Ranks and queue pairs that are slower than their peers, and ranks that differ in a stuck collective.
-- Input: steps, qp_samples, ranks, events, pod_node, nics.

-- name: rank_ratio
-- One row per step and rank with a time of its own: its time over the median of all ranks of that step.
CREATE TEMP TABLE rank_ratio AS
WITH own AS (SELECT attempt, step, rank, min(step_time_ms) AS ms, min(ts) AS ts, min(file) AS file, min(line) AS line FROM steps WHERE rank IS NOT NULL AND step_time_ms > 0 GROUP BY attempt, step, rank),
med AS (SELECT attempt, step, median(ms) AS mid, count(*) AS n, max(ms) AS top FROM own GROUP BY attempt, step HAVING count(*) >= 3)
SELECT o.attempt, o.step, o.rank, o.ts, o.ms / m.mid AS ratio, o.ms >= m.top AS is_slowest, o.file, o.line, row_number() OVER (PARTITION BY o.rank ORDER BY o.attempt DESC, o.step DESC) AS from_end, m.n
FROM own o JOIN med m USING (attempt, step);

-- name: slow_ranks
-- Ranks slow to the end of the record (rule I2 over its last steps): ratio, since which step, how often beyond 5 %.
CREATE TEMP TABLE slow_ranks AS
WITH tail AS (
  SELECT rank, median(ratio) AS ratio, avg((ratio >= 1.05)::INT) AS share, count(*) AS steps FROM rank_ratio WHERE from_end <= 20 GROUP BY rank
), spread AS (SELECT greatest(mad(ratio) * 1.4826, 0.01) AS s, median(ratio) AS m FROM tail),
hit AS (SELECT t.*, (t.ratio - s.m) / s.s AS z FROM tail t, spread s WHERE t.steps >= 5 AND t.share >= 0.8 AND t.ratio >= 1.05)
SELECT h.rank, h.ratio, h.z, h.steps, coalesce((SELECT max(step) FROM rank_ratio r WHERE r.rank = h.rank AND r.ratio < 1 + (h.ratio - 1) / 2), (SELECT min(step) - 1 FROM rank_ratio r WHERE r.rank = h.rank)) + 1 AS since_step
FROM hit h WHERE h.z > 3.5 OR (SELECT count(*) FROM hit) <= (SELECT count(*) FROM tail) * 0.5 ORDER BY h.rank;

-- name: qp_windows
-- Twenty windows of time per trace; latency over the median of all samples of the same size.
CREATE TEMP TABLE qp_windows AS
WITH base AS (SELECT size, median(latency_us) AS mid FROM qp_samples WHERE latency_us > 0 GROUP BY size),
span AS (SELECT file, min(t_us) AS t0, greatest(max(t_us) - min(t_us), 1) AS t FROM qp_samples GROUP BY file),
rel AS (SELECT q.host, q.pid, q.rank, q.dev, q.qpn, q.peer, q.file, q.line, q.t_us, q.latency_us, q.latency_us / b.mid AS ratio, least(19, floor((q.t_us - s.t0) / s.t * 20)) AS win FROM qp_samples q JOIN base b ON b.size IS NOT DISTINCT FROM q.size JOIN span s USING (file) WHERE q.latency_us > 0)
SELECT host, pid, rank, dev, qpn, peer, file, win, count(*) AS n, median(ratio) AS mid, quantile_cont(ratio, 0.99) AS tail, quantile_cont(latency_us, 0.99) AS p99_us,
       arg_min(line, CASE WHEN ratio > 5 THEN t_us END) AS line FROM rel GROUP BY ALL;

-- name: slow_qps
-- Queue pairs with a tail ten times that of their peers and beyond 100 microseconds in three windows or more (rule I8).
CREATE TEMP TABLE slow_qps AS
WITH usual AS (SELECT median(tail) AS tail FROM qp_windows),
hit AS (SELECT w.* FROM qp_windows w, usual u WHERE w.tail > greatest(5, 5 * least(u.tail, 3)) AND w.p99_us > 60),
f AS (SELECT host, pid, dev, qpn, file, count(*) AS windows, min(line) AS line FROM hit GROUP BY host, pid, dev, qpn, file HAVING count(*) >= 3)
SELECT f.host, f.pid, f.dev, f.qpn, f.file, f.windows, f.line, max(q.peer) AS peer, max(q.rank) AS rank, count(*) AS samples, quantile_cont(q.latency_us, 0.5) AS p50_us, quantile_cont(q.latency_us, 0.99) AS p99_us
FROM f JOIN qp_samples q ON q.file = f.file AND q.qpn = f.qpn AND q.dev IS NOT DISTINCT FROM f.dev GROUP BY ALL ORDER BY p99_us DESC, f.file, f.qpn;

-- name: process_devs
-- The list of HCAs of each process in NCCL's own order: index in a trace -> device name.
CREATE TEMP TABLE process_devs AS
SELECT host, pid, row_number() OVER (PARTITION BY host, pid, line ORDER BY "offset", event_id) - 1 AS idx, dev, port, file, line FROM events WHERE event = 'nccl.ib_device' AND dev IS NOT NULL;

-- name: watchdog_votes
-- One row per rank of the first stuck collective: what it says it waits in (rule H3).
CREATE TEMP TABLE watchdog_votes AS
WITH w AS (
  SELECT coalesce(rank, -1) AS rank, seq, op, numel, coalesce(pg, '0') AS pg, event_id, ts, row_number() OVER (PARTITION BY rank, coalesce(pg, '0') ORDER BY ts NULLS LAST, event_id) AS k
  FROM events WHERE event = 'torch.watchdog_timeout' AND rank IS NOT NULL AND seq IS NOT NULL
) SELECT * FROM w WHERE k = 1;

-- name: collective_votes
-- The same from flight-recorder entries: signature of every rank at the last sequence number that most ranks have.
CREATE TEMP TABLE collective_votes AS
WITH open AS (
  SELECT rank, pg, seq, op, numel_in, numel_out, state, file, line FROM collectives WHERE NOT coalesce(is_p2p, false) AND rank IS NOT NULL AND seq IS NOT NULL AND op IS NOT NULL
), firsts AS (
  SELECT pg, min(seq) AS seq FROM (SELECT pg, seq FROM open GROUP BY pg, seq HAVING count(DISTINCT rank) > 1 AND count(DISTINCT (op, coalesce(numel_in, -1), coalesce(numel_out, -1))) > 1) GROUP BY pg
) SELECT o.* FROM open o JOIN firsts f USING (pg, seq);
