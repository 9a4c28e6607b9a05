-- tidegate.split_gaps (oid 15110): Offsets that a source deleted (Kafka's retention) before they could be read. The split went on behind them; what was in them is in no view that missed them.
--
-- source_id int4: Id of the source.
-- source_name text: Its name.
-- split_id text: The split.
-- job_name text: The materialized view whose backfill missed them. NULL: the live stream, and with it every view.
-- from_offset int8: The first offset that was gone.
-- to_offset int8: Where the split went on.
-- offsets int8: How many offsets that are. Offsets aren't rows.
-- at timestamptz: When it was noticed.
SELECT g.source_id AS source_id, r.name AS source_name, g.split_id AS split_id, j.name AS job_name,
  g.from_offset AS from_offset, g.to_offset AS to_offset, g.to_offset - g.from_offset AS offsets, g.at AS at
FROM main.split_gaps g
LEFT JOIN main.relations r ON r.id = g.source_id
LEFT JOIN main.relations j ON j.id = g.job_id
