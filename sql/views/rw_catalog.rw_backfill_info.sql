-- rw_catalog.rw_backfill_info (oid 15207): The backfills of jobs that are being created.
--
-- job_id int4: The job.
-- fragment_id int4: The fragment that backfills.
-- backfill_state_table_id int4: Its state table.
-- backfill_target_relation_id int4: The source that it reads.
-- backfill_type text: SOURCE.
-- backfill_epoch int8: NULL: a source backfill has no snapshot epoch.
SELECT f.job_id AS job_id, f.id AS fragment_id, f.id AS backfill_state_table_id, f.source_id AS backfill_target_relation_id,
  'SOURCE' AS backfill_type, NULL AS backfill_epoch
FROM main.fragments f
JOIN main.jobs j ON j.id = f.job_id
WHERE f.kind = 'source scan' AND j.status = 'creating'
