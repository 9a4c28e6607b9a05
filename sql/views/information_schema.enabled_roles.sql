-- information_schema.enabled_roles (oid 13325): Users.
--
-- role_name name
SELECT name AS role_name
FROM main.users
