-- information_schema.enabled_roles (oid 13325): The session's user, and the roles that it is a member of.
--
-- role_name name
SELECT u.name AS role_name
FROM "base.membership" m JOIN main.users u ON u.id = m.role
WHERE m.member = session_user_id()
