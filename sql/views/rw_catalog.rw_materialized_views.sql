-- rw_catalog.rw_materialized_views (oid 15202): The materialized views, also those that are still being created.
--
-- id int4: The view's id.
-- name text: Its name.
-- schema_id int4: Its schema.
-- owner int4: Its owner, as in rw_users.
-- definition text: The CREATE MATERIALIZED VIEW statement.
-- append_only bool: True: rows are only ever added.
-- acl text[]: Who may do what with it, as in PostgreSQL; A is ALTER.
-- initialized_at timestamptz: When it was made.
-- created_at timestamptz: When its backfill was done. NULL: not yet.
-- initialized_at_cluster_version text: NULL.
-- created_at_cluster_version text: NULL.
-- background_ddl bool: Made with background_ddl.
SELECT j.id AS id, r.name AS name, 2200 AS schema_id, u.id AS owner, r.definition AS definition, 1 AS append_only, (SELECT a.acl FROM "base.acl_text" a WHERE a.oid = j.id) AS acl,
  r.created_at AS initialized_at, j.finished_at AS created_at, NULL AS initialized_at_cluster_version, NULL AS created_at_cluster_version,
  j.background AS background_ddl
FROM main.jobs j
JOIN main.relations r ON r.id = j.id
LEFT JOIN main.users u ON u.name = r.owner
