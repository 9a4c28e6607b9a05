-- pg_catalog.pg_foreign_data_wrapper (oid 2328): Connectors, as one foreign-data wrapper.
--
-- oid oid
-- fdwname name
-- fdwowner oid
-- fdwhandler oid
-- fdwvalidator oid
-- fdwacl text[]
-- fdwoptions text[]
SELECT 15900 AS oid, 'tidegate' AS fdwname, 10 AS fdwowner, 0 AS fdwhandler, 0 AS fdwvalidator, NULL AS fdwacl,
  NULL AS fdwoptions
