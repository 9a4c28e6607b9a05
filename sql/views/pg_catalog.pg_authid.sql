-- pg_catalog.pg_authid (oid 1260): Users, as roles. Passwords are not shown.
--
-- oid oid
-- rolname name
-- rolsuper bool
-- rolinherit bool
-- rolcreaterole bool
-- rolcreatedb bool
-- rolcanlogin bool
-- rolreplication bool
-- rolbypassrls bool
-- rolconnlimit int4
-- rolpassword text
-- rolvaliduntil timestamptz
SELECT id AS oid, name AS rolname, superuser AS rolsuper, 1 AS rolinherit, superuser AS rolcreaterole,
  superuser AS rolcreatedb, 1 AS rolcanlogin, 0 AS rolreplication, superuser AS rolbypassrls, -1 AS rolconnlimit,
  NULL AS rolpassword, NULL AS rolvaliduntil
FROM main.users
