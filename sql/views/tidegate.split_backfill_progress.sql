-- tidegate.split_backfill_progress (oid 15101): How far the backfill of every split of every materialized view is. One row a job and split, from the moment that the split is assigned.
--
-- job_id int4: Id of the materialized view.
-- job_name text: Name of the materialized view.
-- schema_name text: Its schema.
-- source_id int4: Id of the source that is backfilled.
-- source_name text: Name of the source.
-- fragment_id int4: The source scan fragment that does the backfill.
-- actor_id int4: The actor of that fragment that holds the split.
-- worker_id int4: The worker that runs the actor.
-- split_id text: The split: a file, a Kafka partition. Unique within its source.
-- stage text: The actor's stage, backfill or forwarding. An actor in the forwarding stage can't backfill any more.
-- state text: not_started, Backfilling, SourceCachingUp or Finished. NULL when the state row doesn't parse: see raw.
-- backfill_offset int8: Backfilling: the last offset that the reader has emitted. SourceCachingUp: the offset that upstream has to reach. NULL otherwise.
-- target_offset int8: Where the reader may stop. Moves on while the split is Backfilling. NULL: not known yet.
-- start_offset int8: The first offset that there was to read. NULL: not known.
-- upstream_offset int8: The last offset that the live stream has passed. NULL: none yet.
-- low_watermark int8: The first offset that can be read now.
-- high_watermark int8: Where the next row will be.
-- remaining int8: Offsets left to the target. Offsets aren't rows: there are gaps, and a file's are bytes. NULL: not known.
-- progress_percent float8: Share of start..target that is done, 0 to 100. Never goes down; 100 only when the state is Finished. NULL: not known.
-- is_estimate bool: True while the target still moves, so that progress_percent is measured against a moving end.
-- num_consumed_rows int8: Rows that the reader has read. NULL: not known.
-- rows_per_second float8: Smoothed speed of the reader. NULL: not known yet.
-- offsets_per_second float8: The same in offsets. NULL: not known yet.
-- eta interval: Time left at the speed at which remaining falls: the reader's less that of the target. NULL: not known, below 1 percent, no longer reading, or never at this speed, which blocked_by says.
-- stalled_for interval: How long an unfinished split hasn't moved; NULL when it moved in the last few seconds or is Finished.
-- blocked_by text: What holds the split, in words, and whether it heals by itself. NULL: nothing.
-- first_seen_at timestamptz: When the job first saw the split.
-- last_change_at timestamptz: When its state last moved.
-- epoch int8: The checkpoint that wrote the state.
-- updated_at timestamptz: When this row was last looked at by the engine.
-- raw jsonb: The state row as it is stored; a JSON string when it doesn't parse; NULL when there is none.
SELECT f.job_id AS job_id, r.name AS job_name, r.schema AS schema_name, f.source_id AS source_id, s.name AS source_name,
  f.id AS fragment_id, ja.id AS actor_id, CASE WHEN ja.id IS NOT NULL THEN 1 END AS worker_id, a.split_id AS split_id, ja.stage AS stage,
  CASE WHEN b.state IS NULL THEN 'not_started' ELSE state_name(b.state) END AS state,
  state_offset(b.state) AS backfill_offset,
  state_target(b.state) AS target_offset,
  g.start_offset AS start_offset,
  p.upstream_offset AS upstream_offset, p.low_watermark AS low_watermark, p.high_watermark AS high_watermark,
  split_remaining(b.state, g.start_offset) AS remaining,
  split_percent(b.state, g.start_offset, g.max_percent) AS progress_percent,
  CASE WHEN b.state IS NULL THEN 1 ELSE state_name(b.state) = 'Backfilling' END AS is_estimate,
  CASE WHEN b.state IS NULL THEN 0 ELSE state_rows(b.state) END AS num_consumed_rows,
  g.rows_per_second AS rows_per_second, g.offsets_per_second AS offsets_per_second,
  CASE WHEN g.closing_per_second > 0 AND state_name(b.state) = 'Backfilling'
    THEN split_eta(b.state, g.start_offset, g.max_percent, g.closing_per_second) END AS eta,
  CASE WHEN state_name(b.state) = 'Finished' THEN NULL
    WHEN now_micros() - g.last_change_at > 5000000 THEN now_micros() - g.last_change_at END AS stalled_for,
  COALESCE(CASE WHEN state_name(b.state) = 'Finished' THEN NULL ELSE COALESCE(g.blocked_by,
    CASE WHEN b.state IS NOT NULL AND state_name(b.state) IS NULL
      THEN 'the state row doesn''t parse: recreate the materialized view' END,
    CASE WHEN j.rate_limit = 0
      THEN 'the backfill rate limit is 0: ALTER MATERIALIZED VIEW ' || r.name || ' SET backfill_rate_limit = DEFAULT resumes it' END) END,
    CASE WHEN p.error IS NOT NULL
      THEN 'source unreachable since ' || strftime('%Y-%m-%d %H:%M:%S', p.error_at / 1000000, 'unixepoch') || ' UTC: ' || p.error || iif(instr(p.error, '(needs a person'), '', ' (goes on by itself once that is mended)') END,
    CASE WHEN so.discovery_error IS NOT NULL
      THEN 'source unreachable since ' || strftime('%Y-%m-%d %H:%M:%S', so.discovery_error_at / 1000000, 'unixepoch') || ' UTC: ' || so.discovery_error || ' (goes on by itself once that is mended)' END,
    CASE WHEN ja.id IS NULL AND NOT COALESCE(state_name(b.state) = 'Finished', 0)
      THEN 'no actor holds the split: waiting for a barrier' END) AS blocked_by,
  g.first_seen_at AS first_seen_at, g.last_change_at AS last_change_at, b.epoch AS epoch, g.updated_at AS updated_at,
  CASE WHEN b.state IS NULL THEN NULL WHEN state_name(b.state) IS NULL THEN json_quote(b.state) ELSE b.state END AS raw
FROM main.fragments f
JOIN main.jobs j ON j.id = f.job_id
JOIN main.relations r ON r.id = f.job_id
JOIN main.relations s ON s.id = f.source_id
JOIN main.sources so ON so.id = f.source_id
JOIN main.split_assignments a ON a.source_id = f.source_id
LEFT JOIN main.splits p ON p.source_id = a.source_id AND p.split_id = a.split_id
LEFT JOIN main.actors sa ON sa.id = a.actor_id
LEFT JOIN main.actors ja ON ja.fragment_id = f.id AND ja.position = sa.position
LEFT JOIN main.backfill_states b ON b.fragment_id = f.id AND b.split_id = a.split_id
LEFT JOIN main.split_progress g ON g.fragment_id = f.id AND g.split_id = a.split_id
WHERE f.kind = 'source scan'
