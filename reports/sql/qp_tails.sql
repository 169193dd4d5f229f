-- One row per queue pair: its usual median and tail over the windows of its trace, its longest request, the windows in which it was slow. Key: host,
-- dev, qpn, file. Microseconds, at equal message size.
SELECT coalesce(host, file) AS host, coalesce(dev, '') AS dev, qpn, median(p50_us) AS p50_us, median(p99_us) AS p99_us, max(max_us) AS max_us,
  count(*) FILTER (is_flagged) AS slow_windows, count(*) AS windows, max(p99_us) AS worst_us, max(rank) AS rank, file
FROM qp_windows
GROUP BY host, dev, qpn, file ORDER BY slow_windows DESC, p99_us DESC, host, dev, qpn, file
LIMIT $rows
