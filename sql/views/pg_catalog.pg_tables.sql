-- pg_catalog.pg_tables (oid 12033): Tables: those of pg_catalog.
--
-- schemaname name
-- tablename name
-- tableowner name
-- tablespace name
-- hasindexes bool
-- hasrules bool
-- hastriggers bool
-- rowsecurity bool
SELECT n.name AS schemaname, r.name AS tablename, u.name AS tableowner, NULL AS tablespace, 0 AS hasindexes,
  0 AS hasrules, 0 AS hastriggers, 0 AS rowsecurity
FROM "base.listed" r JOIN temp.catalog_schemas n ON n.oid = r.namespace LEFT JOIN main.users u ON u.id = r.owner WHERE r.kind = 'r'
