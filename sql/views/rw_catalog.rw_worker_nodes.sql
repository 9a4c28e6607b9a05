-- rw_catalog.rw_worker_nodes (oid 15218): The workers: one, this process.
--
-- id int4: The worker's id.
-- host text: Its address.
-- port text: NULL: it has no port of its own.
-- type text: WORKER_TYPE_COMPUTE_NODE.
-- state text: RUNNING.
-- parallelism int4: Actors that a fragment gets when its parallelism is adaptive. NULL: not known.
-- is_streaming bool: True.
-- is_serving bool: True.
-- is_unschedulable bool: False.
-- rw_version text: Tidegate's version.
-- started_at timestamptz: When it was started.
SELECT 1 AS id, '127.0.0.1' AS host, NULL AS port, 'WORKER_TYPE_COMPUTE_NODE' AS type, 'RUNNING' AS state,
  (SELECT CAST(value AS INTEGER) FROM main.settings WHERE name = 'parallelism') AS parallelism,
  1 AS is_streaming, 1 AS is_serving, 0 AS is_unschedulable, server_version() AS rw_version, started_at_micros() AS started_at
