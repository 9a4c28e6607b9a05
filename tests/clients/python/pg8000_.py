"""pg8000, the driver in pure Python, which leaves the types of its parameters to the server."""

import io
import ssl
import threading
import time

import pg8000
import pg8000.dbapi
import pg8000.native

from common import *

print("version", pg8000.__version__)
PLAIN = dict(host=HOST, port=PORT, user="root", database="dev")
db = pg8000.native.Connection(**PLAIN)


def failing(statement, **parameters):
    try:
        db.run(statement, **parameters)
    except pg8000.DatabaseError as error:
        return error.args[0]
    raise AssertionError(f"{statement} succeeded")


def value(statement, **parameters):
    return db.run(statement, **parameters)[0][0]


@feature("connect")
def _():
    c = pg8000.native.Connection(**PLAIN, application_name="drivers")
    same(c.run("SHOW application_name"), [["drivers"]])
    same(c.parameter_statuses["server_encoding"], "UTF8")
    c.close()


@feature("scram")
def _():
    login = dict(host=HOST, port=PORT, user="reader", database="dev")
    same(pg8000.native.Connection(**login, password=PASSWORD).run("SELECT current_user"), [["reader"]])
    try:
        pg8000.native.Connection(**login, password="wrong")
        raise AssertionError("it came in")
    except pg8000.DatabaseError as error:
        same(error.args[0]["C"], "28P01")


@feature("tls")
def _():
    context = ssl.create_default_context(cafile=CA)
    c = pg8000.native.Connection(host=TLS_HOST, port=PORT, user="reader", database="dev", password=PASSWORD, ssl_context=context)
    same(c.run("SELECT 1"), [[1]])
    c.close()


@feature("text")
def _():
    each(VALUES, lambda type, text, wanted: same(value(f"SELECT {literal(type, text)}"), wanted, type))


@feature("binary")
def _():
    raise Missing("it only reads the text format")


@feature("parameters")
def _():
    def check(type, text, wanted):
        same(value(f"SELECT CAST(:v AS {type})", v=wanted), wanted, type)

    each(VALUES, check)
    same(value("SELECT count(*) FROM mv WHERE id < :below", below=-1), 0)
    same(value("SELECT relname FROM pg_class WHERE oid = :oid", oid=1259), "pg_class")


@feature("arrays")
def _():
    def check(type, text, wanted):
        same(value(f"SELECT array[{literal(type, text)}, NULL]"), [wanted, None], f"{type}[]")
        if type not in ("json", "jsonb", "bytea"):
            same(value(f"SELECT CAST(:v AS {type}[])", v=[wanted, None]), [wanted, None], f"{type}[] sent")

    each([row for row in VALUES if row[0] not in ("oid", "name", '"char"', "interval")], check)
    same(value("SELECT count(*) FROM pg_class WHERE relname = ANY(:names)", names=["mv", "s", "no"]), 2)
    same(value("SELECT CAST(:v AS int4[])", v=[]), [])


@feature("nulls")
def _():
    each(VALUES, lambda type, text, wanted: same(db.run(f"SELECT NULL::{type}, CAST(:v AS {type})", v=None), [[None, None]]))


@feature("batch")
def _():
    with pg8000.dbapi.connect(**PLAIN) as c:
        cursor = c.cursor()
        cursor.executemany("SELECT %s::int4", [(1,), (2,)])
        same(cursor.fetchall()[-1], [2])
    same(db.run("SELECT 1; SELECT 2"), [[1], [2]])


@feature("cursor")
def _():
    with pg8000.dbapi.connect(**PLAIN) as c:
        cursor = c.cursor()
        cursor.execute("DECLARE parts NO SCROLL CURSOR FOR SELECT id FROM mv ORDER BY id")
        sizes = []
        while True:
            cursor.execute("FETCH FORWARD 300 FROM parts")
            sizes.append(len(cursor.fetchall()))
            if sizes[-1] == 0:
                break
        same(sizes, [300, 300, 300, 100, 0])
        cursor.execute("CLOSE parts")


@feature("cancel")
def _():
    pid = value("SELECT pg_backend_pid()")

    def cancel():
        time.sleep(0.5)
        pg8000.native.Connection(**PLAIN).run("SELECT pg_cancel_backend(:pid)", pid=pid)

    thread = threading.Thread(target=cancel)
    thread.start()
    same(failing("SELECT pg_sleep(60)")["C"], "57014")
    thread.join()
    same(value("SELECT 1"), 1)


@feature("errors")
def _():
    error = failing("SELECT nme FROM mv")
    same((error["C"], error["P"], error["V"]), ("42703", "8", "ERROR"))
    same(failing("SELECT * FROM nowhere")["C"], "42P01")
    same(failing("SELECT CAST(:v AS int4)", v="x")["C"], "22P02")
    error = failing("ALTER SOURCE slow SET PARALLELISM = 3")
    assert error["D"] and error["H"]


@feature("transactions")
def _():
    with pg8000.dbapi.connect(**PLAIN) as c:
        cursor = c.cursor()
        cursor.execute("SAVEPOINT a")
        try:
            cursor.execute("SELECT 1 / 0")
        except pg8000.DatabaseError as error:
            same(error.args[0]["C"], "22012")
        try:
            cursor.execute("SELECT 1")
            raise AssertionError("it ran in a failed block")
        except pg8000.DatabaseError as error:
            same(error.args[0]["C"], "25P02")
        cursor.execute("ROLLBACK TO SAVEPOINT a")
        cursor.execute("SELECT 2")
        same(cursor.fetchall(), ([2],))
        c.commit()
        c.rollback()


@feature("prepared")
def _():
    statement = db.prepare("SELECT CAST(:n AS int8) + 1, CAST(:s AS text) || '!'")
    for n in range(20):
        same(statement.run(n=n, s="x"), [[n + 1, "x!"]])
    statement.close()


@feature("copy")
def _():
    out = io.BytesIO()
    db.run("COPY (SELECT n, 'x' || n FROM generate_series(1, 3) g(n)) TO STDOUT", stream=out)
    same(out.getvalue(), b"1\tx1\n2\tx2\n3\tx3\n")


@feature("statements")
def _():
    db.run("CREATE SOURCE mine (id BIGINT) WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON")
    db.run("CREATE MATERIALIZED VIEW my_view AS SELECT id FROM mine")
    same(value("SELECT count(*) FROM my_view"), 20)
    error = failing("ALTER SOURCE slow SET PARALLELISM = 3")
    same(error["C"], "55000")
    assert 'of materialized view "busy" would move' in error["D"], error
    assert db.run("SELECT * FROM tidegate.check_rescale(:source, :target)", source="slow", target="3")
    db.run("DROP SOURCE mine CASCADE")


@feature("notices")
def _():
    db.run("DROP SOURCE IF EXISTS nowhere")
    same(db.notices[-1][b"S"], b"NOTICE")


@feature("catalog")
def _():
    db.run("SELECT oid, relname FROM pg_class WHERE relname = 'mv'")
    same([(c["name"], c["type_oid"]) for c in db.columns], [("oid", 26), ("relname", 19)])
    same(db.columns[1]["table_oid"], 1259)
    same(db.columns[1]["column_attrnum"], 2)
