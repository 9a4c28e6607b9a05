-- tidegate.rescale_history (oid 15106): Every ALTER of a source or view: committed, refused or cancelled.
--
-- rescale_id int8: Its id.
-- source_name text: The source or view.
-- statement text: The statement as it was given.
-- policy text: The rule that was checked: forwarding, all_finished or stage_aware.
-- from_parallelism int4: Actors before.
-- to_parallelism int4: Actors that were asked for.
-- decision text: committed, refused or cancelled.
-- moved_splits int4: Splits that changed actors. 0 when it was refused, NULL when it was cancelled.
-- offending jsonb: The splits that stood in the way, with their states; an empty array when none did.
-- requested_by text: Who asked for it.
-- application_name text: With which program.
-- requested_at timestamptz: When it was asked for.
-- decided_at timestamptz: When it was decided.
-- epoch int8: The checkpoint at which it was decided.
-- sqlstate text: The error's code when refused.
-- previous_assignment jsonb: The assignment before it, by actor: enough to roll back by hand.
-- cancelled_by text: Who withdrew it with CANCEL RESCALE. NULL when nobody did, as when its source was dropped.
SELECT id AS rescale_id, source_name, statement, policy, from_parallelism, to_parallelism, decision, moved_splits, offending_json AS offending,
  requested_by, application_name, requested_at, decided_at, epoch, sqlstate, previous_assignment_json AS previous_assignment, cancelled_by
FROM main.rescales
WHERE decision <> 'pending'
