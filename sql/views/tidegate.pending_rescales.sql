-- tidegate.pending_rescales (oid 15105): Rescales that are deferred or running.
--
-- rescale_id int8: Its id: CANCEL RESCALE takes it.
-- source_name text: The source.
-- target text: The parallelism asked for: a number, adaptive, bounded(n) or ratio(r).
-- from_parallelism int4: Actors when it was asked for.
-- to_parallelism int4: Actors that the target means.
-- policy text: The rule that it has to pass: forwarding, all_finished or stage_aware.
-- waiting_for text[]: What stands in the way, in words.
-- requested_by text: Who asked for it.
-- requested_at timestamptz: When.
SELECT id AS rescale_id, source_name, target, from_parallelism, to_parallelism, policy, waiting_json AS waiting_for, requested_by, requested_at
FROM main.rescales
WHERE decision = 'pending'
