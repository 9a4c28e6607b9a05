"""Superset: a database connection, its schemas and tables, a data set's columns, and queries as its charts and SQL Lab send them."""

import contextlib
import os
import sys
import tempfile
from importlib.metadata import version

home = tempfile.mkdtemp()
with open(os.path.join(home, "superset_config.py"), "w") as config:
    config.write(f"""
SECRET_KEY = "only for this run"
SQLALCHEMY_DATABASE_URI = "sqlite:///{home}/superset.db"
FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = {{"CACHE_TYPE": "NullCache"}}
""")
os.environ.update(SUPERSET_HOME=home, SUPERSET_CONFIG_PATH=os.path.join(home, "superset_config.py"))

import logging

logging.disable(logging.CRITICAL)

# It says which configuration it has, where only features are to be told.
with contextlib.redirect_stdout(sys.stderr):
    from superset.app import create_app

    app = create_app()
app.app_context().push()

from common import *

from superset.connectors.sqla.models import SqlaTable
from superset.models.core import Database
from superset.sql.parse import Table
from superset.utils.core import GenericDataType

print("version", version("apache-superset"))
database = Database(id=1, database_name="tides", sqlalchemy_uri=f"postgresql+psycopg2://root@{HOST}:{PORT}/dev")
spec = database.db_engine_spec


@feature("connect")
def _():
    with database.get_sqla_engine() as engine, engine.connect() as c:
        same(engine.dialect.do_ping(engine.raw_connection()), True)
        same(c.execute("SELECT 1").scalar(), 1)


@feature("databases")
def _():
    same(database.get_all_catalog_names(force=True), {"dev"})
    same({"public", "tidegate", "rw_catalog"} <= set(database.get_all_schema_names(catalog=None)), True)


@feature("relations")
def _():
    names = lambda found: {name for name, *_ in found}
    assert {"s", "slow"} <= names(database.get_all_table_names_in_schema(catalog=None, schema="public"))
    assert {"mv", "busy"} <= names(database.get_all_view_names_in_schema(catalog=None, schema="public"))
    assert "split_gaps" in names(database.get_all_view_names_in_schema(catalog=None, schema="tidegate"))
    same(database.has_table(Table("mv", "public")), True)


@feature("details")
def _():
    mv = Table("mv", "public")
    same((database.get_indexes(mv), database.get_foreign_keys(mv), database.get_table_comment(mv)), ([], [], None))
    assert "backfill of every split" in database.get_table_comment(Table("split_backfill_progress", "tidegate"))


@feature("columns")
def _():
    for schema, table in (("public", "mv"), ("public", "s"), ("tidegate", "split_backfill_progress")):
        columns = SqlaTable(table_name=table, schema=schema, database=database).external_metadata()
        assert all(column["type_generic"] is not None for column in columns), columns
    times = [c["column_name"] for c in columns if c["type_generic"] == GenericDataType.TEMPORAL]
    assert "updated_at" in times, columns


@feature("queries")
def _():
    for grain in spec.get_time_grain_expressions().values():
        at = grain.replace("{col}", "at")
        rows = "(SELECT now() AS at, amount FROM mv) AS virtual_table"
        frame = database.get_df(f"SELECT {at} AS at, count(*) AS n, max(amount) AS most FROM {rows} GROUP BY {at} ORDER BY n DESC LIMIT 10")
        same(int(frame["n"].sum()), 1000, at)
    # SQL Lab.
    with database.get_sqla_engine(schema="tidegate") as engine:
        connection = engine.raw_connection()
        cursor = connection.cursor()
        spec.execute(cursor, "SELECT job_name, state FROM split_backfill_progress LIMIT 3", database)
        same(len(spec.fetch_data(cursor)), 3)
        spec.estimate_statement_cost(database, "SELECT id FROM mv", cursor)
        pid = spec.get_cancel_query_id(cursor, None)
        other = engine.raw_connection()
        same(spec.cancel_query(other.cursor(), None, pid), True)


@feature("completion")
def _():
    raise Missing("its editor completes with what is listed above")


@feature("errors")
def _():
    try:
        database.get_df("SELECT nme FROM mv")
        raise AssertionError("it succeeded")
    except Exception as error:
        [said] = spec.extract_errors(error)
        assert 'column "nme" does not exist' in said.message and "LINE" in said.message, said
