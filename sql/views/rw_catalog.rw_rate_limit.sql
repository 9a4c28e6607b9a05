-- rw_catalog.rw_rate_limit (oid 15212): The rate limits that are set.
--
-- fragment_id int4: The fragment.
-- fragment_type text[]: SOURCE or SOURCE_SCAN.
-- node_name text: SOURCE or SOURCE_SCAN.
-- table_id int4: The source or materialized view.
-- rate_limit int4: Rows a second and actor; 0: paused.
SELECT f.id AS fragment_id, CASE f.kind WHEN 'source' THEN '["SOURCE"]' ELSE '["SOURCE_SCAN"]' END AS fragment_type,
  CASE f.kind WHEN 'source' THEN 'SOURCE' ELSE 'SOURCE_SCAN' END AS node_name, f.job_id AS table_id,
  COALESCE(s.rate_limit, j.rate_limit) AS rate_limit
FROM main.fragments f
LEFT JOIN main.sources s ON s.id = f.job_id
LEFT JOIN main.jobs j ON j.id = f.job_id
WHERE COALESCE(s.rate_limit, j.rate_limit) IS NOT NULL
