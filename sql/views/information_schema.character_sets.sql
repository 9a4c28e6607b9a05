-- information_schema.character_sets (oid 13250): Character sets: UTF8.
--
-- character_set_catalog name
-- character_set_schema name
-- character_set_name name
-- character_repertoire name
-- form_of_use name
-- default_collate_catalog name
-- default_collate_schema name
-- default_collate_name name
SELECT NULL AS character_set_catalog, NULL AS character_set_schema, 'UTF8' AS character_set_name,
  'UCS' AS character_repertoire, 'UTF8' AS form_of_use, 'dev' AS default_collate_catalog,
  'pg_catalog' AS default_collate_schema, 'C.UTF-8' AS default_collate_name
