"""What Prometheus's postgres_exporter asks for its metrics."""

from replay import *


@feature("connect")
def _():
    simple("SELECT version();", "SELECT pg_is_in_recovery()", "SELECT pg_postmaster_start_time from pg_postmaster_start_time()")
    found = rows("SELECT name, setting, COALESCE(unit, '') AS unit, short_desc, vartype FROM pg_settings"
                 " WHERE vartype IN ('bool', 'integer', 'real') AND name != 'sync_commit_cancel_wait'")
    same(len(found) > 0, True)


@feature("databases")
def _():
    same(rows("SELECT pg_database.datname FROM pg_database WHERE datallowconn = true AND datistemplate = false AND datname != current_database()"), [])
    same(rows("SELECT datname, numbackends >= 1, conflicts, deadlocks FROM pg_stat_database"), [("dev", True, 0, 0)])
    found = rows("SELECT pg_database.datname,tmp.mode,COALESCE(count,0) as count FROM (VALUES ('accesssharelock'),('exclusivelock')) AS tmp(mode) CROSS JOIN pg_database"
                 " LEFT JOIN (SELECT database, lower(mode) AS mode,count(*) AS count FROM pg_locks WHERE database IS NOT NULL GROUP BY database, lower(mode)) AS tmp2"
                 " ON tmp.mode=tmp2.mode and pg_database.oid = tmp2.database ORDER BY 2")
    same(found, [("dev", "accesssharelock", 0), ("dev", "exclusivelock", 0)])


@feature("relations")
def _():
    found = rows("SELECT current_database() datname, schemaname, relname, seq_scan, n_live_tup, vacuum_count, pg_total_relation_size(relid) as total_size FROM pg_stat_user_tables")
    same(("dev", "public", "mv", None, None, None, None) in found, True)
    simple("SELECT current_database() datname, schemaname, relname, heap_blks_read, idx_blks_hit, toast_blks_read, tidx_blks_hit FROM pg_statio_user_tables",
           "SELECT schemaname, relname, indexrelname, idx_blks_read, idx_blks_hit FROM pg_statio_user_indexes")


@feature("columns")
def _():
    raise Missing("it reads statistics alone")


@feature("details")
def _():
    same(rows("SELECT checkpoints_timed, checkpoints_req, buffers_clean, maxwritten_clean, buffers_alloc, stats_reset FROM pg_stat_bgwriter"), [(0, 0, 0, 0, 0, None)])
    same(rows("SELECT *, extract(epoch from now() - last_archived_time) AS last_archive_age FROM pg_stat_archiver")[0][0], 0)
    same(rows("SELECT CASE WHEN NOT pg_is_in_recovery() THEN 0 WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0"
              " ELSE GREATEST (0, EXTRACT(EPOCH FROM (now() - pg_last_xact_replay_timestamp()))) END AS lag,"
              " CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END as is_replica"), [(0, 0)])
    simple("SELECT * FROM pg_stat_database_conflicts", "SELECT * FROM pg_stat_replication", "SELECT slot_name, database, active FROM pg_replication_slots",
           "SELECT s.datname, s.phase, s.relid::regclass, p.relname FROM pg_stat_progress_vacuum s LEFT JOIN pg_class p ON p.oid = s.relid")


@feature("queries")
def _():
    found = rows("SELECT pg_database.datname, tmp.state, tmp2.usename, COALESCE(count,0) as count, COALESCE(max_tx_duration,0) as max_tx_duration"
                 " FROM (VALUES ('active'), ('disabled')) AS tmp(state) CROSS JOIN pg_database"
                 " LEFT JOIN (SELECT datname, state, usename, count(*) AS count, MAX(EXTRACT(EPOCH FROM now() - xact_start))::float AS max_tx_duration"
                 " FROM pg_stat_activity GROUP BY datname, state, usename) AS tmp2 ON tmp.state = tmp2.state AND pg_database.datname = tmp2.datname WHERE tmp.state = 'disabled'")
    same(found, [("dev", "disabled", None, 0, 0.0)])
    simple("SELECT COUNT(*) as transactions, MAX(EXTRACT(EPOCH FROM clock_timestamp() - xact_start)) AS oldest FROM pg_catalog.pg_stat_activity"
           " WHERE state IS DISTINCT FROM 'idle' AND (clock_timestamp() - xact_start) > interval '5 minutes' AND query NOT LIKE 'autovacuum:%'")
