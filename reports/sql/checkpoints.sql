-- One row per step with a finished checkpoint between the steps $first and $last. Key: step.
SELECT step, coalesce(bool_or(durable), true) AS durable
FROM checkpoints
WHERE kind = 'done' AND step BETWEEN $first AND $last
GROUP BY step
ORDER BY step
LIMIT 500
