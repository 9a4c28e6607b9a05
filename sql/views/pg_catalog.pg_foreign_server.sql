-- pg_catalog.pg_foreign_server (oid 1417): Connectors that sources use: a source is shown as a foreign table.
--
-- oid oid
-- srvname name
-- srvowner oid
-- srvfdw oid
-- srvtype text
-- srvversion text
-- srvacl text[]
-- srvoptions text[]
SELECT CASE connector WHEN 'file' THEN 15901 WHEN 'datagen' THEN 15902 ELSE 15903 END AS oid, connector AS srvname,
  10 AS srvowner, 15900 AS srvfdw, NULL AS srvtype, NULL AS srvversion, NULL AS srvacl, NULL AS srvoptions
FROM (SELECT DISTINCT connector FROM main.sources)
