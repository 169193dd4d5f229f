-- Episodes that may be the root cause, with what is known about each. Input: episodes, episode_rows, signs, edges,
-- recovered, hosts, nics, ports, ranks. Parameters are in the temporary table `job_window` (one row).

-- name: claims
-- needs: signs | many_ports
-- One row per episode and cause it speaks for: the strongest sign of its rows.
CREATE TEMP TABLE claims AS
SELECT r.episode, s.cause, arg_max(s.tier, s.weight) AS tier, max(s.weight) AS weight, count(*) AS rows, arg_max(r.event_id, (s.weight, -r.event_id)) AS event_id
-- A burst of ports is one fault of the switch: it claims that alone, its rows keep their own claims in their own episodes.
FROM episode_rows r JOIN signs s USING (event_id) WHERE r.episode NOT IN (SELECT episode FROM episodes WHERE event = 'switch.many_ports_down') GROUP BY r.episode, s.cause
UNION ALL
SELECT episode, 'switch_failure', 'direct', 0.9, count, event_id FROM episodes WHERE event = 'switch.many_ports_down';

-- name: port_place
-- needs: episodes
-- For switch episodes: whether their port leads to a node of the job; null when no cable list says.
CREATE TEMP TABLE port_place AS
SELECT e.episode, bool_or(p.host IN (FROM job_nodes) OR p.host IN (SELECT host FROM ranks)) FILTER (p.host IS NOT NULL) AS leads_to_job, max(p.host) FILTER (p.host IN (FROM job_nodes)) AS port_host,
       max(p.dev) FILTER (p.host IN (FROM job_nodes)) AS port_dev, count(p.host) AS cables
FROM episodes e LEFT JOIN ports p ON p.switch = e.host AND (p.port = e.entity OR regexp_replace(e.entity, '\.[0-9]+$', '') = p.port OR same_port(p.port, e.entity) AND regexp_extract(p.port, '[0-9][0-9/:]*$') <> '')
WHERE e.host IN (SELECT host FROM hosts WHERE role = 'switch') OR e.event = 'switch.many_ports_down' GROUP BY e.episode;

-- name: nic_place
-- needs: link.down | nic.port_state | nic.health | nic.fw_error | nic.module | nic.tx_timeout | nic.reset
-- For NIC and link episodes on nodes: whether the NIC is one that NCCL uses; null when the node's NICs are not known.
CREATE TEMP TABLE nic_place AS
SELECT e.episode, v.dev, v.ifname, v.pci,
  bool_or(n.network = 'back' AND (n.pci = coalesce(v.pci, '?') OR n.dev = coalesce(v.dev, '?') OR n.ifname = coalesce(v.ifname, '?'))) AS is_back,
  bool_or(n.network = 'back') AS knows_back, bool_or(n.network = 'back' AND n.pci IS NOT NULL) AS knows_pci
FROM episodes e JOIN events v USING (event_id) LEFT JOIN nics n ON n.host = e.host
WHERE e.event IN ('link.down', 'nic.port_state', 'nic.health', 'nic.fw_error', 'nic.module', 'nic.tx_timeout', 'nic.reset') AND v.source = 'kernel'
GROUP BY e.episode, v.dev, v.ifname, v.pci;

-- name: blamed
-- needs: nccl.ib_completion_error
-- How often a node is at an end of a failed connection: as the peer that is named, or as the process that says so.
CREATE TEMP TABLE blamed AS
WITH ends AS (
  SELECT e.event_id, coalesce(p.node, e.host) AS said_by, coalesce(pa.node, a.host, e.peer) AS peer_host, e.dev
  FROM events e LEFT JOIN pod_node p ON p.pod = e.host LEFT JOIN addresses a ON a.address = e.peer LEFT JOIN pod_node pa ON pa.pod = a.host
  WHERE e.event = 'nccl.ib_completion_error' AND e.status IN ('12', '13', '5')
)
SELECT host, count(DISTINCT event_id) AS n, (SELECT count(*) FROM ends) AS total FROM (
  SELECT peer_host AS host, event_id FROM ends WHERE peer_host IS NOT NULL UNION ALL SELECT said_by, event_id FROM ends WHERE said_by IS NOT NULL
) GROUP BY host;

-- name: below
-- needs: claims, steps
-- Of rows without a time: how many steps of the attempt that failed their file prints below them, at most three.
CREATE TEMP TABLE below AS
SELECT c.event_id, len(list_filter(s.last_lines, lambda x: x > e.line)) AS steps_below
FROM (SELECT DISTINCT event_id FROM claims) c JOIN events e USING (event_id)
JOIN (SELECT file, max(line, 3) AS last_lines FROM steps WHERE attempt = (SELECT attempt FROM job_window) GROUP BY file) s ON s.file = e.file
WHERE e.ts IS NULL;

-- name: candidates
-- needs: claims
-- One row per episode and cause, with the facts that the score needs.
CREATE TEMP TABLE candidates AS
SELECT c.episode, c.cause, c.tier, c.weight, c.rows, c.event_id, e.event, e.host, e.entity, e.code, e.severity, e.first_ts, e.last_ts, e.count, e.in_job, e.file,
  -- Every kernel log begins with a boot; only one that comes after other lines of the host says that it went down.
  e.event = 'host.boot' AND e.first_ts <= h.first_ts AND (SELECT x.source FROM events x WHERE x.event_id = e.event_id) = 'kernel' AS is_log_start,
  r.back_ts, CASE WHEN e.event = 'switch.many_ports_down' THEN 'switch' ELSE h.role END AS role, pp.leads_to_job, pp.port_host, pp.port_dev, coalesce(pp.cables, 0) AS cables, np.is_back, np.knows_back, np.knows_pci, np.dev AS nic_dev,
  coalesce(b.n, 0) AS blamed, coalesce(b.total, 0) AS blamed_total, w.steps_below,
  -- The cable lists of the bundle reach every node of the job, so a switch that none of them names is not the job's.
  (SELECT count(DISTINCT p.host) FROM ports p WHERE p.basis <> 'coincidence' AND p.host IN (FROM job_nodes)) >= (SELECT greatest(1, count(*)) FROM job_nodes WHERE host IN (SELECT host FROM hosts WHERE in_job)) AS knows_cables,
  e.host IN (SELECT p.switch FROM ports p WHERE p.host IN (FROM job_nodes)) AS on_job_switch,
  EXISTS (FROM episodes a WHERE a.host = e.host AND a.event IN ('link.admin_down', 'switch.config', 'switch.maintenance') AND e.role_switch
          AND a.first_ts BETWEEN e.first_ts - INTERVAL 3 SECOND AND e.first_ts + INTERVAL 1 SECOND) AS is_deliberate
FROM claims c JOIN (SELECT x.*, x.host IN (SELECT host FROM hosts WHERE role = 'switch') AS role_switch FROM episodes x) e USING (episode)
LEFT JOIN recovered r USING (episode) LEFT JOIN hosts h ON h.host = e.host LEFT JOIN port_place pp USING (episode) LEFT JOIN nic_place np USING (episode)
LEFT JOIN blamed b ON b.host = coalesce(pp.port_host, e.host) LEFT JOIN below w ON w.event_id = c.event_id
ORDER BY e.first_ts NULLS LAST, c.episode, c.cause;
