-- How far is each split, what is it waiting for, when will it be done?
--   psql -h 127.0.0.1 -p 4567 -U root dev -f examples/psql/progress.sql
SELECT job_name, source_name, finished, splits, round(progress_percent, 1) AS percent, eta, blocked_by
FROM tidegate.job_backfill_progress
ORDER BY progress_percent NULLS FIRST;

SELECT job_name, split_id, state, remaining, round(progress_percent, 1) AS percent, rows_per_second, stalled_for, blocked_by
FROM tidegate.split_backfill_progress
WHERE state <> 'Finished'
ORDER BY progress_percent NULLS FIRST
LIMIT 20;
