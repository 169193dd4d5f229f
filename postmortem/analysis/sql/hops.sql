-- The joins that lead from a culprit to switch port, NIC, GPU, rank and step: one query per hop, read by postmortem.analysis.hops.
-- Each gives at most one row; where two things fit equally well it gives none. Names are those of the table `joins`.

-- name: nic
-- The NIC of a host by any of its names.
SELECT host, dev, ifname, pci, network FROM nics WHERE host = $host AND ((dev = $dev AND $dev IS NOT NULL) OR (ifname = $ifname AND $ifname IS NOT NULL) OR (pci = $pci AND $pci IS NOT NULL))
ORDER BY (dev = $dev) DESC NULLS LAST, (ifname = $ifname) DESC NULLS LAST, dev NULLS LAST LIMIT 1;

-- name: nic_of_gpu
-- The NIC that is nearest to a GPU, by its best join; none when two are as good.
SELECT a AS name FROM joins j WHERE kind = 'nic-gpu' AND host = $host AND b = $pci
 AND confidence = (SELECT max(confidence) FROM joins k WHERE k.kind = 'nic-gpu' AND k.host = j.host AND k.b = j.b)
GROUP BY a QUALIFY count(*) OVER () = 1;

-- name: port
-- The switch port that a NIC hangs on, by either of its names.
SELECT p.switch, p.port, p.dev, j.basis, j.confidence, j.file, j.line FROM ports p JOIN joins j ON j.kind = 'port-nic' AND j.host = p.host AND j.a = p.switch || ' ' || p.port AND j.b = p.dev
WHERE p.host = $host AND (p.dev = $dev OR p.dev = $ifname) QUALIFY count(*) OVER () = 1 OR row_number() OVER (ORDER BY p.dev = $dev DESC, p.switch, p.port) = 1 AND count(*) OVER (PARTITION BY p.dev) = 1;

-- name: far_end
-- What hangs on a switch port.
SELECT p.host, p.dev, j.basis, j.confidence, j.file, j.line FROM ports p JOIN joins j ON j.kind = 'port-nic' AND j.host = p.host AND j.a = p.switch || ' ' || p.port AND j.b = p.dev
WHERE p.switch = $switch AND (p.port = $port OR same_port(p.port, $port)) ORDER BY (p.port = $port) DESC LIMIT 1;

-- name: cables
-- Ports of a switch on which nodes of the job hang.
SELECT p.switch || ' ' || p.port AS port, p.host, p.dev, j.basis, j.confidence, j.file, j.line FROM ports p JOIN joins j ON j.kind = 'port-nic' AND j.host = p.host AND j.a = p.switch || ' ' || p.port AND j.b = p.dev
WHERE p.switch = $switch AND p.host IN (FROM job_nodes) ORDER BY p.host, p.dev, p.port;

-- name: join
-- One join of two names.
SELECT basis, confidence, file, line FROM joins WHERE kind = $kind AND host = $host AND a = $a AND b = $b;

-- name: gpu_of_nic
-- The GPU that a NIC is nearest to.
SELECT j.b AS pci, j.basis, j.confidence, j.file, j.line, g.gpu FROM joins j LEFT JOIN gpus g ON g.host = j.host AND g.pci = j.b
WHERE j.kind = 'nic-gpu' AND j.host = $host AND j.a IN ($dev, $ifname) QUALIFY rank() OVER (ORDER BY j.confidence DESC) = 1 AND count(*) OVER (PARTITION BY j.confidence) = 1;

-- name: rank_of_gpu
-- The rank that uses a GPU, with the line in which its process says so.
SELECT r.rank, r.host, r.pid, j.basis, j.confidence, j.file, j.line FROM ranks r JOIN joins j ON j.kind = 'rank-pci' AND j.host = r.node AND j.a = 'rank ' || r.rank AND j.b = r.pci
WHERE r.node = $host AND split_part(r.pci, '.', 1) = split_part($pci, '.', 1) QUALIFY count(*) OVER () = 1;

-- name: rank_of_nic
-- The one rank that sends by a NIC; none when several do.
SELECT r.rank, r.host, r.pid, j.basis, j.confidence, j.file, j.line FROM joins j JOIN ranks r ON j.a = 'rank ' || r.rank
WHERE j.kind = 'rank-nic' AND j.host = $host AND j.b = $dev QUALIFY count(*) OVER () = 1;

-- name: host_of_rank
-- Where a rank ran, by the line in which it or its launcher says so.
SELECT b AS host, basis, confidence, file, line FROM joins WHERE kind = 'rank-host' AND a = 'rank ' || $rank::VARCHAR ORDER BY confidence DESC, file, line LIMIT 1;

-- name: step_of_rank
-- The last step that a rank itself printed.
SELECT step, file, line FROM steps WHERE rank = $rank AND attempt = $attempt AND file IS NOT NULL ORDER BY step DESC, is_main DESC, file, line LIMIT 1;

-- name: step_of_job
-- The last step of the job.
SELECT step, file, line FROM steps WHERE is_main AND attempt = $attempt ORDER BY step DESC, file, line LIMIT 1;

-- name: network
-- Where the use of a NIC is said: the line by which it belongs to the front or the back end.
SELECT file, line FROM nic_seen WHERE host = $host AND network = $network AND (dev = $dev OR ifname = $ifname) ORDER BY file, line LIMIT 1;

-- name: address
-- The network of an address.
SELECT network, file, line FROM addresses WHERE address = $address AND network <> 'unknown';
