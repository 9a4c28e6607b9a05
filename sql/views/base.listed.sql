-- base.listed (oid 0): The relations that lists show: all but state tables, which rw_catalog.rw_internal_tables lists. Not visible to users.
--
-- oid oid: The relation's oid.
-- name name: Its name.
-- namespace oid: Its schema.
-- kind char: As in base.relations.
-- owner oid: Its owner.
-- definition text: The statement that made it.
-- natts int2: How many columns it has.
-- populated bool: As in base.relations.
SELECT r.oid AS oid, r.name AS name, r.namespace AS namespace, r.kind AS kind, r.owner AS owner, r.definition AS definition, r.natts AS natts,
  r.populated AS populated
FROM "base.relations" r WHERE r.namespace <> 2200 OR r.kind <> 'r'
