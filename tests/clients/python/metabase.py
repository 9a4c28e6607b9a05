"""What Metabase asks when it connects to a database, looks for its tables and fields, and samples them."""

from replay import *


@feature("connect")
def _():
    simple("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, ISOLATION LEVEL READ COMMITTED", "SHOW timezone", "SELECT 1",
           "SELECT current_setting('server_version'), current_setting('server_version_num')::int",
           "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")


@feature("databases")
def _():
    found = rows("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
                 " AND has_schema_privilege(nspname, 'USAGE') ORDER BY nspname")
    same(found, [("public",), ("rw_catalog",), ("tidegate",)])


@feature("relations")
def _():
    found = rows("""
        SELECT n.nspname AS schema, c.relname AS name,
            CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW'
                WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW' END AS type,
            d.description, stat.n_live_tup AS estimated_row_count
        FROM pg_catalog.pg_class AS c
        INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
        LEFT JOIN pg_catalog.pg_description AS d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
        LEFT JOIN pg_stat_user_tables AS stat ON n.nspname = stat.schemaname AND c.relname = stat.relname
        WHERE c.relnamespace = n.oid AND (n.nspname !~ '^pg_') AND (n.nspname <> 'information_schema')
            AND c.relkind IN ('r', 'p', 'v', 'f', 'm') AND n.nspname IN ('public', 'tidegate')
        ORDER BY type ASC, schema ASC, name ASC""")
    kinds = {row[1]: row[2] for row in found}
    same((kinds["mv"], kinds["s"], kinds["split_gaps"]), ("MATERIALIZED VIEW", "FOREIGN TABLE", "VIEW"))
    may = rows("""
        WITH relations AS (
            SELECT schemaname AS schema, tablename AS name FROM pg_catalog.pg_tables
            UNION SELECT schemaname, viewname FROM pg_catalog.pg_views
            UNION SELECT schemaname, matviewname FROM pg_catalog.pg_matviews)
        SELECT NULL AS role, t.schema, t.name,
            pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schema, '"', '""') || '"."' || replace(t.name, '"', '""') || '"', 'select') AS "select",
            pg_catalog.has_any_column_privilege(current_user, format('%I.%I', t.schema, t.name), 'update') AS "update"
        FROM relations AS t WHERE t.schema !~ '^pg_' AND t.schema <> 'information_schema'
            AND pg_catalog.has_schema_privilege(current_user, t.schema, 'usage')""", )
    assert {row[2] for row in may if row[3]} >= {"mv", "split_gaps"}, may


@feature("columns")
def _():
    found = rows("""
        SELECT c.column_name AS name, c.udt_name AS database_type, c.ordinal_position - 1 AS position, c.table_schema, c.table_name,
            pk.column_name IS NOT NULL AS is_key,
            col_description(CAST(CAST(format('%I.%I', CAST(c.table_schema AS text), CAST(c.table_name AS text)) AS regclass) AS oid), c.ordinal_position) AS comment,
            ((column_default IS NULL OR LOWER(column_default) = 'null') AND is_nullable = 'NO') AS is_required,
            ((column_default IS NOT NULL AND column_default LIKE '%nextval(%') OR is_identity <> 'NO') AS counts
        FROM information_schema.columns AS c
        LEFT JOIN (
            SELECT tc.table_schema, tc.table_name, kc.column_name
            FROM information_schema.table_constraints AS tc
            INNER JOIN information_schema.key_column_usage AS kc
                ON tc.constraint_name = kc.constraint_name AND tc.table_schema = kc.table_schema AND tc.table_name = kc.table_name
            WHERE tc.constraint_type = 'PRIMARY KEY') AS pk
            ON c.table_schema = pk.table_schema AND c.table_name = pk.table_name AND c.column_name = pk.column_name
        WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND c.table_schema IN ('public', 'tidegate')
        UNION ALL
        SELECT pa.attname, pt.typname, pa.attnum - 1, pn.nspname, pc.relname, FALSE, NULL, FALSE, FALSE
        FROM pg_catalog.pg_class AS pc
        INNER JOIN pg_catalog.pg_namespace AS pn ON pn.oid = pc.relnamespace
        INNER JOIN pg_catalog.pg_attribute AS pa ON pa.attrelid = pc.oid
        INNER JOIN pg_catalog.pg_type AS pt ON pt.oid = pa.atttypid
        WHERE pc.relkind = 'm' AND pa.attnum >= 1 AND pn.nspname IN ('public', 'tidegate')
        ORDER BY table_schema, table_name, position""")
    # It takes rows that are the same for one.
    same({row for row in found if row[4] == "mv"},
         {("id", "int8", 0, "public", "mv", False, None, False, False), ("amount", "float8", 1, "public", "mv", False, None, False, False)})
    assert all(row[6] for row in found if row[4] == "split_gaps"), found


@feature("details")
def _():
    same(rows("""
        SELECT fk_ns.nspname, fk_table.relname, fk_column.attname, pk_ns.nspname, pk_table.relname, pk_column.attname
        FROM pg_constraint AS c
        JOIN pg_class AS fk_table ON c.conrelid = fk_table.oid JOIN pg_namespace AS fk_ns ON c.connamespace = fk_ns.oid
        JOIN pg_attribute AS fk_column ON c.conrelid = fk_column.attrelid
        JOIN pg_class AS pk_table ON c.confrelid = pk_table.oid JOIN pg_namespace AS pk_ns ON pk_table.relnamespace = pk_ns.oid
        JOIN pg_attribute AS pk_column ON c.confrelid = pk_column.attrelid
        WHERE c.contype = 'f'::"char" AND fk_column.attnum = ANY(c.conkey) AND pk_column.attnum = ANY(c.confkey)
        ORDER BY 1, 2"""), [])
    same(rows("""
        SELECT tmp.table_schema, tmp.table_name, TRIM(BOTH '"' FROM pg_catalog.pg_get_indexdef(tmp.ci_oid, tmp.pos, false)) AS name
        FROM (SELECT n.nspname AS table_schema, ct.relname AS table_name, ci.oid AS ci_oid,
                (information_schema._pg_expandarray(i.indkey)).n AS pos
            FROM pg_catalog.pg_class AS ct JOIN pg_catalog.pg_namespace AS n ON ct.relnamespace = n.oid
            JOIN pg_catalog.pg_index AS i ON ct.oid = i.indrelid JOIN pg_catalog.pg_class AS ci ON ci.oid = i.indexrelid
            WHERE pg_catalog.pg_get_expr(i.indpred, i.indrelid) IS NULL AND n.nspname !~ '^information_schema|^pg_') AS tmp
        WHERE tmp.pos = 1"""), [])
    simple("SELECT nspname, typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN (SELECT DISTINCT e.enumtypid FROM pg_enum e)")


@feature("queries")
def _():
    found = rows('SELECT "source"."id" AS "id", SUBSTRING("source"."text", 1, 1234) AS "part"'
                 ' FROM (SELECT "public"."mv"."id" AS "id", \'x\' AS "text" FROM "public"."mv") AS "source" LIMIT 5')
    same(len(found), 5)
    for unit in ("minute", "hour", "day", "month", "quarter", "year"):
        at = f"DATE_TRUNC('{unit}', \"tidegate\".\"split_backfill_progress\".\"updated_at\")"
        found = rows(f'SELECT {at} AS "at", COUNT(*) AS "count" FROM "tidegate"."split_backfill_progress" GROUP BY {at} ORDER BY {at} ASC')
        same(sum(row[1] for row in found), 8, unit)
    found = rows('SELECT COUNT(*) FROM "tidegate"."split_backfill_progress" WHERE "updated_at" >= DATE_TRUNC(\'day\', (NOW() + (INTERVAL \'-30 day\')))'
                 ' AND "updated_at" < DATE_TRUNC(\'day\', (NOW() + (INTERVAL \'1 day\')))')
    same(found, [(8,)])
    same(rows('SELECT (CAST(extract(dow from "updated_at") AS integer) + 1) AS "day" FROM "tidegate"."split_backfill_progress" GROUP BY 1') != [], True)
