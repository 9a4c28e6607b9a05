"""What Django asks: as it connects, for its test database, and to inspect tables for inspectdb and migrations."""

from replay import *


@feature("connect")
def _():
    simple("SELECT set_config('TimeZone', 'UTC', false)", "SHOW server_version", "SELECT 1 AS a WHERE 1=1 LIMIT 21")


@feature("databases")
def _():
    same(rows("SELECT 1 FROM pg_catalog.pg_database WHERE datname = %s", "dev"), [(1,)])


@feature("relations")
def _():
    found = rows("SELECT c.relname, CASE WHEN c.relispartition THEN 'p' WHEN c.relkind IN ('m', 'v') THEN 'v' ELSE 't' END, obj_description(c.oid, 'pg_class')"
                 " FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
                 " WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND n.nspname NOT IN ('pg_catalog', 'pg_toast') AND pg_catalog.pg_table_is_visible(c.oid)")
    kinds = {row[0]: row[1] for row in found}
    same((kinds["mv"], kinds["s"]), ("v", "t"))


@feature("columns")
def _():
    found = rows("SELECT a.attname AS column_name, NOT (a.attnotnull OR (t.typtype = 'd' AND t.typnotnull)) AS is_nullable,"
                 " pg_get_expr(ad.adbin, ad.adrelid) AS column_default, CASE WHEN collname = 'default' THEN NULL ELSE collname END AS collation,"
                 " a.attidentity != '' AS is_autofield, col_description(a.attrelid, a.attnum) AS column_comment"
                 " FROM pg_attribute a LEFT JOIN pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum"
                 " LEFT JOIN pg_collation co ON a.attcollation = co.oid JOIN pg_type t ON a.atttypid = t.oid JOIN pg_class c ON a.attrelid = c.oid"
                 " JOIN pg_namespace n ON c.relnamespace = n.oid WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND c.relname = %s"
                 " AND n.nspname NOT IN ('pg_toast') AND pg_catalog.pg_table_is_visible(c.oid)", "mv")
    same(found, [("id", True, None, None, False, None), ("amount", True, None, None, False, None)])


@feature("details")
def _():
    same(rows("SELECT c.conname, array(SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(colid, arridx) JOIN pg_attribute AS ca ON cols.colid = ca.attnum"
              " WHERE ca.attrelid = c.conrelid ORDER BY cols.arridx), c.contype,"
              " (SELECT fkc.relname || '.' || fka.attname FROM pg_attribute AS fka JOIN pg_class AS fkc ON fka.attrelid = fkc.oid"
              " WHERE fka.attrelid = c.confrelid AND fka.attnum = c.confkey[1]), cl.reloptions"
              " FROM pg_constraint AS c JOIN pg_class AS cl ON c.conrelid = cl.oid WHERE cl.relname = %s AND pg_catalog.pg_table_is_visible(cl.oid)", "mv"), [])
    same(rows("SELECT indexname, array_agg(attname ORDER BY arridx), indisunique, indisprimary, array_agg(ordering ORDER BY arridx), amname, exprdef, s2.attoptions"
              " FROM (SELECT c2.relname as indexname, idx.*, attr.attname, am.amname,"
              " CASE WHEN idx.indexprs IS NOT NULL THEN pg_get_indexdef(idx.indexrelid) END AS exprdef,"
              " CASE am.amname WHEN 'btree' THEN CASE (option & 1) WHEN 1 THEN 'DESC' ELSE 'ASC' END END as ordering, c2.reloptions as attoptions"
              " FROM (SELECT * FROM pg_index i, unnest(i.indkey, i.indoption) WITH ORDINALITY koi(key, option, arridx)) idx"
              " LEFT JOIN pg_class c ON idx.indrelid = c.oid LEFT JOIN pg_class c2 ON idx.indexrelid = c2.oid LEFT JOIN pg_am am ON c2.relam = am.oid"
              " LEFT JOIN pg_attribute attr ON attr.attrelid = c.oid AND attr.attnum = idx.key WHERE c.relname = %s AND pg_catalog.pg_table_is_visible(c.oid)) s2"
              " GROUP BY indexname, indisunique, indisprimary, amname, exprdef, attoptions", "mv"), [])
    simple("SELECT a1.attname, c2.relname, a2.attname, con.conname FROM pg_constraint con LEFT JOIN pg_class c1 ON con.conrelid = c1.oid"
           " LEFT JOIN pg_class c2 ON con.confrelid = c2.oid LEFT JOIN pg_attribute a1 ON c1.oid = a1.attrelid AND a1.attnum = con.conkey[1]"
           " LEFT JOIN pg_attribute a2 ON c2.oid = a2.attrelid AND a2.attnum = con.confkey[1] WHERE c1.relname = 'mv' AND con.contype = 'f'"
           " AND c1.relnamespace = c2.relnamespace AND pg_catalog.pg_table_is_visible(c1.oid)")


@feature("queries")
def _():
    same(rows('SELECT COUNT(*) AS "__count" FROM "mv" WHERE "mv"."id" >= %s', 0), [(1000,)])
    same(rows('SELECT "mv"."id" FROM "mv" ORDER BY "mv"."id" ASC LIMIT 1'), [(0,)])
