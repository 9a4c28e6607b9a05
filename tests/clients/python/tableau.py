"""What Tableau sends over psqlODBC: its handshake, its lists, and grouped queries with ordinals through a cursor."""

from replay import *


@feature("connect")
def _():
    simple("SET DateStyle = 'ISO'; SET extra_float_digits = 2; SHOW transaction_isolation", "SELECT oid, typbasetype FROM pg_type WHERE typname = 'lo'",
           "SET client_encoding TO 'UTF8'", "SHOW max_identifier_length", "SELECT current_schema()")
    # It tries whether it may make tables of its own; that it may not it has to be told as PostgreSQL tells it.
    try:
        db.execute('CREATE LOCAL TEMPORARY TABLE "#Tableau_1_Connect" ("COL" INTEGER) ON COMMIT PRESERVE ROWS')
        raise AssertionError("it made a table")
    except psycopg.Error as error:
        same(error.sqlstate, "0A000")
    simple("SELECT 1")


@feature("databases")
def _():
    simple("SELECT NULL, NULL, NULL", "SELECT NULL AS table_cat, nspname AS table_schem FROM pg_catalog.pg_namespace n ORDER BY nspname")


@feature("relations")
def _():
    found = rows("SELECT relname, nspname, relkind FROM pg_catalog.pg_class c, pg_catalog.pg_namespace n WHERE relkind IN ('r', 'v', 'm', 'f', 'p')"
                 " AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'pg_temp_1') AND n.oid = relnamespace ORDER BY nspname, relname")
    same({row[0] for row in found} >= {"mv", "split_gaps"}, True)


@feature("columns")
def _():
    found = rows("SELECT n.nspname, c.relname, a.attname, a.atttypid, t.typname, a.attnum, a.attlen, a.atttypmod, a.attnotnull, c.relhasrules, c.relkind, c.oid,"
                 " pg_get_expr(d.adbin, d.adrelid), CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE 0 END, t.typtypmod, false, attidentity, c.relhassubclass"
                 " FROM (((pg_catalog.pg_class c INNER JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND c.relname = E'mv' AND n.nspname = E'public')"
                 " INNER JOIN pg_catalog.pg_attribute a ON (NOT a.attisdropped) AND a.attnum > 0 AND a.attrelid = c.oid)"
                 " INNER JOIN pg_catalog.pg_type t ON t.oid = a.atttypid) LEFT OUTER JOIN pg_attrdef d ON a.atthasdef AND d.adrelid = a.attrelid AND d.adnum = a.attnum"
                 " ORDER BY n.nspname, c.relname, attnum")
    same([row[2] for row in found], ["id", "amount"])


@feature("details")
def _():
    same(rows("SELECT ta.attname, ia.attnum, ic.relname, n.nspname, tc.relname FROM pg_catalog.pg_attribute ta, pg_catalog.pg_attribute ia, pg_catalog.pg_class tc, pg_catalog.pg_index i,"
              " pg_catalog.pg_namespace n, pg_catalog.pg_class ic WHERE tc.relname = 'mv' AND n.nspname = 'public' AND tc.oid = i.indrelid AND n.oid = tc.relnamespace"
              " AND i.indisprimary = 't' AND ia.attrelid = i.indexrelid AND ta.attrelid = i.indrelid AND ta.attnum = i.indkey[ia.attnum-1] AND (NOT ta.attisdropped)"
              " AND (NOT ia.attisdropped) AND ic.oid = i.indexrelid ORDER BY ia.attnum"), [])


@feature("queries")
def _():
    db.execute("BEGIN")
    db.execute('DECLARE "SQL_CUR1" CURSOR WITH HOLD FOR SELECT "split_backfill_progress"."job_name" AS "job_name", COUNT(*) AS "cnt"'
               ' FROM "tidegate"."split_backfill_progress" "split_backfill_progress" GROUP BY 1')
    same(len(db.execute('FETCH 2048 IN "SQL_CUR1"').fetchall()), 2)
    db.execute('CLOSE "SQL_CUR1"')
    db.execute("COMMIT")
    simple('SELECT DATE_TRUNC(\'DAY\', CAST("p"."updated_at" AS TIMESTAMP)) AS "tdy", SUM(1) AS "n" FROM "tidegate"."split_backfill_progress" "p" GROUP BY 1',
           'SELECT SUM(1) AS "COL" FROM "public"."mv" "mv" HAVING (COUNT(1) > 0)', 'SELECT "mv"."id" FROM "public"."mv" "mv" WHERE ((CASE WHEN ("mv"."id" >= 0) THEN 1 ELSE 0 END) = 1) LIMIT 10')
