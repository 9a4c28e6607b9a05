-- rw_catalog.rw_actors (oid 15205): The actors.
--
-- actor_id int4: The actor's id.
-- fragment_id int4: Its fragment.
-- worker_id int4: The worker that runs it.
-- state text: RUNNING.
SELECT id AS actor_id, fragment_id, 1 AS worker_id, 'RUNNING' AS state FROM main.actors
