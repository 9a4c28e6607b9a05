-- rw_catalog.rw_columns (oid 15219): The columns of all relations.
--
-- relation_id int4: The relation.
-- name text: The column's name.
-- position int4: Its place, from 1.
-- is_hidden bool: Not part of SELECT *.
-- is_primary_key bool: False.
-- is_distribution_key bool: False.
-- is_generated bool: False.
-- is_nullable bool: True.
-- generation_expression text: NULL.
-- data_type text: Its type.
-- type_oid int4: Its type's oid.
-- type_len int2: Its type's length in bytes; -1: not fixed.
-- udt_type text: Its type's short name.
SELECT c.relation AS relation_id, c.name AS name, c.attnum AS position, 0 AS is_hidden, 0 AS is_primary_key, 0 AS is_distribution_key, 0 AS is_generated,
  1 AS is_nullable, NULL AS generation_expression, c.sql_type AS data_type, c.type_oid AS type_oid, c.type_len AS type_len, c.type AS udt_type
FROM "base.columns" c
