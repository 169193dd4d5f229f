-- Which names are names of one thing, each pair with its line: first what times and traffic show, then the table `joins`.
-- Input: the tables of names.sql. Times are those of the aligned clocks.

-- name: loose_downs
-- needs: link.down | nic.port_state
-- Times at which NICs of hosts and ports of switches went down, of those that no cable list joins. `slack_us`: half width of the error bar of the time.
CREATE TEMP TABLE loose_downs AS
SELECT e.host, h.role = 'switch' AS is_switch, CASE WHEN h.role = 'switch' THEN regexp_replace(coalesce(e.ifname, e.port), '\.[0-9]+$', '') ELSE coalesce(e.ifname, e.dev, e.pci) END AS thing,
       coalesce(e.ts_aligned, e.ts) AS ts, coalesce(greatest(epoch_us(e.ts_hi - e.ts_lo), 0) / 2, 0)::BIGINT AS slack_us, e.file, e.line
FROM events e JOIN hosts h USING (host)
WHERE (e.event = 'link.down' AND e.source IN ('kernel', 'switch') OR e.event = 'nic.port_state' AND upper(coalesce(e.status, e.value)) = 'DOWN') AND e.ts IS NOT NULL AND e.event_id NOT IN (FROM borrowed)
  AND CASE WHEN h.role = 'switch' THEN NOT EXISTS (FROM ports p WHERE p.switch = e.host AND (p.port = coalesce(e.ifname, e.port) OR same_port(p.port, coalesce(e.ifname, e.port))))
           ELSE h.in_job IS DISTINCT FROM false AND e.source = 'kernel' AND NOT EXISTS (FROM ports p LEFT JOIN nics n ON n.host = p.host AND p.dev IN (n.dev, n.ifname) WHERE p.host = e.host AND
             (p.dev IN (e.ifname, e.dev) OR n.pci = e.pci OR n.ifname = e.ifname OR n.dev = e.dev)) END;

-- name: coincidences
-- needs: loose_downs
-- Cables that show themselves by going down at both ends within two seconds (and the clocks' error): on two occasions or more, or
-- once when nothing else went down around then (rule C7). Who fits two ends is named at none.
INSERT INTO ports
WITH pairs AS (
  SELECT s.host AS switch, s.thing AS port, n.host, n.thing AS nic, s.ts, s.file, s.line, s.slack_us + n.slack_us + 2000000 AS window_us
  FROM loose_downs s JOIN loose_downs n ON s.is_switch AND NOT n.is_switch AND abs(epoch_us(s.ts - n.ts)) <= s.slack_us + n.slack_us + 2000000
), alone AS (
  SELECT p.*, (SELECT count(DISTINCT (d.host, d.thing)) FROM loose_downs d WHERE abs(epoch_us(d.ts - p.ts)) <= p.window_us + d.slack_us) = 2 AS is_alone FROM pairs p
), cable AS (
  SELECT switch, port, host, nic, count(DISTINCT date_trunc('minute', ts)) AS times, bool_or(is_alone) AS was_alone, arg_min(file, (ts, file, line)) AS file, arg_min(line, (ts, file, line)) AS line
  FROM alone WHERE port IS NOT NULL AND nic IS NOT NULL GROUP BY ALL
), good AS (SELECT * FROM cable WHERE times >= 2 OR was_alone)
SELECT g.switch, g.port, g.host, coalesce(n.dev, n.ifname, g.nic), 'coincidence', g.file, g.line
FROM good g LEFT JOIN nics n ON n.host = g.host AND g.nic IN (n.ifname, n.dev, n.pci)
WHERE (SELECT count(*) FROM good x WHERE x.switch = g.switch AND x.port = g.port) = 1 AND (SELECT count(*) FROM good x WHERE x.host = g.host AND x.nic = g.nic) = 1
ORDER BY 1, 2;

-- name: nic_use
-- needs: nccl.channel | nccl.ib_completion_error, ranks
-- One row per rank and HCA that its process sends by: NCCL's channels name an index of the list that it printed (rule C5; those through
-- another GPU's process, PXN, are left out), failed work requests the HCA itself.
CREATE TEMP TABLE nic_use AS
WITH channel AS (
  SELECT host, pid, regexp_extract(value, '^NET/IB[A-Za-z0-9_]*/([0-9]+)(?:/|$)', 1) AS number, arg_min(file, (file, line)) AS file, arg_min(line, (file, line)) AS line
  FROM events WHERE event = 'nccl.channel' AND value LIKE 'NET/IB%' AND host IS NOT NULL AND pid IS NOT NULL GROUP BY 1, 2, 3 HAVING number <> ''
), list AS (
  SELECT DISTINCT host, pid, dev, message FROM events WHERE event = 'nccl.ib_device' AND dev IS NOT NULL AND contains(message, 'Using [')
), use AS (
  SELECT c.host, c.pid, l.dev, 'traffic' AS basis, c.file, c.line FROM channel c JOIN list l ON l.host = c.host AND l.pid = c.pid AND contains(l.message, '[' || c.number || ']' || l.dev || ':')
  UNION ALL
  SELECT host, pid, dev, 'failed connection', arg_min(file, (file, line)), min(line) FROM events
  WHERE event = 'nccl.ib_completion_error' AND dev IS NOT NULL AND host IS NOT NULL AND pid IS NOT NULL GROUP BY host, pid, dev
  UNION ALL
  SELECT r.host, r.pid, e.dev, 'failed connection', arg_min(e.file, (e.file, e.line)), min(e.line) FROM events e JOIN ranks r ON r.rank = e.rank
  WHERE e.event = 'nccl.ib_completion_error' AND e.dev IS NOT NULL AND e.pid IS NULL GROUP BY r.host, r.pid, e.dev
)
SELECT r.rank, r.node, r.pci, u.dev, u.basis, arg_min(u.file, (u.file, u.line)) AS file, arg_min(u.line, (u.file, u.line)) AS line
FROM use u JOIN ranks r ON r.host = u.host AND r.pid IS NOT DISTINCT FROM u.pid WHERE r.node IS NOT NULL GROUP BY ALL;

-- name: near_gpus
-- needs: nic_use | nics
-- The GPU that a NIC serves where no topology says so: the one whose rank alone sends by it; else, where a node has as many NICs of the
-- training network as GPUs, the one whose bus number is nearest at both ends (buses below one PCIe switch are numbered together).
CREATE TEMP TABLE near_gpus AS
WITH users AS (
  SELECT node AS host, dev, min(pci) AS gpu_pci, arg_min(file, (file, line)) AS file, arg_min(line, (file, line)) AS line FROM nic_use WHERE pci IS NOT NULL GROUP BY node, dev HAVING count(DISTINCT pci) = 1
), nic AS (
  SELECT host, coalesce(dev, ifname) AS dev, pci, try_cast('0x' || substr(pci, 6, 2) AS INTEGER) AS bus, substr(pci, 1, 4) AS domain, file, line FROM nics WHERE network = 'back' AND pci IS NOT NULL
), gpu AS (SELECT host, pci, try_cast('0x' || substr(pci, 6, 2) AS INTEGER) AS bus, substr(pci, 1, 4) AS domain FROM gpus), even AS (
  SELECT host FROM nic GROUP BY host HAVING count(*) > 1 AND count(*) = (SELECT count(*) FROM gpu g WHERE g.host = nic.host)
   AND count(*) = (SELECT count(*) FROM nics n WHERE n.host = nic.host AND n.network = 'back')
), pair AS (
  SELECT n.host, n.dev, g.pci AS gpu_pci, n.file, n.line, abs(n.bus - g.bus) AS gap,
    min(abs(n.bus - g.bus)) OVER (PARTITION BY n.host, n.dev) AS least_n, min(abs(n.bus - g.bus)) OVER (PARTITION BY n.host, g.pci) AS least_g,
    count(*) OVER (PARTITION BY n.host, n.dev, abs(n.bus - g.bus)) AS ties_n, count(*) OVER (PARTITION BY n.host, g.pci, abs(n.bus - g.bus)) AS ties_g
  FROM nic n JOIN gpu g ON g.host = n.host AND g.domain = n.domain WHERE n.host IN (FROM even)
)
SELECT host, dev, gpu_pci, 'traffic' AS basis, 0.8 AS confidence, file, line FROM users
UNION ALL
SELECT host, dev, gpu_pci, 'bus numbers', 0.6, file, line FROM pair p WHERE gap = least_n AND gap = least_g AND ties_n = 1 AND ties_g = 1 AND gap <= 16
 AND NOT EXISTS (FROM users u WHERE u.host = p.host AND u.dev = p.dev);

-- name: near_nics
-- needs: near_gpus
UPDATE nics SET gpu = g.gpu, gpu_basis = x.basis FROM near_gpus x JOIN gpus g ON g.host = x.host AND g.pci = x.gpu_pci
WHERE nics.gpu IS NULL AND g.gpu IS NOT NULL AND x.host = nics.host AND x.dev = coalesce(nics.dev, nics.ifname);

-- name: joins
INSERT INTO joins
WITH claim AS (SELECT c.*, r.node, row_number() OVER (PARTITION BY c.rank ORDER BY c.weight DESC, c.ts NULLS LAST, c.file, c.line) AS n FROM rank_claim c JOIN ranks r ON r.rank = c.rank AND r.host IS NOT DISTINCT FROM c.host WHERE c.line > 0),
said AS (
  SELECT 'pod-node' AS kind, node AS host, pod AS a, node AS b, basis, confidence, file, line FROM pod_node WHERE file IS NOT NULL
  UNION ALL SELECT 'rank-host', node, 'rank ' || rank, host, 'stated', 1.0, file, line FROM claim WHERE host IS NOT NULL
  UNION ALL SELECT 'rank-pid', node, 'rank ' || rank, pid::VARCHAR, 'stated', 1.0, file, line FROM claim WHERE pid IS NOT NULL
  UNION ALL SELECT 'rank-pci', c.node, 'rank ' || c.rank, c.pci, 'stated', 1.0, c.file, c.line FROM claim c JOIN ranks r USING (rank) WHERE c.pci = r.pci
  -- part: gpus, stated_gpus
  UNION ALL SELECT 'pci-gpu', g.host, g.pci, g.gpu::VARCHAR, 'stated', 1.0, s.file, s.line FROM gpus g JOIN (SELECT coalesce(p.node, s.host) AS host, s.pci, s.gpu, s.file, s.line FROM stated_gpus s LEFT JOIN pod_node p ON p.pod = s.host) s
    ON s.host = g.host AND s.pci = g.pci AND s.gpu = g.gpu
  -- end
  -- part: gpus, rank_claim
  UNION ALL SELECT 'pci-gpu', g.host, g.pci, g.gpu::VARCHAR, CASE WHEN c.gpu IS NULL THEN 'CUDA index' ELSE 'stated' END, CASE WHEN c.gpu IS NULL THEN 0.6 ELSE 1.0 END, c.file, c.line
    FROM gpus g JOIN claim c ON c.node = g.host AND c.pci = g.pci AND coalesce(c.gpu, c.cuda) = g.gpu
  -- end
  -- part: nics, nic_pairs
  UNION ALL SELECT 'nic-pci', n.host, coalesce(n.dev, n.ifname), n.pci, k.basis, CASE k.basis WHEN 'stated' THEN 1.0 ELSE 0.95 END, k.file, k.line FROM nics n JOIN nic_pairs k ON k.host = n.host AND k.name IN (n.dev, n.ifname) AND k.pci = n.pci
  -- end
  -- part: nics, nic_order
  UNION ALL SELECT 'nic-pci', n.host, n.dev, n.pci, 'order', 0.6, n.file, n.line FROM nics n JOIN nic_order o ON o.host = n.host AND o.dev = n.dev AND o.pci = n.pci
  -- end
  -- part: nics, nic_netdev
  UNION ALL SELECT 'nic-netdev', n.host, n.dev, n.ifname, k.basis, CASE k.basis WHEN 'stated' THEN 1.0 ELSE 0.95 END, k.file, k.line FROM nics n JOIN nic_netdev k ON k.host = n.host AND k.dev = n.dev AND k.ifname = n.ifname
  -- end
  -- part: nics, nic_order
  UNION ALL SELECT 'nic-netdev', n.host, n.dev, n.ifname, 'order', 0.6, n.file, n.line FROM nics n JOIN nic_order o ON o.host = n.host AND o.dev = n.dev AND o.ifname = n.ifname
  -- end
  -- part: nics, nic_seen, gpus
  UNION ALL SELECT 'nic-gpu', n.host, coalesce(n.dev, n.ifname), g.pci, 'stated', 1.0, s.file, s.line FROM nics n JOIN nic_seen s ON s.host = n.host AND s.gpu = n.gpu AND (s.dev = n.dev OR s.ifname = n.ifname)
    JOIN gpus g ON g.host = n.host AND g.gpu = n.gpu WHERE n.gpu_basis IS NULL
  -- end
  -- part: near_gpus
  UNION ALL SELECT 'nic-gpu', host, dev, gpu_pci, basis, confidence, file, line FROM near_gpus
  -- end
  -- part: nic_use
  UNION ALL SELECT 'rank-nic', node, 'rank ' || rank, dev, basis, 1.0, file, line FROM nic_use
  -- end
  -- part: ports
  UNION ALL SELECT 'port-nic', host, switch || ' ' || port, dev, CASE basis WHEN 'coincidence' THEN basis ELSE 'stated' END, CASE basis WHEN 'coincidence' THEN 0.7 ELSE 1.0 END, file, line FROM ports WHERE host IS NOT NULL AND dev IS NOT NULL
  -- end
  -- part: addresses
  UNION ALL SELECT 'address-host', host, address, coalesce(ifname, host), 'stated', 1.0, file, line FROM addresses WHERE host IS NOT NULL
  -- end
)
SELECT kind, host, a, b, arg_max(basis, (confidence, -line, file, basis)), max(confidence), arg_max(file, (confidence, -line, file)), arg_max(line, (confidence, -line, file))
FROM said WHERE a IS NOT NULL AND b IS NOT NULL GROUP BY kind, host, a, b ORDER BY 1, 2, 3, 4;

-- name: switch_name_joins
-- needs: switch_names
-- The names that the user gave for switches: `a` as it is printed, `b` the name for it.
INSERT INTO joins SELECT 'switch-name', name, CASE WHEN is_guid AND NOT starts_with(printed, '0x') THEN '0x' || printed ELSE printed END, name, 'given', 1.0, file, line FROM switch_names ORDER BY name, printed;
