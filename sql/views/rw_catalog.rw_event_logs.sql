-- rw_catalog.rw_event_logs (oid 15213): What happened: barriers that failed, recoveries, jobs made and dropped.
--
-- unique_id text: The event's id.
-- timestamp timestamptz: When.
-- event_type text: What kind.
-- info jsonb: The facts.
SELECT CAST(id AS TEXT) AS unique_id, at AS "timestamp", event_type, info_json AS info FROM main.events
