-- rw_catalog.rw_ddl_progress (oid 15209): The jobs that are being created.
--
-- ddl_id int8: The job.
-- ddl_statement text: The statement that creates it.
-- create_type text: FOREGROUND or BACKGROUND.
-- progress text: Percent done, and rows read so far.
-- initialized_at timestamptz: When it was started.
-- is_serverless_backfill bool: False.
-- backfill_type text: SOURCE.
SELECT j.id AS ddl_id, r.definition AS ddl_statement, CASE WHEN j.background THEN 'BACKGROUND' ELSE 'FOREGROUND' END AS create_type,
  COALESCE((SELECT printf('%.2f%%', p.progress_percent) FROM "tidegate.job_backfill_progress" p WHERE p.job_id = j.id), 'unknown')
    || ' (' || (SELECT COALESCE(sum(state_rows(b.state)), 0) FROM main.fragments f JOIN main.backfill_states b ON b.fragment_id = f.id WHERE f.job_id = j.id)
    || ' consumed rows)' AS progress,
  j.started_at AS initialized_at, 0 AS is_serverless_backfill, 'SOURCE' AS backfill_type
FROM main.jobs j
JOIN main.relations r ON r.id = j.id
WHERE j.status = 'creating'
