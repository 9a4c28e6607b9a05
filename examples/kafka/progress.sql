-- How far is each partition, where does the topic end, what holds it?
--   psql -h 127.0.0.1 -p 4567 -U root dev -f examples/kafka/progress.sql
SELECT job_name, split_id AS partition, actor_id, state, low_watermark AS low, high_watermark AS high,
       backfill_offset, target_offset, round(progress_percent, 1) AS percent, blocked_by
FROM tidegate.split_backfill_progress
ORDER BY job_name, split_id;

-- Did retention take messages before they could be read?
SELECT source_name, split_id AS partition, job_name, from_offset, to_offset, offsets, at FROM tidegate.split_gaps;
