-- Calls of collectives. One that was begun and never completed has no end: it goes on to the end of the trace.
WITH newest AS (
  SELECT * FROM collectives WHERE ts BETWEEN TIMESTAMP '1970-01-02' AND TIMESTAMP '2200-01-01' ORDER BY ts DESC, file, line LIMIT $limit
)
SELECT coalesce(r.place, [coalesce(t.root, 'host ' || c.host, 'place not known')]) || [coalesce('rank ' || c.rank, 'rank not known'), 'collectives' || coalesce(' of group ' || c.pg, '')] AS path,
  coalesce(op, 'collective') || coalesce(' ' || seq, '') AS name, 'collective' AS category, epoch_us(ts) AS begin_us,
  CASE WHEN state IN ('scheduled', 'started') AND elapsed_ms IS NULL THEN NULL
       ELSE epoch_us(ts) + (1000 * least(greatest(coalesce(elapsed_ms, 0), 0), 1e10))::BIGINT END AS end_us,
  state, is_p2p, numel_in, numel_out, dtype, peer_rank, timeout_ms, frames, file, line
FROM newest c LEFT JOIN trace_rank r ON r.rank = c.rank LEFT JOIN trace_root t ON t.host = c.host ORDER BY path, begin_us, seq, file, line
