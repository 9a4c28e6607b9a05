-- pg_catalog.pg_stat_bgwriter (oid 12289): What the background writer has done. There is none.
--
-- checkpoints_timed int8
-- checkpoints_req int8
-- checkpoint_write_time float8
-- checkpoint_sync_time float8
-- buffers_checkpoint int8
-- buffers_clean int8
-- maxwritten_clean int8
-- buffers_backend int8
-- buffers_backend_fsync int8
-- buffers_alloc int8
-- stats_reset timestamptz
SELECT 0 AS checkpoints_timed, 0 AS checkpoints_req, 0 AS checkpoint_write_time, 0 AS checkpoint_sync_time,
  0 AS buffers_checkpoint, 0 AS buffers_clean, 0 AS maxwritten_clean, 0 AS buffers_backend,
  0 AS buffers_backend_fsync, 0 AS buffers_alloc, NULL AS stats_reset
