-- Which clock stamped what, and what several clocks saw at the same moment. Input: events, facts, ranks, pod_node, nics, ports,
-- collectives, coll_samples, row_clock, fact_clock and clock_key (from the settling of times). Times in `us` are microseconds since 1970.

-- name: file_node
-- One row per file whose ranks all run on one node: there it was written. A table of all ranks has another writer.
CREATE TEMP TABLE file_node AS
SELECT file, min(node) AS node FROM (
  SELECT e.file, r.node FROM (SELECT DISTINCT file, rank FROM events WHERE rank IS NOT NULL AND source IN ('torch', 'nccl', 'trainer')) e JOIN ranks r USING (rank)
  UNION ALL SELECT f.file, r.node FROM file_rank f JOIN ranks r USING (rank)
) GROUP BY file HAVING count(DISTINCT node) = 1 AND count(*) = count(node);

-- name: seen_clocks
-- One row per clock: the node whose clock it is (or `file:` and a name), and its unit: what of that node keeps one zone. A unit is pinned when
-- lines of its own tell the zone; else the zone is a guess that shared events may correct.
CREATE TEMP TABLE seen_clocks AS
SELECT *, zone_basis IN ('printed', 'shown', 'uptime') AS is_pinned, concat_ws('|', node, class, zone_s, zone_basis) AS unit FROM (
  SELECT k.clock, CASE WHEN starts_with(k.clock_host, 'file:') THEN coalesce(f.node, k.clock_host) ELSE coalesce(p.node, k.clock_host) END AS node, k.class, k.zone_s, k.zone_basis
  FROM clock_key k LEFT JOIN pod_node p ON p.pod = k.clock_host LEFT JOIN file_node f ON 'file:' || f.file = k.clock_host
);

-- name: line_clock
-- One row per event that has a time: which clock stamped it.
CREATE TEMP VIEW line_clock AS SELECT r.event_id, r.res_us, r.is_borrowed, c.unit, c.node, c.class FROM row_clock r JOIN seen_clocks c USING (clock);

-- name: fact_line_clock
-- The same per line and place in it with a fact.
CREATE TEMP VIEW fact_line_clock AS SELECT r.file, r.line, r."offset", r.res_us, r.is_borrowed, c.unit, c.node, c.class FROM fact_clock r JOIN seen_clocks c USING (clock);

-- name: clock_units
-- One row per unit; lines with an event count once, whatever they say.
CREATE TEMP TABLE clock_units AS
WITH n AS (
  SELECT clock, sum(lines) AS lines FROM (
    SELECT clock, lines FROM row_clock UNION ALL SELECT clock, lines FROM fact_clock f WHERE NOT EXISTS (FROM events e WHERE e.file = f.file AND e.line = f.line AND e."offset" = f."offset")
  ) GROUP BY clock
)
SELECT unit, any_value(node) AS node, any_value(class) AS class, any_value(zone_s) AS zone_s, any_value(zone_basis) AS zone_basis,
  any_value(is_pinned) AS is_pinned, sum(lines) AS lines FROM seen_clocks JOIN n USING (clock) GROUP BY unit;

-- name: link_moments
-- needs: link.down | link.up | nic.port_state
-- One row per change of a link that a host's kernel or a switch printed: `up` or down, and by which names the port goes.
CREATE TEMP TABLE link_moments AS
SELECT e.event_id, c.unit, c.node, e.host, e.source = 'switch' AS is_switch, e.event = 'link.up' OR upper(coalesce(e.value, e.status, '')) = 'ACTIVE' AS is_up,
       regexp_replace(coalesce(e.ifname, e.port, e.dev, e.pci), '\.[0-9]+$', '') AS name, n.dev, coalesce(e.ifname, n.ifname) AS ifname
FROM events e JOIN line_clock c USING (event_id) LEFT JOIN nics n ON n.host = e.host AND (n.pci = e.pci OR n.dev = e.dev OR n.ifname = e.ifname)
WHERE e.event IN ('link.down', 'link.up', 'nic.port_state') AND e.source IN ('kernel', 'switch') AND e.ts IS NOT NULL AND NOT c.is_borrowed AND NOT starts_with(c.node, 'file:')
QUALIFY row_number() OVER (PARTITION BY e.event_id ORDER BY n.dev NULLS LAST) = 1;

-- name: link_pairs
-- needs: link_moments, ports
-- Both ends of a cable saying the same of it: every change at the host with every change of that kind at its switch port.
CREATE TEMP TABLE link_pairs AS
SELECT h.event_id AS host_event, s.event_id AS switch_event, h.unit AS host_unit, s.unit AS switch_unit, h.node AS host_node, s.node AS switch_node, h.is_up
FROM ports p JOIN link_moments s ON s.is_switch AND s.host = p.switch AND (s.name = p.port OR same_port(s.name, p.port))
JOIN link_moments h ON NOT h.is_switch AND h.host = p.host AND p.dev IN (h.dev, h.ifname, h.name) AND h.is_up = s.is_up;

-- name: outages
-- needs: link_moments
-- One row per time that a port was down: from a link.down to the next link.up of the same port.
CREATE TEMP TABLE outages AS
SELECT * FROM (
  SELECT m.*, e.ts, lead(m.event_id) OVER w AS up_event, lead(m.is_up) OVER w AS comes_up, epoch_us(lead(e.ts) OVER w - e.ts) AS length_us
  FROM link_moments m JOIN events e USING (event_id) WINDOW w AS (PARTITION BY m.host, m.is_switch, m.name ORDER BY e.ts, m.event_id)
) WHERE NOT is_up AND comes_up AND length_us BETWEEN 3e6 AND 86400e6;

-- name: outage_pairs
-- needs: outages
-- Where no cable is known: an outage on a host and one on a switch that lasted as long, and no other outage of the bundle did (within two
-- seconds, the time a port takes to say so). Whole minutes are suspect: timers have such lengths.
INSERT INTO link_pairs
WITH free AS (FROM outages WHERE event_id NOT IN (SELECT host_event FROM link_pairs UNION ALL SELECT switch_event FROM link_pairs)), same AS (
  SELECT h.event_id AS h, s.event_id AS s, h.up_event AS h_up, s.up_event AS s_up, h.unit AS hu, s.unit AS su, h.node AS hn, s.node AS sn
  FROM free h JOIN free s ON NOT h.is_switch AND s.is_switch AND abs(h.length_us - s.length_us) <= 2e6
  WHERE abs(h.length_us - round(h.length_us / 30e6) * 30e6) > 500e3
), alone AS (SELECT * FROM same QUALIFY count(*) OVER (PARTITION BY h) = 1 AND count(*) OVER (PARTITION BY s) = 1)
SELECT h, s, hu, su, hn, sn, false FROM alone UNION ALL SELECT h_up, s_up, hu, su, hn, sn, true FROM alone;

-- name: moments
-- What several clocks print of one moment: kind and key name it, one row per unit (the median of its lines). `grade`: fine: within tenths of a
-- second; medium: within seconds; coarse: within minutes, good for zones only. At most 300 moments of a kind, spread over all.
CREATE TEMP TABLE moments AS
WITH own AS (
  SELECT e.event, e.file, e.line, e."offset", e.step, e.rank, e.comm_hash, e.value, e.nranks, e.pg, e.seq, e.op, e.elapsed_ms, e.severity, e.peer, e.job_id,
    c.unit, c.node, c.class, epoch_us(e.ts) AS us, k.kind = 'text' AS is_text, regexp_matches(coalesce(e.text, e.message), 'Received [0-9]+ death signal') AS is_told
  FROM events e JOIN line_clock c USING (event_id) LEFT JOIN files k USING (file)
  WHERE NOT c.is_borrowed AND e.ts IS NOT NULL AND e.event IN ('nccl.init_done', 'train.step', 'torch.watchdog_timeout', 'process.signal', 'host.storage_stall', 'job.start')
), numbered AS (
  SELECT *, row_number() OVER (PARTITION BY file, step, rank ORDER BY line, "offset") AS again FROM own WHERE event = 'train.step' AND step IS NOT NULL
), seen(kind, key, grade, unit, node, us) AS (
  -- All members of a communicator leave its set-up together.
  -- part: nccl.init_done
  SELECT 'init' AS kind, concat_ws('/', coalesce(comm_hash, value), nranks) AS key, 'fine' AS grade, unit, node, us FROM own WHERE event = 'nccl.init_done' AND coalesce(comm_hash, value) IS NOT NULL
  UNION ALL
  -- end
  -- A step ends on all ranks with its last collective. A table of steps has a time of its maker's choice.
  -- part: train.step
  SELECT 'step', concat_ws('/', step, again), CASE WHEN is_text THEN 'fine' ELSE 'coarse' END, unit, node, us FROM numbered
  UNION ALL
  -- end
  -- part: collectives, ranks
  SELECT 'collective', concat_ws('/', 'dump', c.pg, c.seq, c.op), 'fine', concat_ws('|', r.node, 'dump'), r.node, epoch_us(c.ts) FROM collectives c JOIN ranks r USING (rank)
  WHERE c.ts IS NOT NULL AND c.state = 'completed' AND NOT coalesce(c.is_p2p, false) AND r.node IS NOT NULL
  UNION ALL
  -- end
  -- part: coll_samples, ranks
  SELECT 'collective', concat_ws('/', 'timed', c.comm_hash, c.seq, c.op, c.bytes), 'fine', concat_ws('|', r.node, 'dump'), r.node, epoch_us(c.ts) FROM coll_samples c JOIN ranks r USING (rank)
  WHERE c.ts IS NOT NULL AND c.comm_hash IS NOT NULL AND r.node IS NOT NULL
  UNION ALL
  -- end
  -- Ranks that wait in one collective began to wait when it was called, and give up a timeout later; only the late one's differs.
  -- part: torch.watchdog_timeout
  SELECT 'watchdog', concat_ws('/', coalesce(pg, '0'), seq, op), 'medium', unit, node, us - (elapsed_ms * 1000)::BIGINT FROM own
  WHERE event = 'torch.watchdog_timeout' AND seq IS NOT NULL AND elapsed_ms IS NOT NULL
  UNION ALL
  -- end
  -- A scheduler's signal reaches all launchers at once.
  -- part: process.signal
  SELECT 'signal', '', 'medium', unit, node, min(us) FROM own WHERE event = 'process.signal' AND is_told GROUP BY unit, node HAVING max(us) - min(us) < 1e6
  UNION ALL
  -- end
  -- part: host.storage_stall
  SELECT 'storage', coalesce(peer, ''), 'coarse', unit, node, max(us) FROM own WHERE event = 'host.storage_stall' AND severity <> 'info' GROUP BY unit, node, peer
  UNION ALL
  -- end
  -- A job's first lines on all its nodes, and what the scheduler says of its start.
  SELECT 'start', '', 'coarse', c.unit, c.node, min(epoch_us(e.ts)) FROM events e JOIN line_clock c USING (event_id) WHERE c.class = 'job' AND NOT c.is_borrowed AND e.source IN ('trainer', 'torch', 'nccl') GROUP BY c.unit, c.node
  UNION ALL
  -- part: pod.node
  SELECT 'start', '', 'coarse', c.unit, c.node, max(epoch_us(f.ts)) FROM facts f JOIN fact_line_clock c USING (file, line, "offset") WHERE f.fact = 'pod.node' AND f.ts IS NOT NULL GROUP BY c.unit, c.node
  UNION ALL
  -- end
  -- part: job.start
  SELECT 'start', '', 'coarse', unit, node, max(us) FROM own WHERE event = 'job.start' AND severity = 'info' GROUP BY unit, node HAVING count(DISTINCT job_id) <= 1
  UNION ALL
  -- end
  SELECT 'end', '', 'coarse', c.unit, c.node, max(epoch_us(e.ts)) FROM events e JOIN line_clock c USING (event_id)
  WHERE e.event = 'job.end' OR (c.class = 'job' AND e.source IN ('trainer', 'torch', 'nccl')) GROUP BY c.unit, c.node
  -- A log of a moment has no end of its own.
  HAVING bool_or(e.event = 'job.end') OR max(epoch_us(e.ts)) - min(epoch_us(e.ts)) > 120e6
  UNION ALL
  -- A process that the kernel kills, and the launcher that finds it dead.
  -- part: host.oom_kill | torch.elastic_failure | process.signal
  SELECT 'killed', concat_ws('/', c.node, e.pid), 'medium', c.unit, c.node, min(epoch_us(e.ts)) FROM events e JOIN line_clock c USING (event_id)
  WHERE e.pid IS NOT NULL AND e.ts IS NOT NULL AND NOT c.is_borrowed AND (e.event = 'host.oom_kill' OR (e.event IN ('torch.elastic_failure', 'process.signal') AND (e.exit_code = -9 OR e.signal = 9))) GROUP BY c.unit, c.node, e.pid
  UNION ALL
  -- end
  -- A host's part of the job dying, by its launcher, by the scheduler, and (within minutes) by the last fault that its kernel printed.
  -- part: torch.elastic_failure
  SELECT 'died', c.node, 'medium', c.unit, c.node, min(epoch_us(e.ts)) FROM events e JOIN line_clock c USING (event_id)
  WHERE e.event = 'torch.elastic_failure' AND c.class = 'job' AND e.ts IS NOT NULL AND NOT c.is_borrowed GROUP BY c.unit, c.node
  UNION ALL
  -- end
  -- part: process.exit
  SELECT 'died', coalesce(p.node, e.host), 'medium', c.unit, c.node, min(epoch_us(e.ts)) FROM events e JOIN line_clock c USING (event_id) LEFT JOIN pod_node p ON p.pod = coalesce(e.pod, e.host)
  WHERE e.event = 'process.exit' AND e.source = 'scheduler' AND c.class = 'scheduler' AND coalesce(p.node, e.host) IS NOT NULL AND e.ts IS NOT NULL AND NOT c.is_borrowed
  GROUP BY coalesce(p.node, e.host), c.unit, c.node HAVING max(epoch_us(e.ts)) - min(epoch_us(e.ts)) < 60e6
  UNION ALL
  -- end
  SELECT 'fault', c.node, 'coarse', c.unit, c.node, CASE WHEN c.class = 'job' THEN min(epoch_us(e.ts)) ELSE max(epoch_us(e.ts)) END
  FROM events e JOIN line_clock c USING (event_id)
  WHERE e.ts IS NOT NULL AND NOT c.is_borrowed AND (c.class = 'job' AND e.event IN ('torch.elastic_failure', 'torch.exception', 'torch.cuda_error', 'nccl.ib_completion_error')
    OR c.class = 'system' AND e.severity IN ('error', 'fatal') AND e.event IN ('gpu.xid', 'gpu.fallen_off_bus', 'gpu.hang', 'host.oom_kill', 'pcie.aer_fatal', 'pcie.dpc', 'nic.health', 'link.down'))
  GROUP BY c.unit, c.node, c.class
), folded AS (
  SELECT kind, key, grade, unit, any_value(node) AS node, median(us) AS us FROM seen GROUP BY kind, key, grade, unit
), several AS (
  SELECT kind, key, grade, row_number() OVER (PARTITION BY kind, grade ORDER BY count(*) DESC, hash(key), key) AS n FROM folded GROUP BY kind, key, grade HAVING count(*) > 1
)
SELECT f.* FROM folded f JOIN several s USING (kind, key, grade) WHERE s.n <= 300;
