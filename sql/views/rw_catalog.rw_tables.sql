-- rw_catalog.rw_tables (oid 15221): The tables that users made. Always empty: there are none.
--
-- id int4: The table's id.
-- name text: Its name.
-- schema_id int4: Its schema.
-- owner int4: Its owner, as in rw_users.
-- definition text: Its statement.
-- append_only bool: Rows are only ever added.
-- acl text[]: Its grants.
SELECT NULL AS id, NULL AS name, NULL AS schema_id, NULL AS owner, NULL AS definition, NULL AS append_only, NULL AS acl WHERE 0
