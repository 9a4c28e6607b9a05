-- pg_catalog.pg_user (oid 12014): Users.
--
-- usename name
-- usesysid oid
-- usecreatedb bool
-- usesuper bool
-- userepl bool
-- usebypassrls bool
-- passwd text
-- valuntil timestamptz
-- useconfig text[]
SELECT name AS usename, id AS usesysid, superuser AS usecreatedb, superuser AS usesuper, 0 AS userepl,
  superuser AS usebypassrls, '********' AS passwd, valid_until AS valuntil, NULL AS useconfig
FROM main.users WHERE can_login
