-- tidegate.bad_rows (oid 15108): Rows that don't fit their source's columns, or that a view's query fails on. They never stop a split.
--
-- source_id int4: Id of the source.
-- source_name text: Its name.
-- split_id text: The split.
-- offset int8: Where in the split.
-- error text: Why it doesn't fit.
-- text text: What was read, cut to 8 KiB; where a view's query fails, the row's columns.
-- at timestamptz: When it was read.
-- job_name text: The materialized view whose query fails on the row. NULL: the row does not fit its source.
SELECT b.source_id AS source_id, r.name AS source_name, b.split_id AS split_id, b."offset" AS "offset", b.error AS error, b.text AS text, b.at AS at, j.name AS job_name
FROM main.bad_rows b
LEFT JOIN main.relations r ON r.id = b.source_id
LEFT JOIN main.relations j ON j.id = b.job_id
