"""psqlODBC, through pyodbc and unixODBC."""

import glob
import threading

import pyodbc

from common import *

pyodbc.pooling = False
DRIVER = glob.glob("/usr/lib/*/odbc/psqlodbcw.so")[0]
BASE = f"DRIVER={DRIVER};PORT={PORT};DATABASE=dev"
PLAIN = f"{BASE};SERVER={HOST};UID=root;PWD="
db = pyodbc.connect(PLAIN, autocommit=True)


def rows(statement, *parameters, connection=None):
    cursor = (connection or db).execute(statement, *parameters)
    return [tuple(row) for row in cursor.fetchall()] if cursor.description else None


def value(statement, *parameters, connection=None):
    return rows(statement, *parameters, connection=connection)[0][0]


def failing(statement, *parameters, connection=None):
    try:
        rows(statement, *parameters, connection=connection)
    except pyodbc.Error as error:
        return error.args
    raise AssertionError(f"{statement} succeeded")


@feature("connect")
def _():
    for options in ("", ";UseDeclareFetch=1", ";UseServerSidePrepare=0", ";Protocol=7.4-2", ";ReadOnly=1", ";ByteaAsLongVarBinary=1;BoolsAsChar=0"):
        with pyodbc.connect(PLAIN + options) as c:
            same(value("SELECT 1", connection=c), 1)
    same(db.getinfo(pyodbc.SQL_DBMS_NAME), "PostgreSQL")
    assert db.getinfo(pyodbc.SQL_DBMS_VER).startswith("15."), db.getinfo(pyodbc.SQL_DBMS_VER)
    same(db.getinfo(pyodbc.SQL_DATABASE_NAME), "dev")


@feature("scram")
def _():
    with pyodbc.connect(f"{BASE};SERVER={HOST};UID=reader;PWD={PASSWORD}") as c:
        same(value("SELECT current_user", connection=c), "reader")
    try:
        pyodbc.connect(f"{BASE};SERVER={HOST};UID=reader;PWD=wrong")
        raise AssertionError("it came in")
    except pyodbc.Error as error:
        assert "password authentication failed" in error.args[1], error


@feature("tls")
def _():
    # Where the authority's certificate is, only libpq's own variable says.
    os.environ["PGSSLROOTCERT"] = CA
    with pyodbc.connect(f"{BASE};SERVER={TLS_HOST};UID=reader;PWD={PASSWORD};SSLmode=verify-full") as c:
        same(value("SELECT 1", connection=c), 1)


@feature("text")
def _():
    def check(type, text, wanted):
        got = value(f"SELECT {literal(type, text)}")
        if type == "timestamptz":
            assert got == wanted.replace(tzinfo=None) or str(got).startswith("2026-01-02 03:04:05.6"), got
        elif type == "oid":
            # ODBC's number has a sign.
            same(got, -1)
        elif type in ("uuid", "bool", "interval", "json", "jsonb"):
            assert str(got).lower() in (text, "1", "true"), got
        else:
            same(got, wanted, type)

    each(VALUES, check)


@feature("binary")
def _():
    raise Missing("it only reads the text format")


@feature("parameters")
def _():
    def check(type, text, wanted):
        sent = {"interval": text, "json": text, "jsonb": text, "uuid": text, "timestamptz": text}.get(type, wanted)
        got = value(f"SELECT CAST(CAST(? AS {type}) AS text)", sent)
        plain = value(f"SELECT CAST({literal(type, text)} AS text)")
        assert got == plain or (type == "time" and got == plain[:8]), (got, plain)

    each(VALUES, check)
    same(value("SELECT count(*) FROM mv WHERE id < ?", -1), 0)
    same(value("SELECT relname FROM pg_class WHERE oid = ?", 1259), "pg_class")


@feature("arrays")
def _():
    # ODBC has no arrays: they are text.
    def check(type, text, wanted):
        got = value(f"SELECT array[{literal(type, text)}, NULL]")
        assert got.startswith("{") and got.endswith(",NULL}"), got
        same(value(f"SELECT CAST(? AS {type}[])", got), got)

    each(VALUES, check)


@feature("nulls")
def _():
    def check(type, text, wanted):
        same(rows(f"SELECT NULL::{type}, CAST(? AS {type})", None), [(None, None)])

    each(VALUES, check)


@feature("batch")
def _():
    cursor = db.cursor()
    cursor.executemany("SELECT CAST(? AS int4)", [(1,), (2,)])
    for fast in (False, True):
        cursor.fast_executemany = fast
        cursor.executemany("SELECT CAST(? AS int4), CAST(? AS text)", [(n, str(n)) for n in range(50)])
    cursor.execute("SELECT 1; SELECT 'two'")
    cursor.fetchall()
    same(cursor.nextset(), True)
    same(cursor.fetchone()[0], "two")


@feature("cursor")
def _():
    with pyodbc.connect(PLAIN + ";UseDeclareFetch=1;Fetch=7") as c:
        cursor = c.execute("SELECT id FROM mv WHERE id >= ? ORDER BY id", -1000)
        same(len(cursor.fetchmany(10)), 10)
        same(len(cursor.fetchall()), 990)


@feature("cancel")
def _():
    cursor = db.cursor()
    timer = threading.Timer(0.5, cursor.cancel)
    timer.start()
    try:
        cursor.execute("SELECT pg_sleep(60)")
        raise AssertionError("it went on")
    except pyodbc.Error as error:
        same(error.args[0], "57014")
    timer.join()
    same(value("SELECT 1"), 1)


@feature("errors")
def _():
    same(failing("SELECT nme FROM mv")[0], "42703")
    same(failing("SELECT * FROM nowhere")[0], "42P01")
    same(failing("SELECT 1 / 0")[0], "22012")
    same(failing("SELECT CAST(? AS int4)", "x")[0], "22P02")


@feature("transactions")
def _():
    with pyodbc.connect(PLAIN) as c:
        value("SELECT 1", connection=c)
        failing("SELECT 1 / 0", connection=c)
        c.rollback()
        same(value("SELECT 2", connection=c), 2)
        c.execute("SAVEPOINT a")
        failing("SELECT 1 / 0", connection=c)
        c.execute("ROLLBACK TO SAVEPOINT a")
        same(value("SELECT 3", connection=c), 3)
        c.commit()
        c.set_attr(pyodbc.SQL_ATTR_TXN_ISOLATION, pyodbc.SQL_TXN_REPEATABLE_READ)
        same(value("SHOW transaction_isolation", connection=c), "repeatable read")
        c.rollback()


@feature("prepared")
def _():
    cursor = db.cursor()
    for n in range(20):
        same(tuple(cursor.execute("SELECT CAST(? AS int8) + 1, CAST(? AS text) || '!'", n, "x").fetchone()), (n + 1, "x!"))


@feature("copy")
def _():
    raise Missing("ODBC has no COPY")


@feature("statements")
def _():
    rows("CREATE SOURCE mine (id BIGINT) WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON")
    rows("CREATE MATERIALIZED VIEW my_view AS SELECT id FROM mine")
    same(value("SELECT count(*) FROM my_view"), 20)
    state, text = failing("ALTER SOURCE slow SET PARALLELISM = 3")
    same(state, "55000")
    assert 'of materialized view "busy" would move' in text, text
    assert rows("SELECT * FROM tidegate.check_rescale(?, ?)", "slow", "3")
    assert len(rows("SELECT * FROM tidegate.split_backfill_progress WHERE job_name = 'busy'")) == 4
    rows("DROP SOURCE mine CASCADE")


@feature("notices")
def _():
    cursor = db.execute("DROP SOURCE IF EXISTS nowhere")
    assert "does not exist, skipping" in cursor.messages[0][1], cursor.messages


@feature("catalog")
def _():
    c = db.cursor()
    names = lambda rows, column: {getattr(row, column) for row in rows}
    assert names(c.tables(schema="tidegate").fetchall(), "table_name") >= {"split_backfill_progress", "settings"}
    assert {"mv", "busy"} <= names(c.tables(schema="public").fetchall(), "table_name"), c.tables(schema="public").fetchall()
    assert names(c.tables(schema="%", catalog="", table="").fetchall(), "table_schem") >= {"public", "tidegate"}
    c.tables(tableType="TABLE,VIEW").fetchall()
    same([(row.column_name, row.type_name) for row in c.columns(table="mv", schema="public")], [("id", "int8"), ("amount", "float8")])
    assert len(c.columns(schema="tidegate").fetchall()) > 50
    same(c.primaryKeys(table="mv", schema="public").fetchall(), [])
    same(c.foreignKeys(table="mv", schema="public").fetchall(), [])
    same(c.foreignKeys(foreignTable="mv").fetchall(), [])
    same(c.statistics(table="mv", schema="public").fetchall(), [])
    c.rowIdColumns("mv", schema="public").fetchall()
    c.rowVerColumns("mv", schema="public").fetchall()
    assert len(c.getTypeInfo().fetchall()) > 10
    c.procedures().fetchall()
    c.procedureColumns().fetchall()
    same([d[:2] for d in c.execute("SELECT id, amount FROM mv LIMIT 1").description], [("id", int), ("amount", float)])
