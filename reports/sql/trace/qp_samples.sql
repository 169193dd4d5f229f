-- Timed work requests of queue pairs. Those whose trace has no date are drawn on a track of their own, from the trace's first moment on.
WITH timed AS (
  SELECT *, coalesce(ts BETWEEN TIMESTAMP '1970-01-02' AND TIMESTAMP '2200-01-01', false) AS is_dated, least(greatest(coalesce(latency_us, 0), 0), 1e13)::BIGINT AS for_us
  FROM qp_samples WHERE ts BETWEEN TIMESTAMP '1970-01-02' AND TIMESTAMP '2200-01-01' OR (ts IS NULL AND t_us BETWEEN -1e15 AND 1e15)
), newest AS (
  SELECT *, CASE WHEN is_dated THEN epoch_us(ts) ELSE $origin_us + (t_us - min(t_us) FILTER (NOT is_dated) OVER ())::BIGINT END AS begin_us
  FROM timed ORDER BY begin_us DESC, file, line LIMIT $limit
)
SELECT (CASE WHEN is_dated THEN [] ELSE ['queue pairs, on the clock of their trace'] END)
    || [coalesce(t.root, 'host ' || q.host, r.place[1], 'place not known'), coalesce(d.device, 'NIC ' || q.dev, 'NIC not known'), coalesce('queue pair ' || qpn, 'queue pairs')] AS path,
  coalesce('to ' || peer, 'transfer') AS name, 'queue pair' AS category, begin_us, begin_us + for_us AS end_us, q.size, q.rank, q.file, q.line
FROM newest q LEFT JOIN trace_root t ON t.host = q.host LEFT JOIN trace_rank r ON r.rank = q.rank LEFT JOIN trace_device d ON d.host = q.host AND d.name = q.dev
ORDER BY path, begin_us, end_us, q.file, q.line
