-- rw_catalog.rw_databases (oid 15215): The databases: dev.
--
-- id int4: The database's id.
-- name text: Its name.
-- owner int4: Its owner, as in rw_users.
-- acl text[]: Empty: whoever has LOGIN may connect.
SELECT oid AS id, datname AS name, datdba AS owner, '[]' AS acl FROM "pg_catalog.pg_database"
