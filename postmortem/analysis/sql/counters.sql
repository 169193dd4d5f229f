-- Growth of counters, and what it says for certain. Input: counters, events. Output: counters.delta, rows of events.
-- Absolute values say nothing: they count since a boot or since somebody cleared them.

-- name: counter_files
-- needs: counters
-- One row per file with readings that have no time: files of one shape differ in numbers (dates, runs of a collector) or in a
-- word such as before and after; stage and numbers give their order.
CREATE TEMP TABLE counter_files AS
WITH names AS (
  SELECT file, lower(file) AS name, regexp_extract(lower(file), '(?:^|[^a-z])(before|pre|start|begin|first|after|post|end|last|final)(?:[^a-z]|$)', 1) AS word
  FROM (SELECT DISTINCT file FROM counters WHERE ts IS NULL)
)
SELECT file,
  regexp_replace(regexp_replace(name, '(^|[^a-z])(before|pre|start|begin|first|after|post|end|last|final)([^a-z]|$)', '\1~\3'), '[0-9]+', '#', 'g') AS shape,
  CASE WHEN word IN ('after', 'post', 'end', 'last', 'final') THEN 1 ELSE 0 END AS stage,
  list_transform(regexp_extract_all(name, '[0-9]+'), lambda n : lpad(right(n, 20), 20, '0')) AS numbers
FROM names;

-- name: counter_deltas
-- needs: counters
-- One row per reading that has one before it of the same counter: by time where known, else by line within a file and by the
-- files' names among files of one shape. A counter that names no port counts only where it is of the whole host. Null delta: it
-- fell, so it was cleared or wrapped.
CREATE TEMP TABLE counter_deltas AS
WITH readings AS (
  SELECT c.rowid AS id, c.*, CASE WHEN c.ts IS NOT NULL THEN '' WHEN c.host IS NULL THEN c.file ELSE f.shape END AS series, f.stage, f.numbers
  FROM counters c LEFT JOIN counter_files f ON f.file = c.file AND c.ts IS NULL
  WHERE coalesce(c.dev, c.port, c.ifname) IS NOT NULL OR c.program IN ('nstat', '/proc/net/snmp', 'netstat -s', 'prometheus')
)
SELECT id, value, lag(value) OVER w AS before, CASE WHEN value >= lag(value) OVER w THEN value - lag(value) OVER w END AS delta
FROM readings
WINDOW w AS (PARTITION BY host, dev, port, ifname, counter, program, ts IS NULL, series ORDER BY ts, stage, numbers, file, line)
QUALIFY before IS NOT NULL;

-- name: fill_delta
-- needs: counter_deltas
UPDATE counters SET delta = d.delta FROM counter_deltas d WHERE counters.rowid = d.id AND d.delta IS NOT NULL;

-- name: link_errors
-- needs: counters
-- One event per port and reading whose link-layer errors grew: the counter that grew most. A single corrupted frame in days is no
-- fault: errors of symbols and checksums count from the eleventh, a link that went down or retrained from the first.
INSERT INTO events BY NAME
WITH grown AS (
  SELECT *, regexp_matches(lower(counter), '^(?:link_?downed(?:counter)?|link_?error_?recovery(?:counter)?|linkrecovers|local_?link_?integrity_?errors|linkintegrityerrors|link_down_events_phy|link down counter|link error recovery counter)$') AS is_hard
  FROM counters
  WHERE delta > 0 AND host IS NOT NULL AND port IS DISTINCT FROM 'ALL' AND regexp_matches(lower(counter), '^(?:link_?downed(?:counter)?|link_?error_?recovery(?:counter)?|linkrecovers'
    || '|local_?link_?integrity_?errors|linkintegrityerrors|link_down_events_phy|link down counter|link error recovery counter'
    || '|symbol_?error(?:counter|s)?|port_?rcv_?errors|rcverrors|rx_crc_errors(?:_phy)?|rx_(?:pcs_)?symbol_err_phy|rx errors crc|effective physical errors'
    || '|fcs(?:-err|errors)?|crc|symbol(?:-err|errors)?|crc/align errors receive|fec_uncorr|fec uncorrected errors)$')
)
SELECT g.ts, CASE WHEN g.ts IS NULL THEN 'none' ELSE 'exact' END AS ts_kind, g.host, CASE WHEN g.program LIKE 'show %' THEN 'switch' ELSE 'host' END AS source,
  'link.errors' AS event, 'warning' AS severity, g.file, g.line, 0 AS "offset",
  format('{} grew by {:.0f} to {:.0f} since the reading before', g.counter, g.delta, g.value) AS message,
  g.dev, g.port, g.ifname, g.counter AS code, format('{:.0f}', g.delta) AS value, g.ts AS ts_aligned, g.ts AS ts_lo, g.ts AS ts_hi,
  (SELECT coalesce(max(event_id), 0) FROM events) + row_number() OVER (ORDER BY g.file, g.line, g.counter) AS event_id
FROM (
  SELECT * FROM grown WHERE is_hard OR delta > 10
  QUALIFY row_number() OVER (PARTITION BY host, dev, port, ifname, program, file, ts ORDER BY is_hard DESC, delta DESC, line, counter) = 1
) g ORDER BY g.file, g.line;

-- name: xid_changes
-- needs: counter_deltas
-- DCGM's gauge holds a GPU's last Xid: another one than at the reading before was raised in between.
INSERT INTO events BY NAME
SELECT c.ts, 'exact' AS ts_kind, c.host, 'host' AS source, 'gpu.xid' AS event, 'error' AS severity, c.file, c.line, 0 AS "offset",
  format('{} went from {:.0f} to {:.0f}', c.counter, d.before, c.value) AS message, c.value::BIGINT AS xid,
  CASE WHEN contains(c.dev, ':') THEN c.dev END AS pci, try_cast(regexp_extract(c.dev, '^gpu([0-9]+)$', 1) AS BIGINT) AS gpu, c.ts AS ts_aligned, c.ts AS ts_lo, c.ts AS ts_hi,
  (SELECT coalesce(max(event_id), 0) FROM events) + row_number() OVER (ORDER BY c.file, c.line) AS event_id
FROM counters c JOIN counter_deltas d ON d.id = c.rowid
WHERE c.counter LIKE 'DCGM_FI_DEV_XID_ERRORS%' AND c.ts IS NOT NULL AND c.value BETWEEN 1 AND 1000 AND c.value <> d.before ORDER BY c.file, c.line;
