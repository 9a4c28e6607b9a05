-- pg_catalog.pg_stat_user_tables (oid 12161): Relations of users. Activity is not counted.
--
-- relid oid
-- schemaname name
-- relname name
-- seq_scan int8
-- seq_tup_read int8
-- idx_scan int8
-- idx_tup_fetch int8
-- n_tup_ins int8
-- n_tup_upd int8
-- n_tup_del int8
-- n_tup_hot_upd int8
-- n_live_tup int8
-- n_dead_tup int8
-- n_mod_since_analyze int8
-- n_ins_since_vacuum int8
-- last_vacuum timestamptz
-- last_autovacuum timestamptz
-- last_analyze timestamptz
-- last_autoanalyze timestamptz
-- vacuum_count int8
-- autovacuum_count int8
-- analyze_count int8
-- autoanalyze_count int8
SELECT r.oid AS relid, n.name AS schemaname, r.name AS relname, NULL AS seq_scan, NULL AS seq_tup_read,
  NULL AS idx_scan, NULL AS idx_tup_fetch, NULL AS n_tup_ins, NULL AS n_tup_upd, NULL AS n_tup_del,
  NULL AS n_tup_hot_upd, NULL AS n_live_tup, NULL AS n_dead_tup, NULL AS n_mod_since_analyze,
  NULL AS n_ins_since_vacuum, NULL AS last_vacuum, NULL AS last_autovacuum, NULL AS last_analyze,
  NULL AS last_autoanalyze, NULL AS vacuum_count, NULL AS autovacuum_count, NULL AS analyze_count,
  NULL AS autoanalyze_count
FROM "base.listed" r JOIN temp.catalog_schemas n ON n.oid = r.namespace LEFT JOIN main.users u ON u.id = r.owner WHERE r.kind IN ('r', 'm') AND n.name = 'public'
