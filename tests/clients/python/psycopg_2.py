"""psycopg2, which writes parameters into the statement itself."""

import io
import threading

import psycopg2
from psycopg2 import errors, extensions, extras

from common import *

print("version", psycopg2.__version__.split()[0])
PLAIN = dict(host=HOST, port=PORT, user="root", dbname="dev")
db = psycopg2.connect(**PLAIN)
db.autocommit = True
extras.register_uuid()


def rows(statement, parameters=None, connection=None):
    with (connection or db).cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else None


def value(statement, parameters=None, connection=None):
    return rows(statement, parameters, connection)[0][0]


def failing(statement, parameters=None, connection=None):
    try:
        rows(statement, parameters, connection)
    except psycopg2.Error as error:
        return error
    raise AssertionError(f"{statement} succeeded")


def python(type, wanted):
    """psycopg2 gives bytea as a memoryview."""
    return memoryview(wanted) if type == "bytea" else wanted


@feature("connect")
def _():
    c = psycopg2.connect(**PLAIN, application_name="drivers", options="-c statement_timeout=9000")
    same(value("SHOW application_name", connection=c), "drivers")
    same(value("SHOW statement_timeout", connection=c), "9s")
    same(c.server_version // 10000, 15)
    same(c.encoding, "UTF8")
    c.set_client_encoding("UTF8")
    c.close()


@feature("scram")
def _():
    login = dict(host=HOST, port=PORT, user="reader", dbname="dev")
    same(value("SELECT current_user", connection=psycopg2.connect(**login, password=PASSWORD)), "reader")
    try:
        psycopg2.connect(**login, password="wrong")
        raise AssertionError("it came in")
    except psycopg2.OperationalError as error:
        assert "password authentication failed" in str(error), error


@feature("tls")
def _():
    c = psycopg2.connect(
        host=TLS_HOST, port=PORT, user="reader", dbname="dev", password=PASSWORD, sslmode="verify-full", sslrootcert=CA
    )
    assert c.info.ssl_in_use
    same(value("SELECT 1", connection=c), 1)


@feature("text")
def _():
    def check(type, text, wanted):
        got = value(f"SELECT {literal(type, text)}")
        same(bytes(got) if type == "bytea" else got, wanted, type)

    each(VALUES, check)


@feature("binary")
def _():
    raise Missing("it only reads the text format")


def adapted(type, value):
    return extras.Json(value) if type in ("json", "jsonb") else value


@feature("parameters")
def _():
    def check(type, text, wanted):
        got = value(f"SELECT (%s)::{type}", [adapted(type, wanted)])
        same(bytes(got) if type == "bytea" else got, wanted, type)

    each(VALUES, check)
    same(value("SELECT count(*) FROM mv WHERE id IN %(ids)s OR id < %(below)s", {"ids": (1, 2), "below": -5}) >= 0, True)


@feature("arrays")
def _():
    def check(type, text, wanted):
        if type in ('"char"', "bytea", "oid", "name"):
            # It has no array of these, and gives the text.
            return
        got = value(f"SELECT array[{literal(type, text)}, NULL]")
        if type in ("uuid", "json", "jsonb"):
            return
        same(got, [wanted, None], f"{type}[]")
        same(value(f"SELECT %s::{type}[]", [[wanted, None]]), [wanted, None], f"{type}[] sent")

    each(VALUES, check)
    same(value("SELECT count(*) FROM pg_class WHERE relname = ANY(%s)", [["mv", "s", "no"]]), 2)
    same(value("SELECT %s::int4[]", [[]]), [])


@feature("nulls")
def _():
    each(VALUES, lambda type, text, wanted: same(rows(f"SELECT NULL::{type}, %s::{type}", [None]), [(None, None)]))


@feature("batch")
def _():
    with db.cursor() as cursor:
        extras.execute_batch(cursor, "SELECT %s::int4", [(n,) for n in range(250)], page_size=100)
        same(cursor.fetchone()[0], 249)
        got = extras.execute_values(cursor, "SELECT a + 1 FROM (VALUES %s) AS t (a)", [(n,) for n in range(20)], fetch=True)
        same(sorted(got), [(n + 1,) for n in range(20)])
        cursor.executemany("SELECT %s", [("a",), ("b",)])


@feature("cursor")
def _():
    c = psycopg2.connect(**PLAIN)
    with c.cursor("named") as cursor:
        cursor.itersize = 7
        cursor.execute("SELECT id FROM mv WHERE id >= %s ORDER BY id", [0])
        same(len(list(cursor)), 1000)
    with c.cursor("scrolling", scrollable=True) as cursor:
        cursor.execute("SELECT n FROM generate_series(1, 10) g(n)")
        same(cursor.fetchmany(3), [(1,), (2,), (3,)])
        cursor.scroll(-2)
        same(cursor.fetchone(), (2,))
    with c.cursor("held", withhold=True) as cursor:
        cursor.execute("SELECT id FROM mv")
        c.commit()
        same(len(cursor.fetchall()), 1000)
    c.close()


@feature("cancel")
def _():
    timer = threading.Timer(0.5, db.cancel)
    timer.start()
    same(failing("SELECT pg_sleep(60)").pgcode, "57014")
    timer.join()
    same(value("SELECT 1"), 1)


@feature("errors")
def _():
    error = failing("SELECT nme FROM mv")
    same(type(error), errors.UndefinedColumn)
    same(error.diag.statement_position, "8")
    same(type(failing("SELECT * FROM nowhere")), errors.UndefinedTable)
    same(type(failing("SELECT %s::int4", ["x"])), errors.InvalidTextRepresentation)
    error = failing("CREATE TABLE t (x int)")
    same(error.pgcode, "0A000")
    assert error.diag.message_hint


@feature("transactions")
def _():
    c = psycopg2.connect(**PLAIN)
    value("SELECT 1", connection=c)
    same(c.get_transaction_status(), extensions.TRANSACTION_STATUS_INTRANS)
    c.commit()
    failing("SELECT 1 / 0", connection=c)
    same(type(failing("SELECT 1", connection=c)), errors.InFailedSqlTransaction)
    c.rollback()
    rows("SAVEPOINT a", connection=c)
    failing("SELECT 1 / 0", connection=c)
    rows("ROLLBACK TO SAVEPOINT a", connection=c)
    same(value("SELECT 2", connection=c), 2)
    rows("RELEASE SAVEPOINT a", connection=c)
    c.commit()
    c.set_session(isolation_level="REPEATABLE READ", readonly=True)
    same(value("SHOW transaction_isolation", connection=c), "repeatable read")
    same(value("SHOW transaction_read_only", connection=c), "on")
    c.rollback()
    c.reset()
    same(c.get_transaction_status(), extensions.TRANSACTION_STATUS_IDLE)
    c.close()


@feature("prepared")
def _():
    rows("PREPARE counting (bigint, text) AS SELECT $1 + 1, $2 || '!'")
    for n in range(20):
        same(rows("EXECUTE counting (%s, %s)", [n, "x"]), [(n + 1, "x!")])
    rows("DEALLOCATE counting")
    same(failing("EXECUTE counting (1, 'x')").pgcode, "26000")


@feature("copy")
def _():
    out = io.StringIO()
    with db.cursor() as cursor:
        cursor.copy_expert("COPY (SELECT n, 'x' || n FROM generate_series(1, 3) g(n)) TO STDOUT", out)
    same(out.getvalue(), "1\tx1\n2\tx2\n3\tx3\n")
    out = io.StringIO()
    with db.cursor() as cursor:
        cursor.copy_to(out, "mv", columns=["id"])
    same(len(out.getvalue().splitlines()), 1000)


@feature("statements")
def _():
    rows("CREATE SOURCE mine (id BIGINT) WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON")
    rows("CREATE MATERIALIZED VIEW my_view AS SELECT id FROM mine")
    same(value("SELECT count(*) FROM my_view"), 20)
    error = failing("ALTER SOURCE slow SET PARALLELISM = 3")
    same(error.pgcode, "55000")
    assert 'of materialized view "busy" would move' in error.diag.message_detail, error.diag.message_detail
    assert rows("SELECT * FROM tidegate.check_rescale(%s, %s)", ["slow", "3"])
    rows("DROP SOURCE mine CASCADE")


@feature("notices")
def _():
    rows("DROP SOURCE IF EXISTS nowhere")
    assert db.notices[-1].startswith("NOTICE: "), db.notices


@feature("catalog")
def _():
    same(extras.HstoreAdapter.get_oids(db), ((), ()))
    extras.register_default_jsonb(db)
    same(value("""SELECT '{"a": 1}'::jsonb"""), {"a": 1})
    with db.cursor() as cursor:
        cursor.execute("SELECT relname, oid FROM pg_catalog.pg_class WHERE relname = 'mv'")
        same([column.name for column in cursor.description], ["relname", "oid"])
        same([column.type_code for column in cursor.description], [19, 26])
        assert cursor.description[0].table_oid == 1259, cursor.description[0]
