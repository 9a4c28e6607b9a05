-- base.accessible (oid 0): The relations that the session's user may do something with. Not visible to users.
--
-- oid oid: The relation.
SELECT r.oid AS oid
FROM "base.relations" r
WHERE EXISTS (SELECT 1 FROM main.users u WHERE u.id = session_user_id() AND u.superuser)
UNION
SELECT a.oid
FROM "base.acl" a
WHERE a.grantee = 0 OR a.grantee IN (SELECT m.role FROM "base.membership" m WHERE m.member = session_user_id())
