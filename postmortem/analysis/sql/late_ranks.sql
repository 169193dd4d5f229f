-- Who the others wait for, where no trace says what each rank did. Input: coll_samples.

-- name: late_ranks
-- needs: coll_samples
-- Ranks that all others wait for, by timed collectives alone (rule I4): one row per rank that has the shortest time in 60 % of the calls of a
-- communicator in which the others take twice as long and more, in ten calls at least. `wait_s` is what the others waited, `span_s` the time of all its calls.
-- Only operations that end on all members together; root-based ones end early for some.
CREATE TEMP TABLE late_ranks AS
WITH calls AS (
  SELECT comm_hash, lower(op) AS op, seq, count(*) AS n, arg_min(rank, elapsed_us) AS late, min(elapsed_us) AS least, median(elapsed_us) AS usual, arg_min(file, elapsed_us) AS file, arg_min(line, elapsed_us) AS line
  FROM coll_samples WHERE rank IS NOT NULL AND seq IS NOT NULL AND elapsed_us > 0
    AND regexp_matches(lower(op), '^(?:nccl)?_?(?:all_?reduce|reduce_?scatter|all_?gather|all_?to_?all)')
  GROUP BY ALL HAVING count(DISTINCT rank) >= 3 AND count(*) = count(DISTINCT rank)
),
waited AS (SELECT comm_hash, late AS rank, count(*) AS calls, sum(usual - least) / 1e6 AS wait_s, min(file) AS file, arg_min(line, (file, line)) AS line FROM calls WHERE usual >= 2 * least GROUP BY ALL),
spans AS (SELECT comm_hash, count(*) AS calls FROM calls GROUP BY comm_hash),
clock AS (SELECT comm_hash, (epoch_us(max(ts)) - epoch_us(min(ts))) / 1e6 AS span_s FROM coll_samples GROUP BY comm_hash)
SELECT w.rank, w.comm_hash, w.calls, w.calls / s.calls AS share, w.wait_s, c.span_s, w.file, w.line
FROM waited w JOIN spans s USING (comm_hash) LEFT JOIN clock c USING (comm_hash)
WHERE w.calls >= 10 AND w.calls >= 0.6 * s.calls ORDER BY w.wait_s DESC, w.rank;
