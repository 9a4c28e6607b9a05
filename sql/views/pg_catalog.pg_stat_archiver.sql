-- pg_catalog.pg_stat_archiver (oid 12285): What the archiver has done. There is none.
--
-- archived_count int8
-- last_archived_wal text
-- last_archived_time timestamptz
-- failed_count int8
-- last_failed_wal text
-- last_failed_time timestamptz
-- stats_reset timestamptz
SELECT 0 AS archived_count, NULL AS last_archived_wal, NULL AS last_archived_time, 0 AS failed_count,
  NULL AS last_failed_wal, NULL AS last_failed_time, NULL AS stats_reset
