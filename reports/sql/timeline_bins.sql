-- One row per drawn lane and bin with events. Key: place, bin. `place` is the position in $lanes, 0 for
-- all other lanes together; `bin` counts $bins equal parts from $lo to $hi. `worst` is 0 (info) to
-- 3 (fatal); `event` is the first event of that severity in the bin; `events` counts all but debug.
WITH placed AS (
  SELECT
    coalesce(list_position($lanes::VARCHAR[], coalesce(h.node, e.host, '')), 0) AS place,
    least($bins - 1, (epoch_us(coalesce(e.ts_aligned, e.ts)) - epoch_us($lo::TIMESTAMP)) * $bins
      // greatest(1, epoch_us($hi::TIMESTAMP) - epoch_us($lo::TIMESTAMP))) AS bin,
    CASE e.severity WHEN 'fatal' THEN 3 WHEN 'error' THEN 2 WHEN 'warning' THEN 1 ELSE 0 END AS rank,
    coalesce(e.event_id, 0) AS id,
    e.event
  FROM events e
  LEFT JOIN (SELECT host, min(node) AS node FROM hosts GROUP BY host) h USING (host)
  WHERE coalesce(e.ts_aligned, e.ts) BETWEEN $lo AND $hi AND e.severity IS DISTINCT FROM 'debug'
)
SELECT
  place, bin, max(rank) AS worst, count(*) AS events, count(*) FILTER (WHERE rank > 0) AS bad,
  struct_extract(max({'rank': rank, 'id': -id, 'event': event}), 'event') AS event
FROM placed
GROUP BY place, bin
ORDER BY place, bin
