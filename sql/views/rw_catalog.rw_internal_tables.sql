-- rw_catalog.rw_internal_tables (oid 15203): The state tables. Each can be read by its name.
--
-- id int4: The table's id: that of the fragment whose state it holds.
-- name text: Its name.
-- schema_id int4: Its schema.
-- owner int4: Its owner, as in rw_users.
-- definition text: Empty.
-- acl text[]: Who may do what with it, as in PostgreSQL; A is ALTER.
-- initialized_at timestamptz: When it was made.
-- created_at timestamptz: When it was made.
-- initialized_at_cluster_version text: NULL.
-- created_at_cluster_version text: NULL.
SELECT f.id AS id, '__internal_' || r.name || '_' || f.id || '_sourcebackfill_' || f.id AS name, 2200 AS schema_id, u.id AS owner, '' AS definition,
  (SELECT a.acl FROM "base.acl_text" a WHERE a.oid = f.id) AS acl, r.created_at AS initialized_at, r.created_at AS created_at, NULL AS initialized_at_cluster_version, NULL AS created_at_cluster_version
FROM main.fragments f
JOIN main.relations r ON r.id = f.job_id
LEFT JOIN main.users u ON u.name = r.owner
WHERE f.kind = 'source scan'
