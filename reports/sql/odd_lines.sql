-- One row per example of an odd line. Key: file, line.
SELECT file, coalesce(line, 0) AS line, coalesce(why, '') AS why, coalesce(text, '') AS text
FROM odd_lines
ORDER BY file, line, why
LIMIT $rows
