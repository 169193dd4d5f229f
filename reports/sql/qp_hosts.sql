-- One row per host and bin of latency: how many timed requests of its queue pairs took so long. Key: host, bin; bins are twentieths of a
-- power of ten of microseconds. Hosts of queue pairs by qp_windows, which knows them where the samples do not.
WITH hosts AS (SELECT file, qpn, min(coalesce(host, file)) AS host FROM qp_windows GROUP BY file, qpn)
SELECT coalesce(h.host, s.host, s.file) AS host, floor(log10(latency_us) * 20)::BIGINT AS bin, count(*) AS requests
FROM qp_samples s LEFT JOIN hosts h USING (file, qpn)
WHERE latency_us > 0 AND isfinite(latency_us)
GROUP BY ALL ORDER BY ALL
