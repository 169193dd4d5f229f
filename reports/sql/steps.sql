-- One row per bin of steps of the last attempt that printed at least two. Key: bin. Times in
-- milliseconds per step: as printed, else from the difference of two stamps. `first` and `last` are
-- step numbers; a step of three years is a broken clock.
WITH main AS (
  SELECT coalesce(attempt, 0) AS attempt, step, min(ts) FILTER (WHERE isfinite(ts)) AS ts, min(step_time_ms) AS step_time_ms
  FROM steps
  WHERE step >= 0 AND coalesce(is_main, true)
  GROUP BY ALL
),
chosen AS (
  SELECT max(attempt) AS attempt FROM (SELECT attempt FROM main GROUP BY attempt HAVING count(*) > 1)
),
timed AS (
  SELECT
    step,
    coalesce(
      step_time_ms,
      (epoch_us(ts)::DOUBLE - epoch_us(lag(ts) OVER by_step)) / 1000.0 / greatest(1, step - lag(step) OVER by_step)
    ) AS ms
  FROM main JOIN chosen USING (attempt)
  WINDOW by_step AS (ORDER BY step)
),
sane AS (
  SELECT step, ms, min(step) OVER () AS low, max(step) OVER () AS high
  FROM timed
  WHERE isfinite(ms) AND ms > 0 AND ms < 1e11
)
SELECT
  least($bins - 1, ((step - low)::HUGEINT * $bins // greatest(1, high::HUGEINT - low + 1)))::BIGINT AS bin,
  min(step) AS first, max(step) AS last, count(*) AS steps,
  min(ms) AS fastest, median(ms) AS typical, max(ms) AS slowest
FROM sane
GROUP BY bin
ORDER BY bin
