-- rw_catalog.rw_relations (oid 15217): All relations: those of users, the state tables and the virtual tables.
--
-- id int4: The relation's id.
-- name text: Its name.
-- relation_type text: source, materialized view, internal table or system table.
-- schema_id int4: Its schema.
-- owner int4: Its owner, as in rw_users.
-- definition text: The statement that made it.
-- acl text[]: Who may do what with it, as in PostgreSQL; A is ALTER.
SELECT r.id AS id, r.name AS name, r.kind AS relation_type, 2200 AS schema_id, u.id AS owner, r.definition AS definition, (SELECT a.acl FROM "base.acl_text" a WHERE a.oid = r.id) AS acl
FROM main.relations r LEFT JOIN main.users u ON u.name = r.owner
UNION ALL
SELECT id, name, 'internal table', schema_id, owner, definition, acl FROM "rw_catalog.rw_internal_tables"
UNION ALL
SELECT oid, name, 'system table', namespace, 10, definition, '[]' FROM temp.catalog_relations
