-- base.acl (oid 0): Who may do what with which relation. What authorize() asks, and what relacl shows. Not visible to users.
--
-- oid oid: The relation.
-- grantee oid: The role; 0: everybody.
-- privilege text: SELECT or ALTER.
-- grantor oid: Who granted it.
-- rule text: By which rule: owner, catalog, built-in, granted, or schema (granted on it).
SELECT r.oid AS oid, r.owner AS grantee, p.privilege AS privilege, r.owner AS grantor, 'owner' AS rule
FROM "base.relations" r JOIN (SELECT 'SELECT' AS privilege UNION ALL SELECT 'ALTER') p
UNION ALL
-- As in PostgreSQL, everybody reads its catalog, but not what holds verifiers.
SELECT r.oid, 0, 'SELECT', 10, 'catalog' FROM temp.catalog_relations r WHERE r.namespace IN (11, 13207) AND r.oid NOT IN (1260, 12005)
UNION ALL
SELECT r.oid, 15301, 'SELECT', 10, 'built-in' FROM "base.relations" r WHERE r.namespace NOT IN (11, 13207)
UNION ALL
SELECT r.id, 15302, 'ALTER', 10, 'built-in' FROM main.relations r
UNION ALL
SELECT g.object, g.grantee, g.privilege, g.grantor, 'granted' FROM main.grants g WHERE g.object NOT IN (SELECT s.oid FROM temp.catalog_schemas s)
UNION ALL
-- What was granted on a schema holds for all that is in it, also for what comes later.
SELECT r.oid, g.grantee, g.privilege, g.grantor, 'schema'
FROM main.grants g JOIN "base.relations" r ON r.namespace = g.object
WHERE g.privilege IN ('SELECT', 'ALTER')
