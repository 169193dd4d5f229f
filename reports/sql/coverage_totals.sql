-- One row: how many members were not understood, and why.
SELECT
  count(*) AS files,
  count(*) FILTER (WHERE f.kind = 'unreadable') AS unreadable,
  count(*) FILTER (WHERE f.kind = 'binary') AS is_binary,
  count(*) FILTER (WHERE f.kind = 'text' AND coalesce(c.lines, 0) > 0 AND coalesce(c.recognised, 0) = 0) AS silent,
  coalesce(sum(c.lines), 0)::BIGINT AS lines,
  coalesce(sum(c.recognised), 0)::BIGINT AS recognised,
  coalesce(sum(c.odd), 0)::BIGINT AS odd
FROM coverage c FULL JOIN files f ON c.file = f.file
