-- information_schema.information_schema_catalog_name (oid 13227): The database.
--
-- catalog_name name
SELECT 'dev' AS catalog_name
