-- pg_catalog.pg_foreign_table (oid 3118): Sources, as foreign tables.
--
-- ftrelid oid
-- ftserver oid
-- ftoptions text[]
SELECT s.id AS ftrelid,
  CASE s.connector WHEN 'file' THEN 15901 WHEN 'datagen' THEN 15902 ELSE 15903 END AS ftserver,
  (SELECT json_group_array(o.key || '=' || o.value) FROM json_each(s.options_json) o) AS ftoptions
FROM main.sources s
