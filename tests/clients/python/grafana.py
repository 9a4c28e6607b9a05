"""What Grafana's PostgreSQL data source asks: its health check, its query builder's lists, variables, and queries whose time
macros stand for these expressions."""

from replay import *

PROGRESS = "tidegate.split_backfill_progress"
WITHIN = "updated_at BETWEEN '2020-01-01T00:00:00Z' AND '2100-01-01T00:00:00Z'"


@feature("connect")
def _():
    simple("SELECT 1", "SELECT current_setting('server_version_num')::int/100 as version",
           "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'")


@feature("databases")
def _():
    same(rows("SELECT datname FROM pg_database WHERE datistemplate = false AND datallowconn"), [("dev",)])
    same(rows("SELECT quote_ident(schema_name) FROM information_schema.schemata WHERE schema_name = 'tidegate'"), [("tidegate",)])


@feature("relations")
def _():
    found = rows("""
        SELECT CASE WHEN quote_ident(table_schema) = ANY(
                SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
                FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
                    array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
                    string_to_array(current_setting('search_path'), ',') s)
            THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
        FROM information_schema.tables
        WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache', '_timescaledb_catalog')
        ORDER BY 1""")
    same(("split_backfill_progress",) in found, True)


@feature("columns")
def _():
    found = rows("SELECT quote_ident(column_name) AS \"column\", data_type AS \"type\" FROM information_schema.columns"
                 " WHERE quote_ident(table_schema) = 'public' AND quote_ident(table_name) = 'mv' ORDER BY ordinal_position")
    same(found, [("id", "bigint"), ("amount", "double precision")])
    found = rows("SELECT column_name FROM information_schema.columns WHERE table_schema = 'tidegate' AND table_name = 'split_backfill_progress'"
                 " AND data_type IN ('timestamp without time zone', 'timestamp with time zone', 'bigint', 'integer', 'double precision', 'real')")
    same(("updated_at",) in found, True)


@feature("details")
def _():
    simple("SELECT oprname, oprleft::regtype, oprright::regtype FROM pg_operator WHERE oprname = '='",
           "SELECT typname, typarray FROM pg_type WHERE typarray <> 0")


@feature("queries")
def _():
    group = lambda seconds: f"floor(extract(epoch from updated_at)/{seconds})*{seconds}"
    found = rows(f'SELECT {group(60)} AS "time", job_name AS metric, avg(offset_lag) AS value FROM (SELECT updated_at, job_name, 1.0 AS offset_lag'
                 f" FROM {PROGRESS}) p WHERE {WITHIN} GROUP BY 1, 2 ORDER BY 1, 2")
    same({row[1] for row in found}, {"busy", "mv"})
    simple(f'SELECT updated_at AS "time", job_name FROM {PROGRESS} WHERE {WITHIN} ORDER BY 1',
           f'SELECT extract(epoch from updated_at) as "time", extract(epoch from updated_at) as timeend, job_name AS text FROM {PROGRESS} WHERE {WITHIN}',
           f"SELECT time_bucket, count(*) FROM (SELECT date_trunc('minute', updated_at) AS time_bucket FROM {PROGRESS}) b GROUP BY 1",
           f"SELECT count(*) FROM {PROGRESS} WHERE extract(epoch from updated_at) >= 1577836800 AND extract(epoch from updated_at) <= 4102444800",
           f"SELECT count(*) FROM {PROGRESS} WHERE updated_at >= '2020-01-01T00:00:00.123Z' AND updated_at <= '2100-01-01T00:00:00Z'")
    # Variables: their values, and the panels that use them.
    same(rows(f'SELECT DISTINCT job_name AS "__text", job_name AS "__value" FROM {PROGRESS} ORDER BY 1'), [("busy", "busy"), ("mv", "mv")])
    same(rows(f"SELECT count(*) FROM {PROGRESS} WHERE job_name IN ('busy','mv') AND job_name ~ '^(busy|mv)$'"), [(8,)])
