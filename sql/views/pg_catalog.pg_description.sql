-- pg_catalog.pg_description (oid 2609): Comments on relations and columns.
--
-- objoid oid
-- classoid oid
-- objsubid int4
-- description text
SELECT oid AS objoid, 1259 AS classoid, attnum AS objsubid, comment AS description
FROM (SELECT oid, 0 AS attnum, comment FROM temp.catalog_relations WHERE comment IS NOT NULL
  UNION ALL
  SELECT relation, attnum, comment FROM temp.catalog_columns WHERE comment IS NOT NULL)
