-- Timed collectives of ranks (Inspector files, profilers).
WITH newest AS (
  SELECT * FROM coll_samples WHERE ts BETWEEN TIMESTAMP '1970-01-02' AND TIMESTAMP '2200-01-01' ORDER BY ts DESC, file, line LIMIT $limit
)
SELECT coalesce(r.place, [coalesce(t.root, 'host ' || c.host, 'place not known')]) || [coalesce('rank ' || c.rank, 'rank not known'), 'timed collectives' || coalesce(' of ' || c.comm_hash, '')] AS path,
  coalesce(op, 'collective') || coalesce(' ' || seq, '') AS name, 'collective' AS category, epoch_us(ts) AS begin_us,
  epoch_us(ts) + least(greatest(coalesce(elapsed_us, 0), 0), 1e13)::BIGINT AS end_us, bytes, bus_gbps, file, line
FROM newest c LEFT JOIN trace_rank r ON r.rank = c.rank LEFT JOIN trace_root t ON t.host = c.host ORDER BY path, begin_us, end_us, file, line
