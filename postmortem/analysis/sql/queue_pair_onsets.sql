-- Since when a slow queue pair is slow. Input: qp_scaled, slow_qps.

-- name: qp_onsets
-- needs: slow_qps
-- One row per slow queue pair whose share of slow requests rises for good (rule I9, on shares: a tail does not move the median): the split of its
-- requests, ten on each side at least, with the largest rise in standard errors. Before it at most a quarter as many are slow as after it, and the rise is five standard
-- errors. `at_s`: seconds from its first request; `ts` is null where the trace's clock has no date.
CREATE TEMP TABLE qp_onsets AS
WITH typical AS (SELECT median(scaled_us) AS us FROM qp_scaled),
seen AS (
  SELECT q.file, q.dev, q.qpn, q.ts, q.t_us, q.line, (q.scaled_us > 5 * t.us)::INT AS is_slow FROM qp_scaled q CROSS JOIN typical t
  WHERE EXISTS (FROM slow_qps s WHERE s.file = q.file AND s.dev IS NOT DISTINCT FROM q.dev AND s.qpn = q.qpn)
),
counted AS (
  SELECT *, row_number() OVER w AS n, sum(is_slow) OVER w AS slow, count(*) OVER p AS total, sum(is_slow) OVER p AS all_slow, min(t_us) OVER p AS t0 FROM seen
  WINDOW w AS (PARTITION BY file, dev, qpn ORDER BY t_us, line ROWS UNBOUNDED PRECEDING), p AS (PARTITION BY file, dev, qpn)
),
splits AS (
  SELECT file, dev, qpn, n, slow / n AS before, (all_slow - slow) / (total - n) AS after, all_slow / total AS share, 1.0 / n + 1.0 / (total - n) AS parts
  FROM counted WHERE n BETWEEN 10 AND total - 10
),
best AS (
  SELECT file, dev, qpn, arg_max(n, ((after - before) / sqrt(share * (1 - share) * parts), -n)) AS n FROM splits
  WHERE 4 * before <= after AND share < 1 AND after - before >= 5 * sqrt(share * (1 - share) * parts) GROUP BY file, dev, qpn
)
SELECT c.file, c.dev, c.qpn, min(c.ts) AS ts, (min(c.t_us) - min(c.t0)) / 1e6 AS at_s, arg_min(c.line, c.t_us) AS line
FROM counted c JOIN best b ON b.file = c.file AND b.dev IS NOT DISTINCT FROM c.dev AND b.qpn = c.qpn WHERE c.n > b.n AND c.is_slow = 1 GROUP BY c.file, c.dev, c.qpn;
