-- One row per setting that the job's own lines state: versions, environment, network, arguments that bear on the end. Key: name, value.
-- `printed` counts lines, `hosts` the hosts that print this value; file and line are the first of them.
WITH said AS (
  SELECT 'NCCL version' AS name, value, host, file, line FROM events WHERE event = 'nccl.version'
  UNION ALL
  SELECT regexp_extract(message, '\b((?:NCCL|RCCL|TORCH|UCX|GLOO|CUDA|OMP|FI)_[A-Z0-9_]+)', 1), coalesce(value, regexp_extract(message, '(?: to |=)\s*(\S.*)$', 1)), host, file, line
  FROM events WHERE event = 'nccl.env'
  UNION ALL
  SELECT 'network of the collectives', value, host, file, line FROM events WHERE event = 'nccl.net' AND regexp_matches(message, '(?i)using network')
  UNION ALL
  SELECT CASE fact WHEN 'job.world_size' THEN 'world size' WHEN 'job.save_interval' THEN 'steps between checkpoints' WHEN 'job.log_interval' THEN 'steps between step lines' WHEN 'train.total' THEN 'steps planned' ELSE 'GPU driver' END, coalesce(value, nranks::VARCHAR, regexp_extract(message, '(\S+)\s*$', 1)), host, file, line
  FROM facts WHERE fact IN ('job.world_size', 'job.save_interval', 'job.log_interval', 'train.total', 'driver.version')
)
SELECT name, value, count(*) AS printed, count(DISTINCT host) AS hosts, min_by(file, file || ':' || lpad(line::VARCHAR, 12, '0')) AS file, min_by(line, file || ':' || lpad(line::VARCHAR, 12, '0')) AS line
FROM said WHERE name <> '' AND value IS NOT NULL AND value <> ''
GROUP BY name, value
ORDER BY name, printed DESC, value
LIMIT $rows
