-- rw_catalog.rw_fragments (oid 15204): The fragments: one a source, and one a source in every materialized view.
--
-- fragment_id int4: The fragment's id.
-- table_id int4: The source or materialized view that it belongs to.
-- distribution_type text: HASH with several actors, SINGLE with one.
-- state_table_ids int4[]: The state table of a source scan.
-- upstream_fragment_ids int4[]: A source scan's source fragment.
-- flags text[]: SOURCE, or SOURCE_SCAN and MVIEW.
-- parallelism int4: Actors that it has.
-- max_parallelism int4: Actors that it may have.
-- parallelism_policy text: The target that was set.
SELECT f.id AS fragment_id, f.job_id AS table_id,
  CASE WHEN (SELECT count(*) FROM main.actors a WHERE a.fragment_id = f.id) > 1 THEN 'HASH' ELSE 'SINGLE' END AS distribution_type,
  CASE f.kind WHEN 'source' THEN '[]' ELSE json_array(f.id) END AS state_table_ids,
  CASE f.kind WHEN 'source' THEN '[]' ELSE (SELECT json_group_array(s.id) FROM main.fragments s WHERE s.source_id = f.source_id AND s.kind = 'source') END AS upstream_fragment_ids,
  CASE f.kind WHEN 'source' THEN '["SOURCE"]' ELSE '["SOURCE_SCAN","MVIEW"]' END AS flags,
  (SELECT count(*) FROM main.actors a WHERE a.fragment_id = f.id) AS parallelism,
  1024 AS max_parallelism,
  (SELECT parallelism FROM main.sources s WHERE s.id = f.source_id) AS parallelism_policy
FROM main.fragments f
