-- Channels to peers whose sends have a tail, where no queue pair was timed (rule I8 on NCCL's proxy steps).
-- Input: proxy_steps, qp_samples, ranks, events, process_devs.

-- name: proxy_scaled
-- needs: proxy_steps
-- One row per send, as if all had the commonest size; `win` is one of twenty parts of the time of its trace.
CREATE TEMP TABLE proxy_scaled AS
WITH mids AS (SELECT size, median(wait_us) AS mid, count(*) AS n FROM proxy_steps WHERE wait_us > 0 GROUP BY size),
usual AS (SELECT mid FROM mids ORDER BY n DESC, size NULLS LAST LIMIT 1),
span AS (SELECT file, min(t_us) AS t0, greatest(max(t_us) - min(t_us), 1) AS t FROM proxy_steps GROUP BY file)
SELECT p.*, p.wait_us / m.mid * u.mid AS scaled_us, least(19, floor((p.t_us - s.t0) / s.t * 20))::INT AS win
FROM proxy_steps p JOIN mids m ON m.size IS NOT DISTINCT FROM p.size JOIN span s ON s.file = p.file CROSS JOIN usual u
WHERE p.wait_us > 0 AND p.rank IS NOT NULL AND NOT EXISTS (FROM qp_samples);

-- name: slow_channels
-- needs: proxy_steps
-- One row per rank, peer and channel with three windows whose tail is beyond ten times the usual one and beyond 100 microseconds; `near`, `of_near`: channels
-- of the rank that are slow, and all of them; `far`, `of_far`: the same of the channels to the peer.
CREATE TEMP TABLE slow_channels AS
WITH w AS (SELECT rank, peer_rank, channel, win, quantile_cont(scaled_us, 0.99) AS p99_us FROM proxy_scaled GROUP BY ALL),
usual AS (SELECT median(p99_us) AS tail FROM w),
flagged AS (SELECT rank, peer_rank, channel, count(*) FILTER (p99_us > greatest(10 * tail, 100)) >= 3 AS is_slow FROM w CROSS JOIN usual GROUP BY ALL),
typical AS (SELECT median(scaled_us) AS us FROM proxy_scaled),
counted AS (
  SELECT *, count_if(is_slow) OVER (PARTITION BY rank) AS near, count(*) OVER (PARTITION BY rank) AS of_near, count_if(is_slow) OVER (PARTITION BY peer_rank) AS far,
    count(*) OVER (PARTITION BY peer_rank) AS of_far, count_if(is_slow) OVER () AS slow, count(*) OVER () AS total FROM flagged
)
SELECT c.*, quantile_cont(s.wait_us, 0.99) AS p99_us, arg_min(s.file, s.t_us) FILTER (s.scaled_us > 5 * t.us) AS file, arg_min(s.line, s.t_us) FILTER (s.scaled_us > 5 * t.us) AS line
FROM counted c JOIN proxy_scaled s USING (rank, peer_rank, channel) CROSS JOIN typical t WHERE c.is_slow GROUP BY ALL ORDER BY p99_us DESC, rank, peer_rank, channel;
