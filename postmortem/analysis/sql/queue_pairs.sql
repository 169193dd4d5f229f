-- Queue pairs against each other at equal size (rule I8), and where each of them hangs.
-- Input: qp_samples, ranks, nics, ports, addresses, events, pod_node, process_devs. Output: the public table qp_windows, and temporary ones.

-- name: qp_scaled
-- needs: qp_samples
-- One row per sample, as if all had the commonest size: latency over the median of its size, times that of the commonest. `win` is one of
-- twenty parts of the time of its trace.
CREATE TEMP TABLE qp_scaled AS
WITH mids AS (SELECT size, median(latency_us) AS mid, count(*) AS n FROM qp_samples WHERE latency_us > 0 GROUP BY size),
usual AS (SELECT size, mid FROM mids ORDER BY n DESC, size NULLS LAST LIMIT 1),
span AS (SELECT file, min(t_us) AS t0, greatest(max(t_us) - min(t_us), 1) AS t FROM qp_samples GROUP BY file)
SELECT q.file, q.line, q.host, q.pid, q.rank, q.dev, q.qpn, q.peer, q.ts, q.t_us, q.latency_us, u.size, q.latency_us / m.mid * u.mid AS scaled_us,
  coalesce(least(19, floor((q.t_us - s.t0) / s.t * 20)), 0)::INT AS win
FROM qp_samples q JOIN mids m ON m.size IS NOT DISTINCT FROM q.size JOIN span s ON s.file = q.file CROSS JOIN usual u WHERE q.latency_us > 0;

-- name: qp_places
-- needs: qp_scaled
-- One row per queue pair: the process that owns it, its NIC and port by name, the switch port behind it, and the far end: as measured, else
-- the ranks that NCCL connected over that NIC (rule C5), if they are on one host.
CREATE TEMP TABLE qp_places AS
WITH pairs AS (SELECT file, dev, qpn, max(host) AS host, max(pid) AS pid, max(rank) AS rank, max(peer) AS peer, count(*) AS samples FROM qp_scaled GROUP BY file, dev, qpn),
owned AS (
  SELECT p.file, p.dev, p.qpn, p.samples, p.peer, coalesce(p.host, r.host) AS host, coalesce(r.pid, p.pid) AS pid, coalesce(r.rank, p.rank) AS rank, r.gpu, r.node
  FROM pairs p LEFT JOIN ranks r ON (p.rank IS NOT NULL AND r.rank = p.rank) OR (p.rank IS NULL AND r.host = p.host AND r.pid = p.pid)
  QUALIFY row_number() OVER (PARTITION BY p.file, p.dev, p.qpn ORDER BY r.rank NULLS LAST) = 1
),
named AS (
  SELECT o.* REPLACE (coalesce(o.node, n.node, o.host) AS node), d.dev AS dev_name, d.port AS dev_port
  FROM owned o LEFT JOIN pod_node n ON n.pod = o.host
    LEFT JOIN (SELECT host, pid, idx, min(dev) AS dev, min(port) AS port FROM process_devs GROUP BY ALL) d ON d.host = o.host AND d.pid = o.pid AND d.idx::VARCHAR = o.dev
),
far AS (
  SELECT n.file, n.dev, n.qpn, string_agg(DISTINCT e.peer_rank::VARCHAR, ', ' ORDER BY e.peer_rank::VARCHAR) AS ranks, CASE WHEN count(DISTINCT f.node) = 1 THEN min(f.node) END AS node
  FROM named n JOIN events e ON e.event = 'nccl.channel' AND e.rank = n.rank AND regexp_extract(e.value, 'NET/IB/([0-9]+)', 1) = n.dev AND e.peer_rank <> n.rank
    LEFT JOIN ranks f ON f.rank = e.peer_rank WHERE n.peer IS NULL GROUP BY ALL
),
told AS (
  SELECT n.*, coalesce(n.dev_name, n.dev) AS nic, a.host AS told_host, f.ranks AS peer_ranks, coalesce(a.host, f.node, CASE WHEN n.peer IN (SELECT node FROM ranks) THEN n.peer END) AS peer_host,
    coalesce((SELECT min(x.dev) FROM nics x WHERE x.host = a.host AND x.ifname = a.ifname), CASE WHEN f.node IS NOT NULL THEN coalesce(n.dev_name, n.dev) END) AS peer_nic
  FROM named n LEFT JOIN (SELECT address, min(host) AS host, min(ifname) AS ifname FROM addresses GROUP BY address) a ON a.address = n.peer
    LEFT JOIN far f ON f.file = n.file AND f.dev IS NOT DISTINCT FROM n.dev AND f.qpn = n.qpn
)
SELECT t.file, t.dev, t.qpn, t.samples, t.host, t.node, t.pid, t.rank, t.gpu, t.nic, t.dev_port,
  coalesce(t.peer, CASE WHEN t.peer_ranks IS NOT NULL THEN CASE WHEN t.peer_ranks LIKE '%,%' THEN 'ranks ' ELSE 'rank ' END || t.peer_ranks END) AS peer, t.peer_host, t.peer_nic,
  (SELECT min(switch) FROM ports WHERE host = t.node AND ports.dev = t.nic) AS switch, (SELECT arg_min(port, switch) FROM ports WHERE host = t.node AND ports.dev = t.nic) AS switch_port,
  (SELECT min(switch) FROM ports WHERE host = t.peer_host AND ports.dev = t.peer_nic) AS peer_switch
FROM told t ORDER BY t.file, t.dev, t.qpn;

-- name: qp_windows
-- needs: qp_scaled
-- One row per queue pair and window; flagged where its tail is beyond ten times the usual tail of its host's queue pairs and beyond 100 microseconds. On a host
-- that is slow as a whole the usual tail is that of all hosts.
INSERT INTO qp_windows
WITH w AS (
  SELECT file, dev, qpn, win, min(size) AS size, count(*) AS n, min(ts) AS ts, quantile_cont(scaled_us, 0.5) AS p50_us, quantile_cont(scaled_us, 0.99) AS p99_us, max(scaled_us) AS max_us,
    arg_max(line, scaled_us) AS line FROM qp_scaled GROUP BY file, dev, qpn, win
),
placed AS (SELECT w.*, p.node, p.nic, p.rank FROM w JOIN qp_places p ON p.file = w.file AND p.dev IS NOT DISTINCT FROM w.dev AND p.qpn = w.qpn),
usual AS (SELECT node, median(p99_us) AS tail, count(DISTINCT (file, dev, qpn)) AS pairs FROM placed GROUP BY node),
all_of AS (SELECT median(p99_us) AS tail FROM placed)
SELECT p.node, p.nic, p.qpn, p.rank, p.win, p.ts, p.size, p.n, p.p50_us, p.p99_us, p.max_us,
  p.p99_us > greatest(10 * CASE WHEN u.pairs >= 3 THEN least(u.tail, a.tail) ELSE a.tail END, 100), p.file, p.line
FROM placed p JOIN usual u ON u.node IS NOT DISTINCT FROM p.node CROSS JOIN all_of a ORDER BY p.file, p.nic, p.qpn, p.win;

-- name: slow_qps
-- needs: qp_windows
-- One row per queue pair with three flagged windows or more: how slow, what it cost its requests, and the line of its first slow request.
CREATE TEMP TABLE slow_qps AS
WITH hit AS (SELECT file, dev AS nic, qpn, count(*) AS windows, min(win) AS first_win FROM qp_windows WHERE is_flagged GROUP BY file, dev, qpn HAVING count(*) >= 3),
typical AS (SELECT median(scaled_us) AS us FROM qp_scaled)
SELECT p.*, h.windows, h.first_win, quantile_cont(s.latency_us, 0.5) AS p50_us, quantile_cont(s.latency_us, 0.99) AS p99_us, max(s.latency_us) AS max_us,
  sum(greatest(s.scaled_us - t.us, 0)) / 1e6 AS extra_s, (max(s.t_us) - min(s.t_us)) / 1e6 AS span_s, avg(s.scaled_us) FILTER (s.scaled_us > 5 * t.us) - min(t.us) AS extra_us,
  arg_min(s.line, s.t_us) FILTER (s.scaled_us > 5 * t.us) AS line
FROM hit h JOIN qp_places p ON p.file = h.file AND p.nic IS NOT DISTINCT FROM h.nic AND p.qpn = h.qpn
  JOIN qp_scaled s ON s.file = p.file AND s.dev IS NOT DISTINCT FROM p.dev AND s.qpn = p.qpn CROSS JOIN typical t
GROUP BY ALL ORDER BY p99_us DESC, p.file, p.qpn;
