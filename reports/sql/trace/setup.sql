-- What is where, for the tracks of a trace: roots (hosts, switches), ranks, devices; and the arrows between events.
CREATE OR REPLACE TEMP TABLE trace_root AS
SELECT host, CASE WHEN role = 'switch' THEN 'switch ' ELSE 'host ' END || coalesce(node, host) AS root, coalesce(role = 'switch', false) AS is_switch
FROM hosts WHERE host IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY host ORDER BY node NULLS LAST, role NULLS LAST) = 1;

CREATE OR REPLACE TEMP TABLE trace_pid AS
SELECT host, pid, min(rank) AS rank
FROM (SELECT host, pid, rank FROM ranks UNION SELECT node, pid, rank FROM ranks)
WHERE host IS NOT NULL AND pid IS NOT NULL AND rank IS NOT NULL GROUP BY host, pid HAVING count(DISTINCT rank) = 1;

CREATE OR REPLACE TEMP TABLE trace_device AS
WITH named AS (
  SELECT host, unnest([pci, 'gpu ' || gpu]) AS name, 'GPU ' || coalesce(gpu || coalesce(' (' || pci || ')', ''), pci) AS device FROM gpus
  UNION ALL SELECT host, unnest([dev, ifname, pci]), 'NIC ' || coalesce(dev, ifname, pci) FROM nics
)
SELECT host, name, min(device) AS device FROM named WHERE name IS NOT NULL AND device IS NOT NULL GROUP BY host, name;

-- `place` is where a rank's track stands: below its host and, where that is known, its GPU.
CREATE OR REPLACE TEMP TABLE trace_rank AS
WITH r AS (
  SELECT rank, min(coalesce(node, host)) AS host, min(pci) AS pci, min(gpu) AS gpu FROM ranks WHERE rank IS NOT NULL GROUP BY rank
)
SELECT r.rank, [coalesce(t.root, 'host ' || r.host, 'place not known')] || CASE WHEN coalesce(p.device, g.device) IS NULL THEN [] ELSE [coalesce(p.device, g.device)] END AS place
FROM r LEFT JOIN trace_root t ON t.host = r.host
LEFT JOIN trace_device p ON p.host = r.host AND p.name = r.pci LEFT JOIN trace_device g ON g.host = r.host AND g.name = 'gpu ' || r.gpu;

-- Arrows: the strongest edges between episodes, and finding 1's lines in order of time. An effect that is stamped before its cause gets none.
CREATE OR REPLACE TEMP TABLE trace_flow AS
WITH moment AS (
  SELECT p.episode, e.event_id, coalesce(e.ts_aligned, e.ts) AS ts FROM episodes p JOIN events e USING (event_id)
), pairs AS (
  SELECT a.event_id AS start_id, b.event_id AS end_id, max(g.strength) AS strength
  FROM edges g JOIN moment a ON a.episode = g.cause_episode JOIN moment b ON b.episode = g.effect_episode
  WHERE a.ts IS NOT NULL AND b.ts IS NOT NULL AND (a.ts < b.ts OR (a.ts = b.ts AND a.event_id < b.event_id)) GROUP BY ALL
), numbered AS (
  SELECT *, row_number() OVER (ORDER BY strength DESC, start_id, end_id) AS flow FROM pairs ORDER BY flow LIMIT $arrows
), proof AS (
  SELECT DISTINCT v.event_id, coalesce(e.ts_aligned, e.ts) AS ts, v.role FROM evidence v JOIN events e USING (event_id) WHERE v.finding = 1 AND e.ts IS NOT NULL
), chain AS (
  SELECT event_id, ts, row_number() OVER (ORDER BY ts DESC, event_id DESC) = 1 AS is_last, count(*) OVER () AS n
  FROM (SELECT event_id, ts FROM proof WHERE ts >= (SELECT min(ts) FROM proof WHERE role = 'cause') GROUP BY ALL)
)
SELECT start_id AS event_id, flow, false AS is_last FROM numbered
UNION ALL SELECT end_id, flow, true FROM numbered
UNION ALL SELECT event_id, 1::BIGINT << 40, is_last FROM chain WHERE n > 1;
