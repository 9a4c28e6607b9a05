-- information_schema.schemata (oid 13382): Schemas.
--
-- catalog_name name
-- schema_name name
-- schema_owner name
-- default_character_set_catalog name
-- default_character_set_schema name
-- default_character_set_name name
-- sql_path varchar
SELECT 'dev' AS catalog_name, name AS schema_name, (SELECT u.name FROM main.users u WHERE u.id = 10) AS schema_owner, NULL AS default_character_set_catalog,
  NULL AS default_character_set_schema, NULL AS default_character_set_name, NULL AS sql_path
FROM temp.catalog_schemas
