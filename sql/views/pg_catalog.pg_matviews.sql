-- pg_catalog.pg_matviews (oid 12038): Materialized views.
--
-- schemaname name
-- matviewname name
-- matviewowner name
-- tablespace name
-- hasindexes bool
-- ispopulated bool
-- definition text
SELECT n.name AS schemaname, r.name AS matviewname, u.name AS matviewowner, NULL AS tablespace, 0 AS hasindexes,
  r.populated AS ispopulated, j.query AS definition
FROM "base.relations" r JOIN temp.catalog_schemas n ON n.oid = r.namespace LEFT JOIN main.users u ON u.id = r.owner JOIN main.jobs j ON j.id = r.oid WHERE r.kind = 'm'
