-- One row per lane with events between $lo and $hi. Key: lane. A lane is the node of a host (several
-- pods may share one), a switch, or '' for lines that name no place. Counts by severity; `bad` is the
-- first event of warning or worse. Order: worst first, then earliest trouble, then name.
WITH placed AS (
  SELECT
    coalesce(h.node, e.host, '') AS lane,
    coalesce(e.ts_aligned, e.ts) AS moment,
    coalesce(e.severity, 'info') AS severity,
    e.event_id, e.event, e.file, e.line
  FROM events e
  LEFT JOIN (SELECT host, min(node) AS node FROM hosts GROUP BY host) h USING (host)
  WHERE coalesce(e.ts_aligned, e.ts) BETWEEN $lo AND $hi AND e.severity IS DISTINCT FROM 'debug'
),
counted AS (
  SELECT
    lane,
    count(*) FILTER (WHERE severity = 'fatal') AS fatal,
    count(*) FILTER (WHERE severity = 'error') AS error,
    count(*) FILTER (WHERE severity = 'warning') AS warning,
    count(*) FILTER (WHERE severity NOT IN ('fatal', 'error', 'warning')) AS info,
    min({'moment': moment, 'id': coalesce(event_id, 0), 'event': event, 'file': file, 'line': line})
      FILTER (WHERE severity IN ('fatal', 'error', 'warning')) AS bad
  FROM placed
  GROUP BY lane
)
SELECT lane, fatal, error, warning, info, bad
FROM counted
ORDER BY fatal > 0 DESC, error > 0 DESC, warning > 0 DESC, struct_extract(bad, 'moment') NULLS LAST, lane
