-- Checkpoint lines: a printed duration is drawn as a slice that ends at the line.
SELECT ['job', 'checkpoints'] AS path, 'checkpoint ' || kind || coalesce(' ' || step, '') AS name, 'trainer' AS category,
  greatest(0, epoch_us(ts) - (1000 * least(greatest(coalesce(elapsed_ms, 0), 0), 1e10))::BIGINT) AS begin_us, epoch_us(ts) AS end_us, attempt, durable, "path" AS "where", file, line
FROM checkpoints WHERE ts BETWEEN TIMESTAMP '1970-01-02' AND TIMESTAMP '2200-01-01' ORDER BY begin_us, end_us, file, line LIMIT $limit
