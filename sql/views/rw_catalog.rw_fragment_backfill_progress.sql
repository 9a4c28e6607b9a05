-- rw_catalog.rw_fragment_backfill_progress (oid 15208): Progress of the jobs that are being created, as RisingWave shows it. tidegate.split_backfill_progress tells more.
--
-- job_id int4: The job.
-- fragment_id int4: The fragment that backfills.
-- job_name text: The job's name.
-- upstream_table_name text: The source that it reads.
-- progress text: Rows read so far, in words.
SELECT f.job_id AS job_id, f.id AS fragment_id, r.name AS job_name, s.name AS upstream_table_name,
  (SELECT COALESCE(sum(state_rows(b.state)), 0) FROM main.backfill_states b WHERE b.fragment_id = f.id) || ' consumed rows' AS progress
FROM main.fragments f
JOIN main.jobs j ON j.id = f.job_id
JOIN main.relations r ON r.id = f.job_id
JOIN main.relations s ON s.id = f.source_id
WHERE f.kind = 'source scan' AND j.status = 'creating'
