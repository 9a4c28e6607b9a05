-- pg_catalog.pg_authid (oid 1260): Users, as roles, with what checks their passwords. For superusers only.
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
  superuser AS rolcreatedb, can_login AS rolcanlogin, 0 AS rolreplication, superuser AS rolbypassrls, connection_limit AS rolconnlimit,
  verifier AS rolpassword, valid_until AS rolvaliduntil
FROM main.users
