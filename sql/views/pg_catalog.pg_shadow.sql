-- pg_catalog.pg_shadow (oid 12005): Users, with what checks their passwords. For superusers only.
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
  superuser AS usebypassrls, verifier AS passwd, valid_until AS valuntil, NULL AS useconfig
FROM main.users WHERE can_login
