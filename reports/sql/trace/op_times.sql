-- Operations of workers, whose times are on the clock of their step alone: the steps are laid end to end from the trace's first moment on.
WITH placed AS (
  SELECT *, least(greatest(start_s, -1e6), 1e6) AS at_s, least(greatest(coalesce(duration_s, 0), 0), 1e6) AS for_s FROM op_times
  WHERE start_s IS NOT NULL AND step IS NOT NULL ORDER BY step, rank, start_s, file, line LIMIT $limit
), span AS (
  SELECT step, min(at_s) AS first_s, max(at_s + for_s) AS last_s FROM placed GROUP BY step
), laid AS (
  SELECT step, first_s, coalesce(sum(last_s - first_s) OVER (ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before_s FROM span
)
SELECT ['operations, steps laid end to end', coalesce('stage ' || stage, 'stage not known'), coalesce('rank ' || rank, 'rank not known')] AS path,
  coalesce(op, 'operation') AS name, 'operation' AS category,
  $origin_us + (1e6 * (at_s - first_s + before_s))::BIGINT AS begin_us, $origin_us + (1e6 * (at_s - first_s + before_s + for_s))::BIGINT AS end_us,
  step, microbatch, "chunk", dp_rank, file, line
FROM placed JOIN laid USING (step) ORDER BY path, begin_us, end_us DESC, file, line
