-- Events folded into episodes: one fault, one row (rule A1). Input: events, hosts, pod_node.

-- name: notable
-- Events that may be a cause, a consequence or a recovery, with the thing they happened to.
CREATE TEMP TABLE notable AS
SELECT e.event_id, e.event, coalesce(p.node, e.host) AS host, e.host AS said_host, e.severity, coalesce(e.ts_aligned, e.ts) AS ts, e.file, e.line,
  CASE
    WHEN e.event IN ('gpu.xid', 'gpu.fallen_off_bus', 'gpu.rm_init_failed', 'gpu.hang', 'gpu.reset', 'gpu.ras_error', 'gpu.nvlink_error', 'gpu.driver_error') OR e.event LIKE 'pcie.%' THEN e.pci
    WHEN e.event = 'gpu.sxid' THEN coalesce(e.pci, '') || coalesce('/' || e.link, '')
    WHEN e.source = 'switch' THEN coalesce(e.ifname, e.port, e.guid, e.peer)
    WHEN e.event LIKE 'nic.%' OR e.event LIKE 'link.%' THEN coalesce(e.pci, e.dev, e.ifname)
    WHEN e.event = 'nccl.ib_async_event' THEN coalesce(e.dev, '') || coalesce(':' || e.port, '')
    WHEN e.event IN ('host.oom_kill') THEN coalesce(e.process, '') || coalesce(':' || e.pid, '')
    WHEN e.event IN ('host.storage_stall', 'host.storage_restored') THEN e.peer
    WHEN e.event IN ('host.disk_error', 'host.fs_error') THEN e.dev
    WHEN e.event LIKE 'job.%' THEN e.job_id
    WHEN e.event LIKE 'pod.%' THEN e.pod
    WHEN e.source IN ('torch', 'nccl') THEN coalesce('rank ' || e.rank, e.pid::VARCHAR)
    ELSE coalesce(e.dev, e.ifname, e.pod) END AS entity,
  CASE WHEN e.event = 'gpu.xid' THEN e.xid::VARCHAR WHEN e.event = 'gpu.sxid' THEN e.sxid::VARCHAR
       WHEN e.event IN ('nccl.ib_completion_error') THEN e.status
       WHEN e.event IN ('nccl.ib_async_event', 'nic.port_state') THEN coalesce(e.status, e.value)
       WHEN e.event IN ('torch.exception') THEN e.code END AS code
FROM events e LEFT JOIN pod_node p ON p.pod = coalesce(e.pod, e.host)
WHERE (e.severity IN ('warning', 'error', 'fatal') OR e.event IN ('link.up', 'host.boot', 'host.storage_restored', 'pfc.restored', 'switch.config', 'switch.maintenance',
      'link.admin_down', 'pcie.link_up', 'node.up', 'job.end', 'job.cancelled', 'job.preempted', 'job.timeout', 'job.requeue', 'nic.port_state', 'optic.alarm'))
  AND e.event NOT IN ('nccl.error_path');

-- name: down_ports
-- needs: link.down | nic.port_state
-- Ports that went down, as the switch says it or as the nodes at their other ends do. Where no cable list names the switch of a node's link,
-- it is one switch for all (null): links of several nodes that go down within seconds have little else in common.
CREATE TEMP TABLE down_ports AS
WITH said AS (
  SELECT n.host, n.entity, n.ts, n.event_id, n.file, n.line, n.host IN (SELECT host FROM hosts WHERE role = 'switch') AS is_switch, e.dev, e.pci, e.ifname
  FROM notable n JOIN events e USING (event_id) WHERE (n.event = 'link.down' OR n.event = 'nic.port_state' AND upper(n.code) = 'DOWN') AND n.ts IS NOT NULL
), named AS (
  SELECT s.*, max(d.dev) AS known FROM said s LEFT JOIN nics d ON d.host = s.host AND (d.pci = s.pci OR d.ifname = s.ifname) WHERE NOT is_switch GROUP BY ALL
)
SELECT host AS switch, regexp_replace(entity, '\.[0-9]+$', '') AS port, host || ' ' || regexp_replace(entity, '\.[0-9]+$', '') AS node, ts, event_id, file, line FROM said WHERE is_switch
UNION ALL
SELECT p.switch, p.port, n.host, n.ts, n.event_id, n.file, n.line FROM named n JOIN ports p ON p.host = n.host AND p.dev = coalesce(n.dev, n.known, n.ifname)
UNION ALL
SELECT NULL, host || ' ' || entity, host, ts, event_id, file, line FROM said s
WHERE NOT is_switch AND NOT EXISTS (FROM nics n WHERE n.host = s.host AND n.network = 'front' AND (n.ifname = s.ifname OR n.pci = s.pci))
-- Where NCCL's adapters are InfiniBand, an Ethernet interface is none of them.
AND (s.ifname IS NULL OR NOT EXISTS (FROM events WHERE event = 'nccl.net' AND regexp_matches(coalesce(message, text), ':[0-9]+/IB\b'))) AND host IN (SELECT host FROM hosts WHERE in_job IS DISTINCT FROM false OR role = 'compute') AND NOT EXISTS (FROM ports) AND NOT EXISTS (FROM hosts WHERE role = 'switch');

-- name: many_ports
-- needs: down_ports
-- Several ports of one switch within ten seconds are one fault of the switch (rule F16): a computed row per burst. Those of one node alone are the node's.
CREATE TEMP TABLE many_ports AS
WITH around AS (
  SELECT a.switch AS host, a.ts, a.event_id, a.file, a.line, count(DISTINCT b.port) AS ports, count(DISTINCT b.node) AS nodes
  FROM down_ports a JOIN down_ports b ON b.switch IS NOT DISTINCT FROM a.switch AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 SECOND GROUP BY ALL
), best AS (SELECT *, row_number() OVER (PARTITION BY host ORDER BY ports DESC, ts, event_id) AS k FROM around)
SELECT * FROM best WHERE k = 1 AND ports >= 3 AND nodes >= CASE WHEN host IS NULL THEN 3 ELSE 2 END;

-- name: runs
-- needs: notable
-- Each notable row with the number of its run: rows of one (event, host, entity, code) less than a minute apart. Rows
-- without a time are one run per file.
CREATE TEMP TABLE runs AS
WITH gaps AS (
  SELECT *, CASE WHEN ts IS NULL THEN file END AS file_key,
    CASE WHEN lag(ts) OVER w IS NULL OR ts - lag(ts) OVER w > INTERVAL 60 SECOND THEN 1 ELSE 0 END AS begins
  FROM notable WINDOW w AS (PARTITION BY event, host, entity, code, CASE WHEN ts IS NULL THEN file END ORDER BY ts, event_id)
)
SELECT * EXCLUDE (begins), CASE WHEN ts IS NULL THEN 0 ELSE sum(begins) OVER (PARTITION BY event, host, entity, code, file_key ORDER BY ts, event_id) END AS run FROM gaps;

-- name: folded
-- needs: runs | many_ports
-- One row per run, numbered by time.
CREATE TEMP TABLE folded AS
WITH f AS (
  SELECT event, host, entity, code, file_key, run,
    CASE max(CASE severity WHEN 'fatal' THEN 4 WHEN 'error' THEN 3 WHEN 'warning' THEN 2 WHEN 'info' THEN 1 ELSE 0 END)
      WHEN 4 THEN 'fatal' WHEN 3 THEN 'error' WHEN 2 THEN 'warning' WHEN 1 THEN 'info' ELSE 'debug' END AS severity,
    min(ts) AS first_ts, max(ts) AS last_ts, count(*) AS n, coalesce(arg_min(event_id, ts), min(event_id)) AS event_id
  FROM runs GROUP BY event, host, entity, code, file_key, run
  UNION ALL
  SELECT 'switch.many_ports_down', host, NULL, ports || ' ports', NULL, -1, 'error', ts, ts + INTERVAL 10 SECOND, ports, event_id FROM many_ports
)
SELECT row_number() OVER (ORDER BY first_ts NULLS LAST, event_id, event) AS episode, * FROM f;

-- name: episode_rows
-- needs: folded
-- Which rows of events an episode is made of.
CREATE TEMP TABLE episode_rows AS
SELECT f.episode, r.event_id FROM folded f JOIN runs r
  ON r.event = f.event AND r.host IS NOT DISTINCT FROM f.host AND r.entity IS NOT DISTINCT FROM f.entity AND r.code IS NOT DISTINCT FROM f.code
 AND r.file_key IS NOT DISTINCT FROM f.file_key AND r.run = f.run
UNION ALL
SELECT DISTINCT f.episode, r.event_id FROM folded f JOIN down_ports r ON f.run = -1 AND r.switch IS NOT DISTINCT FROM f.host AND r.ts BETWEEN f.first_ts AND f.last_ts;

-- name: episodes
-- needs: folded
INSERT INTO episodes
SELECT f.episode, f.event, f.host, f.entity, f.code, f.severity, f.first_ts, f.last_ts, f.n,
  -- The scheduler speaks of a job on its first node, which may be a spare one without ranks.
  CASE WHEN f.event LIKE 'job.%' AND f.host IN (FROM job_lists) THEN true ELSE h.in_job END, NULL, e.event_id, e.file, e.line
FROM folded f JOIN events e ON e.event_id = f.event_id LEFT JOIN hosts h ON h.host = f.host ORDER BY f.episode;

-- name: recoveries
-- needs: episodes
-- For each down episode the time the same thing came back, if it did.
CREATE TEMP TABLE recovered AS
SELECT d.episode, min(u.first_ts) AS back_ts
FROM episodes d JOIN episodes u ON u.host IS NOT DISTINCT FROM d.host AND u.entity IS NOT DISTINCT FROM d.entity AND u.first_ts >= d.first_ts
 AND ((d.event = 'link.down' AND u.event = 'link.up') OR (d.event = 'nic.port_state' AND upper(d.code) = 'DOWN' AND u.event = 'nic.port_state' AND upper(u.code) = 'ACTIVE')
   OR (d.event = 'host.storage_stall' AND u.event = 'host.storage_restored') OR (d.event = 'pfc.storm' AND u.event = 'pfc.restored')
   OR (d.event = 'pcie.link_down' AND u.event = 'pcie.link_up') OR (d.event = 'node.down' AND u.event = 'node.up'))
GROUP BY d.episode;
