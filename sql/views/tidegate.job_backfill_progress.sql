-- tidegate.job_backfill_progress (oid 15102): How far the backfill of every materialized view is, over all its splits.
--
-- job_id int4: Id of the materialized view.
-- job_name text: Its name.
-- source_name text: The source that it reads; several are listed with commas.
-- splits int8: Splits of these sources that are assigned.
-- finished int8: Splits that are Finished. A rescale is safe for these.
-- catching_up int8: Splits whose reader has reached its target and that wait for upstream.
-- backfilling int8: Splits that are being read, or not started yet.
-- progress_percent float8: Share of all offsets that is done, weighted by work. 100 only when every split is Finished. NULL: a split's range isn't known yet.
-- remaining int8: Offsets left, over all splits. NULL: not known.
-- rows_per_second float8: Speed of all readers together. NULL: not known.
-- eta interval: Time until the slowest split reaches its target. NULL: not known for a split that still reads.
-- blocked_by text: What holds the job, in words. NULL: nothing.
-- started_at timestamptz: When the materialized view was made.
-- finished_at timestamptz: When every split was Finished or SourceCachingUp, which is when RisingWave calls the job created. NULL: not yet.
SELECT j.id AS job_id, r.name AS job_name,
  (SELECT group_concat(name, ', ') FROM (SELECT s.name FROM main.fragments f JOIN main.relations s ON s.id = f.source_id
    WHERE f.job_id = j.id AND f.kind = 'source scan' ORDER BY f.id)) AS source_name,
  count(p.split_id) AS splits,
  count(CASE WHEN p.state = 'Finished' THEN 1 END) AS finished,
  count(CASE WHEN p.state = 'SourceCachingUp' THEN 1 END) AS catching_up,
  count(CASE WHEN p.state IN ('Backfilling', 'not_started') THEN 1 END) AS backfilling,
  CASE WHEN count(p.split_id) = 0 THEN NULL
    WHEN count(CASE WHEN p.state = 'Finished' THEN 1 END) = count(p.split_id) THEN 100.0
    WHEN count(CASE WHEN p.work IS NULL THEN 1 END) > 0 THEN NULL
    ELSE min(99.9, sum(p.work * p.progress_percent) / max(sum(p.work), 1)) END AS progress_percent,
  CASE WHEN count(p.split_id) > 0 AND count(CASE WHEN p.remaining IS NULL THEN 1 END) = 0 THEN sum(p.remaining) END AS remaining,
  sum(CASE WHEN p.state = 'Backfilling' THEN p.rows_per_second END) AS rows_per_second,
  CASE WHEN count(CASE WHEN p.state IN ('Backfilling', 'not_started') AND p.eta IS NULL THEN 1 END) = 0 THEN max(p.eta) END AS eta,
  CASE WHEN count(p.blocked_by) > 1 THEN min(p.blocked_by) || ' (' || count(p.blocked_by) || ' splits are held)' ELSE min(p.blocked_by) END AS blocked_by,
  j.started_at AS started_at, j.finished_at AS finished_at
FROM main.jobs j
JOIN main.relations r ON r.id = j.id
LEFT JOIN (SELECT *, COALESCE(split_work(raw, start_offset), CASE WHEN state = 'Finished' THEN 0 END) AS work
  FROM "tidegate.split_backfill_progress") p ON p.job_id = j.id
GROUP BY j.id
