-- base.schema_acl (oid 0): What was granted on schemas, as aclitems in a JSON array. Not visible to users.
--
-- oid oid: The schema.
-- acl text: '["root=UC/root","=U/root"]'; U and C as in PostgreSQL, r and A for all relations in it.
SELECT s.oid AS oid, json_insert(json_insert(COALESCE((SELECT json_group_array(g.item) FROM (
    SELECT COALESCE(u.name, '') || '=' || CASE WHEN max(a.privilege = 'SELECT') THEN 'r' ELSE '' END
      || CASE WHEN max(a.privilege = 'ALTER') THEN 'A' ELSE '' END || CASE WHEN max(a.privilege = 'CREATE') THEN 'C' ELSE '' END
      || '/' || COALESCE(max(w.name), 'root') AS item
    FROM main.grants a LEFT JOIN main.users u ON u.id = a.grantee LEFT JOIN main.users w ON w.id = a.grantor
    WHERE a.object = s.oid GROUP BY a.grantee) g), '[]'), '$[#]', o.name || '=UC/' || o.name), '$[#]', '=U/' || o.name) AS acl
FROM temp.catalog_schemas s JOIN main.users o ON o.id = 10
