-- From rows with printed times to rows with UTC times. Input: raw_rows (events and facts of the line pass and of
-- decoders), raw_files. Output: settled (raw_rows with host, boot, ts, ts_kind), host_zone, boot_anchor.
-- Times are microseconds; a row's local time is stamp_us, its UTC time stamp_us minus the zone.

-- name: file_host
-- One row per file: the host its lines without a host belong to: the name's or folder's hint, else the one host
-- that all headers in it name.
CREATE TEMP TABLE file_host AS
SELECT f.file, coalesce(f.host, h.host) AS host, CASE WHEN f.host IS NOT NULL THEN f.host_basis WHEN h.host IS NOT NULL THEN 'header' ELSE 'none' END AS basis
FROM raw_files f
LEFT JOIN (
  SELECT file, min(host) AS host FROM raw_rows
  WHERE host IS NOT NULL AND source IN ('nccl', 'kernel', 'torch', 'host') AND definition >= 0
  GROUP BY file HAVING count(DISTINCT host) = 1
) h ON h.file = f.file;

-- name: placed
-- raw_rows with the host filled and the boot numbered within its file.
CREATE TEMP TABLE placed AS
WITH hosted AS (
  SELECT r.* REPLACE (
    coalesce(r.host, CASE WHEN r.source IN ('kernel', 'host', 'nccl', 'torch', 'trainer') OR (r.source = 'switch' AND NOT contains(r.headers, '|opensm|') AND NOT starts_with(r.event, 'sm.') AND r.guid IS NULL) THEN h.host END) AS host,
    CASE WHEN r.stamp_zone_s IS NULL AND r.stamp2_zone_s IS NOT NULL THEN r.stamp2_us ELSE r.stamp_us END AS stamp_us,
    CASE WHEN r.stamp_zone_s IS NULL AND r.stamp2_zone_s IS NOT NULL THEN true ELSE r.stamp_has_year END AS stamp_has_year,
    CASE WHEN r.stamp_zone_s IS NULL AND r.stamp2_zone_s IS NOT NULL THEN r.stamp2_zone_s ELSE r.stamp_zone_s END AS stamp_zone_s
  ), r.stamp_us AS own_us, r.stamp_zone_s AS own_zone_s, coalesce(r.host, h.host, '') AS clock_host
  FROM raw_rows r LEFT JOIN file_host h ON h.file = r.file
), boots AS (
  SELECT file, line, "offset", sub, definition,
    CASE WHEN event = 'host.boot' OR (uptime_s < 300 AND lag(uptime_s) OVER w > uptime_s + 100) THEN 1 ELSE 0 END AS begins,
    row_number() OVER w AS n
  FROM hosted WHERE uptime_s IS NOT NULL
  WINDOW w AS (PARTITION BY file ORDER BY line, "offset", sub, definition)
), numbered AS (
  SELECT file, line, "offset", sub, definition, sum(CASE WHEN n = 1 THEN 0 ELSE begins END) OVER (PARTITION BY file ORDER BY n) AS boot FROM boots
)
SELECT h.* REPLACE (n.boot::BIGINT AS boot) FROM hosted h
LEFT JOIN numbered n ON n.file = h.file AND n.line = h.line AND n."offset" = h."offset" AND n.sub = h.sub AND n.definition = h.definition;

-- name: host_zone
-- One row per host: its zone, seconds east of UTC, from lines that state it: an offset printed by the host itself,
-- two times in one line, or an epoch beside a local time. Whole quarters of an hour only.
CREATE TEMP TABLE host_zone AS
WITH shown AS (
  SELECT clock_host, own_zone_s AS zone_s, 1 AS strength FROM placed WHERE own_zone_s IS NOT NULL AND NOT from_neighbour AND stamp2_us IS NULL
  UNION ALL
  SELECT clock_host, (round((own_us - (stamp2_us - stamp2_zone_s * 1000000::BIGINT)) / 900e6) * 900)::INTEGER, 2
  FROM placed WHERE own_zone_s IS NULL AND stamp2_zone_s IS NOT NULL AND own_us IS NOT NULL AND NOT from_neighbour AND year(make_timestamp(own_us)) > 1972
  UNION ALL
  SELECT clock_host, (round((own_us - try_cast(value AS DOUBLE) * 1e6) / 900e6) * 900)::INTEGER, 2
  FROM placed WHERE is_fact AND event = 'clock.boot_epoch' AND own_us IS NOT NULL AND stamp_has_year AND own_zone_s IS NULL AND NOT from_neighbour
  UNION ALL
  SELECT clock_host, CASE value WHEN 'UTC' THEN 0 WHEN 'GMT' THEN 0 WHEN 'CET' THEN 3600 WHEN 'BST' THEN 3600 WHEN 'CEST' THEN 7200 WHEN 'MSK' THEN 10800 WHEN 'JST' THEN 32400
    WHEN 'AEST' THEN 36000 WHEN 'EST' THEN -18000 WHEN 'EDT' THEN -14400 WHEN 'MST' THEN -25200 WHEN 'PST' THEN -28800 WHEN 'PDT' THEN -25200
    ELSE (CASE WHEN value LIKE '-%' THEN -1 ELSE 1 END) * (try_cast(substr(value, 2, 2) AS INTEGER) * 3600 + coalesce(try_cast(right(value, 2) AS INTEGER), 0) * 60) END, 2
  FROM placed WHERE is_fact AND event = 'clock.zone'
)
SELECT clock_host, zone_s, CASE WHEN strength = 1 THEN 'printed' ELSE 'stated by the host' END AS basis FROM (
  SELECT clock_host, zone_s, strength, row_number() OVER (PARTITION BY clock_host ORDER BY strength DESC, count(*) DESC, zone_s) AS n
  FROM shown WHERE zone_s BETWEEN -43200 AND 50400 GROUP BY clock_host, zone_s, strength
) WHERE n = 1;

-- name: common_zone
-- The zone that most hosts of the bundle show by two times in one line: stands in where a host shows none.
CREATE TEMP TABLE common_zone AS
SELECT coalesce((SELECT zone_s FROM host_zone WHERE basis <> 'printed' GROUP BY zone_s ORDER BY count(*) DESC, zone_s LIMIT 1), 0)::INTEGER AS zone_s;

-- name: dated
-- Printed dates in UTC, the missing year chosen so that the row is nearest to the newest dated row of the bundle.
CREATE TEMP TABLE dated AS
WITH zoned AS (
  SELECT p.*, coalesce(p.stamp_zone_s, z.zone_s, CASE WHEN p.source = 'switch' THEN 0 ELSE c.zone_s END, 0) AS used_zone_s
  FROM placed p LEFT JOIN host_zone z ON z.clock_host = p.clock_host CROSS JOIN common_zone c
), newest AS (
  SELECT coalesce(
    (SELECT max(stamp_us - used_zone_s * 1000000::BIGINT) FROM zoned WHERE stamp_has_year AND NOT from_neighbour),
    (SELECT (max(mtime) * 1000000)::BIGINT FROM raw_files)) AS us
), years AS (
  SELECT z.*, n.us AS newest_us, CASE WHEN z.stamp_has_year OR z.stamp_us IS NULL OR n.us IS NULL THEN NULL ELSE
    list_transform([-1, 0, 1], lambda k : epoch_us(make_timestamp(z.stamp_us) + to_years((year(make_timestamp(n.us)) + k - 1972)::INTEGER))) END AS tries
  FROM zoned z CROSS JOIN newest n
)
SELECT * EXCLUDE (tries, newest_us), CASE
    WHEN stamp_us IS NULL THEN NULL
    WHEN stamp_has_year THEN stamp_us - used_zone_s * 1000000::BIGINT
    WHEN newest_us IS NULL THEN NULL
    ELSE list_sort(list_transform(tries, lambda t : {'d': abs(t - newest_us), 't': t}))[1].t - used_zone_s * 1000000::BIGINT END AS date_us
FROM years;

-- name: boot_anchor
-- One row per anchor: when the kernel of (host, file, boot) started, UTC microseconds. Best first: an epoch in the
-- line (rank 1), the smallest date minus uptime of the boot (rank 2, early lines carry the log daemon's start).
CREATE TEMP TABLE boot_anchor AS
SELECT file, clock_host, boot, (try_cast(value AS DOUBLE) * 1e6 - uptime_s * 1e6)::BIGINT AS boot_us, uptime_s, 1 AS rank
FROM dated WHERE is_fact AND event = 'clock.boot_epoch' AND uptime_s IS NOT NULL AND try_cast(value AS DOUBLE) IS NOT NULL
UNION ALL
SELECT file, clock_host, boot, min(date_us - (uptime_s * 1e6)::BIGINT), max(uptime_s), 2
FROM dated WHERE uptime_s IS NOT NULL AND date_us IS NOT NULL AND NOT from_neighbour GROUP BY file, clock_host, boot;

-- name: settled
-- Every row with its time: the printed date, else uptime on the nearest anchor of the same file and boot, else on an
-- anchor of the same host whose boot cannot be another one (one boot seen in the file, the anchor's latest).
CREATE TEMP TABLE settled AS
WITH need AS (SELECT DISTINCT file, clock_host, boot FROM dated WHERE date_us IS NULL AND uptime_s IS NOT NULL),
near AS (
  SELECT n.file, n.boot, a.boot_us, row_number() OVER (PARTITION BY n.file, n.boot ORDER BY (a.file = n.file) DESC, a.rank, a.boot_us DESC) AS k
  FROM need n JOIN boot_anchor a ON (a.file = n.file AND a.boot = n.boot) OR (n.clock_host <> '' AND a.clock_host = n.clock_host AND a.file <> n.file)
), timed AS (
  SELECT d.*, coalesce(d.date_us, a.boot_us + (d.uptime_s * 1e6)::BIGINT) AS us, a.boot_us AS anchor_us
  FROM dated d LEFT JOIN near a ON a.file = d.file AND a.boot = d.boot AND a.k = 1 AND d.date_us IS NULL AND d.uptime_s IS NOT NULL
)
SELECT * EXCLUDE (us), CASE WHEN us BETWEEN 0 AND 4102444800000000 THEN make_timestamp(us) END AS ts,
  CASE WHEN us IS NULL OR NOT us BETWEEN 0 AND 4102444800000000 THEN 'none'
       WHEN date_us IS NOT NULL AND stamp_has_year AND stamp_zone_s IS NOT NULL AND NOT from_neighbour THEN 'exact' ELSE 'inferred' END AS ts_kind
FROM timed;

-- name: file_rank
-- One row per file that is named after a rank and holds lines of a rank: the rank, and the host the file is of.
CREATE TEMP TABLE file_rank AS
SELECT f.file, f.rank, h.host FROM raw_files f JOIN file_host h USING (file)
WHERE f.rank IS NOT NULL AND EXISTS (FROM settled s WHERE s.file = f.file AND s.source IN ('torch', 'nccl', 'trainer'));

-- name: hca_names
-- NCCL's queue-pair lines name the HCA by its index in the list that the same process printed at its start.
UPDATE settled SET dev = n.dev FROM (
  SELECT q.file, q.line, q."offset", arg_max(d.dev, (d.file = q.file AND d.line < q.line, d.line)) AS dev
  FROM settled q LEFT JOIN settled d
    ON d.event = 'nccl.ib_device' AND d.dev IS NOT NULL AND d.sub = try_cast(q.dev AS BIGINT) AND d.host = q.host AND d.pid = q.pid AND contains(d.message, 'Using [')
   AND d.file = q.file
  WHERE q.event = 'nccl.qp' AND regexp_full_match(q.dev, '[0-9]+') GROUP BY q.file, q.line, q."offset"
) n WHERE settled.event = 'nccl.qp' AND settled.file = n.file AND settled.line = n.line AND settled."offset" = n."offset";
