-- pg_catalog.pg_roles (oid 12000): Users, as roles.
--
-- rolname name
-- rolsuper bool
-- rolinherit bool
-- rolcreaterole bool
-- rolcreatedb bool
-- rolcanlogin bool
-- rolreplication bool
-- rolconnlimit int4
-- rolpassword text
-- rolvaliduntil timestamptz
-- rolbypassrls bool
-- rolconfig text[]
-- oid oid
SELECT name AS rolname, superuser AS rolsuper, 1 AS rolinherit, superuser AS rolcreaterole,
  superuser AS rolcreatedb, can_login AS rolcanlogin, 0 AS rolreplication, connection_limit AS rolconnlimit, '********' AS rolpassword,
  valid_until AS rolvaliduntil, superuser AS rolbypassrls, NULL AS rolconfig, id AS oid
FROM main.users
