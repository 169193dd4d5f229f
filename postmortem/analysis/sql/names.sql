-- Who is who: pods and containers on nodes, ranks, addresses, NICs, GPUs, cables, hosts. Input: events, facts, files,
-- file_rank, "groups", ports and stated_* (from decoders), listed_nodes. What is inferred carries its basis.

-- name: host_names
-- One row per name of a host: whether kernel logs, the scheduler or Kubernetes call a machine so.
CREATE TEMP TABLE host_names AS
SELECT name, bool_or(is_machine) AND NOT regexp_full_match(name, '[0-9a-f]{12}') AS is_machine FROM (
  SELECT host AS name, bool_or(source = 'kernel' OR event LIKE 'node.%') AS is_machine FROM events WHERE host IS NOT NULL GROUP BY host
  UNION ALL SELECT host, bool_or(fact IN ('pod.node', 'gpu.uuid', 'nic.rename', 'nic.port', 'clock.boot_epoch')) FROM facts WHERE host IS NOT NULL GROUP BY host
  UNION ALL SELECT DISTINCT host, true FROM listed_nodes
  UNION ALL SELECT DISTINCT host, false FROM stated_nics WHERE host IS NOT NULL
  UNION ALL SELECT DISTINCT host, false FROM stated_gpus WHERE host IS NOT NULL
  UNION ALL SELECT DISTINCT host, false FROM stated_addresses WHERE host IS NOT NULL
  UNION ALL SELECT DISTINCT host, false FROM ports WHERE host IS NOT NULL
  UNION ALL SELECT DISTINCT switch, false FROM ports
) WHERE name <> '' GROUP BY name;

-- name: short_names
-- One row per name with a domain whose first label is the one other name of a machine: both name one machine. Of two
-- machines that differ in their domain alone neither is renamed.
CREATE TEMP TABLE short_names AS
SELECT l.name AS long, min(s.name) AS short FROM host_names l JOIN host_names s ON lower(s.name) = lower(split_part(l.name, '.', 1)) AND s.name <> l.name
WHERE NOT contains(s.name, '.') AND (contains(l.name, '.') OR s.is_machine AND NOT l.is_machine) AND NOT regexp_matches(l.name, '^[0-9.]+$|:')
  AND (SELECT count(DISTINCT lower(o.name)) FROM host_names o WHERE contains(o.name, '.') AND lower(split_part(o.name, '.', 1)) = lower(s.name)) <= 1
GROUP BY l.name HAVING count(*) = 1;

-- name: rename_events
-- needs: short_names
UPDATE events SET host = s.short FROM short_names s WHERE s.long = events.host;
-- name: rename_facts
-- needs: short_names
UPDATE facts SET host = s.short FROM short_names s WHERE s.long = facts.host;
-- name: rename_files
-- needs: short_names
UPDATE files SET host = s.short FROM short_names s WHERE s.long = files.host;
-- name: rename_listed
-- needs: short_names
UPDATE listed_nodes SET host = s.short FROM short_names s WHERE s.long = listed_nodes.host;
-- name: rename_gpus
-- needs: short_names
UPDATE stated_gpus SET host = s.short FROM short_names s WHERE s.long = stated_gpus.host;
-- name: rename_nics
-- needs: short_names
UPDATE stated_nics SET host = s.short FROM short_names s WHERE s.long = stated_nics.host;
-- name: rename_addresses
-- needs: short_names
UPDATE stated_addresses SET host = s.short FROM short_names s WHERE s.long = stated_addresses.host;
-- name: rename_ends
-- needs: short_names
UPDATE ports SET host = s.short FROM short_names s WHERE s.long = ports.host;
-- name: rename_switches
-- needs: short_names
UPDATE ports SET switch = s.short FROM short_names s WHERE s.long = ports.switch;

-- name: printed_addresses
-- One row per statement that an address is of a host: by its own programs, or by what somebody listed (`is_own` false).
CREATE TEMP TABLE printed_addresses AS
SELECT local_addr AS address, host, ifname, true AS is_own, event = 'nccl.net' AS is_nccl, file, line FROM events WHERE local_addr IS NOT NULL AND host IS NOT NULL
UNION ALL SELECT value, host, ifname, true, true, file, line FROM events WHERE event = 'nccl.net' AND ifname IS NOT NULL AND host IS NOT NULL AND value IS NOT NULL
UNION ALL SELECT local_addr, host, ifname, true, fact = 'net.oob', file, line FROM facts WHERE local_addr IS NOT NULL AND host IS NOT NULL
-- RoCE: the local GID of a failed work request is the address of its HCA.
UNION ALL SELECT regexp_extract(message, 'localGid ::ffff:([0-9]+\.[0-9]+\.[0-9]+\.[0-9]+)', 1), host, dev, true, false, file, line FROM events
  WHERE event = 'nccl.ib_completion_error' AND host IS NOT NULL AND contains(message, 'localGid ::ffff:')
UNION ALL SELECT address, host, ifname, false, false, file, line FROM stated_addresses WHERE host IS NOT NULL;

-- name: pod_node
-- needs: pod.node
-- One row per other name of a node, which is that of a pod or of a container: the node. The latest assignment wins; `is_pod`: Kubernetes says so.
CREATE TEMP TABLE pod_node AS
SELECT pod, arg_max(host, (coalesce(ts, TIMESTAMP '1970-01-01'), file, line)) AS node, arg_max(file, (coalesce(ts, TIMESTAMP '1970-01-01'), file, line)) AS file,
       arg_max(line, (coalesce(ts, TIMESTAMP '1970-01-01'), file, line)) AS line, min(ts) AS ts, true AS is_pod, 'stated' AS basis, 1.0::DOUBLE AS confidence
FROM facts WHERE fact = 'pod.node' AND pod IS NOT NULL AND host IS NOT NULL GROUP BY pod;

-- name: full_names
-- needs: short_names
-- Rows of other tables may still carry the name with a domain.
INSERT INTO pod_node SELECT long, short, NULL, NULL, NULL, false, 'name', 1.0 FROM short_names WHERE long NOT IN (SELECT pod FROM pod_node);

-- name: containers
-- needs: nccl.init_done | nccl.init_start | torch.elastic_failure | nccl.net | nccl.ib_device
-- Names by which processes call their host and which no machine has: containers whose node no line states.
CREATE TEMP TABLE containers AS
SELECT DISTINCT host AS name FROM events
WHERE host IS NOT NULL AND (event IN ('nccl.init_done', 'nccl.init_start', 'torch.elastic_failure') OR event IN ('nccl.net', 'nccl.ib_device') AND pid IS NOT NULL)
  AND host NOT IN (SELECT name FROM host_names WHERE is_machine) AND host NOT IN (SELECT pod FROM pod_node);

-- name: processes
-- needs: nccl.init_done | nccl.init_start
-- One row per process and GPU as NCCL prints them.
CREATE TEMP TABLE processes AS
SELECT DISTINCT host, pid, pci, rank FROM events WHERE event IN ('nccl.init_done', 'nccl.init_start') AND host IS NOT NULL AND pci IS NOT NULL;

-- name: container_votes
-- needs: containers
-- One row per hint that a container ran on a node. Strong ones name the same hardware, address or folder; weak ones are
-- coincidences that count only where nothing else could be meant.
CREATE TEMP TABLE container_votes AS
WITH nodes AS (SELECT name FROM host_names WHERE name NOT IN (SELECT name FROM containers) AND name NOT IN (SELECT pod FROM pod_node) AND NOT regexp_full_match(name, '[0-9a-f]{12}')),
parts AS (
  SELECT host, gpu_uuid AS part, file, line FROM stated_gpus WHERE gpu_uuid IS NOT NULL UNION ALL SELECT host, serial, file, line FROM stated_gpus WHERE serial IS NOT NULL
  UNION ALL SELECT host, guid, file, line FROM stated_nics WHERE guid IS NOT NULL UNION ALL SELECT host, gpu_uuid, file, line FROM facts WHERE gpu_uuid IS NOT NULL
  UNION ALL SELECT host, gpu_uuid, file, line FROM events WHERE gpu_uuid IS NOT NULL
), faults AS (
  SELECT host, event, pid, pci, split_part(pci, '.', 1) AS slot, dev, coalesce(ts_aligned, ts) AS ts, file, line FROM events
  WHERE source = 'kernel' AND host IN (SELECT name FROM nodes) AND event IN ('gpu.xid', 'gpu.fallen_off_bus', 'host.oom_kill', 'link.down', 'nic.port_state')
), own AS (
  SELECT e.host, e.event, e.pid, e.dev, split_part(p.pci, '.', 1) AS slot, coalesce(e.ts_aligned, e.ts) AS ts, e.signal, e.exit_code FROM events e
  LEFT JOIN processes p ON p.host = e.host AND p.pid = e.pid
  WHERE e.host IN (SELECT name FROM containers) AND e.event IN ('nccl.cuda_error', 'torch.cuda_error', 'nccl.ib_async_event', 'torch.elastic_failure', 'process.signal')
)
SELECT c.host AS container, n.host AS node, 'same hardware' AS basis, 1.0 AS confidence, c.file, c.line
FROM parts c JOIN parts n ON n.part = c.part AND n.host IN (SELECT name FROM nodes) WHERE c.host IN (SELECT name FROM containers)
UNION ALL
SELECT c.host, n.host, 'same address', 0.95, c.file, c.line FROM printed_addresses c JOIN printed_addresses n ON n.address = c.address AND NOT n.is_own AND n.host IN (SELECT name FROM nodes)
WHERE c.is_own AND c.host IN (SELECT name FROM containers)
UNION ALL
-- A file in a machine's folder all of whose lines are of one container.
SELECT min(e.host), f.host, 'folder', 0.9, e.file, min(e.line) FROM events e JOIN files f USING (file)
WHERE f.host_basis IN ('name', 'folder') AND f.host IN (SELECT name FROM nodes) AND e.source IN ('nccl', 'torch') AND e.host IS NOT NULL
GROUP BY f.host, e.file HAVING count(DISTINCT e.host) = 1 AND min(e.host) IN (SELECT name FROM containers)
UNION ALL
SELECT p.host, f.host, 'process and GPU of a kernel line', 0.85, f.file, f.line FROM faults f JOIN processes p ON p.pid = f.pid AND split_part(p.pci, '.', 1) = f.slot
WHERE p.host IN (SELECT name FROM containers)
UNION ALL
SELECT o.host, f.host, 'process that the kernel killed', 0.7, f.file, f.line FROM faults f JOIN own o ON f.event = 'host.oom_kill' AND o.pid = f.pid AND (o.signal = 9 OR o.exit_code IN (-9, 137))
 AND o.ts BETWEEN f.ts - INTERVAL 5 SECOND AND f.ts + INTERVAL 60 SECOND
UNION ALL
SELECT o.host, f.host, 'GPU fault at the same time', 0.6, f.file, f.line FROM faults f JOIN own o ON f.event IN ('gpu.xid', 'gpu.fallen_off_bus') AND o.event IN ('nccl.cuda_error', 'torch.cuda_error')
 AND o.slot = f.slot AND o.ts BETWEEN f.ts - INTERVAL 5 SECOND AND f.ts + INTERVAL 60 SECOND
UNION ALL
SELECT o.host, f.host, 'port event at the same time', 0.6, f.file, f.line FROM faults f JOIN own o ON f.event IN ('link.down', 'nic.port_state') AND o.event = 'nccl.ib_async_event' AND o.dev = f.dev
 AND abs(epoch_us(o.ts - f.ts)) <= 2000000;

-- name: container_nodes
-- needs: container_votes
-- The node of a container by its strongest hints: named when these agree, and of coincidences only when neither side has another.
INSERT INTO pod_node
WITH best AS (SELECT container, max(confidence) AS confidence FROM container_votes GROUP BY container),
top AS (SELECT v.* FROM container_votes v JOIN best b USING (container, confidence)),
one AS (
  SELECT container, min(node) AS node, min(basis) AS basis, confidence, arg_min(file, (file, line)) AS file, arg_min(line, (file, line)) AS line
  FROM top GROUP BY container, confidence HAVING count(DISTINCT node) = 1
)
SELECT container, node, file, line, NULL, false, basis, confidence FROM one o
WHERE confidence >= 0.9 OR ((SELECT count(DISTINCT container) FROM container_votes v WHERE v.node = o.node) = 1
  AND node NOT IN (SELECT host FROM processes) AND node NOT IN (SELECT node FROM pod_node WHERE basis <> 'name') AND (SELECT count(DISTINCT node) FROM container_votes v WHERE v.container = o.container) = 1);

-- name: rank_claim
-- One row per statement that a rank runs somewhere; `weight` orders them: NCCL's init line of the largest communicator
-- first, then the launcher's own lists, then a file of that rank on a known host. `gpu` is NVML's index, `cuda` CUDA's.
CREATE TEMP TABLE rank_claim AS
WITH init AS (
  SELECT rank, host, pid, local_rank, try_cast(nullif(regexp_extract(message, 'nvmlDev ([0-9]+)', 1), '') AS BIGINT) AS gpu, gpu AS cuda, pci, nranks,
         coalesce(comm_hash, value) AS comm_hash, file, line, event, ts
  FROM events WHERE event IN ('nccl.init_done', 'nccl.init_start') AND rank IS NOT NULL AND nranks IS NOT NULL
), world AS (SELECT max(nranks) AS n FROM init)
SELECT i.rank, i.host, i.pid, i.local_rank, i.gpu, i.cuda, i.pci, i.nranks, i.comm_hash, i.file, i.line, CASE WHEN i.event = 'nccl.init_done' THEN 5 ELSE 4 END AS weight, i.ts
FROM init i JOIN world w ON i.nranks = w.n
UNION ALL
-- part: torch.elastic_failure
SELECT rank, host, pid, local_rank, NULL, NULL, NULL, NULL, NULL, file, line, 3, ts FROM events
WHERE event = 'torch.elastic_failure' AND rank IS NOT NULL
UNION ALL
-- end
-- The agent of a host lists the ranks that it starts, by local rank.
-- part: rendezvous.ranks
SELECT try_cast(trim(r.rank) AS BIGINT), r.host, NULL, r.n - 1, NULL, NULL, NULL, NULL, NULL, r.file, r.line, 3, r.ts FROM (
  SELECT host, file, line, ts, unnest(string_split(value, ',')) AS rank, generate_subscripts(string_split(value, ','), 1) AS n FROM facts WHERE fact = 'rendezvous.ranks' AND value IS NOT NULL
) r WHERE try_cast(trim(r.rank) AS BIGINT) IS NOT NULL
UNION ALL
-- end
-- part: =torch | =nccl
SELECT e.rank, coalesce(e.host, f.host), max(e.pid), max(e.local_rank), NULL, NULL, NULL, NULL, NULL, e.file, min(e.line), 2, min(e.ts)
FROM events e JOIN files f USING (file)
WHERE e.source IN ('torch', 'nccl') AND e.rank IS NOT NULL AND contains(coalesce(e.text, ''), '[rank' || e.rank || ']') AND coalesce(e.host, f.host) IS NOT NULL
GROUP BY e.rank, coalesce(e.host, f.host), e.file
UNION ALL
-- end
-- part: =torch
SELECT rank, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, file, min(line), 1, min(ts) FROM events
WHERE source = 'torch' AND rank IS NOT NULL AND contains(coalesce(text, ''), '[rank' || rank || ']') GROUP BY rank, file
UNION ALL
-- end
-- part: file_rank
SELECT rank, host, NULL, NULL, NULL, NULL, NULL, NULL, NULL, file, 0, CASE WHEN host IS NULL THEN 1 ELSE 2 END, NULL FROM file_rank
UNION ALL
-- end
SELECT rank, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, file, 0, 1, NULL FROM "groups" WHERE rank IS NOT NULL GROUP BY rank, file;

-- name: ranks
-- needs: rank_claim
-- CUDA's index stands in for NVML's only where no two processes of the host print the same one.
INSERT INTO ranks
WITH c AS (
  SELECT rank, arg_min(host, n) FILTER (host IS NOT NULL) AS host, arg_min(pid, n) FILTER (pid IS NOT NULL) AS pid,
         arg_min(local_rank, n) FILTER (local_rank IS NOT NULL) AS local_rank, arg_min(gpu, n) FILTER (gpu IS NOT NULL) AS gpu,
         arg_min(cuda, n) FILTER (cuda IS NOT NULL) AS cuda, arg_min(pci, n) FILTER (pci IS NOT NULL) AS pci, max(nranks) AS nranks,
         arg_min(comm_hash, n) FILTER (comm_hash IS NOT NULL) AS comm_hash, arg_min(file, n) AS file, arg_min(line, n) AS line
  FROM (SELECT *, row_number() OVER (ORDER BY weight DESC, ts NULLS LAST, file, line, host, pid) AS n FROM rank_claim) GROUP BY rank
), seen AS (SELECT host, cuda, count(*) AS n FROM c WHERE cuda IS NOT NULL GROUP BY host, cuda)
SELECT c.rank, c.host, coalesce(p.node, c.host), c.pid, c.local_rank, coalesce(c.gpu, CASE WHEN s.n = 1 THEN c.cuda END), c.pci, c.nranks, c.comm_hash, c.file, c.line,
       CASE WHEN p.basis <> 'stated' THEN p.basis END, p.confidence
FROM c LEFT JOIN pod_node p ON p.pod = c.host LEFT JOIN seen s ON s.host IS NOT DISTINCT FROM c.host AND s.cuda = c.cuda
ORDER BY c.rank;

-- name: transports
-- needs: nccl.ib_device | nccl.net
-- One row per node on which NCCL says what it sends by: InfiniBand verbs (or a plugin's fabric), or sockets alone.
CREATE TEMP TABLE transports AS
SELECT coalesce(p.node, e.host) AS host,
  bool_or(e.event = 'nccl.ib_device' AND e.dev IS NOT NULL OR e.event = 'nccl.net' AND e.ifname IS NULL AND NOT regexp_matches(coalesce(e.value, ''), '(?i)socket')) AS has_fabric,
  bool_or(e.event = 'nccl.net' AND contains(e.message, 'Socket')) AS has_sockets
FROM events e LEFT JOIN pod_node p ON p.pod = e.host WHERE e.event IN ('nccl.ib_device', 'nccl.net') AND e.host IS NOT NULL GROUP BY 1;

-- name: nic_name
-- The PCI address that a name of systemd or udev is made of (`enp59s0np0`, `rocep59s0f1`, `ibP2p1s0`: numbers are decimal); null for virtual functions.
CREATE OR REPLACE TEMP MACRO name_pci(name) AS
  CASE WHEN regexp_full_match(name, '(en|ib|sl|roce|iw|opa|rdma)(P[0-9]{1,4})?p[0-9]{1,3}s[0-9]{1,2}(f[0-9]{1,3})?(n[a-z0-9]+|d[0-9]+)?') AND try_cast(regexp_extract(name, 'p([0-9]+)s', 1) AS INTEGER) < 256 THEN
    format('{:04x}:{:02x}:{:02x}.{:x}', coalesce(try_cast(nullif(regexp_extract(name, 'P([0-9]+)p', 1), '') AS INTEGER), 0), try_cast(regexp_extract(name, 'p([0-9]+)s', 1) AS INTEGER),
      try_cast(regexp_extract(name, 's([0-9]+)(?:[fnd]|$)', 1) AS INTEGER), coalesce(try_cast(nullif(regexp_extract(name, 's[0-9]+f([0-9]+)', 1), '') AS INTEGER), 0)) END;

-- name: nic_seen
-- One row per statement about a NIC: on a node, by HCA name, network device or PCI address. `network` is what its use says.
CREATE TEMP TABLE nic_seen AS
SELECT coalesce(p.node, e.host) AS host, e.dev, NULL::VARCHAR AS ifname, nullif(regexp_extract(e.path, '([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])$', 1), '') AS pci,
       'back' AS network, NULL::VARCHAR AS guid, NULL::VARCHAR AS mac, NULL::BIGINT AS gpu, e.file, e.line
FROM events e LEFT JOIN pod_node p ON p.pod = e.host
WHERE e.event IN ('nccl.ib_device', 'nccl.ib_completion_error', 'nccl.ib_async_event') AND e.dev IS NOT NULL AND e.host IS NOT NULL
UNION ALL
-- What bootstrap, out-of-band and socket connections go through: the front end, unless collectives have no other way.
-- part: nccl.net | net.oob
SELECT coalesce(p.node, e.host), NULL, e.ifname, NULL, CASE WHEN NOT coalesce(t.has_fabric, false) AND coalesce(t.has_sockets, false) THEN CASE WHEN contains(e.message, 'Socket') THEN 'back' END ELSE 'front' END,
       NULL, NULL, NULL, e.file, e.line
FROM (SELECT host, ifname, message, file, line FROM events WHERE event = 'nccl.net' UNION ALL SELECT host, ifname, '', file, line FROM facts WHERE fact = 'net.oob') e
LEFT JOIN pod_node p ON p.pod = e.host LEFT JOIN transports t ON t.host = coalesce(p.node, e.host)
WHERE e.ifname IS NOT NULL AND e.host IS NOT NULL AND (p.pod IS NULL OR NOT p.is_pod)
UNION ALL
-- end
-- part: =kernel
SELECT host, dev, ifname, pci, NULL, NULL, NULL, NULL, file, line FROM events
WHERE source = 'kernel' AND host IS NOT NULL AND (dev IS NOT NULL OR ifname IS NOT NULL OR pci IS NOT NULL AND event LIKE 'nic.%') AND (event LIKE 'nic.%' OR event LIKE 'link.%')
  AND (pci IS NOT NULL OR ifname IS NOT NULL)
UNION ALL
-- end
-- part: nic.rename
SELECT host, dev, ifname, pci, NULL, NULL, NULL, NULL, file, line FROM facts WHERE fact = 'nic.rename' AND host IS NOT NULL
UNION ALL
-- end
-- The far end of a cable, as the switch knows it: a network device by LLDP, an HCA on InfiniBand.
-- part: ports
SELECT coalesce(p.node, c.host), CASE WHEN NOT is_netdev THEN dev END, CASE WHEN is_netdev THEN dev END, NULL, NULL, NULL, NULL, NULL, c.file, c.line
FROM (SELECT host, dev, regexp_matches(dev, '^(en|eth|ib[0-9]|ibp|hsn|bond|rdma[0-9]|p[0-9]+p|sl)') AS is_netdev, file, line FROM ports
      WHERE basis IN ('lldp', 'ibnetdiscover') AND regexp_matches(dev, '^[a-z][A-Za-z0-9_.-]*[0-9]') AND NOT regexp_matches(dev, '[/:]') AND host NOT IN (SELECT switch FROM ports)) c
LEFT JOIN pod_node p ON p.pod = c.host WHERE c.host IN (SELECT name FROM host_names WHERE is_machine) OR c.host IN (SELECT node FROM ranks)
UNION ALL
-- end
SELECT coalesce(p.node, s.host), s.dev, s.ifname, s.pci, s.network, s.guid, s.mac, s.gpu, s.file, s.line FROM stated_nics s LEFT JOIN pod_node p ON p.pod = s.host WHERE s.host IS NOT NULL;

-- name: nic_pairs
-- needs: nic_seen
-- One row per node and pair of names that one line shows together (or that one name holds), where neither contradicts another line.
CREATE TEMP TABLE nic_pairs AS
WITH named AS (
  SELECT host, dev AS name, pci, 'stated' AS basis, file, line FROM nic_seen UNION ALL SELECT host, ifname, pci, 'stated', file, line FROM nic_seen
  UNION ALL SELECT host, dev, name_pci(dev), 'name', file, line FROM nic_seen WHERE dev IS NOT NULL UNION ALL SELECT host, ifname, name_pci(ifname), 'name', file, line FROM nic_seen WHERE ifname IS NOT NULL
)
SELECT host, name, min(pci) AS pci, CASE WHEN bool_or(basis = 'stated') THEN 'stated' ELSE 'name' END AS basis,
       arg_min(file, (basis <> 'stated', file, line)) AS file, arg_min(line, (basis <> 'stated', file, line)) AS line
FROM named WHERE name IS NOT NULL AND pci IS NOT NULL GROUP BY host, name HAVING count(DISTINCT pci) FILTER (basis = 'stated') <= 1 AND (bool_or(basis = 'stated') OR count(DISTINCT pci) = 1);

-- name: stated_wins
-- needs: nic_pairs
-- Where a line states another address than the name holds, the line wins.
UPDATE nic_pairs SET pci = s.pci FROM (
  SELECT host, name, min(pci) AS pci FROM (SELECT host, dev AS name, pci FROM nic_seen UNION ALL SELECT host, ifname, pci FROM nic_seen) WHERE name IS NOT NULL AND pci IS NOT NULL GROUP BY host, name HAVING count(DISTINCT pci) = 1
) s WHERE nic_pairs.basis = 'stated' AND s.host = nic_pairs.host AND s.name = nic_pairs.name;

-- name: nic_netdev
-- needs: nic_seen
-- One row per node and network device: its HCA, by a line that names both, by one PCI address, or by one GUID.
CREATE TEMP TABLE nic_netdev AS
WITH both_names AS (
  SELECT host, ifname, dev, 0 AS weight, 'stated' AS basis, file, line FROM nic_seen WHERE dev IS NOT NULL AND ifname IS NOT NULL
  UNION ALL
  SELECT i.host, i.name, d.name, 1, 'same PCI address', i.file, i.line FROM nic_pairs i JOIN nic_pairs d ON d.host = i.host AND d.pci = i.pci
  WHERE i.name IN (SELECT ifname FROM nic_seen n WHERE n.host = i.host) AND d.name IN (SELECT dev FROM nic_seen n WHERE n.host = d.host)
  UNION ALL
  SELECT i.host, i.ifname, d.dev, 2, 'same GUID', i.file, i.line FROM nic_seen i JOIN nic_seen d ON d.host = i.host AND d.guid = i.guid AND d.dev IS NOT NULL AND d.ifname IS NULL
  WHERE i.ifname IS NOT NULL AND i.dev IS NULL
), best AS (SELECT *, min(weight) OVER (PARTITION BY host, ifname) AS least FROM both_names)
SELECT host, ifname, min(dev) AS dev, min(basis) AS basis, arg_min(file, (file, line)) AS file, arg_min(line, (file, line)) AS line
FROM best WHERE weight = least GROUP BY host, ifname HAVING count(DISTINCT dev) = 1;

-- name: nic_order
-- needs: nic_pairs, ports
-- HCAs and network devices that no line joins. The kernel numbers HCAs (`mlx5_0`, `mlx5_1`, …) in the order of their PCI
-- addresses: where as many HCAs of one kind carry the collectives as devices with a PCI address hang on switches, they are paired in order.
CREATE TEMP TABLE nic_order AS
WITH hca AS (
  SELECT host, dev, regexp_extract(dev, '^([a-z]+[0-9]*_)[0-9]+$', 1) AS stem, try_cast(regexp_extract(dev, '_([0-9]+)$', 1) AS INTEGER) AS number FROM nic_seen
  WHERE dev IS NOT NULL AND network = 'back' GROUP BY ALL
), device AS (
  SELECT p.host, p.name, p.pci FROM nic_pairs p WHERE EXISTS (FROM ports c WHERE c.host = p.host AND c.dev = p.name AND c.basis = 'lldp')
), free AS (
  SELECT host FROM hca GROUP BY host HAVING count(DISTINCT stem) = 1 AND min(stem) <> '' AND count(*) > 1
   AND count(*) = (SELECT count(*) FROM device d WHERE d.host = hca.host) AND count(*) = (SELECT count(DISTINCT pci) FROM device d WHERE d.host = hca.host)
), pair AS (
  SELECT h.host, h.dev, d.name AS ifname, d.pci FROM (SELECT *, row_number() OVER (PARTITION BY host ORDER BY number) AS n FROM hca) h
  JOIN (SELECT *, row_number() OVER (PARTITION BY host ORDER BY pci) AS n FROM device) d ON d.host = h.host AND d.n = h.n WHERE h.host IN (FROM free)
)
-- One pair of a host that a line contradicts makes the order void there.
SELECT p.* FROM pair p WHERE NOT EXISTS (FROM pair x JOIN nic_pairs k ON k.host = x.host AND k.name = x.dev AND k.pci <> x.pci WHERE x.host = p.host)
  AND NOT EXISTS (FROM pair x JOIN nic_netdev k ON k.host = x.host AND k.ifname = x.ifname AND k.dev <> x.dev WHERE x.host = p.host);

-- name: nics
-- needs: nic_seen
-- One row per NIC: the names of one device brought together. `basis` says how where no line states it.
INSERT INTO nics
WITH filled AS (
  SELECT s.host, coalesce(s.dev, n.dev, o.dev, q.dev) AS dev, s.ifname, s.pci, s.network, s.guid, s.mac, s.gpu, s.file, s.line,
    CASE WHEN s.dev IS NULL THEN CASE WHEN n.dev IS NOT NULL THEN nullif(n.basis, 'stated') WHEN coalesce(o.dev, q.dev) IS NOT NULL THEN 'order' END END AS basis
  FROM nic_seen s LEFT JOIN nic_netdev n ON n.host = s.host AND n.ifname = s.ifname LEFT JOIN nic_order o ON o.host = s.host AND o.ifname = s.ifname
  LEFT JOIN nic_order q ON q.host = s.host AND q.pci = s.pci AND s.ifname IS NULL
), placed AS (
  SELECT f.* REPLACE (coalesce(f.pci, d.pci, i.pci, r.pci) AS pci),
    CASE WHEN f.pci IS NULL THEN CASE WHEN coalesce(d.pci, i.pci) IS NOT NULL THEN CASE WHEN coalesce(d.basis, i.basis) = 'name' THEN 'name' END WHEN r.pci IS NOT NULL THEN 'order' END END AS pci_basis
  FROM filled f LEFT JOIN nic_pairs d ON d.host = f.host AND d.name = f.dev LEFT JOIN nic_pairs i ON i.host = f.host AND i.name = f.ifname
  LEFT JOIN nic_order r ON r.host = f.host AND r.dev = f.dev
), named AS (
  -- A row that has an address alone is of the device that has it.
  SELECT p.* REPLACE (coalesce(p.dev, CASE WHEN p.ifname IS NULL THEN k.dev END) AS dev, coalesce(p.ifname, CASE WHEN p.dev IS NULL AND k.dev IS NULL THEN k.ifname END) AS ifname)
  FROM placed p LEFT JOIN (SELECT host, pci, CASE WHEN count(DISTINCT dev) = 1 THEN min(dev) END AS dev, CASE WHEN count(DISTINCT ifname) = 1 THEN min(ifname) END AS ifname
    FROM placed WHERE pci IS NOT NULL GROUP BY host, pci) k ON k.host = p.host AND k.pci = p.pci
)
SELECT host, dev, arg_min(ifname, (file, line)) FILTER (ifname IS NOT NULL), arg_min(pci, (pci_basis IS NOT NULL, file, line)) FILTER (pci IS NOT NULL),
  CASE WHEN bool_or(network = 'back') THEN 'back' WHEN bool_or(network = 'front') THEN 'front' ELSE 'unknown' END, max(guid), max(mac), CASE WHEN count(DISTINCT gpu) = 1 THEN min(gpu) END,
  arg_min(file, (file, line)), arg_min(line, (file, line)), arg_min(coalesce(basis, pci_basis), (file, line)) FILTER (coalesce(basis, pci_basis) IS NOT NULL), NULL
FROM named GROUP BY host, dev, CASE WHEN dev IS NULL THEN coalesce(ifname, pci) END ORDER BY 1, 2, 3, 4;

-- name: settings
-- needs: nics, nccl.env
-- NCCL_IB_HCA names the HCAs that collectives use (a beginning of their names, `=`: the whole name, `^`: all others) where no list of them is printed.
UPDATE nics SET network = 'back' WHERE network = 'unknown' AND dev IS NOT NULL AND host NOT IN (SELECT host FROM nics WHERE network = 'back')
 AND EXISTS (FROM (SELECT coalesce(p.node, e.host) AS host, unnest(string_split(regexp_replace(e.value, '^=', ''), ',')) AS name, starts_with(e.value, '=') AS is_whole
                   FROM events e LEFT JOIN pod_node p ON p.pod = e.host WHERE e.event = 'nccl.env' AND e.code = 'NCCL_IB_HCA' AND NOT starts_with(e.value, '^')) x
             WHERE x.host = nics.host AND x.name <> '' AND (nics.dev = split_part(x.name, ':', 1) OR NOT x.is_whole AND starts_with(nics.dev, split_part(x.name, ':', 1))));

-- name: fabric
-- needs: nics, ports
-- Where no line of NCCL's tells, the HCAs on the InfiniBand fabric are those of the training network.
UPDATE nics SET network = 'back' WHERE network = 'unknown' AND dev IS NOT NULL AND NOT EXISTS (FROM nics WHERE network = 'back')
 AND EXISTS (FROM ports p WHERE p.host = nics.host AND p.dev = nics.dev AND p.basis = 'ibnetdiscover');

-- name: beside_the_fabric
-- needs: nics, nccl.ib_device | ports
-- Where the collectives go over InfiniBand, an Ethernet device carries something else.
UPDATE nics SET network = 'front' WHERE network = 'unknown' AND regexp_matches(ifname, '^(en|eth|bond|p[0-9]+p)') AND host IN (
  SELECT host FROM (
    SELECT coalesce(p.node, e.host) AS host, e.value FROM events e LEFT JOIN pod_node p ON p.pod = e.host WHERE e.event = 'nccl.ib_device' AND e.dev IS NOT NULL AND e.value IN ('IB', 'RoCE')
    UNION ALL SELECT p.host, 'IB' FROM ports p JOIN nics n ON n.host = p.host AND n.dev = p.dev WHERE p.basis = 'ibnetdiscover' AND n.network = 'back'
  ) GROUP BY host HAVING bool_and(value = 'IB'));

-- name: same_elsewhere
-- needs: nics
-- Where a node says nothing of its NICs, the names that have one use on all other nodes have it there, too.
UPDATE nics SET network = x.network FROM (
  SELECT coalesce(dev, ifname) AS name, min(network) AS network FROM nics WHERE network <> 'unknown' GROUP BY 1 HAVING count(DISTINCT network) = 1 AND count(DISTINCT host) >= 2
) x WHERE nics.network = 'unknown' AND x.name = coalesce(nics.dev, nics.ifname) AND nics.host NOT IN (SELECT host FROM nics WHERE network = 'back');

-- name: addresses
-- needs: printed_addresses
-- An address that two nodes call their own (a bridge's, say) is of neither.
INSERT INTO addresses
WITH claim AS (
  SELECT a.*, coalesce(p.node, a.host) AS node, coalesce(p.is_pod, false) AS is_pod FROM printed_addresses a LEFT JOIN pod_node p ON p.pod = a.host WHERE a.address <> ''
), best AS (SELECT *, max(is_own) OVER (PARTITION BY address) AS has_own FROM claim),
one AS (
  SELECT address, CASE WHEN count(DISTINCT node) = 1 THEN arg_min(host, (file, line)) END AS host, CASE WHEN count(DISTINCT node) = 1 THEN arg_min(node, (file, line)) END AS node,
         arg_min(ifname, (file, line)) FILTER (ifname IS NOT NULL) AS ifname, bool_or(is_nccl) AS is_nccl, arg_min(file, (file, line)) AS file, arg_min(line, (file, line)) AS line
  FROM best WHERE is_own = has_own GROUP BY address
), other AS (SELECT address, arg_min(ifname, (file, line)) AS ifname FROM claim WHERE ifname IS NOT NULL GROUP BY address HAVING count(DISTINCT ifname) = 1)
SELECT o.address, o.host, coalesce(o.ifname, x.ifname), coalesce(min(n.network), CASE WHEN bool_or(o.is_nccl) THEN 'front' END, 'unknown'), o.file, o.line
FROM one o LEFT JOIN other x USING (address)
LEFT JOIN nics n ON n.host = o.node AND coalesce(o.ifname, x.ifname) IN (n.ifname, n.dev) AND n.network <> 'unknown'
GROUP BY o.address, o.host, coalesce(o.ifname, x.ifname), o.file, o.line ORDER BY o.address;

-- name: gpus
-- needs: ranks | stated_gpus | gpu.uuid
-- One row per node and GPU, by PCI address: the rank that uses it, and what is stated about it. NVML's index comes from its own
-- tools before it comes from NCCL; a row of theirs without an address is joined by UUID, else by index with their other rows of the host.
INSERT INTO gpus
WITH smi AS (SELECT coalesce(p.node, s.host) AS host, s.pci, s.gpu, s.gpu_uuid, s.rank, s.model, s.serial, s.file, s.line FROM stated_gpus s LEFT JOIN pod_node p ON p.pod = s.host WHERE s.host IS NOT NULL),
at_index AS (SELECT host, gpu, min(pci) AS pci FROM smi WHERE pci IS NOT NULL AND gpu IS NOT NULL GROUP BY host, gpu HAVING count(DISTINCT pci) = 1),
of_uuid AS (
  SELECT host, gpu_uuid, min(pci) AS pci FROM (SELECT host, gpu_uuid, pci FROM smi UNION ALL SELECT host, gpu_uuid, pci FROM facts WHERE fact = 'gpu.uuid') WHERE pci IS NOT NULL AND gpu_uuid IS NOT NULL
  GROUP BY host, gpu_uuid HAVING count(DISTINCT pci) = 1
), said AS (
  SELECT node AS host, pci, gpu, NULL AS gpu_uuid, rank, NULL AS model, NULL AS serial, file, line, 1 AS weight FROM ranks WHERE pci IS NOT NULL AND node IS NOT NULL
  UNION ALL SELECT host, pci, NULL, gpu_uuid, NULL, NULL, NULL, file, line, 2 FROM facts WHERE fact = 'gpu.uuid' AND host IS NOT NULL AND pci IS NOT NULL
  UNION ALL
  SELECT s.host, coalesce(s.pci, u.pci, a.pci), s.gpu, s.gpu_uuid, NULL, s.model, s.serial, s.file, s.line, 0
  FROM smi s LEFT JOIN of_uuid u ON u.host = s.host AND u.gpu_uuid = s.gpu_uuid LEFT JOIN at_index a ON a.host = s.host AND a.gpu = s.gpu
)
SELECT host, pci, arg_min(gpu, (weight, file, line)) FILTER (gpu IS NOT NULL), max(gpu_uuid), min(rank), max(model), max(serial), arg_min(file, (weight, file, line)), arg_min(line, (weight, file, line))
FROM said WHERE pci IS NOT NULL GROUP BY host, pci ORDER BY host, pci;

-- name: rank_gpus
-- needs: stated_gpus
-- The index that the node's own tools give a rank's GPU stands before the one that its process counted.
UPDATE ranks SET gpu = g.gpu FROM (SELECT coalesce(p.node, s.host) AS host, s.pci, min(s.gpu) AS gpu FROM stated_gpus s LEFT JOIN pod_node p ON p.pod = s.host
  WHERE s.pci IS NOT NULL AND s.gpu IS NOT NULL GROUP BY 1, 2 HAVING count(DISTINCT s.gpu) = 1) g
WHERE g.host = ranks.node AND g.pci = ranks.pci;

-- name: cables
-- needs: =switch
-- Cables that a fabric manager names in its own messages: both ends in one line (`node-17 mlx5_0`).
INSERT INTO ports
SELECT host, port, split_part(peer, ' ', 1), nullif(split_part(peer, ' ', 2), ''), 'fabric manager', min(file), arg_min(line, (file, line))
FROM events e WHERE source = 'switch' AND host IS NOT NULL AND port IS NOT NULL AND peer IS NOT NULL AND regexp_matches(peer, '^[A-Za-z0-9_.-]+ [a-z0-9_]+')
  AND NOT EXISTS (FROM ports p WHERE p.switch = e.host AND p.port = e.port)
GROUP BY host, port, peer ORDER BY 1, 2, 3;

-- name: descriptions
-- needs: port.description
-- Descriptions that a switch prints with its messages count where they begin with a machine's name (`node-17 mlx5_0`, `node-17:ens1f0`).
INSERT INTO ports
SELECT d.host, d.port, m.name, nullif(regexp_extract(d.peer, '^[^ :,;/]+[ :,;/_-]+([A-Za-z][A-Za-z0-9_.-]*[0-9])$', 1), ''), 'description', min(d.file), arg_min(d.line, (d.file, d.line))
FROM (SELECT host, coalesce(ifname, port) AS port, peer, file, line FROM facts WHERE fact = 'port.description' AND host IS NOT NULL AND peer IS NOT NULL) d
JOIN host_names m ON m.is_machine AND (lower(m.name) = lower(d.peer) OR lower(m.name) = lower(regexp_extract(d.peer, '^([^ :,;/]+)[ :,;/]', 1)))
WHERE d.port IS NOT NULL AND NOT EXISTS (FROM ports p WHERE p.switch = d.host AND same_port(p.port, d.port)) GROUP BY d.host, d.port, m.name, d.peer ORDER BY 1, 2, 3;

-- name: one_cable
-- needs: ports
-- One row per switch port: what LLDP or the fabric itself sees before what somebody planned or wrote into a description.
DELETE FROM ports WHERE rowid NOT IN (
  SELECT arg_min(rowid, (CASE basis WHEN 'lldp' THEN 0 WHEN 'ibnetdiscover' THEN 1 WHEN 'fabric manager' THEN 2 ELSE 3 END, file, line))
  FROM ports GROUP BY switch, port);

-- name: job_lists
-- needs: listed_nodes
-- Nodes that the scheduler lists, of this job where it lists several: the one that ranks run on, else the one whose output is here.
CREATE TEMP TABLE job_lists AS
WITH jobs AS (
  SELECT job_id, bool_or(host IN (SELECT node FROM ranks WHERE node IS NOT NULL)) AS has_ranks,
         bool_or(job_id IS NOT NULL AND EXISTS (FROM files f WHERE regexp_matches(f.file, '(^|[^0-9])' || regexp_extract(job_id, '^[0-9]+') || '([^0-9]|$)') AND regexp_matches(job_id, '^[0-9]'))) AS has_output
  FROM listed_nodes GROUP BY job_id
), best AS (SELECT max(CASE WHEN has_ranks THEN 2 WHEN has_output THEN 1 ELSE 0 END) AS top FROM jobs)
SELECT DISTINCT l.host FROM listed_nodes l JOIN jobs j ON j.job_id IS NOT DISTINCT FROM l.job_id JOIN best b ON CASE WHEN j.has_ranks THEN 2 WHEN j.has_output THEN 1 ELSE 0 END = b.top;

-- name: placement
-- One row: whether the nodes of all ranks are known. They are when as many nodes have ranks as the world needs at the ranks per node
-- that are seen, and at least one of these names is one that a machine has.
CREATE TEMP TABLE placement AS
WITH per AS (SELECT node, count(*) AS n, max(local_rank) FILTER (local_rank < 1 << 24) + 1 AS locals FROM ranks WHERE node IS NOT NULL GROUP BY node),
world AS (
  SELECT greatest(coalesce((SELECT max(greatest(coalesce(nranks, 0), rank + 1)) FROM ranks WHERE rank < 1 << 24), 0), coalesce((SELECT max(nranks) FROM facts WHERE fact = 'job.world_size'), 0)) AS n
)
SELECT w.n > 0 AND (SELECT count(*) * max(greatest(n, coalesce(locals, 0))) FROM per) >= w.n AND EXISTS (FROM per JOIN host_names h ON h.name = per.node AND h.is_machine) AS is_whole FROM world w;

-- name: job_nodes
-- Nodes of the job: where its ranks run when all are placed (a spare node of the allocation is none), else also where its pods ran and what the scheduler lists.
CREATE TEMP TABLE job_nodes AS
SELECT DISTINCT node AS host FROM ranks WHERE node IS NOT NULL
UNION SELECT node FROM pod_node WHERE is_pod AND (SELECT NOT is_whole FROM placement)
UNION SELECT host FROM job_lists WHERE (SELECT NOT is_whole FROM placement);

-- name: hosts
-- A host that is not among the job's is outside it only where all of the job's nodes are known.
INSERT INTO hosts
WITH seen AS (
  SELECT host, source, ts, file, line FROM events WHERE host IS NOT NULL
  -- What a switch says of its own ports makes it no compute node.
  UNION ALL SELECT host, CASE WHEN fact = 'port.description' THEN 'switch' ELSE 'host' END, ts, file, line FROM facts WHERE host IS NOT NULL
  UNION ALL SELECT node, 'kernel', NULL, file, line FROM ranks WHERE node IS NOT NULL
  UNION ALL SELECT host, 'host', NULL, file, line FROM stated_gpus WHERE host IS NOT NULL
  UNION ALL SELECT host, 'host', NULL, file, line FROM stated_nics WHERE host IS NOT NULL
), folded AS (
  SELECT host, CASE WHEN count(*) FILTER (source IN ('nccl', 'torch', 'kernel', 'host', 'trainer')) > 0 THEN 'compute'
                    WHEN count(*) FILTER (source = 'switch') > 0 THEN 'switch' WHEN count(*) FILTER (source = 'scheduler') > 0 THEN 'compute' ELSE 'unknown' END AS role,
         min(ts) AS first_ts, max(ts) AS last_ts, count(*) AS events, arg_min(file, (file, line)) AS file, arg_min(line, (file, line)) AS line
  FROM seen GROUP BY host
), known AS (
  SELECT p.is_whole OR EXISTS (FROM job_lists l WHERE l.host IN (SELECT host FROM seen WHERE source <> 'scheduler'))
    -- Where ranks only know container names that no other log knows, nothing says which machines are the job's.
    OR EXISTS (FROM pod_node WHERE is_pod) AND EXISTS (FROM seen s WHERE s.source = 'kernel' AND s.ts IS NOT NULL AND s.host IN (FROM job_nodes)) AS all_nodes
  FROM placement p
)
SELECT f.host, p.node, f.role,
       CASE WHEN f.host IN (FROM job_nodes) OR p.node IN (FROM job_nodes) OR f.host IN (SELECT host FROM ranks) THEN true
            WHEN f.role = 'switch' OR NOT EXISTS (FROM job_nodes) THEN NULL
            WHEN k.all_nodes THEN false END,
       f.first_ts, f.last_ts, f.events, f.file, f.line
FROM folded f CROSS JOIN known k LEFT JOIN pod_node p ON p.pod = f.host ORDER BY f.host;

-- name: error_files
-- A launcher's error file lies in a folder named after the local rank; with one node that is enough for the rank.
UPDATE events SET local_rank = try_cast(regexp_extract(file, 'attempt_[0-9]+/([0-9]+)/error\.json$', 1) AS BIGINT)
WHERE local_rank IS NULL AND regexp_matches(file, 'attempt_[0-9]+/[0-9]+/error\.json$');

-- name: death_times
-- needs: torch.elastic_failure
-- A rank's traceback without a time of its own is dated by what its launcher says of that rank: closer than the line above.
UPDATE events SET ts_aligned = d.ts FROM (
  SELECT rank, min(ts) AS ts FROM events WHERE event = 'torch.elastic_failure' AND rank IS NOT NULL AND ts IS NOT NULL AND event_id NOT IN (FROM borrowed) GROUP BY rank
) d WHERE events.rank = d.rank AND events.source = 'torch' AND events.event_id IN (FROM borrowed) AND events.severity IN ('error', 'fatal') AND (events.ts IS NULL OR events.ts <= d.ts);
