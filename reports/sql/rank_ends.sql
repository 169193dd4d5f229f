-- One row per rank of the job: its first error since $lo, and what kind of end that is. Key: rank. `kind`: own (it failed itself),
-- network (its connection failed), waited (it gave up waiting for others), ended (it was told to end, or its launcher saw it die),
-- other, silent (no error line of it is in the bundle).
WITH job AS (
  SELECT rank, min(coalesce(node, host)) AS node, min(local_rank) AS local_rank FROM ranks WHERE rank IS NOT NULL GROUP BY rank
),
bad AS (
  SELECT
    rank, host, event, coalesce(ts_aligned, ts) AS moment, file, line,
    CASE
      -- An exception that only passes on what the transport said, or that a peer went away or was late, is no failure of its own.
      WHEN event = 'torch.exception' AND regexp_matches(said, '(?i)NCCL (?:error|timeout)|remote process exited|connection (?:reset|closed|refused|aborted)|broken pipe|\btimed? ?out\b|closed by peer|store->get|SIGTERM|signal: 15') THEN 'waited'
      WHEN event IN ('torch.exception', 'torch.oom', 'torch.cuda_error', 'torch.collective_mismatch', 'nccl.cuda_error', 'nccl.mismatch', 'train.nan')
        OR family IN ('gpu', 'pcie', 'host', 'nic') OR event = 'process.signal' AND signal IN (4, 7, 8, 9, 11) THEN 'own'
      WHEN event IN ('nccl.ib_completion_error', 'nccl.ib_async_event', 'nccl.ib_verbs_error') THEN 'network'
      WHEN event IN ('torch.watchdog_timeout', 'torch.watchdog_error', 'torch.heartbeat_timeout', 'torch.store_error', 'torch.abort', 'torch.fr_dump',
                     'nccl.remote_closed', 'nccl.socket_error', 'nccl.abort', 'nccl.error_path', 'nccl.system_error') THEN 'waited'
      WHEN event IN ('process.signal', 'process.exit', 'torch.elastic_failure', 'job.cancelled') THEN 'ended'
      ELSE 'other'
    END AS kind
  FROM (SELECT *, split_part(event, '.', 1) AS family, concat_ws(' ', coalesce(text, message), reason, value) AS said FROM events)
  WHERE rank IS NOT NULL AND severity IN ('error', 'fatal') AND (ts IS NULL OR $lo IS NULL OR coalesce(ts_aligned, ts) >= $lo)
),
first AS (
  SELECT * FROM bad QUALIFY row_number() OVER (PARTITION BY rank ORDER BY moment NULLS LAST, file, line) = 1
)
SELECT
  coalesce(j.rank, f.rank) AS rank, coalesce(j.node, f.host, '') AS node, j.local_rank, coalesce(f.kind, 'silent') AS kind,
  f.event, f.moment, f.file, f.line
FROM job j FULL JOIN first f USING (rank)
ORDER BY node, rank
