-- rw_catalog.rw_views (oid 15220): The views that users made. Always empty: there are none.
--
-- id int4: The view's id.
-- name text: Its name.
-- schema_id int4: Its schema.
-- owner int4: Its owner, as in rw_users.
-- definition text: Its statement.
-- acl text[]: Its grants.
SELECT NULL AS id, NULL AS name, NULL AS schema_id, NULL AS owner, NULL AS definition, NULL AS acl WHERE 0
