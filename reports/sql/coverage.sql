-- One row per member of the bundle. Key: file. Those that were least understood come first: unreadable,
-- then odd, then unrecognised, then by size.
SELECT
  coalesce(c.file, f.file) AS file,
  coalesce(f.kind, '') AS kind,
  coalesce(f.host, '') AS host,
  coalesce(c.bytes, f.bytes, 0) AS bytes,
  coalesce(c.lines, 0) AS lines,
  coalesce(c.recognised, 0) AS recognised,
  coalesce(c.events, 0) AS events,
  coalesce(c.odd, 0) AS odd,
  coalesce(c.sources, '') AS sources,
  coalesce(f.note, '') AS note
FROM coverage c FULL JOIN files f ON c.file = f.file
ORDER BY
  coalesce(f.kind, '') IN ('unreadable', 'binary') DESC, coalesce(f.note, '') <> '' DESC, coalesce(c.odd, 0) > 0 DESC,
  coalesce(c.recognised, 0) = 0 DESC, coalesce(c.bytes, f.bytes, 0) DESC, coalesce(c.file, f.file)
LIMIT $rows
