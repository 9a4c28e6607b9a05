-- rw_catalog.rw_schemas (oid 15214): The schemas.
--
-- id int4: The schema's id.
-- name text: Its name.
-- owner int4: Its owner, as in rw_users.
-- acl text[]: Who may do what with it, as in PostgreSQL; A is ALTER.
SELECT oid AS id, nspname AS name, nspowner AS owner, nspacl AS acl FROM "pg_catalog.pg_namespace"
