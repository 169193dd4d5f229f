-- Who is who: ranks, nodes, GPUs, NICs, addresses, cables, hosts. Input: events, facts, files, ports (from decoders).

-- name: pod_node
-- One row per pod: the node it ran on (the latest assignment wins).
CREATE TEMP TABLE pod_node AS
SELECT pod, arg_max(host, (coalesce(ts, TIMESTAMP '1970-01-01'), file, line)) AS node, arg_max(file, (coalesce(ts, TIMESTAMP '1970-01-01'), file, line)) AS file,
       arg_max(line, (coalesce(ts, TIMESTAMP '1970-01-01'), file, line)) AS line, min(ts) AS ts
FROM facts WHERE fact = 'pod.node' AND pod IS NOT NULL AND host IS NOT NULL GROUP BY pod;

-- name: rank_claim
-- One row per statement that a rank runs somewhere; `weight` orders them: NCCL's init line of the largest
-- communicator first, then the launcher's failure entries, then a file of that rank on a known host.
CREATE TEMP TABLE rank_claim AS
WITH init AS (
  SELECT rank, host, pid, local_rank, gpu, pci, nranks, coalesce(comm_hash, value) AS comm_hash, file, line, event, ts
  FROM events WHERE event IN ('nccl.init_done', 'nccl.init_start') AND rank IS NOT NULL AND nranks IS NOT NULL
), world AS (SELECT max(nranks) AS n FROM init)
SELECT i.rank, i.host, i.pid, i.local_rank, i.gpu, i.pci, i.nranks, i.comm_hash, i.file, i.line, CASE WHEN i.event = 'nccl.init_done' THEN 5 ELSE 4 END AS weight
FROM init i JOIN world w ON i.nranks = w.n
UNION ALL
SELECT rank, host, pid, local_rank, NULL, NULL, NULL, NULL, file, line, 3 FROM events
WHERE event = 'torch.elastic_failure' AND rank IS NOT NULL
UNION ALL
SELECT e.rank, coalesce(e.host, f.host), max(e.pid), max(e.local_rank), NULL, NULL, NULL, NULL, e.file, min(e.line), 2
FROM events e JOIN files f USING (file)
WHERE e.source IN ('torch', 'nccl') AND e.rank IS NOT NULL AND contains(coalesce(e.text, ''), '[rank' || e.rank || ']') AND coalesce(e.host, f.host) IS NOT NULL
GROUP BY e.rank, coalesce(e.host, f.host), e.file
UNION ALL
SELECT rank, NULL, NULL, NULL, NULL, NULL, NULL, NULL, file, min(line), 1 FROM events
WHERE source = 'torch' AND rank IS NOT NULL AND contains(coalesce(text, ''), '[rank' || rank || ']') GROUP BY rank, file
UNION ALL
SELECT rank, host, NULL, NULL, NULL, NULL, NULL, NULL, file, 0, CASE WHEN host IS NULL THEN 1 ELSE 2 END FROM file_rank
UNION ALL
SELECT rank, NULL, NULL, NULL, NULL, NULL, NULL, NULL, file, 0, 1 FROM "groups" WHERE rank IS NOT NULL GROUP BY rank, file;

-- name: ranks
INSERT INTO ranks
SELECT c.rank, c.host, coalesce(p.node, c.host), c.pid, c.local_rank, c.gpu, c.pci, c.nranks, c.comm_hash, c.file, c.line
FROM (
  SELECT rank, arg_max(host, weight) FILTER (host IS NOT NULL) AS host, arg_max(pid, weight) FILTER (pid IS NOT NULL) AS pid,
         arg_max(local_rank, weight) FILTER (local_rank IS NOT NULL) AS local_rank, arg_max(gpu, weight) FILTER (gpu IS NOT NULL) AS gpu,
         arg_max(pci, weight) FILTER (pci IS NOT NULL) AS pci, max(nranks) AS nranks,
         arg_max(comm_hash, weight) FILTER (comm_hash IS NOT NULL) AS comm_hash, arg_max(file, weight) AS file, arg_max(line, weight) AS line
  FROM (SELECT * FROM rank_claim ORDER BY weight, file DESC, line DESC) GROUP BY rank
) c LEFT JOIN pod_node p ON p.pod = c.host
ORDER BY c.rank;

-- name: addresses
INSERT INTO addresses
SELECT local_addr, arg_min(host, (file, line)), arg_min(ifname, (file, line)), min(file), arg_min(line, (file, line))
FROM (
  SELECT local_addr, host, ifname, file, line FROM events WHERE local_addr IS NOT NULL AND host IS NOT NULL
  UNION ALL SELECT value, host, ifname, file, line FROM events WHERE event = 'nccl.net' AND ifname IS NOT NULL AND host IS NOT NULL AND value IS NOT NULL
  UNION ALL SELECT local_addr, host, ifname, file, line FROM facts WHERE local_addr IS NOT NULL AND host IS NOT NULL
  UNION ALL SELECT address, host, ifname, file, line FROM stated_addresses WHERE host IS NOT NULL
) GROUP BY local_addr ORDER BY local_addr;

-- name: nic_seen
-- One row per statement about a NIC: on a node, by HCA name, network device or PCI address.
CREATE TEMP TABLE nic_seen AS
SELECT coalesce(p.node, e.host) AS host, e.dev, NULL AS ifname, NULL AS pci, 'back' AS network, NULL AS guid, NULL AS mac, NULL::BIGINT AS gpu, e.file, e.line
FROM events e LEFT JOIN pod_node p ON p.pod = e.host WHERE e.event = 'nccl.ib_device' AND e.dev IS NOT NULL AND e.host IS NOT NULL
UNION ALL
SELECT host, dev, ifname, pci, NULL, NULL, NULL, NULL, file, line FROM events
WHERE source = 'kernel' AND host IS NOT NULL AND pci IS NOT NULL AND (dev IS NOT NULL OR ifname IS NOT NULL) AND (event LIKE 'nic.%' OR event LIKE 'link.%')
UNION ALL
SELECT host, dev, ifname, pci, NULL, NULL, NULL, NULL, file, line FROM facts WHERE fact = 'nic.rename' AND host IS NOT NULL
UNION ALL
SELECT host, dev, ifname, pci, network, guid, mac, gpu, file, line FROM stated_nics WHERE host IS NOT NULL;

-- name: nic_pci
-- One row per node and network device or HCA: its PCI address, so that statements by one name meet those by the other.
CREATE TEMP TABLE nic_pci AS
SELECT host, name, min(pci) AS pci FROM (
  SELECT host, dev AS name, pci FROM nic_seen UNION ALL SELECT host, ifname, pci FROM nic_seen
) WHERE name IS NOT NULL AND pci IS NOT NULL GROUP BY host, name HAVING count(DISTINCT pci) = 1;

-- name: nics
INSERT INTO nics
WITH seen AS (
  SELECT s.* REPLACE (coalesce(s.pci, d.pci, i.pci) AS pci) FROM nic_seen s
  LEFT JOIN nic_pci d ON d.host = s.host AND d.name = s.dev LEFT JOIN nic_pci i ON i.host = s.host AND i.name = s.ifname
), byname AS (
  SELECT host, dev, max(ifname) AS ifname, max(pci) AS pci, max(network) AS network, max(guid) AS guid, max(mac) AS mac, min(gpu) AS gpu,
         arg_min(file, (file, line)) AS file, arg_min(line, (file, line)) AS line
  FROM seen WHERE dev IS NOT NULL GROUP BY host, dev
), rest AS (
  SELECT host, ifname, max(pci) AS pci, max(network) AS network, max(guid) AS guid, max(mac) AS mac, min(gpu) AS gpu, arg_min(file, (file, line)) AS file, arg_min(line, (file, line)) AS line
  FROM seen WHERE dev IS NULL AND ifname IS NOT NULL GROUP BY host, ifname
), joined AS (
  SELECT b.host, b.dev, coalesce(b.ifname, r.ifname) AS ifname, coalesce(b.pci, r.pci) AS pci, coalesce(b.network, r.network, 'unknown') AS network, coalesce(b.guid, r.guid) AS guid,
         coalesce(b.mac, r.mac) AS mac, coalesce(b.gpu, r.gpu) AS gpu, b.file, b.line
  FROM byname b LEFT JOIN rest r ON r.host = b.host AND (r.pci = b.pci OR r.ifname = b.ifname)
  QUALIFY row_number() OVER (PARTITION BY b.host, b.dev ORDER BY r.ifname = b.ifname DESC NULLS LAST, r.ifname) = 1
)
FROM joined
UNION ALL
SELECT r.host, NULL, r.ifname, r.pci, coalesce(r.network, 'unknown'), r.guid, r.mac, r.gpu, r.file, r.line
FROM rest r ANTI JOIN byname b ON b.host = r.host AND (b.pci = r.pci OR b.ifname = r.ifname)
ORDER BY 1, 2, 3;

-- name: gpus
-- One row per node and GPU, by PCI address: the rank that uses it, and what is stated about it.
INSERT INTO gpus
SELECT host, pci, max(gpu), max(gpu_uuid), max(rank), max(model), max(serial), arg_min(file, (weight, file, line)), arg_min(line, (weight, file, line)) FROM (
  SELECT node AS host, pci, gpu, NULL AS gpu_uuid, rank, NULL AS model, NULL AS serial, file, line, 0 AS weight FROM ranks WHERE pci IS NOT NULL AND node IS NOT NULL
  UNION ALL SELECT host, pci, NULL, gpu_uuid, NULL, NULL, NULL, file, line, 2 FROM facts WHERE fact = 'gpu.uuid' AND host IS NOT NULL AND pci IS NOT NULL
  UNION ALL
  -- `nvidia-smi -L` prints no address: the rows of the same index or UUID have it.
  SELECT host, coalesce(s.pci, (SELECT min(o.pci) FROM stated_gpus o WHERE o.host = s.host AND (o.gpu_uuid = s.gpu_uuid OR o.gpu = s.gpu)),
                        (SELECT min(r.pci) FROM ranks r WHERE r.node = s.host AND r.gpu = s.gpu)) AS pci, gpu, gpu_uuid, rank, model, serial, file, line, 1
  FROM stated_gpus s WHERE host IS NOT NULL
) WHERE pci IS NOT NULL GROUP BY host, pci ORDER BY host, pci;

-- name: cables
-- Cables that a fabric manager names in its own messages: both ends in one line (`node-17 mlx5_0`).
INSERT INTO ports
SELECT host, port, split_part(peer, ' ', 1), nullif(split_part(peer, ' ', 2), ''), 'fabric manager', min(file), arg_min(line, (file, line))
FROM events e WHERE source = 'switch' AND host IS NOT NULL AND port IS NOT NULL AND peer IS NOT NULL AND regexp_matches(peer, '^[A-Za-z0-9_.-]+ [a-z0-9_]+')
  AND NOT EXISTS (FROM ports p WHERE p.switch = e.host AND p.port = e.port)
GROUP BY host, port, peer ORDER BY 1, 2, 3;

-- name: one_cable
-- One row per switch port: what LLDP or the fabric itself sees before what somebody planned or wrote into a description.
DELETE FROM ports WHERE rowid NOT IN (
  SELECT arg_min(rowid, (CASE basis WHEN 'lldp' THEN 0 WHEN 'ibnetdiscover' THEN 1 WHEN 'fabric manager' THEN 2 ELSE 3 END, file, line))
  FROM ports GROUP BY switch, port);

-- name: job_nodes
-- Nodes of the job: where ranks run, where its pods ran, the scheduler's node list.
CREATE TEMP TABLE job_nodes AS
SELECT DISTINCT node AS host FROM ranks WHERE node IS NOT NULL
UNION SELECT node FROM pod_node
UNION SELECT DISTINCT host FROM listed_nodes;

-- name: hosts
INSERT INTO hosts
WITH seen AS (
  SELECT host, source, ts, file, line FROM events WHERE host IS NOT NULL
  UNION ALL SELECT host, 'host', ts, file, line FROM facts WHERE host IS NOT NULL
  UNION ALL SELECT node, 'kernel', NULL, file, line FROM ranks WHERE node IS NOT NULL
  UNION ALL SELECT host, 'host', NULL, file, line FROM stated_gpus WHERE host IS NOT NULL
  UNION ALL SELECT host, 'host', NULL, file, line FROM stated_nics WHERE host IS NOT NULL
), folded AS (
  SELECT host, CASE WHEN count(*) FILTER (source IN ('nccl', 'torch', 'kernel', 'host', 'trainer')) > 0 THEN 'compute'
                    WHEN count(*) FILTER (source = 'switch') > 0 THEN 'switch' WHEN count(*) FILTER (source = 'scheduler') > 0 THEN 'compute' ELSE 'unknown' END AS role,
         min(ts) AS first_ts, max(ts) AS last_ts, count(*) AS events, arg_min(file, (file, line)) AS file, arg_min(line, (file, line)) AS line
  FROM seen GROUP BY host
)
SELECT f.host, p.node, f.role,
       -- Where ranks only know container names that no other log knows, nothing says which machines are the job's.
       CASE WHEN f.role = 'switch' OR NOT EXISTS (FROM job_nodes) OR NOT EXISTS (FROM seen s WHERE s.source = 'kernel' AND s.ts IS NOT NULL AND s.host IN (FROM job_nodes)) THEN
              CASE WHEN f.host IN (FROM job_nodes) OR p.node IS NOT NULL THEN true END
            ELSE f.host IN (FROM job_nodes) OR p.node IS NOT NULL OR f.host IN (SELECT host FROM ranks) END,
       f.first_ts, f.last_ts, f.events, f.file, f.line
FROM folded f LEFT JOIN pod_node p ON p.pod = f.host ORDER BY f.host;

-- name: error_files
-- A launcher's error file lies in a folder named after the local rank; with one node that is enough for the rank.
UPDATE events SET local_rank = try_cast(regexp_extract(file, 'attempt_[0-9]+/([0-9]+)/error\.json$', 1) AS BIGINT)
WHERE local_rank IS NULL AND regexp_matches(file, 'attempt_[0-9]+/[0-9]+/error\.json$');

-- name: death_times
-- A rank's traceback without a time of its own is dated by what its launcher says of that rank: closer than the line above.
UPDATE events SET ts_aligned = d.ts FROM (
  SELECT rank, min(ts) AS ts FROM events WHERE event = 'torch.elastic_failure' AND rank IS NOT NULL AND ts IS NOT NULL AND event_id NOT IN (FROM borrowed) GROUP BY rank
) d WHERE events.rank = d.rank AND events.source = 'torch' AND events.event_id IN (FROM borrowed) AND events.severity IN ('error', 'fatal') AND (events.ts IS NULL OR events.ts <= d.ts);
