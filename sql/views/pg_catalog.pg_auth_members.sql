-- pg_catalog.pg_auth_members (oid 1261): Memberships in roles.
--
-- roleid oid
-- member oid
-- grantor oid
-- admin_option bool
SELECT role_id AS roleid, member_id AS member, grantor, 0 AS admin_option
FROM main.role_members
