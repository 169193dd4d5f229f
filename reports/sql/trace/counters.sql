-- Counters of devices and ports, and the numbers that the job's step lines print.
WITH newest AS (
  SELECT * FROM counters WHERE ts BETWEEN TIMESTAMP '1970-01-02' AND TIMESTAMP '2200-01-01' AND isfinite(value) ORDER BY ts DESC, file, line, counter LIMIT $limit
), job AS (
  UNPIVOT (SELECT ts, file, line, step_time_ms AS "step time, ms", loss, grad_norm AS "gradient norm", data_time_ms AS "waiting for data, ms", tokens_per_s AS "tokens per second"
           FROM steps WHERE is_main AND ts BETWEEN TIMESTAMP '1970-01-02' AND TIMESTAMP '2200-01-01' ORDER BY ts DESC, file, line LIMIT $limit)
  ON COLUMNS(* EXCLUDE (ts, file, line)) INTO NAME counter VALUE value
), rows AS (
  SELECT CASE WHEN t.is_switch THEN [t.root, coalesce('port ' || coalesce(c.port, c.ifname, c.dev), 'counters'), c.counter]
              ELSE [coalesce(t.root, 'host ' || c.host, 'place not known'), coalesce(d.device, f.device, 'device ' || coalesce(c.dev, c.ifname, c.port), 'counters'), c.counter] END AS path,
    ts, value, file, line
  FROM newest c LEFT JOIN trace_root t ON t.host = c.host LEFT JOIN trace_device d ON d.host = c.host AND d.name = c.dev
  LEFT JOIN trace_device f ON f.host = c.host AND f.name = c.ifname
  UNION ALL SELECT ['job', counter], ts, value, file, line FROM job WHERE isfinite(value)
)
SELECT path, epoch_us(ts) AS at_us, value FROM rows WHERE path[-1] IS NOT NULL ORDER BY path, at_us, file, line
