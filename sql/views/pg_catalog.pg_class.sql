-- pg_catalog.pg_class (oid 1259): Relations: those of users and the virtual tables.
--
-- oid oid
-- relname name
-- relnamespace oid
-- reltype oid
-- reloftype oid
-- relowner oid
-- relam oid
-- relfilenode oid
-- reltablespace oid
-- relpages int4
-- reltuples float4
-- relallvisible int4
-- reltoastrelid oid
-- relhasindex bool
-- relisshared bool
-- relpersistence char
-- relkind char
-- relnatts int2
-- relchecks int2
-- relhasrules bool
-- relhastriggers bool
-- relhassubclass bool
-- relrowsecurity bool
-- relforcerowsecurity bool
-- relispopulated bool
-- relreplident char
-- relispartition bool
-- relrewrite oid
-- relfrozenxid xid
-- relminmxid xid
-- relacl text[]
-- reloptions text[]
-- relpartbound pg_node_tree
SELECT r.oid AS oid, r.name AS relname, r.namespace AS relnamespace, 0 AS reltype, 0 AS reloftype,
  r.owner AS relowner, CASE r.kind WHEN 'm' THEN 2 WHEN 'r' THEN 2 ELSE 0 END AS relam, 0 AS relfilenode,
  0 AS reltablespace, 0 AS relpages, -1.0 AS reltuples, 0 AS relallvisible, 0 AS reltoastrelid, 0 AS relhasindex,
  0 AS relisshared, 'p' AS relpersistence, r.kind AS relkind, r.natts AS relnatts, 0 AS relchecks,
  r.kind = 'v' AS relhasrules, 0 AS relhastriggers, 0 AS relhassubclass, 0 AS relrowsecurity,
  0 AS relforcerowsecurity, r.populated AS relispopulated,
  CASE WHEN r.kind = 'm' OR (r.kind = 'r' AND r.namespace <> 11) THEN 'd' ELSE 'n' END AS relreplident, 0 AS relispartition, 0 AS relrewrite,
  '0' AS relfrozenxid, '0' AS relminmxid, (SELECT a.acl FROM "base.acl_text" a WHERE a.oid = r.oid) AS relacl, NULL AS reloptions, NULL AS relpartbound
FROM "base.listed" r
