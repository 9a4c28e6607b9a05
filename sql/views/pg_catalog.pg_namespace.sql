-- pg_catalog.pg_namespace (oid 2615): Schemas.
--
-- oid oid
-- nspname name
-- nspowner oid
-- nspacl text[]
SELECT s.oid AS oid, s.name AS nspname, 10 AS nspowner, (SELECT a.acl FROM "base.schema_acl" a WHERE a.oid = s.oid) AS nspacl
FROM temp.catalog_schemas s
