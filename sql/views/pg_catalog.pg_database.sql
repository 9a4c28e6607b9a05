-- pg_catalog.pg_database (oid 1262): Databases: dev.
--
-- oid oid
-- datname name
-- datdba oid
-- encoding int4
-- datlocprovider char
-- datistemplate bool
-- datallowconn bool
-- datconnlimit int4
-- datfrozenxid xid
-- datminmxid xid
-- dattablespace oid
-- datcollate text
-- datctype text
-- daticulocale text
-- datcollversion text
-- datacl text[]
SELECT 1 AS oid, 'dev' AS datname, 10 AS datdba, 6 AS encoding, 'c' AS datlocprovider, 0 AS datistemplate,
  1 AS datallowconn, -1 AS datconnlimit, '0' AS datfrozenxid, '0' AS datminmxid, 1663 AS dattablespace,
  'C.UTF-8' AS datcollate, 'C.UTF-8' AS datctype, NULL AS daticulocale, NULL AS datcollversion, NULL AS datacl
