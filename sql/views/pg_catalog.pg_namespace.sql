-- pg_catalog.pg_namespace (oid 2615): Schemas.
--
-- oid oid
-- nspname name
-- nspowner oid
-- nspacl text[]
SELECT oid AS oid, name AS nspname, 10 AS nspowner, NULL AS nspacl
FROM temp.catalog_schemas
