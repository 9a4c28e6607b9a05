"""What DBeaver asks as its tree of a database is opened, node by node."""

from replay import *


@feature("connect")
def _():
    simple("SET extra_float_digits = 3", "SET application_name = 'DBeaver 24 - Main'", "SELECT version()",
           "SELECT current_schema(), session_user", "SHOW search_path", "SELECT current_database()",
           "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
           "SELECT t.oid, t.* FROM pg_catalog.pg_type t WHERE t.typname IS NULL",
           "SELECT * FROM pg_catalog.pg_enum WHERE 1<>1 LIMIT 1", "SELECT reltype FROM pg_catalog.pg_class WHERE 1<>1 LIMIT 1",
           "SHOW server_version_num", "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'standard_conforming_strings'")


@feature("databases")
def _():
    same(rows("SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate OR db.datname = %s"
              " ORDER BY db.datname", "dev")[0][2], "dev")
    found = rows("SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n"
                 " LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass"
                 " ORDER BY nspname")
    same({row[2] for row in found} >= {"public", "tidegate", "pg_catalog"}, True)
    simple("SELECT a.oid, a.* FROM pg_catalog.pg_roles a ORDER BY a.oid", "SELECT a.*, b.rolname FROM pg_auth_members a JOIN pg_roles b ON b.oid = a.member",
           "SELECT t.oid, t.*, pg_tablespace_location(t.oid) loc FROM pg_catalog.pg_tablespace t ORDER BY t.oid",
           "SELECT x.oid, x.*, pg_database_size(x.datname) FROM pg_catalog.pg_database x",
           "SELECT x.oid, x.*, n.nspname AS schema_name FROM pg_catalog.pg_extension x JOIN pg_namespace n ON n.oid = x.extnamespace ORDER BY extname",
           "SELECT l.oid, l.* FROM pg_catalog.pg_language l ORDER BY l.oid", "SELECT am.oid, am.* FROM pg_catalog.pg_am am ORDER BY am.oid",
           "SELECT c.oid, c.* FROM pg_catalog.pg_foreign_data_wrapper c", "SELECT s.oid, s.*, p.* FROM pg_catalog.pg_foreign_server s LEFT JOIN pg_foreign_data_wrapper p ON p.oid = s.srvfdw",
           "SELECT e.oid, e.* FROM pg_catalog.pg_event_trigger e", "SELECT * FROM pg_catalog.pg_settings", "SELECT sa.* FROM pg_catalog.pg_stat_activity sa")


@feature("relations")
def _():
    found = rows("""
        SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr,
            pg_catalog.pg_get_partkeydef(c.oid) AS partition_key
        FROM pg_catalog.pg_class c
        LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
        WHERE c.relnamespace = %s AND c.relkind NOT IN ('i', 'I', 'c') ORDER BY c.relname""", rows("SELECT 'public'::regnamespace::oid")[0][0])
    same({row[2] for row in found} >= {"mv", "busy", "s", "slow"}, True)
    simple("SELECT c.relname, ft.ftoptions, fs.srvname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_foreign_table ft ON ft.ftrelid = c.oid"
           " JOIN pg_catalog.pg_foreign_server fs ON fs.oid = ft.ftserver",
           "SELECT i.*, c.relnamespace FROM pg_catalog.pg_inherits i, pg_catalog.pg_class c WHERE i.inhrelid = 1 AND c.oid = i.inhparent ORDER BY i.inhseqno",
           "SELECT c.oid, pg_catalog.pg_total_relation_size(c.oid) AS total_rel_size, pg_catalog.pg_relation_size(c.oid) AS rel_size FROM pg_class c WHERE c.relnamespace = 2200",
           "SELECT seq.*, s.relname FROM pg_sequence seq JOIN pg_class s ON s.oid = seq.seqrelid",
           "SELECT count(*) FROM pg_catalog.pg_sequences")


@feature("columns")
def _():
    found = rows("""
        SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description, dep.objid
        FROM pg_catalog.pg_attribute a
        INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
        LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
        LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
        LEFT OUTER JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i' AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid
        WHERE NOT a.attisdropped AND c.relkind NOT IN ('i', 'I', 'c') AND c.oid = %s ORDER BY a.attnum""", oid("mv"))
    same([row[2] for row in found][-2:], ["id", "amount"])
    simple("""SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name, d.description
        FROM pg_catalog.pg_type t
        LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem
        LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
        LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid
        WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')""")


@feature("details")
def _():
    mv = oid("mv")
    simple(f"SELECT pg_get_viewdef({mv}, true)",
           f"SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description, pg_get_constraintdef(c.oid) FROM pg_catalog.pg_constraint c"
           f" INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid"
           f" LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass WHERE c.conrelid = {mv} ORDER BY c.oid",
           f"SELECT i.*, i.indkey AS keys, c.relname, c.relnamespace, c.relam, c.reltablespace, tc.relname AS tabrelname, dsc.description, pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr,"
           f" pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) AS expr, pg_catalog.pg_relation_size(i.indexrelid) AS index_rel_size FROM pg_catalog.pg_index i"
           f" INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid"
           f" LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid = dsc.objoid WHERE i.indrelid = {mv} ORDER BY tabrelname, c.relname",
           f"SELECT x.oid, x.*, p.pronamespace AS func_schema_id, d.description, pg_catalog.pg_get_triggerdef(x.oid) FROM pg_catalog.pg_trigger x LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid = x.tgfoid"
           f" LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = x.oid AND d.objsubid = 0 WHERE x.tgrelid = {mv} AND NOT x.tgisinternal",
           f"SELECT r.*, pg_get_ruledef(r.oid) FROM pg_rewrite r WHERE r.ev_class = {mv} AND r.rulename <> '_RETURN'::name",
           f"SELECT pol.* FROM pg_policies pol WHERE schemaname = 'public' AND tablename = 'mv'",
           f"SELECT * FROM information_schema.table_privileges WHERE table_schema = 'public' AND table_name = 'mv'",
           f"SELECT DISTINCT dep.deptype, dep.classid, dep.objid, cl.relkind, attr.attname, pg_get_expr(ad.adbin, ad.adrelid) adefval,"
           f" CASE WHEN cl.relkind IS NOT NULL THEN cl.relkind || COALESCE(dep.objsubid::text, '') WHEN con.oid IS NOT NULL THEN 'C'::char || con.contype ELSE '' END AS type,"
           f" COALESCE(cl.relname, con.conname, ty.typname) AS refname FROM pg_depend dep LEFT JOIN pg_class cl ON dep.objid = cl.oid LEFT JOIN pg_constraint con ON con.oid = dep.objid"
           f" LEFT JOIN pg_type ty ON dep.objid = ty.oid LEFT JOIN pg_attribute attr ON dep.objid = attr.attrelid AND dep.objsubid = attr.attnum"
           f" LEFT JOIN pg_attrdef ad ON ad.oid = dep.objid WHERE dep.refobjid = {mv} ORDER BY type",
           "SELECT p.oid AS poid, p.*, pg_catalog.pg_get_expr(p.proargdefaults, 0) AS arg_defaults, d.description FROM pg_catalog.pg_proc p"
           " LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = p.oid WHERE p.pronamespace = 2200 ORDER BY p.proname",
           "SELECT c.oid, c.* FROM pg_catalog.pg_collation c ORDER BY c.oid LIMIT 5")


@feature("queries")
def _():
    simple("SELECT x.* FROM public.mv x LIMIT 200", "SELECT count(*) FROM public.mv", "EXPLAIN SELECT * FROM public.mv",
           "SELECT pg_backend_pid()", "SELECT x.* FROM tidegate.split_backfill_progress x WHERE state = 'Backfilling' ORDER BY job_name LIMIT 200 OFFSET 0")
