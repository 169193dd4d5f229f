-- Attempts of the job; one without an end goes on to the end of the trace.
SELECT ['job'] AS path, 'attempt ' || attempt || coalesce(': ' || outcome, '') AS name, 'job' AS category, epoch_us(start) AS begin_us,
  CASE WHEN finish >= start THEN epoch_us(finish) END AS end_us, basis
FROM attempts WHERE start BETWEEN TIMESTAMP '1970-01-02' AND TIMESTAMP '2200-01-01' AND (finish IS NULL OR finish < TIMESTAMP '2200-01-01') ORDER BY attempt LIMIT $limit
