-- information_schema.role_table_grants (oid 13421): What was granted to, or by, the session's user and its roles.
--
-- grantor name
-- grantee name
-- table_catalog name
-- table_schema name
-- table_name name
-- privilege_type varchar
-- is_grantable varchar
-- with_hierarchy varchar
SELECT COALESCE(w.name, 'root') AS grantor, COALESCE(u.name, 'PUBLIC') AS grantee, 'dev' AS table_catalog, n.name AS table_schema,
  r.name AS table_name, a.privilege AS privilege_type, CASE WHEN a.grantee = r.owner THEN 'YES' ELSE 'NO' END AS is_grantable,
  CASE a.privilege WHEN 'SELECT' THEN 'YES' ELSE 'NO' END AS with_hierarchy
FROM (SELECT DISTINCT oid, grantee, privilege, grantor FROM "base.acl") a JOIN "base.listed" r ON r.oid = a.oid
JOIN temp.catalog_schemas n ON n.oid = r.namespace LEFT JOIN main.users u ON u.id = a.grantee LEFT JOIN main.users w ON w.id = a.grantor
WHERE a.grantee IN (SELECT m.role FROM "base.membership" m WHERE m.member = session_user_id()) OR a.grantor IN (SELECT m.role FROM "base.membership" m WHERE m.member = session_user_id())
