-- base.columns (oid 0): What other views use to list columns, with the facts of their types. Not visible to users.
--
-- relation oid: The relation.
-- attnum int2: The column's place, from 1.
-- name name: Its name.
-- type text: Its type as in the header of a view: int8, text, text[].
-- type_name text: Its type as pg_type.typname has it: int8, text, _text.
-- type_oid oid: Its type's oid.
-- type_len int2: Its type's length in bytes; -1: not fixed.
-- type_byval bool: As pg_type.typbyval.
-- type_align char: As pg_type.typalign.
-- type_storage char: As pg_type.typstorage.
-- type_collation oid: As pg_type.typcollation.
-- sql_type text: Its type in SQL's words.
-- is_array bool: An array.
SELECT c.relation AS relation, c.attnum AS attnum, c.name AS name, c.type AS type, t.typname AS type_name, t.oid AS type_oid, t.len AS type_len,
  t.byval AS type_byval, t.align AS type_align, t.storage AS type_storage, t.collation AS type_collation, t.sql_type AS sql_type, t.is_array AS is_array
FROM (SELECT relation, attnum, name, type FROM temp.catalog_columns
  UNION ALL
  SELECT relation_id, attnum, name, type FROM main.columns
  UNION ALL
  SELECT f.id, a.attnum, a.name, a.type FROM main.fragments f,
    (SELECT 1 AS attnum, 'partition_id' AS name, 'varchar' AS type UNION ALL SELECT 2, 'backfill_progress', 'jsonb') a
  WHERE f.kind = 'source scan') c
JOIN temp.catalog_types t ON t.name = c.type
