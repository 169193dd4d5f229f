-- Faults and what else matters, one instant each: evidence first, then what an episode begins with, then the worst.
WITH proof AS (
  SELECT event_id, string_agg(role || ' of finding ' || finding, ', ' ORDER BY finding, role) AS evidence FROM evidence WHERE event_id IS NOT NULL GROUP BY event_id
), fold AS (
  SELECT event_id, max("count") AS "count", max(last_ts) AS last_ts FROM episodes WHERE event_id IS NOT NULL GROUP BY event_id
), arrow AS (
  SELECT event_id, list(flow ORDER BY flow) FILTER (NOT is_last) AS flows, list(flow ORDER BY flow) FILTER (is_last) AS last_flows FROM trace_flow GROUP BY event_id
), wanted AS (
  SELECT e.*, coalesce(e.ts_aligned, e.ts) AS moment, p.evidence, f."count", f.last_ts, a.flows, a.last_flows
  FROM events e LEFT JOIN proof p USING (event_id) LEFT JOIN fold f USING (event_id) LEFT JOIN arrow a USING (event_id)
  WHERE (e.severity IN ('warning', 'error', 'fatal') OR p.event_id IS NOT NULL OR f.event_id IS NOT NULL OR e.event LIKE 'job.%' OR e.event LIKE 'node.%'
         OR e.event IN ('train.start', 'train.resume', 'train.end', 'nccl.init_done', 'host.boot', 'link.up'))
    AND coalesce(e.ts_aligned, e.ts) BETWEEN TIMESTAMP '1970-01-02' AND TIMESTAMP '2200-01-01'
  ORDER BY p.event_id IS NULL, f.event_id IS NULL, list_position(['fatal', 'error', 'warning'], e.severity) NULLS LAST, moment DESC, e.event_id LIMIT $limit
), placed AS (
  SELECT w.*, coalesce(w.rank, k.rank) AS whose, coalesce(t.root, 'host ' || w.host) AS root, coalesce(t.is_switch, w.source = 'switch') AS is_switch,
    w.source IN ('nccl', 'torch', 'trainer') AS is_program,
    CASE WHEN w.event LIKE 'gpu.%' OR w.event LIKE 'pcie.%' OR w.event LIKE 'nic.%' OR w.event LIKE 'link.%' THEN 'device ' || coalesce(w.pci, w.dev, w.ifname) END AS raw_device
  FROM wanted w LEFT JOIN trace_root t ON t.host = w.host LEFT JOIN trace_pid k ON k.host = w.host AND k.pid = w.pid
), named AS (
  SELECT p.*, coalesce(a.device, b.device, c.device, d.device, p.raw_device) AS device, r.place AS rank_place
  FROM placed p
  LEFT JOIN trace_device a ON a.host = p.host AND a.name = p.pci LEFT JOIN trace_device b ON b.host = p.host AND b.name = p.dev
  LEFT JOIN trace_device c ON c.host = p.host AND c.name = p.ifname LEFT JOIN trace_device d ON d.host = p.host AND d.name = 'gpu ' || p.gpu
  LEFT JOIN trace_rank r ON r.rank = p.whose
)
SELECT
  CASE WHEN is_switch AND coalesce(ifname, port) IS NOT NULL THEN [root, 'port ' || coalesce(ifname, port)]
       WHEN is_switch AND root IS NOT NULL THEN [root]
       WHEN is_program AND whose IS NOT NULL THEN coalesce(rank_place, [coalesce(root, 'place not known')]) || ['rank ' || whose]
       WHEN device IS NOT NULL AND root IS NOT NULL THEN [root, device]
       WHEN whose IS NOT NULL THEN coalesce(rank_place, [coalesce(root, 'place not known')]) || ['rank ' || whose]
       WHEN root IS NOT NULL THEN [root]
       WHEN source = 'scheduler' OR event LIKE 'train.%' THEN ['job']
       ELSE ['place not known'] END AS path,
  event || coalesce(' ' || CASE event WHEN 'gpu.xid' THEN xid::VARCHAR WHEN 'gpu.sxid' THEN sxid::VARCHAR WHEN 'nccl.ib_completion_error' THEN status
    WHEN 'process.signal' THEN signal::VARCHAR WHEN 'torch.exception' THEN code END, '') AS name,
  source AS category, epoch_us(moment) AS begin_us, flows, last_flows,
  severity, evidence, file, line, left(message, 400) AS message, "count" AS times, strftime(last_ts, '%Y-%m-%d %H:%M:%S.%f') AS until, ts_kind AS time
FROM named ORDER BY begin_us, event_id
