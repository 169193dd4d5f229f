-- One row per worker of a trace: its own work over that of its stage. Key: trace, rank.
SELECT trace, rank, coalesce(stage, 0) AS stage, ratio, slowdown, since_step, coalesce(kind, '') AS kind
FROM rank_times WHERE isfinite(ratio) ORDER BY trace, stage, rank LIMIT $rows
