-- rw_catalog.rw_schemas (oid 15214): The schemas.
--
-- id int4: The schema's id.
-- name text: Its name.
-- owner int4: Its owner, as in rw_users.
-- acl text[]: Empty: there are no grants.
SELECT oid AS id, nspname AS name, nspowner AS owner, '[]' AS acl FROM "pg_catalog.pg_namespace"
