-- tidegate.invariant_violations (oid 15107): States that must not be: what RisingWave's actor would have died of. The server keeps serving.
--
-- id int8: Its id.
-- at timestamptz: When it was found.
-- job_name text: The materialized view.
-- split_id text: The split.
-- actor_id int4: The actor that met it.
-- stage text: That actor's stage.
-- message text: What is wrong, in RisingWave's words where it has some.
-- state jsonb: The state row in full; a JSON string when it doesn't parse.
SELECT id, at, job_name, split_id, actor_id, stage, message,
  CASE WHEN state IS NULL OR json_valid(state) THEN state ELSE json_quote(state) END AS state
FROM main.invariant_violations
