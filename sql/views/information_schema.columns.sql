-- information_schema.columns (oid 13295): Columns of the relations that the session's user may do something with.
--
-- table_catalog name
-- table_schema name
-- table_name name
-- column_name name
-- ordinal_position int4
-- column_default varchar
-- is_nullable varchar
-- data_type varchar
-- character_maximum_length int4
-- character_octet_length int4
-- numeric_precision int4
-- numeric_precision_radix int4
-- numeric_scale int4
-- datetime_precision int4
-- interval_type varchar
-- interval_precision int4
-- character_set_catalog name
-- character_set_schema name
-- character_set_name name
-- collation_catalog name
-- collation_schema name
-- collation_name name
-- domain_catalog name
-- domain_schema name
-- domain_name name
-- udt_catalog name
-- udt_schema name
-- udt_name name
-- scope_catalog name
-- scope_schema name
-- scope_name name
-- maximum_cardinality int4
-- dtd_identifier name
-- is_self_referencing varchar
-- is_identity varchar
-- identity_generation varchar
-- identity_start varchar
-- identity_increment varchar
-- identity_maximum varchar
-- identity_minimum varchar
-- identity_cycle varchar
-- is_generated varchar
-- generation_expression varchar
-- is_updatable varchar
SELECT 'dev' AS table_catalog, n.name AS table_schema, r.name AS table_name, c.name AS column_name,
  c.attnum AS ordinal_position, NULL AS column_default, 'YES' AS is_nullable,
  CASE WHEN c.is_array THEN 'ARRAY' ELSE c.sql_type END AS data_type, NULL AS character_maximum_length,
  NULL AS character_octet_length,
  CASE c.type WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN 'float4' THEN 24 WHEN 'float8' THEN 53 END AS numeric_precision,
  CASE WHEN c.type IN ('int2', 'int4', 'int8', 'float4', 'float8') THEN 2 WHEN c.type = 'numeric' THEN 10 END AS numeric_precision_radix,
  CASE WHEN c.type IN ('int2', 'int4', 'int8') THEN 0 END AS numeric_scale,
  CASE WHEN c.type IN ('timestamp', 'timestamptz', 'interval') THEN 6 WHEN c.type = 'date' THEN 0 END AS datetime_precision,
  NULL AS interval_type, NULL AS interval_precision, NULL AS character_set_catalog, NULL AS character_set_schema,
  NULL AS character_set_name, NULL AS collation_catalog, NULL AS collation_schema, NULL AS collation_name,
  NULL AS domain_catalog, NULL AS domain_schema, NULL AS domain_name, 'dev' AS udt_catalog,
  'pg_catalog' AS udt_schema, c.type_name AS udt_name, NULL AS scope_catalog, NULL AS scope_schema,
  NULL AS scope_name, NULL AS maximum_cardinality, CAST(c.attnum AS TEXT) AS dtd_identifier,
  'NO' AS is_self_referencing, 'NO' AS is_identity, NULL AS identity_generation, NULL AS identity_start,
  NULL AS identity_increment, NULL AS identity_maximum, NULL AS identity_minimum, 'NO' AS identity_cycle,
  'NEVER' AS is_generated, NULL AS generation_expression, 'NO' AS is_updatable
FROM "base.columns" c JOIN "base.listed" r ON r.oid = c.relation JOIN temp.catalog_schemas n ON n.oid = r.namespace
WHERE r.oid IN (SELECT a.oid FROM "base.accessible" a)
