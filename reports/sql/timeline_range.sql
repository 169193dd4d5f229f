-- One row: first and last time of any event that matters, for a bundle whose analysis knows no time.
-- Times outside 1970 to 2200 are broken clocks and would stretch the axis beyond use.
SELECT min(coalesce(ts_aligned, ts)) AS first, max(coalesce(ts_aligned, ts)) AS last
FROM events
WHERE coalesce(ts_aligned, ts) BETWEEN TIMESTAMP '1970-01-01' AND TIMESTAMP '2200-01-01'
  AND severity IN ('info', 'warning', 'error', 'fatal')
