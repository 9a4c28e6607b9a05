-- base.relations (oid 0): What other views use to list relations. Not visible to users.
--
-- oid oid: The relation's oid.
-- name name: Its name.
-- namespace oid: Its schema.
-- kind char: As pg_class.relkind: m materialized view, f source, r state table, v virtual table.
-- owner oid: Its owner.
-- definition text: The statement that made it.
-- natts int2: How many columns it has.
-- populated bool: A materialized view's backfill is done; true for the others.
SELECT oid, name, namespace, kind, 10 AS owner, definition, natts, 1 AS populated
FROM temp.catalog_relations
UNION ALL
SELECT r.id, r.name, 2200, CASE r.kind WHEN 'source' THEN 'f' ELSE 'm' END, COALESCE((SELECT u.id FROM main.users u WHERE u.name = r.owner), 10),
  r.definition, (SELECT count(*) FROM main.columns c WHERE c.relation_id = r.id), COALESCE((SELECT j.status = 'created' FROM main.jobs j WHERE j.id = r.id), 1)
FROM main.relations r
UNION ALL
SELECT f.id, '__internal_' || r.name || '_' || f.id || '_sourcebackfill_' || f.id, 2200, 'r',
  COALESCE((SELECT u.id FROM main.users u WHERE u.name = r.owner), 10), '', 2, 1
FROM main.fragments f JOIN main.relations r ON r.id = f.job_id
WHERE f.kind = 'source scan'
