-- information_schema.views (oid 13483): Views: the virtual tables.
--
-- table_catalog name
-- table_schema name
-- table_name name
-- view_definition varchar
-- check_option varchar
-- is_updatable varchar
-- is_insertable_into varchar
-- is_trigger_updatable varchar
-- is_trigger_deletable varchar
-- is_trigger_insertable_into varchar
SELECT 'dev' AS table_catalog, n.name AS table_schema, r.name AS table_name, r.definition AS view_definition,
  'NONE' AS check_option, 'NO' AS is_updatable, 'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable,
  'NO' AS is_trigger_deletable, 'NO' AS is_trigger_insertable_into
FROM "base.relations" r JOIN temp.catalog_schemas n ON n.oid = r.namespace WHERE r.oid IN (SELECT a.oid FROM "base.accessible" a) AND r.kind = 'v'
