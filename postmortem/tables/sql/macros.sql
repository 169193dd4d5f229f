-- Macros of the incident's database, one statement each; the comment before a statement becomes the macro's comment.
-- timeline(host): events of warning or worse on a host or switch, in order, folded per event and minute
CREATE OR REPLACE MACRO timeline(place) AS TABLE
  SELECT date_trunc('minute', coalesce(ts_aligned, ts)) AS minute, severity, event, count(*) AS lines, min_by(file || ':' || line, event_id) AS first_line, min_by(message, event_id) AS message
  FROM events WHERE (host = place OR host IN (SELECT h.host FROM hosts h WHERE h.node = place)) AND severity IN ('warning', 'error', 'fatal')
  GROUP BY ALL ORDER BY minute NULLS LAST, severity, event;
-- around(moment, seconds): every event within so many seconds of a moment, whoever printed it
CREATE OR REPLACE MACRO around(moment, seconds) AS TABLE
  SELECT coalesce(ts_aligned, ts) AS ts, host, rank, severity, event, file || ':' || line AS line, message
  FROM events WHERE abs(epoch(coalesce(ts_aligned, ts)) - epoch(CAST(moment AS TIMESTAMP))) <= seconds
  ORDER BY coalesce(ts_aligned, ts), event_id;
-- who(rank): host, GPU, NICs, addresses and switch ports of a rank, with the lines that say so
CREATE OR REPLACE MACRO who(r) AS TABLE
  SELECT 'rank' AS what, k.rank::VARCHAR AS name, concat_ws(' ', k.node, 'local rank ' || k.local_rank, 'pid ' || k.pid) AS said, k.file || ':' || k.line AS line FROM ranks k WHERE k.rank = r
  UNION ALL SELECT 'gpu', coalesce(g.pci, g.gpu::VARCHAR), concat_ws(' ', 'GPU ' || g.gpu, g.model, g.gpu_uuid), g.file || ':' || g.line FROM gpus g JOIN ranks k ON k.rank = r AND g.host IN (k.host, k.node) AND (g.pci = k.pci OR k.pci IS NULL AND g.gpu = k.gpu)
  UNION ALL SELECT 'nic', coalesce(n.dev, n.ifname), concat_ws(' ', n.ifname, n.pci, n.network || ' end'), n.file || ':' || n.line FROM nics n JOIN ranks k ON k.rank = r AND n.host IN (k.host, k.node)
  UNION ALL SELECT 'port', concat_ws(' ', p.switch, p.port), concat_ws(' ', p.host, p.dev), p.file || ':' || p.line FROM ports p JOIN ranks k ON k.rank = r AND p.host IN (k.host, k.node)
  ORDER BY 1 DESC, 2, 4;
-- evidence(finding): the lines that prove a finding, cause first
CREATE OR REPLACE MACRO evidence(number) AS TABLE
  SELECT e.role, e.ts, e.file || ':' || e.line AS line, e.text
  FROM evidence e WHERE e.finding = number ORDER BY array_position(['cause', 'link', 'effect', 'context'], e.role), e.ts, e.file, e.line;
-- silent(): ranks of the job that printed no error, with their hosts
CREATE OR REPLACE MACRO silent() AS TABLE
  SELECT k.rank, k.node, k.local_rank FROM ranks k
  WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.rank = k.rank AND e.severity IN ('error', 'fatal')) ORDER BY k.rank;
