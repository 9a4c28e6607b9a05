-- information_schema.tables (oid 13425): Relations that the session's user may do something with.
--
-- table_catalog name
-- table_schema name
-- table_name name
-- table_type varchar
-- self_referencing_column_name name
-- reference_generation varchar
-- user_defined_type_catalog name
-- user_defined_type_schema name
-- user_defined_type_name name
-- is_insertable_into varchar
-- is_typed varchar
-- commit_action varchar
SELECT 'dev' AS table_catalog, n.name AS table_schema, r.name AS table_name,
  CASE r.kind WHEN 'r' THEN 'BASE TABLE' WHEN 'f' THEN 'FOREIGN' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'VIEW' END AS table_type,
  NULL AS self_referencing_column_name, NULL AS reference_generation, NULL AS user_defined_type_catalog,
  NULL AS user_defined_type_schema, NULL AS user_defined_type_name, 'NO' AS is_insertable_into, 'NO' AS is_typed,
  NULL AS commit_action
FROM "base.listed" r JOIN temp.catalog_schemas n ON n.oid = r.namespace WHERE r.oid IN (SELECT a.oid FROM "base.accessible" a)
