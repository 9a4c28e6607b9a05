-- rw_catalog.rw_fragment_parallelism (oid 15211): The fragments with the name of what they belong to.
--
-- fragment_id int4: The fragment's id.
-- table_id int4: The source or materialized view that it belongs to.
-- name text: Its name.
-- relation_type text: source or materialized view.
-- distribution_type text: HASH with several actors, SINGLE with one.
-- state_table_ids int4[]: The state table of a source scan.
-- upstream_fragment_ids int4[]: A source scan's source fragment.
-- flags text[]: SOURCE, or SOURCE_SCAN and MVIEW.
-- parallelism int4: Actors that it has.
-- max_parallelism int4: Actors that it may have.
-- parallelism_policy text: The target that was set.
SELECT f.fragment_id AS fragment_id, f.table_id AS table_id, r.name AS name, r.kind AS relation_type, f.distribution_type AS distribution_type,
  f.state_table_ids AS state_table_ids, f.upstream_fragment_ids AS upstream_fragment_ids, f.flags AS flags, f.parallelism AS parallelism,
  f.max_parallelism AS max_parallelism, f.parallelism_policy AS parallelism_policy
FROM "rw_catalog.rw_fragments" f
JOIN main.relations r ON r.id = f.table_id
