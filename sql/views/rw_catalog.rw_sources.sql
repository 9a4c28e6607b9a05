-- rw_catalog.rw_sources (oid 15201): The sources.
--
-- id int4: The source's id.
-- name text: Its name.
-- schema_id int4: Its schema.
-- owner int4: Its owner, as in rw_users.
-- connector text: file, datagen or kafka.
-- columns text[]: Its columns, in order.
-- format text: PLAIN.
-- row_encode text: JSON or BYTES.
-- append_only bool: True: rows are only ever added.
-- associated_table_id int4: NULL: there are no tables with connectors.
-- connection_id int4: NULL: there are no connections.
-- definition text: The CREATE SOURCE statement; '[hidden]' stands for a secret.
-- acl text[]: Who may do what with it, as in PostgreSQL; A is ALTER.
-- initialized_at timestamptz: When it was made.
-- created_at timestamptz: When it was made.
-- initialized_at_cluster_version text: NULL.
-- created_at_cluster_version text: NULL.
-- is_shared bool: True: one job reads every split once, for all materialized views on the source.
-- connector_props jsonb: The options of WITH (...); '[hidden]' stands for a secret.
-- format_encode_options jsonb: Empty: there are none.
SELECT s.id AS id, r.name AS name, 2200 AS schema_id, u.id AS owner, s.connector AS connector,
  (SELECT json_group_array(name) FROM (SELECT name FROM main.columns c WHERE c.relation_id = s.id ORDER BY attnum)) AS columns,
  'PLAIN' AS format, s.format_json ->> '$.encode' AS row_encode, 1 AS append_only, NULL AS associated_table_id, NULL AS connection_id,
  r.definition AS definition, (SELECT a.acl FROM "base.acl_text" a WHERE a.oid = s.id) AS acl, r.created_at AS initialized_at, r.created_at AS created_at,
  NULL AS initialized_at_cluster_version, NULL AS created_at_cluster_version, 1 AS is_shared,
  s.options_json AS connector_props, '{}' AS format_encode_options
FROM main.sources s
JOIN main.relations r ON r.id = s.id
LEFT JOIN main.users u ON u.name = r.owner
