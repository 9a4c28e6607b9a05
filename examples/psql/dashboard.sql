-- What a BI tool charts: progress, rates and refusals, as ordinary SQL.
SELECT source_name, job_name, sum(remaining) AS offsets_left, sum(rows_per_second) AS rows_per_second,
       min(progress_percent) AS slowest_split
FROM tidegate.split_backfill_progress
GROUP BY source_name, job_name
ORDER BY offsets_left DESC;

-- Every ALTER is in the history, those of rate limits too: these are the ones that asked for a parallelism.
SELECT date_trunc('hour', decided_at) AS hour, decision, count(*) AS rescales
FROM tidegate.rescale_history
WHERE statement ILIKE '%parallelism%'
GROUP BY 1, 2
ORDER BY 1, 2;
