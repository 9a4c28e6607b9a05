-- information_schema.applicable_roles (oid 13236): Memberships of the session's user.
--
-- grantee name
-- role_name name
-- is_grantable varchar
SELECT u.name AS grantee, r.name AS role_name, 'NO' AS is_grantable
FROM main.role_members m JOIN main.users u ON u.id = m.member_id JOIN main.users r ON r.id = m.role_id
WHERE m.member_id IN (SELECT b.role FROM "base.membership" b WHERE b.member = session_user_id())
