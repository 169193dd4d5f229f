-- What traces of timed operations say of the workers, before any of them is called slow.
-- Input: op_times.

-- name: op_traces
-- needs: op_times
-- One row per file of operations and the trace it belongs to, named by its first file. Files are parts of one trace where no worker's
-- step is in two of them and every worker keeps its place in the grid; else each file is a trace of its own.
CREATE TEMP TABLE op_traces AS
WITH cells AS (SELECT DISTINCT file, rank, step FROM op_times),
places AS (SELECT DISTINCT rank, stage, dp_rank FROM op_times),
clash AS (SELECT EXISTS (SELECT rank FROM cells GROUP BY rank, step HAVING count(*) > 1) OR EXISTS (SELECT rank FROM places GROUP BY rank HAVING count(*) > 1) AS is_clash)
SELECT file, CASE WHEN is_clash THEN file ELSE min(file) OVER () END AS trace FROM (SELECT DISTINCT file FROM op_times) CROSS JOIN clash ORDER BY file;

-- name: op_work
-- needs: op_traces
-- One row per trace, worker and step: seconds of its own work, waiting left out; `least_s` takes the shortest forward and backward pass of
-- a microbatch, which unequal inputs do not stretch; `file` and `line` are its longest one. Workers whose stage is not known are
-- comparable where no operation passes between stages.
CREATE TEMP TABLE op_work AS
WITH piped AS (SELECT trace, bool_or(regexp_matches(op, '^(forward|backward)-(send|recv)')) AS is_piped FROM op_times JOIN op_traces USING (file) GROUP BY trace),
own AS (
  SELECT trace, CASE WHEN stage IS NULL AND NOT is_piped THEN 0 ELSE stage END AS stage, o.dp_rank, o.rank, o.step, o.op, sum(duration_s) AS sum_s, min(duration_s) AS least_s,
    count(*) AS n, arg_max(o.file, duration_s) AS file, arg_max(o.line, duration_s) AS line, max(duration_s) AS most_s
  FROM op_times o JOIN op_traces USING (file) JOIN piped USING (trace) WHERE op IN ('forward-compute', 'backward-compute') GROUP BY ALL
)
SELECT trace, stage, max(dp_rank) AS dp_rank, rank, step, sum(sum_s) AS sum_s, sum(least_s) AS least_s, sum(n) AS n, arg_max(file, most_s) AS file, arg_max(line, most_s) AS line
FROM own WHERE stage IS NOT NULL GROUP BY trace, stage, rank, step ORDER BY trace, stage, rank, step;

-- name: op_waits
-- needs: op_traces
-- One row per trace, worker and step: seconds in collectives that all replicas of its stage end together; who comes last waits least (rule I4).
CREATE TEMP TABLE op_waits AS
SELECT trace, stage, rank, step, sum(duration_s) AS wait_s FROM op_times JOIN op_traces USING (file)
WHERE op IN ('grads-reduce-scatter', 'separate-grads-all-reduce') AND stage IS NOT NULL GROUP BY ALL ORDER BY ALL;
