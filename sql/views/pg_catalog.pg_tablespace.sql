-- pg_catalog.pg_tablespace (oid 1213): Tablespaces: none but the two that clients expect.
--
-- oid oid
-- spcname name
-- spcowner oid
-- spcacl text[]
-- spcoptions text[]
SELECT oid AS oid, name AS spcname, 10 AS spcowner, NULL AS spcacl, NULL AS spcoptions
FROM (SELECT 1663 AS oid, 'pg_default' AS name UNION ALL SELECT 1664, 'pg_global')
