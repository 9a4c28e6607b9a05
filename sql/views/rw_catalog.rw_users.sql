-- rw_catalog.rw_users (oid 15216): The users.
--
-- id int4: The user's id.
-- name text: Its name.
-- is_super bool: May do everything.
-- create_db bool: As is_super.
-- create_user bool: As is_super.
-- can_login bool: May connect.
SELECT id, name, superuser AS is_super, superuser AS create_db, superuser AS create_user, can_login FROM main.users
