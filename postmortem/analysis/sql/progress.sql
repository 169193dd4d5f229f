-- The job's progress: attempts, steps, checkpoints. Input: events, facts, files.

-- name: step_rows
-- needs: train.step
-- Step lines with the file's role: `job` files print the job's steps, `rank` files those of one rank.
CREATE TEMP TABLE step_rows AS
SELECT e.step, e.rank, coalesce(e.ts_aligned, e.ts) AS ts, e.ts_kind, e.step_time_ms, e.loss, e.grad_norm, e.data_time_ms, e.tokens_per_s, e.total_steps, e.file, e.line, e."offset",
       min(e.rank) OVER (PARTITION BY e.file) AS file_rank, e.event_id IN (FROM borrowed) AS is_borrowed,
       coalesce(contains(e.message, '| ' || e.step || '/' || e.total_steps || ' ['), false) AS is_bar
FROM events e WHERE e.event = 'train.step' AND e.step IS NOT NULL;

-- name: first_steps
-- needs: step_rows
-- A bar and a step line in one line of the file: the bar's first rate is the plain duration of the run's first step (later ones are smoothed).
UPDATE step_rows SET step_time_ms = b.step_time_ms FROM (
  SELECT file, line, any_value(step_time_ms) AS step_time_ms FROM step_rows WHERE is_bar AND step = 1 GROUP BY file, line HAVING count(*) = 1
) b WHERE b.file = step_rows.file AND b.line = step_rows.line AND NOT step_rows.is_bar AND step_rows.step_time_ms IS NULL;

-- name: bars
-- needs: step_rows
-- A progress bar counts from where this run began and smooths its rate: beside the trainer's own step lines it is dropped when those are
-- about as many, or when the two number differently (by more than the trainer's log interval).
DELETE FROM step_rows WHERE is_bar AND file IN (
  WITH own AS (SELECT file, line, "offset", step, step - lag(step) OVER (PARTITION BY file ORDER BY line, "offset") AS k FROM step_rows WHERE NOT is_bar),
  many AS (SELECT file, count(DISTINCT step) AS n, coalesce(median(k) FILTER (k > 0), 1) AS k FROM own GROUP BY file),
  bars AS (SELECT file, count(DISTINCT step) AS n FROM step_rows WHERE is_bar GROUP BY file),
  apart AS (SELECT b.file, median(abs(b.step - o.step)) AS off FROM (FROM step_rows WHERE is_bar) b ASOF JOIN own o ON o.file = b.file AND o.line <= b.line GROUP BY b.file)
  SELECT m.file FROM many m JOIN bars b USING (file) LEFT JOIN apart a USING (file) WHERE 2 * m.n >= b.n OR a.off > m.k + 1
);

-- name: step_files
-- needs: step_rows
-- One row per file with step lines: how many steps, its span, and whether it is the best witness of its span: one whose lines
-- have times of their own before one whose lines borrow them from the lines above.
CREATE TEMP TABLE step_files AS
WITH f AS (
  SELECT file, count(DISTINCT step) AS steps, count(DISTINCT rank) FILTER (rank IS NOT NULL) AS ranks, min(ts) AS first_ts, max(ts) AS last_ts,
         min(step) AS first_step, max(step) AS last_step, count(ts) FILTER (NOT is_borrowed) AS timed, count(step_time_ms) AS durations
  FROM step_rows GROUP BY file
), ranked AS (SELECT *, row_number() OVER (ORDER BY ranks <= 1 DESC, timed > 0 DESC, steps DESC, durations DESC, file DESC) AS place FROM f),
-- Of thousands of files (one per rank) the best few cover nearly all: only what they leave over is compared with all.
often AS (
  SELECT a.* FROM ranked a WHERE NOT EXISTS (FROM (FROM ranked WHERE place <= 32) b WHERE b.place < a.place
    AND ((a.first_ts IS NOT NULL AND b.first_ts IS NOT NULL AND b.first_ts <= a.last_ts AND b.last_ts >= a.first_ts)
         OR ((a.first_ts IS NULL OR b.first_ts IS NULL) AND b.first_step <= a.last_step AND b.last_step >= a.first_step))))
SELECT * EXCLUDE (place), file IN (
  SELECT a.file FROM often a WHERE NOT EXISTS (FROM ranked b WHERE b.place < a.place
    AND ((a.first_ts IS NOT NULL AND b.first_ts IS NOT NULL AND b.first_ts <= a.last_ts AND b.last_ts >= a.first_ts)
         OR ((a.first_ts IS NULL OR b.first_ts IS NULL) AND b.first_step <= a.last_step AND b.last_step >= a.first_step)))) AS is_main
FROM ranked;

-- name: main_steps
-- needs: step_files
-- One row per printed step of the job, in order; `attempt` rises when the step number falls back, and where a checkpoint was loaded
-- between two step lines: a trainer does that when it begins, and one that was stopped just after a save goes on with the next step.
CREATE TEMP TABLE main_steps AS
WITH m AS (
  SELECT r.*, row_number() OVER (ORDER BY f.first_ts NULLS LAST, r.file, r.line, r."offset") AS n
  FROM step_rows r JOIN step_files f USING (file) WHERE f.is_main AND (r.rank IS NULL OR r.rank = r.file_rank)
), b AS (SELECT file, line FROM events WHERE event IN ('train.checkpoint_loaded', 'train.resume') AND source = 'trainer'),
r AS (SELECT m.*, b.line AS begun FROM m ASOF LEFT JOIN b ON b.file = m.file AND b.line <= m.line),
o AS (
  SELECT *, CASE WHEN step <= max(step) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AND step < lag(step) OVER (ORDER BY n)
                   OR begun > CASE WHEN lag(file) OVER (ORDER BY n) = file THEN lag(line) OVER (ORDER BY n) WHEN lag(file) OVER (ORDER BY n) IS NOT NULL THEN 0 END
                 THEN 1 ELSE 0 END AS falls FROM r
),
a AS (SELECT *, sum(falls) OVER (ORDER BY n) AS attempt FROM o)
SELECT *, row_number() OVER (PARTITION BY attempt, step ORDER BY (step_time_ms IS NULL), n) AS again FROM a;

-- name: steps
-- needs: main_steps | step_rows
INSERT INTO steps
SELECT attempt, step, rank, ts, ts_kind, step_time_ms, loss, grad_norm, data_time_ms, tokens_per_s, total_steps, true, file, line
FROM main_steps WHERE again = 1
UNION ALL
SELECT coalesce((SELECT max(m.attempt) FROM main_steps m WHERE m.ts <= r.ts), 0), r.step, r.rank, r.ts, r.ts_kind, r.step_time_ms, r.loss, r.grad_norm, r.data_time_ms,
       r.tokens_per_s, r.total_steps, false, r.file, r.line
FROM step_rows r JOIN step_files f USING (file) WHERE NOT f.is_main OR f.ranks > 1
ORDER BY 1, 2, 3, 13, 14;

-- name: checkpoint_rows
-- needs: train.checkpoint_start | train.checkpoint_done | train.checkpoint_failed | train.checkpoint_loaded | checkpoint.deleted
-- Checkpoint lines in the order of their files, with the last step printed before each; one that is loaded is of the attempt that follows.
CREATE TEMP TABLE checkpoint_rows AS
WITH c AS (
  SELECT file, line, "offset", event AS kind, step, coalesce(ts_aligned, ts) AS ts, elapsed_ms, durable, path FROM events
  WHERE event IN ('train.checkpoint_start', 'train.checkpoint_done', 'train.checkpoint_failed', 'train.checkpoint_loaded')
  UNION ALL SELECT file, line, "offset", 'train.checkpoint_deleted', step, ts, elapsed_ms, durable, path FROM facts WHERE fact = 'checkpoint.deleted'
), s AS (SELECT file, line, "offset", step, ts, attempt FROM main_steps)
SELECT c.*, coalesce(near.step, late.step) AS last_step,
       CASE WHEN c.kind <> 'train.checkpoint_loaded' THEN coalesce(near.attempt, late.attempt)
            WHEN near.file IS NOT NULL OR following.file IS NOT NULL THEN coalesce(following.attempt, near.attempt + 1)
            ELSE coalesce(ahead.attempt, late.attempt + 1) END AS attempt
FROM c
ASOF LEFT JOIN s near ON near.file = c.file AND near.line <= c.line
ASOF LEFT JOIN s following ON following.file = c.file AND following.line >= c.line
ASOF LEFT JOIN (SELECT ts, step, attempt FROM s WHERE ts IS NOT NULL) late ON late.ts <= c.ts
ASOF LEFT JOIN (SELECT ts, attempt FROM s WHERE ts IS NOT NULL) ahead ON ahead.ts >= c.ts;

-- name: checkpoints
-- needs: checkpoint_rows
-- A done line without a step is of the save that was last begun in its file, else of the last step printed.
INSERT INTO checkpoints
WITH k AS (
  SELECT *, last_value(CASE WHEN kind = 'train.checkpoint_start' THEN coalesce(step, last_step) END IGNORE NULLS)
    OVER (PARTITION BY file ORDER BY line, "offset" ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS begun FROM checkpoint_rows
)
SELECT coalesce(attempt, 0), coalesce(step, CASE WHEN kind IN ('train.checkpoint_done', 'train.checkpoint_failed') THEN begun END,
       CASE WHEN kind <> 'train.checkpoint_loaded' THEN last_step END), replace(kind, 'train.checkpoint_', ''), ts, elapsed_ms,
       CASE WHEN kind = 'train.checkpoint_done' THEN coalesce(durable, true) ELSE durable END, path, file, line
FROM k ORDER BY 1, 2, 4, 8, 9;
