"""What Power BI's navigator asks, over Npgsql."""

from replay import *


@feature("connect")
def _():
    simple("SELECT version()", "DISCARD ALL", "SELECT character_set_name FROM information_schema.character_sets",
           "SELECT pg_is_in_recovery()")


@feature("databases")
def _():
    same(rows("SELECT datname FROM pg_database WHERE NOT datistemplate"), [("dev",)])


@feature("relations")
def _():
    found = rows("SELECT table_schema, table_name, table_type FROM information_schema.tables"
                 " WHERE table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY table_schema, table_name")
    same(("tidegate", "split_gaps", "VIEW") in found, True)


@feature("columns")
def _():
    found = rows("SELECT column_name, ordinal_position, is_nullable,"
                 " CASE WHEN (data_type LIKE '%%unsigned%%') THEN data_type || ' unsigned' ELSE data_type END AS data_type"
                 " FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY table_schema, table_name, ordinal_position", "tidegate", "split_gaps")
    assert found and found[0][1] == 1, found


@feature("details")
def _():
    simple("SELECT ii.column_name AS \"INDEX_COLUMN\", ii.table_name AS \"INDEX_NAME\" FROM information_schema.key_column_usage ii"
           " INNER JOIN information_schema.table_constraints i ON i.constraint_schema = ii.constraint_schema AND i.constraint_name = ii.constraint_name"
           " AND i.table_schema = ii.table_schema AND i.table_name = ii.table_name WHERE i.constraint_type IN ('PRIMARY KEY', 'UNIQUE') AND ii.table_name = 'mv'",
           "SELECT pkcol.column_name AS pk_column, fkcol.table_schema AS fk_schema, fkcol.table_name AS fk_table, fkcol.column_name AS fk_column, fkcol.ordinal_position AS ordinal,"
           " fkcon.constraint_schema || '_' || fkcol.table_name || '_mv_' || fkcon.constraint_name AS fk_name"
           " FROM (SELECT DISTINCT constraint_catalog, constraint_schema, unique_constraint_schema, constraint_name, unique_constraint_name FROM information_schema.referential_constraints) fkcon"
           " INNER JOIN information_schema.key_column_usage fkcol ON fkcon.constraint_schema = fkcol.constraint_schema AND fkcon.constraint_name = fkcol.constraint_name"
           " INNER JOIN information_schema.key_column_usage pkcol ON fkcon.unique_constraint_schema = pkcol.constraint_schema AND fkcon.unique_constraint_name = pkcol.constraint_name"
           " WHERE pkcol.table_schema = 'public' AND pkcol.table_name = 'mv' AND pkcol.ordinal_position = fkcol.ordinal_position ORDER BY fk_name, fkcol.ordinal_position")


@feature("queries")
def _():
    same(len(rows('SELECT "$Table"."id" AS "id", "$Table"."amount" AS "amount" FROM "public"."mv" "$Table" LIMIT 1000')), 1000)
    simple('SELECT "rows"."job_name" AS "job_name", count(1) AS "count" FROM (SELECT "job_name" FROM "tidegate"."split_backfill_progress" "$Table") "rows" GROUP BY "job_name" LIMIT 4096',
           'SELECT count(distinct("_"."id")) + MAX(CASE WHEN "_"."id" IS NULL THEN 1 ELSE 0 END) AS "C1" FROM "public"."mv" "_"')
