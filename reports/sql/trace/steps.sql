-- Steps: the job's on its own track, those that single ranks print on theirs. A step whose duration is not printed begins at the line before it.
WITH timed AS (
  SELECT attempt, step, CASE WHEN is_main THEN NULL ELSE rank END AS whose, coalesce(is_main, false) AS is_main, epoch_us(ts) AS end_us,
    CASE WHEN step_time_ms > 0 THEN least(step_time_ms, 1e10) END AS ms, loss, grad_norm, data_time_ms, tokens_per_s, file, line
  FROM steps WHERE (is_main OR rank IS NOT NULL) AND ts BETWEEN TIMESTAMP '1970-01-02' AND TIMESTAMP '2200-01-01' ORDER BY ts DESC, file, line LIMIT $limit
), ordered AS (
  SELECT *, lag(end_us) OVER (PARTITION BY whose, is_main, attempt ORDER BY end_us, step, file, line) AS before_us FROM timed
)
SELECT CASE WHEN is_main THEN ['job', 'steps'] ELSE coalesce(r.place, ['place not known']) || ['rank ' || whose, 'steps'] END AS path,
  'step ' || step AS name, 'trainer' AS category,
  greatest(0, coalesce(before_us, 0), least(end_us, coalesce(end_us - (ms * 1000)::BIGINT, before_us, end_us))) AS begin_us, end_us,
  attempt, CASE WHEN ms IS NULL THEN 'from the line before' ELSE 'printed' END AS duration, loss, grad_norm, data_time_ms, tokens_per_s, file, line
FROM ordered o LEFT JOIN trace_rank r ON r.rank = o.whose ORDER BY path, begin_us, end_us, file, line
