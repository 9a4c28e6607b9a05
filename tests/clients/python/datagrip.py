"""What DataGrip and its sisters ask when they introspect a database: only what has changed since a transaction, by xmin."""

from replay import *


@feature("connect")
def _():
    simple("SELECT version()", "SET application_name = 'DataGrip'", "SHOW TRANSACTION ISOLATION LEVEL", "SELECT current_database() AS a, current_schemas(false) AS b",
           "SELECT round(extract(epoch FROM pg_postmaster_start_time() AT TIME ZONE 'UTC')) AS startup_time", "SELECT usesuper FROM pg_user WHERE usename = current_user",
           "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE (pg_catalog.txid_current() % 4294967296)::varchar::bigint END AS current_txid",
           "SELECT is_dst, utc_offset FROM pg_catalog.pg_timezone_names WHERE name = current_setting('TIMEZONE')")


@feature("databases")
def _():
    found = rows("SELECT n.oid::bigint AS id, datname AS name, d.description, datistemplate AS is_template, datallowconn AS allow_connections,"
                 " pg_catalog.pg_get_userbyid(n.datdba) AS \"owner\" FROM pg_catalog.pg_database n"
                 " LEFT JOIN pg_catalog.pg_shdescription d ON n.oid = d.objoid ORDER BY CASE WHEN datname = pg_catalog.current_database() THEN -1::bigint ELSE n.oid::bigint END")
    same(found[0][1], "dev")
    found = rows("SELECT n.oid::bigint AS id, n.xmin AS state_number, nspname AS name, d.description, pg_catalog.pg_get_userbyid(n.nspowner) AS \"owner\""
                 " FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_description d ON n.oid = d.objoid"
                 " ORDER BY CASE WHEN nspname = pg_catalog.current_schema() THEN -1::bigint ELSE n.oid::bigint END")
    same(found[0][2], "public")
    simple("SELECT r.oid::bigint AS role_id, rolname AS role_name, rolsuper AS is_super, rolinherit AS is_inherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolconnlimit, rolvaliduntil, rolbypassrls, rolconfig, d.description"
           " FROM pg_catalog.pg_roles r LEFT JOIN pg_catalog.pg_shdescription d ON d.objoid = r.oid",
           "SELECT member id, roleid role_id, admin_option FROM pg_catalog.pg_auth_members ORDER BY id, roleid::text",
           "SELECT T.oid::bigint AS id, T.spcname AS name, T.xmin AS state_number, pg_catalog.pg_get_userbyid(T.spcowner) AS owner, pg_catalog.pg_tablespace_location(T.oid) AS location, T.spcoptions AS options, D.description AS comment FROM pg_catalog.pg_tablespace T LEFT JOIN pg_catalog.pg_shdescription D ON D.objoid = T.oid",
           "SELECT T.oid AS object_id, T.spcacl AS acl FROM pg_catalog.pg_tablespace T UNION ALL SELECT T.oid, T.datacl FROM pg_catalog.pg_database T",
           "SELECT L.oid AS id, L.xmin AS state_number, lanname AS name, lanpltrusted AS trusted, h.proname AS handler FROM pg_catalog.pg_language L LEFT JOIN pg_catalog.pg_proc h ON h.oid = lanplcallfoid ORDER BY lanname",
           "SELECT A.oid AS access_method_id, A.xmin AS state_number, A.amname, A.amhandler::oid AS handler_id, pg_catalog.quote_ident(N.nspname) || '.' || pg_catalog.quote_ident(P.proname) AS handler_name, A.amtype FROM pg_am A JOIN pg_proc P ON A.amhandler::oid = P.oid JOIN pg_namespace N ON P.pronamespace = N.oid",
           "SELECT E.oid AS id, E.xmin AS state_number, extname AS name, extversion AS version, extnamespace AS schema_id FROM pg_catalog.pg_extension E",
           "SELECT fdw.oid AS id, fdw.xmin AS state_number, fdw.fdwname AS name, fdw.fdwoptions AS options FROM pg_catalog.pg_foreign_data_wrapper fdw",
           "SELECT srv.oid AS id, srv.srvfdw AS fdw_id, srv.xmin AS state_number, srv.srvname AS name, srv.srvtype AS type, srv.srvversion, srv.srvoptions FROM pg_catalog.pg_foreign_server srv",
           "SELECT L.transactionid::varchar::bigint AS transaction_id FROM pg_catalog.pg_locks L WHERE L.transactionid IS NOT NULL ORDER BY pg_catalog.age(L.transactionid) DESC LIMIT 1")


@feature("relations")
def _():
    found = rows("SELECT T.relkind AS table_kind, T.relname AS table_name, T.oid AS table_id, T.xmin AS table_state_number, false AS table_with_oids,"
                 " T.reltablespace AS tablespace_id, T.reloptions AS options, T.relpersistence AS persistence,"
                 " (SELECT pg_catalog.array_agg(inhparent::bigint ORDER BY inhseqno)::varchar FROM pg_catalog.pg_inherits WHERE T.oid = inhrelid) AS ancestors,"
                 " T.relispartition AS is_partition, pg_catalog.pg_get_partkeydef(T.oid) AS partition_key, pg_catalog.pg_get_userbyid(T.relowner) AS \"owner\""
                 " FROM pg_catalog.pg_class T WHERE T.relnamespace = %s::oid AND T.relkind IN ('r', 'm', 'v', 'f', 'p') AND pg_catalog.age(T.xmin) <= coalesce(nullif(greatest(pg_catalog.age('1'::varchar::xid), -1), -1), 2147483647)"
                 " ORDER BY table_kind, table_id", 2200)
    same({row[1] for row in found} >= {"mv", "busy", "s", "slow"}, True)
    simple("SELECT ft.ftrelid AS table_id, srv.srvname AS server, ft.ftoptions AS options FROM pg_catalog.pg_foreign_table ft LEFT JOIN pg_foreign_server srv ON ft.ftserver = srv.oid",
           "SELECT T.oid AS object_id, T.relacl AS acl FROM pg_catalog.pg_class T WHERE T.relnamespace = 2200::oid AND T.relacl IS NOT NULL",
           "SELECT cls.xmin AS sequence_state_number, sq.seqrelid AS sequence_id, cls.relname AS sequence_name, pg_catalog.format_type(sq.seqtypid, NULL) AS data_type FROM pg_catalog.pg_sequence sq JOIN pg_class cls ON sq.seqrelid = cls.oid WHERE cls.relnamespace = 2200::oid")


@feature("columns")
def _():
    found = rows("WITH T AS (SELECT DISTINCT T.oid AS table_id, T.relname AS table_name FROM pg_catalog.pg_class T, pg_catalog.pg_attribute A"
                 " WHERE T.relnamespace = 2200::oid AND T.relkind IN ('r', 'm', 'v', 'f', 'p') AND A.attrelid = T.oid)"
                 " SELECT T.table_id, C.attnum AS column_position, C.attname AS column_name, C.xmin AS column_state_number, C.atttypmod AS type_mod, C.attndims AS dimensions_number,"
                 " pg_catalog.format_type(C.atttypid, C.atttypmod) AS type_spec, C.atttypid AS type_id, C.attnotnull AS mandatory,"
                 " pg_catalog.pg_get_expr(D.adbin, T.table_id) AS column_default_expression, NOT C.attislocal AS column_is_inherited, C.attfdwoptions AS options, C.attisdropped,"
                 " C.attidentity AS identity_kind, C.attgenerated AS generated"
                 " FROM T JOIN pg_catalog.pg_attribute C ON T.table_id = C.attrelid LEFT JOIN pg_catalog.pg_attrdef D ON (C.attrelid, C.attnum) = (D.adrelid, D.adnum)"
                 " WHERE attnum > 0 ORDER BY table_id, attnum")
    mv = oid("mv")
    same([(row[2], row[6]) for row in found if row[0] == mv], [("id", "bigint"), ("amount", "double precision")])
    simple("SELECT T.oid AS type_id, T.xmin AS type_state_number, T.typname AS type_name, T.typtype AS type_sub_kind, T.typcategory, T.typrelid AS class_id, T.typbasetype AS base_type_id,"
           " CASE WHEN T.typtype IN ('c','e') THEN NULL ELSE pg_catalog.format_type(T.typbasetype, T.typtypmod) END AS type_def, T.typndims, T.typdefault, T.typnotnull AS mandatory"
           " FROM pg_catalog.pg_type T LEFT JOIN pg_catalog.pg_class C ON T.typrelid = C.oid WHERE T.typnamespace = 2200::oid AND (T.typtype IN ('d','e') OR C.relkind = 'c'::\"char\" OR (T.typtype = 'b' AND (T.typelem = 0 OR T.typcategory <> 'A')) OR T.typtype = 'p' AND NOT T.typisdefined) ORDER BY 1")


@feature("details")
def _():
    simple("SELECT T.oid AS view_id, pg_catalog.pg_get_viewdef(T.oid) AS source_text FROM pg_catalog.pg_class T WHERE T.relnamespace = 2200::oid AND T.relkind IN ('v', 'm')",
           "SELECT D.objoid AS id, CASE WHEN 'pg_catalog.pg_class'::regclass = D.classoid THEN 'R' ELSE 'O' END AS kind, D.objsubid AS sub_id, D.description FROM pg_catalog.pg_description D JOIN pg_catalog.pg_class C ON D.objoid = C.oid WHERE C.relnamespace = 2200::oid AND C.relkind != 'c' AND D.classoid = 'pg_catalog.pg_class'::regclass ORDER BY objsubid",
           "SELECT tab.oid AS table_id, tab.relkind AS table_kind, ind_stor.relname AS index_name, ind_head.indexrelid AS index_id, ind_stor.xmin AS state_number, ind_head.indisunique AS is_unique, ind_head.indisprimary AS is_primary,"
           " pg_catalog.pg_get_expr(ind_head.indpred, ind_head.indrelid) AS condition, (SELECT pg_catalog.array_agg(inhparent::bigint ORDER BY inhseqno)::varchar FROM pg_catalog.pg_inherits WHERE ind_stor.oid = inhrelid) AS ancestors, ind_stor.reltablespace AS tablespace_id, opcmethod AS access_method_id"
           " FROM pg_catalog.pg_class tab JOIN pg_catalog.pg_index ind_head ON ind_head.indrelid = tab.oid JOIN pg_catalog.pg_class ind_stor ON tab.relnamespace = ind_stor.relnamespace AND ind_stor.oid = ind_head.indexrelid"
           " LEFT JOIN pg_catalog.pg_opclass ON pg_opclass.oid = ind_head.indclass[0] WHERE tab.relnamespace = 2200::oid AND tab.relkind IN ('r', 'm', 'v', 'p') AND ind_stor.relkind IN ('i', 'I')",
           "SELECT T.oid AS table_id, relkind AS table_kind, C.oid::bigint AS con_id, C.xmin::varchar::bigint AS con_state_id, conname AS con_name, contype AS con_kind, conkey AS con_columns, conindid AS index_id, confrelid AS ref_table_id, condeferrable, condeferred, confupdtype, confdeltype, connoinherit,"
           " pg_catalog.pg_get_expr(conbin, T.oid) AS con_expression, confkey AS ref_columns, conexclop::int[] AS excl_operators FROM pg_catalog.pg_constraint C JOIN pg_catalog.pg_class T ON C.conrelid = T.oid WHERE relkind IN ('r','v','f','p') AND relnamespace = 2200::oid AND contype IN ('p','u','f','c','x') AND connamespace = 2200::oid",
           "SELECT R.ev_class AS table_id, R.oid AS rule_id, R.xmin AS rule_state_number, R.rulename AS rule_name, pg_catalog.translate(ev_type,'1234','SUID') AS rule_event_code, R.ev_enabled, R.is_instead FROM pg_catalog.pg_rewrite R WHERE R.ev_class IN (SELECT oid FROM pg_catalog.pg_class WHERE relnamespace = 2200::oid) AND R.rulename != '_RETURN'::name ORDER BY R.ev_class::bigint, ev_type",
           "SELECT T.tgrelid AS table_id, T.oid AS trigger_id, T.xmin AS trigger_state_number, T.tgname, T.tgfoid AS function_id, pg_catalog.encode(T.tgargs, 'escape') AS function_args, T.tgtype AS bits, T.tgdeferrable, T.tginitdeferred, T.tgenabled, T.tgattr AS columns FROM pg_catalog.pg_trigger T WHERE T.tgrelid IN (SELECT oid FROM pg_catalog.pg_class WHERE relnamespace = 2200::oid) AND NOT T.tgisinternal",
           "WITH L AS (SELECT oid AS lang_oid, lanname AS lang FROM pg_catalog.pg_language) SELECT R.oid AS r_id, proname AS r_name, prolang AS lang_oid, L.lang, prokind, proargnames AS arg_names, proargmodes AS arg_modes, proargtypes::int[] AS in_arg_types, proallargtypes::int[] AS all_arg_types, pg_catalog.pg_get_expr(proargdefaults, 0) AS arg_defaults, provariadic, prorettype AS ret_type_id, proretset, provolatile, proisstrict, prosecdef, proparallel FROM pg_catalog.pg_proc R JOIN L ON L.lang_oid = R.prolang WHERE R.pronamespace = 2200::oid",
           "SELECT O.oid AS op_id, O.xmin AS state_number, oprname AS op_name, oprkind AS op_kind, oprleft AS arg_left_type_id, oprright, oprresult, oprcode::oid AS main_id, oprcode::varchar AS main_name FROM pg_catalog.pg_operator O WHERE oprnamespace = 2200::oid")


@feature("queries")
def _():
    simple("SELECT t.* FROM public.mv t LIMIT 501", "SELECT COUNT(*) FROM (SELECT t.* FROM public.mv t) AS rows", "SHOW search_path",
           "EXPLAIN (VERBOSE FALSE, FORMAT JSON) SELECT * FROM public.mv", "SELECT t.* FROM tidegate.split_backfill_progress t ORDER BY job_name DESC LIMIT 501")
