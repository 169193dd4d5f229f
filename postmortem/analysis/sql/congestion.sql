-- Signs of congestion by switch (or host) and minute, beside how slow the job's steps were then. Input: events, counters, steps.

-- name: step_spans
-- needs: steps
-- One row per step of the job that has an end and a duration: when it ran, and its duration over the median of its attempt.
CREATE TEMP TABLE step_spans AS
WITH main AS (
  SELECT attempt, step, ts, coalesce(step_time_ms, (epoch_us(ts) - epoch_us(lag(ts) OVER w)) / 1000.0 / greatest(1, step - lag(step) OVER w)) AS ms,
    greatest(1, step - coalesce(lag(step) OVER w, step - 1)) AS k
  FROM steps WHERE is_main AND ts IS NOT NULL WINDOW w AS (PARTITION BY attempt ORDER BY step)
),
usual AS (SELECT attempt, median(ms) AS mid, count(*) AS n FROM main WHERE ms > 0 GROUP BY attempt)
SELECT m.attempt, m.step, m.ts AS finish, m.ts - to_microseconds((m.ms * 1000 * m.k)::BIGINT) AS start, m.ms / u.mid AS ratio
FROM main m JOIN usual u USING (attempt) WHERE m.ms > 0 AND m.ms < 1e9 AND u.mid > 0 AND u.n >= 5;

-- name: congestion_minutes
-- needs: pfc.storm | ecn.mark | buffer.drop | nic.rx_drop | congestion.wait | buffer.threshold | counters
-- One row per minute and place with a sign: PFC storms, ECN marks, buffers that ran full or dropped, senders that waited, and counters of
-- these that grew by then; `step_ratio` is the slowest step that ran in that minute.
INSERT INTO congestion_minutes
WITH signs AS (
  SELECT time_bucket(INTERVAL 1 MINUTE, coalesce(ts_aligned, ts)) AS minute, host, coalesce(ifname, port) AS port,
    (event = 'pfc.storm')::INT AS storms, (event = 'ecn.mark')::INT AS marks, (event IN ('buffer.drop', 'nic.rx_drop'))::INT AS drops,
    (event IN ('congestion.wait', 'buffer.threshold'))::INT AS waits, 0 AS grown, file, line
  FROM events WHERE event IN ('pfc.storm', 'ecn.mark', 'buffer.drop', 'nic.rx_drop', 'congestion.wait', 'buffer.threshold') AND ts IS NOT NULL AND host IS NOT NULL
  UNION ALL
  SELECT time_bucket(INTERVAL 1 MINUTE, ts), host, coalesce(port, ifname, dev), 0, 0, 0, 0, 1, file, line
  FROM counters WHERE ts IS NOT NULL AND host IS NOT NULL AND delta > 0
    AND regexp_matches(lower(counter), 'pause|pfc|xoff|xmit_?wait|ecn|cnp|discard|out_of_buffer|buffer_overrun|(?:^|_)drop')
),
minutes AS (
  SELECT minute, host, count(DISTINCT port) AS ports, sum(storms) AS storms, sum(marks) AS marks, sum(drops) AS drops, sum(waits) AS waits, sum(grown) AS grown,
    arg_min(file, (file, line)) AS file, arg_min(line, (file, line)) AS line
  FROM signs GROUP BY minute, host
)
SELECT m.minute, m.host, m.ports, m.storms, m.marks, m.drops, m.waits, m.grown,
  (SELECT max(s.ratio) FROM step_spans s WHERE s.start < m.minute + INTERVAL 1 MINUTE AND s.finish > m.minute) AS step_ratio, m.file, m.line
FROM minutes m ORDER BY m.minute, m.host;

-- name: step_minutes
-- needs: step_spans
-- One row per minute in which a step ran: the slowest step of it, and whether a switch or host showed a sign then. A step of more than an hour
-- counts in the minutes of its last hour.
CREATE TEMP TABLE step_minutes AS
WITH covered AS (
  SELECT unnest(generate_series(time_bucket(INTERVAL 1 MINUTE, greatest(start, finish - INTERVAL 1 HOUR)), finish, INTERVAL 1 MINUTE)) AS minute, ratio FROM step_spans
)
SELECT minute, max(ratio) AS ratio, minute IN (SELECT minute FROM congestion_minutes) AS has_sign FROM covered GROUP BY minute;
