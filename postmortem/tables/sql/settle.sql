-- From rows with printed times to rows with UTC times. Input: spooled_rows (the place of each row of the spool, and what tells its time), raw_files.
-- Output: settled (each of them with host, boot, ts, ts_kind and the clock they come from), clock_key, fact_clock, host_zone, common_zone.
-- Times are microseconds; a row's local time is stamp_us, its UTC time stamp_us minus the zone.

-- name: decoded_lines
-- In a file of several outputs a line may have gone through the line pass and through a section's decoder, which knows more of it.
CREATE TEMP TABLE decoded_lines AS SELECT DISTINCT file, line, event FROM spooled_rows WHERE may_be_double AND definition < 0;

-- name: raw_rows
-- spooled_rows without what a decoder has read, too. `is_manager`: a fabric manager's; `is_starred`, `is_unsynced`: what a switch's clock says of itself;
-- `takes_outer`: the collector's time holds; `is_unset`: a clock that was never set: the star of IOS at its first day, or a printed year before any
-- of these machines was built.
CREATE TEMP TABLE raw_rows AS
SELECT *, (stamp_zone_s IS NULL AND stamp2_zone_s IS NOT NULL) OR (is_unset AND stamp2_us IS NOT NULL) AS takes_outer FROM (
  SELECT * EXCLUDE (is_starred), coalesce((stamp_has_year AND year(make_timestamp(stamp_us)) < 2014) OR (NOT stamp_has_year AND is_starred AND dayofyear(make_timestamp(stamp_us)) = 61), false) AS is_unset
  FROM spooled_rows s WHERE NOT may_be_double OR definition < 0 OR NOT EXISTS (FROM decoded_lines d WHERE d.file = s.file AND d.line = s.line AND d.event = s.event)
);

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

-- name: file_class
-- One row per file with rows: its number by name, and whose habits its stamps follow, by what most of its rows are. job: ranks, launcher, trainer (often a container, then in
-- UTC); system: kernel, services and fabric managers of a machine; switch; scheduler.
CREATE TEMP TABLE file_class AS
SELECT file, row_number() OVER (ORDER BY file) AS file_number, arg_max(class, (n, class)) AS class FROM (
  SELECT file, CASE WHEN is_manager THEN 'system' WHEN source IN ('trainer', 'torch', 'nccl', 'profiler') THEN 'job'
                    WHEN source IN ('switch', 'scheduler') THEN source ELSE 'system' END AS class, count(*) AS n
  FROM raw_rows GROUP BY ALL
) GROUP BY file;

-- name: boots
-- One row per row with an uptime: the number of its boot within its file.
CREATE TEMP TABLE boots AS
WITH b AS (
  SELECT row_id, file,
    CASE WHEN event = 'host.boot' OR (uptime_s < 300 AND lag(uptime_s) OVER w > uptime_s + 100) THEN 1 ELSE 0 END AS begins,
    row_number() OVER w AS n
  FROM raw_rows WHERE uptime_s IS NOT NULL
  WINDOW w AS (PARTITION BY file ORDER BY line, "offset", sub, definition)
)
SELECT row_id, sum(CASE WHEN n = 1 THEN 0 ELSE begins END) OVER (PARTITION BY file ORDER BY n)::BIGINT AS boot FROM b;

-- name: placed
-- raw_rows with the host filled, the boot numbered within its file, and the clock that stamped the row: `clock_host`, the machine, or
-- `file:` and the file's name where none is known (what a scheduler or a fabric manager says of a host is stamped by its own clock).
CREATE TEMP TABLE placed AS
SELECT r.row_id, r.nth, k.file_number, r.file, r.line, r."offset", r.sub, r.definition, r.event, r.source, r.is_fact, r.from_neighbour, r.is_unsynced, r.uptime_s, r.value, r.stamp_res_us, r.stamp2_us, r.stamp2_zone_s, n.boot,
  coalesce(r.host, CASE WHEN r.source IN ('kernel', 'host', 'nccl', 'torch', 'trainer') OR (r.source = 'switch' AND NOT r.is_manager AND NOT starts_with(r.event, 'sm.') AND NOT r.has_guid) THEN h.host END) AS host,
  CASE WHEN r.takes_outer THEN r.stamp2_us WHEN r.is_unset THEN NULL ELSE r.stamp_us END AS stamp_us,
  CASE WHEN r.takes_outer THEN coalesce(r.stamp2_zone_s IS NOT NULL, false) OR year(make_timestamp(r.stamp2_us)) <> 1972 ELSE r.stamp_has_year END AS stamp_has_year,
  CASE WHEN r.takes_outer THEN r.stamp2_zone_s ELSE r.stamp_zone_s END AS stamp_zone_s,
  CASE WHEN NOT r.is_unset THEN r.stamp_us END AS own_us, r.stamp_zone_s AS own_zone_s,
  CASE WHEN r.source = 'scheduler' OR r.is_manager OR (r.source = 'switch' AND r.has_guid)
       THEN coalesce(h.host, 'file:' || r.file) ELSE coalesce(r.host, h.host, 'file:' || r.file) END AS clock_host,
  CASE WHEN k.class = 'job' OR r.source NOT IN ('switch', 'kernel') OR r.is_manager THEN k.class
       WHEN r.source = 'switch' THEN 'switch' ELSE 'system' END AS class
FROM raw_rows r LEFT JOIN file_host h ON h.file = r.file LEFT JOIN file_class k ON k.file = r.file LEFT JOIN boots n ON n.row_id = r.row_id;

-- name: zone_shown
-- One row per line that tells the zone of the clock it was stamped by, seconds east of UTC: an offset printed by the clock itself
-- (strength 1), two times in one line, an epoch beside a local time, the node's own statement, or uptimes of a boot whose start is
-- known in UTC (strength 2). Whole quarters of an hour only; a missing year is that which brings the two times together.
CREATE TEMP TABLE zone_shown AS
WITH epochs AS (
  SELECT file, clock_host, class, own_us, stamp_has_year, uptime_s, (try_cast(value AS DOUBLE) * 1e6)::BIGINT AS us, own_zone_s
  FROM placed WHERE is_fact AND event = 'clock.boot_epoch' AND try_cast(value AS DOUBLE) BETWEEN 0 AND 4102444800 AND NOT from_neighbour
), booted AS (
  SELECT clock_host, us - (uptime_s * 1e6)::BIGINT AS boot_us, file FROM epochs WHERE uptime_s IS NOT NULL
), pairs AS (
  SELECT file, clock_host, class, own_us, stamp_has_year, us, 120e6 AS slack_us FROM epochs WHERE own_us IS NOT NULL AND own_zone_s IS NULL
  UNION ALL
  SELECT p.file, p.clock_host, p.class, p.own_us, p.stamp_has_year, b.boot_us + (p.uptime_s * 1e6)::BIGINT, 30e6
  FROM placed p JOIN (SELECT clock_host, min(boot_us) AS boot_us FROM booted GROUP BY clock_host HAVING max(boot_us) - min(boot_us) < 30e6) b USING (clock_host)
  WHERE p.own_us IS NOT NULL AND p.own_zone_s IS NULL AND p.uptime_s > 60 AND NOT p.from_neighbour
), ahead AS (
  SELECT file, clock_host, class, slack_us, CASE WHEN stamp_has_year THEN own_us - us ELSE
    list_sort(list_transform([-1, 0, 1], lambda k : {'d': abs(epoch_us(make_timestamp(own_us) + to_years((year(make_timestamp(us)) + k - 1972)::INTEGER)) - us),
                                                     't': epoch_us(make_timestamp(own_us) + to_years((year(make_timestamp(us)) + k - 1972)::INTEGER)) - us}))[1].t END AS us
  FROM pairs
)
SELECT file, clock_host, class, own_zone_s AS zone_s, 1 AS strength FROM placed WHERE own_zone_s IS NOT NULL AND NOT from_neighbour AND stamp2_us IS NULL
UNION ALL
SELECT file, clock_host, class, (round((own_us - (stamp2_us - stamp2_zone_s * 1000000::BIGINT)) / 900e6) * 900)::INTEGER, 2
FROM placed WHERE own_zone_s IS NULL AND stamp2_zone_s IS NOT NULL AND own_us IS NOT NULL AND NOT from_neighbour AND year(make_timestamp(own_us)) > 1972
UNION ALL
SELECT file, clock_host, class, (round(us / 900e6) * 900)::INTEGER, 2 FROM ahead WHERE abs(us - round(us / 900e6) * 900e6) <= slack_us
UNION ALL
SELECT NULL, clock_host, 'system', CASE value WHEN 'UTC' THEN 0 WHEN 'GMT' THEN 0 WHEN 'CET' THEN 3600 WHEN 'BST' THEN 3600 WHEN 'CEST' THEN 7200 WHEN 'MSK' THEN 10800 WHEN 'JST' THEN 32400
  WHEN 'AEST' THEN 36000 WHEN 'EST' THEN -18000 WHEN 'EDT' THEN -14400 WHEN 'MST' THEN -25200 WHEN 'PST' THEN -28800 WHEN 'PDT' THEN -25200
  ELSE (CASE WHEN value LIKE '-%' THEN -1 ELSE 1 END) * (try_cast(substr(value, 2, 2) AS INTEGER) * 3600 + coalesce(try_cast(right(value, 2) AS INTEGER), 0) * 60) END, 2
FROM placed WHERE is_fact AND event = 'clock.zone';

-- name: zone_claim
-- The same, counted: one row per file, clock, class and zone. Zones that no place on earth has are dropped.
CREATE TEMP TABLE zone_claim AS
SELECT file, clock_host, class, zone_s, strength, count(*) AS n FROM zone_shown WHERE zone_s BETWEEN -43200 AND 50400 GROUP BY ALL;

-- name: file_zone
-- One row per file and clock that shows its zone.
CREATE TEMP TABLE file_zone AS
SELECT file, clock_host, zone_s, strength FROM zone_claim WHERE file IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY file, clock_host ORDER BY strength DESC, n DESC, zone_s) = 1;

-- name: unit_zone
-- One row per clock and class: the zone that its files show.
CREATE TEMP TABLE unit_zone AS
SELECT clock_host, class, zone_s, strength FROM (SELECT clock_host, class, zone_s, strength, sum(n) AS n FROM zone_claim GROUP BY ALL)
QUALIFY row_number() OVER (PARTITION BY clock_host, class ORDER BY strength DESC, n DESC, zone_s) = 1;

-- name: host_zone
-- One row per machine: the zone it is set to, as its system logs show it, else its job's by two times in one line.
CREATE TEMP TABLE host_zone AS
SELECT clock_host, zone_s, CASE WHEN strength = 1 THEN 'printed' ELSE 'stated by the host' END AS basis FROM unit_zone
WHERE class IN ('system', 'switch') OR (class = 'job' AND strength = 2)
QUALIFY row_number() OVER (PARTITION BY clock_host ORDER BY class = 'job', strength DESC, class, zone_s) = 1;

-- name: class_zone
-- The zone that most machines show in logs of a class: stands in where one shows none. Programs that print Z or +00:00 in a job's
-- output or a scheduler's export do so everywhere in the world.
CREATE TEMP TABLE class_zone AS
SELECT class, zone_s FROM (
  SELECT class, zone_s, count(*) AS n FROM unit_zone WHERE strength = 2 OR class IN ('system', 'switch') OR zone_s <> 0 GROUP BY class, zone_s
) QUALIFY row_number() OVER (PARTITION BY class ORDER BY n DESC, zone_s) = 1;

-- name: common_zone
-- The zone that most machines of the bundle are set to.
CREATE TEMP TABLE common_zone AS
SELECT coalesce((SELECT zone_s FROM host_zone WHERE clock_host NOT IN (SELECT clock_host FROM unit_zone WHERE class = 'switch') GROUP BY zone_s ORDER BY count(*) DESC, zone_s LIMIT 1),
                (SELECT zone_s FROM class_zone WHERE class = 'switch'))::INTEGER AS zone_s,
       -- What the user gave for clocks that no line tells the zone of; null where nothing was given.
       getvariable('given_zone_s')::INTEGER AS given_s,
       -- In a cluster that runs pods the job's own output is that of containers, which keep UTC whatever the machine is set to.
       EXISTS (FROM placed WHERE is_fact AND event = 'pod.node') AS has_pods;

-- name: zoned
-- placed with the zone that a printed time is read in. `zone_basis`: printed in the line; shown by other lines of the same file or clock;
-- the machine's; that of most others of its kind; assumed.
CREATE TEMP VIEW zoned AS
SELECT p.*, coalesce(p.stamp_zone_s, f.zone_s, u.zone_s, CASE WHEN p.class <> 'job' OR NOT c.has_pods THEN z.zone_s END, k.zone_s,
                     CASE WHEN p.class <> 'switch' AND NOT (p.class = 'job' AND c.has_pods) THEN c.zone_s END, c.given_s, 0) AS used_zone_s,
  CASE WHEN p.stamp_zone_s IS NOT NULL THEN 'printed' WHEN f.zone_s IS NOT NULL OR u.zone_s IS NOT NULL THEN 'shown'
       WHEN z.zone_s IS NOT NULL AND (p.class <> 'job' OR NOT c.has_pods) THEN 'machine' WHEN k.zone_s IS NOT NULL OR (c.zone_s <> 0 AND p.class NOT IN ('switch', 'job')) THEN 'others' WHEN c.given_s IS NOT NULL THEN 'given' ELSE 'assumed' END AS zone_basis
FROM placed p LEFT JOIN file_zone f ON f.file = p.file AND f.clock_host = p.clock_host LEFT JOIN unit_zone u ON u.clock_host = p.clock_host AND u.class = p.class
LEFT JOIN host_zone z ON z.clock_host = p.clock_host LEFT JOIN class_zone k ON k.class = p.class CROSS JOIN common_zone c;

-- name: newest
-- One row: the newest dated row of the bundle, else the newest epoch, else the newest file, UTC microseconds.
CREATE TEMP TABLE newest AS
WITH z AS MATERIALIZED (
  SELECT max(stamp_us - used_zone_s * 1000000::BIGINT) FILTER (stamp_has_year AND NOT from_neighbour) AS dated,
    max(try_cast(try_cast(value AS DOUBLE) * 1e6 AS BIGINT)) FILTER (is_fact AND event = 'clock.boot_epoch' AND try_cast(value AS DOUBLE) BETWEEN 1e9 AND 4102444800) AS epoch FROM zoned
)
SELECT coalesce(dated, epoch, (SELECT (max(mtime) * 1000000)::BIGINT FROM raw_files)) AS us FROM z;

-- name: dated
-- Printed dates in UTC, the missing year chosen so that the row is nearest to the newest one.
CREATE TEMP TABLE dated AS
WITH years AS (
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

-- name: near_anchor
-- For each boot of a file that needs one: the best anchor, of the same file and boot, else of the same host.
CREATE TEMP TABLE near_anchor AS
WITH need AS (SELECT DISTINCT file, clock_host, boot FROM dated WHERE date_us IS NULL AND uptime_s IS NOT NULL)
SELECT n.file, n.boot, a.boot_us, a.rank FROM need n JOIN boot_anchor a ON (a.file = n.file AND a.boot = n.boot) OR (a.clock_host = n.clock_host AND a.file <> n.file)
QUALIFY row_number() OVER (PARTITION BY n.file, n.boot ORDER BY (a.file = n.file) DESC, a.rank, a.boot_us DESC) = 1;

-- name: settled
-- Every row with its time: the printed date, else uptime on the nearest anchor of the same file and boot, else on an
-- anchor of the same host whose boot cannot be another one (one boot seen in the file, the anchor's latest).
CREATE TEMP TABLE settled AS
WITH timed AS (
  SELECT d.*, coalesce(d.date_us, a.boot_us + (d.uptime_s * 1e6)::BIGINT) AS us, a.boot_us AS anchor_us, a.rank AS anchor_rank
  FROM dated d LEFT JOIN near_anchor a ON a.file = d.file AND a.boot = d.boot AND d.date_us IS NULL AND d.uptime_s IS NOT NULL
)
SELECT * EXCLUDE (us), CASE WHEN us BETWEEN 0 AND 4102444800000000 THEN make_timestamp(us) END AS ts,
  CASE WHEN us IS NULL OR NOT us BETWEEN 0 AND 4102444800000000 THEN 'none'
       WHEN date_us IS NOT NULL AND stamp_has_year AND stamp_zone_s IS NOT NULL AND NOT from_neighbour AND NOT is_unsynced THEN 'exact' ELSE 'inferred' END AS ts_kind
FROM timed;

-- name: clock_key
-- One row per clock that stamped a row with a time: the machine (or `file:` and a name), its class and zone, how the zone is known (`uptime`:
-- worked out from an epoch, no zone in it).
CREATE TEMP TABLE clock_key AS
SELECT row_number() OVER (ORDER BY clock_host, class, zone_s, zone_basis) AS clock, * FROM (
  SELECT DISTINCT clock_host, class, used_zone_s AS zone_s, CASE WHEN date_us IS NULL AND anchor_rank = 1 THEN 'uptime' ELSE zone_basis END AS zone_basis FROM settled WHERE ts IS NOT NULL
);

-- name: fact_clock
-- One row per line and place in it with a fact that has a time: the clock, half the width of what the stamp leaves open (microseconds), whether the
-- time is a neighbour's, and 1 as a count of lines (0 where an event of the line counts it). The same of events is the table row_clock.
CREATE TEMP TABLE fact_clock AS
SELECT s.file, s.line, s."offset", any_value(k.clock) AS clock, max(coalesce(CASE WHEN date_us IS NULL THEN 1000000 END, stamp_res_us, 1000000)) AS res_us,
  bool_or(s.from_neighbour) AS is_borrowed, 1 AS lines
FROM settled s JOIN clock_key k ON k.clock_host = s.clock_host AND k.class = s.class AND k.zone_s = s.used_zone_s
  AND k.zone_basis = CASE WHEN s.date_us IS NULL AND s.anchor_rank = 1 THEN 'uptime' ELSE s.zone_basis END
WHERE s.is_fact AND s.ts IS NOT NULL GROUP BY s.file, s.line, s."offset";

-- name: file_rank
-- One row per file that is named after a rank and holds lines of a rank: the rank, and the host the file is of.
CREATE TEMP TABLE file_rank AS
SELECT f.file, f.rank, h.host FROM raw_files f JOIN file_host h USING (file)
WHERE f.rank IS NOT NULL AND EXISTS (FROM settled s WHERE s.file = f.file AND s.source IN ('torch', 'nccl', 'trainer'));
