-- pg_catalog.pg_attribute (oid 1249): Columns of all relations.
--
-- attrelid oid
-- attname name
-- atttypid oid
-- attstattarget int4
-- attlen int2
-- attnum int2
-- attndims int4
-- attcacheoff int4
-- atttypmod int4
-- attbyval bool
-- attalign char
-- attstorage char
-- attcompression char
-- attnotnull bool
-- atthasdef bool
-- atthasmissing bool
-- attidentity char
-- attgenerated char
-- attisdropped bool
-- attislocal bool
-- attinhcount int4
-- attcollation oid
-- attacl text[]
-- attoptions text[]
-- attfdwoptions text[]
-- attmissingval text
SELECT c.relation AS attrelid, c.name AS attname, c.type_oid AS atttypid, -1 AS attstattarget,
  c.type_len AS attlen, c.attnum AS attnum, c.is_array AS attndims, -1 AS attcacheoff, -1 AS atttypmod,
  c.type_byval AS attbyval, c.type_align AS attalign, c.type_storage AS attstorage, '' AS attcompression,
  0 AS attnotnull, 0 AS atthasdef, 0 AS atthasmissing, '' AS attidentity, '' AS attgenerated, 0 AS attisdropped,
  1 AS attislocal, 0 AS attinhcount, c.type_collation AS attcollation, NULL AS attacl, NULL AS attoptions,
  NULL AS attfdwoptions, NULL AS attmissingval
FROM "base.columns" c WHERE c.relation IN (SELECT r.oid FROM "base.listed" r)
