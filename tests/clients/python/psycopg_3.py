"""psycopg 3, in its C implementation."""

import threading
import time

import psycopg
from psycopg import errors, sql
from psycopg.types.json import Json, Jsonb

from common import *

print("version", psycopg.__version__)
PLAIN = dict(host=HOST, port=PORT, user="root", dbname="dev")
db = psycopg.connect(**PLAIN, autocommit=True)


@feature("connect")
def _():
    with psycopg.connect(**PLAIN, application_name="drivers") as c:
        same(c.execute("SHOW application_name").fetchone()[0], "drivers")
        same(c.info.server_version // 10000, 15)
        same(c.info.parameter_status("standard_conforming_strings"), "on")
        same(c.info.encoding, "utf-8")
        same(c.info.timezone, UTC)


@feature("scram")
def _():
    login = dict(host=HOST, port=PORT, user="reader", dbname="dev")
    with psycopg.connect(**login, password=PASSWORD, require_auth="scram-sha-256") as c:
        same(c.execute("SELECT current_user").fetchone()[0], "reader")
    try:
        psycopg.connect(**login, password="wrong")
        raise AssertionError("it came in")
    except psycopg.OperationalError as error:
        assert "password authentication failed" in str(error), error


@feature("tls")
def _():
    with psycopg.connect(
        host=TLS_HOST, port=PORT, user="reader", dbname="dev", password=PASSWORD,
        sslmode="verify-full", sslrootcert=CA, channel_binding="require",
    ) as c:
        assert c.pgconn.ssl_in_use
        same(c.execute("SELECT 1").fetchone()[0], 1)


def read(binary):
    def check(type, text, wanted):
        cursor = db.cursor(binary=binary)
        got = cursor.execute(f"SELECT {literal(type, text)} AS v").fetchone()[0]
        same(got, wanted, type)
        same(cursor.description[0].type_code, cursor.execute("SELECT to_regtype(%s)::oid", [type.strip()]).fetchone()[0])

    each(VALUES, check)


@feature("text")
def _():
    read(False)


@feature("binary")
def _():
    read(True)


def wrapped(type, value):
    return {"json": Json, "jsonb": Jsonb}.get(type, lambda x: x)(value)


@feature("parameters")
def _():
    for form in ("%s", "%t", "%b"):
        def check(type, text, wanted):
            if type in ("json", "jsonb", '"char"'):
                return
            got = db.execute(f"SELECT {form}::{type}", [wrapped(type, wanted)], binary=form == "%b").fetchone()[0]
            same(got, wanted, f"{type} {form}")

        each(VALUES, check)
    same(db.execute("SELECT %s::jsonb", [Jsonb({"a": [1]})]).fetchone()[0], {"a": [1]})
    same(db.execute("SELECT %s::json", [Json({"a": [1]})]).fetchone()[0], {"a": [1]})
    same(db.execute("SELECT count(*) FROM mv WHERE id < %s", [1 << 40]).fetchone()[0], 1000)
    same(db.execute("SELECT relname FROM pg_class WHERE relname = %s", ["mv"]).fetchall(), [("mv",)])


@feature("arrays")
def _():
    for binary in (False, True):
        def check(type, text, wanted):
            got = db.execute(f"SELECT array[{literal(type, text)}, NULL]", binary=binary).fetchone()[0]
            same(got, [wanted, None], f"{type}[]")
            if type not in ("json", "jsonb", '"char"'):
                form = "%b" if binary else "%t"
                got = db.execute(f"SELECT {form}::{type}[]", [[wanted, None]], binary=binary).fetchone()[0]
                same(got, [wanted, None], f"{type}[] {form}")

        each(VALUES, check)
    same(db.execute("SELECT count(*) FROM pg_class WHERE relname = ANY(%s)", [["mv", "s", "no"]]).fetchone()[0], 2)
    same(db.execute("SELECT %s::int4[]", [[]]).fetchone()[0], [])


@feature("nulls")
def _():
    for binary in (False, True):
        def check(type, text, wanted):
            same(db.execute(f"SELECT NULL::{type}", binary=binary).fetchone()[0], None)
            same(db.execute(f"SELECT %s::{type}", [None], binary=binary).fetchone()[0], None)

        each(VALUES, check)
    same(db.execute("SELECT %s::text IS NULL", [None]).fetchone()[0], True)


@feature("batch")
def _():
    with psycopg.connect(**PLAIN) as c:
        with c.pipeline() as pipeline:
            cursors = [c.execute("SELECT %s::int4 + 1", [n]) for n in range(50)]
            pipeline.sync()
            same([cursor.fetchone()[0] for cursor in cursors], list(range(1, 51)))
        cursor = c.cursor()
        cursor.executemany("SELECT %s::text || '!'", [("a",), ("b",)], returning=True)
        got = [cursor.fetchone()[0]]
        while cursor.nextset():
            got.append(cursor.fetchone()[0])
        same(got, ["a!", "b!"])
        # A failure in a pipeline aborts what follows it, up to the sync.
        c.commit()
        try:
            with c.pipeline():
                c.execute("SELECT 1 / 0")
                c.execute("SELECT 1")
            raise AssertionError("nothing failed")
        except errors.DivisionByZero:
            c.rollback()
        same(c.execute("SELECT 1").fetchone()[0], 1)
        cursor = c.execute("SELECT 1; SELECT 'two'")
        same(cursor.nextset(), True)
        same(cursor.fetchone()[0], "two")


@feature("cursor")
def _():
    with psycopg.connect(**PLAIN) as c:
        with c.cursor("named") as cursor:
            cursor.itersize = 7
            cursor.execute("SELECT id FROM mv ORDER BY id")
            same(len(list(cursor)), 1000)
        with c.cursor("scrolling", scrollable=True) as cursor:
            cursor.execute("SELECT n FROM generate_series(1, 10) g(n)")
            same(cursor.fetchmany(3), [(1,), (2,), (3,)])
            cursor.scroll(-2)
            same(cursor.fetchone()[0], 2)
            cursor.scroll(9, mode="absolute")
            same(cursor.fetchall(), [(10,)])
        with c.cursor("binary", binary=True) as cursor:
            cursor.execute("SELECT id, amount FROM mv WHERE id >= %s", [0])
            same(len(cursor.fetchmany(10)), 10)
    with psycopg.connect(**PLAIN, autocommit=True) as c:
        with c.cursor("held", withhold=True) as cursor:
            cursor.execute("SELECT id FROM mv")
            same(len(cursor.fetchall()), 1000)
        got = list(c.cursor().stream("SELECT n FROM generate_series(1, 5) g(n)"))
        same(got, [(1,), (2,), (3,), (4,), (5,)])


@feature("cancel")
def _():
    for cancel in (db.cancel, db.cancel_safe):
        timer = threading.Timer(0.5, cancel)
        timer.start()
        try:
            db.execute("SELECT pg_sleep(60)")
            raise AssertionError("it went on")
        except errors.QueryCanceled as error:
            same(error.sqlstate, "57014")
        timer.join()
    same(db.execute("SELECT 1").fetchone()[0], 1)


def failing(statement, parameters=None, connection=None):
    try:
        (connection or db).execute(statement, parameters)
    except psycopg.Error as error:
        return error
    raise AssertionError(f"{statement} succeeded")


@feature("errors")
def _():
    error = failing("SELECT nme FROM mv")
    same(type(error), errors.UndefinedColumn)
    assert error.diag.message_primary == 'column "nme" does not exist', error.diag.message_primary
    same(error.diag.statement_position, "8")
    same(type(failing("SELECT * FROM nowhere")), errors.UndefinedTable)
    same(type(failing("SELEC 1")), errors.SyntaxError)
    same(failing("SELEC 1").diag.statement_position, "1")
    same(type(failing("SELECT 'x'::int4")), errors.InvalidTextRepresentation)
    same(type(failing("SELECT %s::int4", ["x"])), errors.InvalidTextRepresentation)
    same(type(failing("SELECT 1 / 0")), errors.DivisionByZero)
    same(type(failing("SELECT no_such_function(1)")), errors.UndefinedFunction)
    same(type(failing("DROP SOURCE nowhere")), errors.UndefinedTable)
    error = failing("CREATE TABLE t (x int)")
    same(type(error), errors.FeatureNotSupported)
    assert error.diag.message_hint
    same(error.diag.severity_nonlocalized, "ERROR")


@feature("transactions")
def _():
    with psycopg.connect(**PLAIN) as c:
        c.execute("SELECT 1")
        same(c.info.transaction_status.name, "INTRANS")
        c.commit()
        same(c.info.transaction_status.name, "IDLE")
        failing("SELECT 1 / 0", connection=c)
        same(c.info.transaction_status.name, "INERROR")
        same(type(failing("SELECT 1", connection=c)), errors.InFailedSqlTransaction)
        c.rollback()
        with c.transaction():
            c.execute("SELECT 1")
            try:
                with c.transaction():
                    c.execute("SELECT 1 / 0")
            except errors.DivisionByZero:
                pass
            same(c.execute("SELECT 2").fetchone()[0], 2)
        same(c.info.transaction_status.name, "IDLE")
        c.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        c.read_only = True
        same(c.execute("SHOW transaction_isolation").fetchone()[0], "repeatable read")
        same(c.execute("SHOW transaction_read_only").fetchone()[0], "on")


@feature("prepared")
def _():
    # After five uses it is prepared on the server.
    for n in range(20):
        same(db.execute("SELECT count(*) FROM mv WHERE id < %s", [n]).fetchone()[0] >= 0, True)
    for n in range(3):
        same(db.execute("SELECT %s::int4", [n], prepare=True).fetchone()[0], n)
    # Tables that come and go don't break it.
    db.execute("CREATE MATERIALIZED VIEW again AS SELECT id FROM s")
    for _ in range(8):
        db.execute("SELECT * FROM again LIMIT 1").fetchall()
    db.execute("DROP MATERIALIZED VIEW again")
    same(type(failing("SELECT * FROM again LIMIT 1")), errors.UndefinedTable)
    db.execute("DEALLOCATE ALL")


@feature("copy")
def _():
    with db.cursor().copy("COPY (SELECT n, 'x' || n FROM generate_series(1, 3) g(n)) TO STDOUT") as copy:
        same(b"".join(copy), b"1\tx1\n2\tx2\n3\tx3\n")
    with db.cursor().copy("COPY (SELECT 1, NULL, 'a,b') TO STDOUT (FORMAT csv, HEADER)") as copy:
        assert b"".join(copy).endswith(b'1,,"a,b"\n')
    with db.cursor().copy("COPY (SELECT 7::int4, 'x'::text) TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["int4", "text"])
        same(list(copy.rows()), [(7, "x")])


@feature("statements")
def _():
    db.execute("CREATE SOURCE mine (id BIGINT) WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON")
    db.execute("CREATE MATERIALIZED VIEW my_view AS SELECT id FROM mine")
    same(db.execute("SELECT count(*) FROM my_view").fetchone()[0], 20)
    error = failing("ALTER SOURCE slow SET PARALLELISM = 3")
    same(error.sqlstate, "55000")
    assert error.diag.message_primary.startswith("Unexpected backfill state: "), error
    assert 'of materialized view "busy" would move' in error.diag.message_detail, error.diag.message_detail
    assert "DEFERRED" in error.diag.message_hint
    rows = db.execute("SELECT check_name, decision FROM tidegate.check_rescale(%s, %s)", ["slow", "3"]).fetchall()
    assert any(decision != "pass" for _, decision in rows), rows
    same(db.execute("SELECT tidegate.can_rescale('mine', '1')").fetchone()[0], True)
    db.execute("ALTER SOURCE mine SET PARALLELISM = 1")
    db.execute("DROP SOURCE mine CASCADE")
    same(db.execute("SELECT remaining > 0, eta FROM tidegate.split_backfill_progress WHERE job_name = 'busy'").fetchone()[0], True)


@feature("notices")
def _():
    heard = []
    db.add_notice_handler(lambda notice: heard.append((notice.severity, notice.message_primary)))
    db.execute("DROP SOURCE IF EXISTS nowhere")
    same(len(heard), 1)
    same(heard[0][0], "NOTICE")


@feature("catalog")
def _():
    info = psycopg.types.TypeInfo.fetch(db, "jsonb")
    same((info.oid, info.array_oid), (3802, 3807))
    same(psycopg.types.TypeInfo.fetch(db, "timestamptz").array_oid, 1185)
    same(psycopg.types.TypeInfo.fetch(db, "no_such_type"), None)
    same(psycopg.types.range.RangeInfo.fetch(db, "int4range").subtype_oid, 23)
    same(psycopg.types.enum.EnumInfo.fetch(db, "no_such_type"), None)
    same(psycopg.types.composite.CompositeInfo.fetch(db, "no_such_type"), None)
    same(psycopg.types.multirange.MultirangeInfo.fetch(db, "int4multirange").range_oid, 3904)
