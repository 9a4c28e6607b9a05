-- rw_catalog.rw_streaming_parallelism (oid 15210): The parallelism that was set for every source and materialized view.
--
-- id int4: The source or materialized view.
-- name text: Its name.
-- relation_type text: source or materialized view.
-- parallelism text: The target: a number, adaptive, bounded(n) or ratio(r).
-- max_parallelism int4: Actors that it may have.
SELECT r.id AS id, r.name AS name, r.kind AS relation_type, COALESCE(s.parallelism, j.parallelism) AS parallelism, 1024 AS max_parallelism
FROM main.relations r
LEFT JOIN main.sources s ON s.id = r.id
LEFT JOIN main.jobs j ON j.id = r.id
