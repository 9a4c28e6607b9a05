-- rw_catalog.rw_actor_splits (oid 15206): Which actor holds which split: the source's actors and the backfill actors paired with them.
--
-- actor_id int4: The actor.
-- split_id text: The split.
-- source_id int4: Its source.
-- fragment_id int4: The actor's fragment.
-- fragment_type text: SHARED_SOURCE or SHARED_SOURCE_BACKFILL.
SELECT ac.id AS actor_id, a.split_id AS split_id, a.source_id AS source_id, f.id AS fragment_id,
  CASE f.kind WHEN 'source' THEN 'SHARED_SOURCE' ELSE 'SHARED_SOURCE_BACKFILL' END AS fragment_type
FROM main.split_assignments a
JOIN main.actors sa ON sa.id = a.actor_id
JOIN main.fragments f ON f.source_id = a.source_id
JOIN main.actors ac ON ac.fragment_id = f.id AND ac.position = sa.position
