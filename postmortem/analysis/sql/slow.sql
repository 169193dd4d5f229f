-- Ranks that are slower than their peers, and ranks that differ in a stuck collective. Queue pairs: queue_pairs.sql.
-- Input: steps, ranks, events, facts, groups.

-- name: rank_stage
-- needs: steps
-- The pipeline stage of each rank, where it is known of all: by the groups of a flight recorder, else by Megatron-LM's arguments, whose stages are the
-- outermost part of the rank unless replicas are said to be (rank = stage * world / stages + …).
CREATE TEMP TABLE rank_stage AS
WITH pipes AS (SELECT DISTINCT from_json(members, '["BIGINT"]') AS m FROM groups WHERE regexp_matches(description, '(?i)^(?:mesh_)?(?:pp|pipe|pipeline|pipeline_(?:model_)?parallel_group)$') AND members IS NOT NULL),
told AS (SELECT m[i] AS rank, min(i) - 1 AS stage FROM (SELECT m, unnest(range(1, len(m) + 1)) AS i FROM pipes) GROUP BY 1 HAVING min(i) = max(i)),
said AS (
  SELECT max(try_cast(value AS BIGINT)) FILTER (fact = 'job.pipeline_size') AS stages, coalesce(bool_or(fact = 'job.rank_order' AND value = 'True'), false) AS is_other,
    greatest(coalesce(max(nranks) FILTER (fact = 'job.world_size'), 0), coalesce((SELECT max(rank) + 1 FROM ranks WHERE rank < 1 << 24), 0), coalesce((SELECT max(rank) + 1 FROM steps WHERE rank < 1 << 24), 0)) AS world FROM facts
),
counted AS (SELECT r.rank, r.rank * stages // world AS stage FROM (SELECT DISTINCT rank FROM steps WHERE rank IS NOT NULL) r CROSS JOIN said WHERE stages > 1 AND world % stages = 0 AND NOT is_other),
known AS (FROM told UNION ALL FROM counted WHERE NOT EXISTS (FROM told))
SELECT rank, stage FROM known WHERE NOT EXISTS (FROM steps s WHERE s.rank IS NOT NULL AND s.rank NOT IN (SELECT rank FROM known));

-- name: rank_ratio
-- needs: steps
-- One row per step and rank with a time of its own: its time over the median of the ranks of its pipeline stage in that step (rule I1), of all ranks where the
-- stages are not known.
CREATE TEMP TABLE rank_ratio AS
WITH own AS (
  SELECT attempt, step, rank, coalesce(g.stage, 0) AS stage, min(step_time_ms) AS ms, min(ts) AS ts, min(file) AS file, min(line) AS line
  FROM steps LEFT JOIN rank_stage g USING (rank) WHERE rank IS NOT NULL AND step_time_ms > 0 GROUP BY attempt, step, rank, g.stage
),
med AS (SELECT attempt, step, stage, median(ms) AS mid, count(*) AS n, max(ms) AS top FROM own GROUP BY attempt, step, stage HAVING count(*) >= 3)
SELECT o.attempt, o.step, o.rank, o.ts, o.ms / m.mid AS ratio, o.ms >= m.top AS is_slowest, o.file, o.line, row_number() OVER (PARTITION BY o.rank ORDER BY o.attempt DESC, o.step DESC) AS from_end, m.n
FROM own o JOIN med m USING (attempt, step, stage);

-- name: slow_ranks
-- needs: rank_ratio
-- Ranks slow to the end of the record (rule I2 over its last steps): their time over that of the ranks which are not, since which step, how often beyond
-- 5 %. Where half of the ranks are slow, the median of all lies between the two; one odd step (a save that all wait for) is no end of it.
CREATE TEMP TABLE slow_ranks AS
WITH tail AS (
  SELECT rank, median(ratio) AS ratio, avg((ratio >= 1.05)::INT) AS share, count(*) AS steps FROM rank_ratio WHERE from_end <= 20 GROUP BY rank
), spread AS (SELECT greatest(mad(ratio) * 1.4826, 0.01) AS s, median(ratio) AS m FROM tail),
hit AS (SELECT t.*, (t.ratio - s.m) / s.s AS z FROM tail t, spread s WHERE t.steps >= 5 AND t.share >= 0.8 AND t.ratio >= 1.05),
slow AS (SELECT * FROM hit WHERE z > 3.5 OR (SELECT count(*) FROM hit) <= (SELECT count(*) FROM tail) * 0.5),
placed AS (SELECT r.*, coalesce(g.stage, 0) AS stage FROM rank_ratio r LEFT JOIN rank_stage g USING (rank)),
sound AS (SELECT attempt, step, stage, median(ratio) AS mid FROM placed WHERE rank NOT IN (SELECT rank FROM slow) GROUP BY ALL),
against AS (
  SELECT p.attempt, p.step, p.rank, p.from_end, p.ratio / coalesce(s.mid, 1) AS ratio FROM placed p LEFT JOIN sound s USING (attempt, step, stage) WHERE p.rank IN (SELECT rank FROM slow)
), smooth AS (SELECT *, median(ratio) OVER (PARTITION BY rank ORDER BY attempt, step ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS around FROM against),
size AS (SELECT rank, median(ratio) AS ratio FROM against WHERE from_end <= 20 GROUP BY rank)
SELECT s.rank, z.ratio, s.z, s.steps, coalesce((SELECT max(step) FROM smooth m WHERE m.rank = s.rank AND m.around < 1 + (z.ratio - 1) / 2), (SELECT min(step) - 1 FROM smooth m WHERE m.rank = s.rank)) + 1 AS since_step
FROM slow s JOIN size z USING (rank) ORDER BY s.rank;

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
