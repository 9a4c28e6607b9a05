-- base.membership (oid 0): Which roles a role may act for: itself, and those that it is a member of. Not visible to users.
--
-- member oid: The role.
-- role oid: What it is, or is a member of.
SELECT member, role
FROM (WITH RECURSIVE m (member, role) AS (
    SELECT id, id FROM main.users UNION SELECT m.member, r.role_id FROM m JOIN main.role_members r ON r.member_id = m.role)
  SELECT member, role FROM m)
