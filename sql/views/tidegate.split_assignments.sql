-- tidegate.split_assignments (oid 15103): Which actor of a source holds which split now.
--
-- source_id int4: Id of the source.
-- source_name text: Its name.
-- split_id text: The split.
-- actor_id int4: The source's actor that reads it.
-- worker_id int4: The worker that runs the actor.
-- assigned_at timestamptz: Since when.
-- assigned_by int8: The rescale that moved it there, as in rescale_history. NULL: its first assignment.
SELECT a.source_id AS source_id, r.name AS source_name, a.split_id AS split_id, a.actor_id AS actor_id, 1 AS worker_id,
  a.assigned_at AS assigned_at, a.assigned_by AS assigned_by
FROM main.split_assignments a
JOIN main.relations r ON r.id = a.source_id
