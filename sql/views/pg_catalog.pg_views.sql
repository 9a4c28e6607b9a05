-- pg_catalog.pg_views (oid 12028): Views: the virtual tables.
--
-- schemaname name
-- viewname name
-- viewowner name
-- definition text
SELECT n.name AS schemaname, r.name AS viewname, u.name AS viewowner, r.definition AS definition
FROM "base.relations" r JOIN temp.catalog_schemas n ON n.oid = r.namespace LEFT JOIN main.users u ON u.id = r.owner WHERE r.kind = 'v'
