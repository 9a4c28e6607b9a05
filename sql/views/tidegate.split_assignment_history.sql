-- tidegate.split_assignment_history (oid 15104): Where a split was before. One row an assignment that has ended.
--
-- source_id int4: Id of the source.
-- source_name text: Its name at that time.
-- split_id text: The split.
-- actor_id int4: The source's actor that read it.
-- assigned_at timestamptz: Since when.
-- assigned_by int8: The rescale that moved it there. NULL: its first assignment.
-- ended_at timestamptz: Until when.
-- ended_by int8: The rescale that moved it away. NULL: the source was dropped.
SELECT source_id, source_name, split_id, actor_id, assigned_at, assigned_by, ended_at, ended_by
FROM main.split_assignment_history
