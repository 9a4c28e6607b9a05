-- base.acl_text (oid 0): What was granted on relations, as aclitems in a JSON array: owner first. Not visible to users.
--
-- oid oid: The relation.
-- acl text: '["root=rA/root","bi=r/root"]'; letters as in PostgreSQL, and A for ALTER.
SELECT g.oid AS oid, json_group_array(g.grantee || '=' || g.letters || '/' || g.grantor) AS acl
FROM (SELECT a.oid AS oid, COALESCE(u.name, '') AS grantee, COALESCE(w.name, 'root') AS grantor,
    CASE WHEN max(a.privilege = 'SELECT') THEN 'r' ELSE '' END || CASE WHEN max(a.privilege = 'ALTER') THEN 'A' ELSE '' END AS letters
  FROM "base.acl" a LEFT JOIN main.users u ON u.id = a.grantee LEFT JOIN main.users w ON w.id = a.grantor
  JOIN "base.relations" r ON r.oid = a.oid
  GROUP BY a.oid, a.grantee, a.grantor ORDER BY a.oid, a.grantee <> r.owner, a.grantee) g
GROUP BY g.oid
