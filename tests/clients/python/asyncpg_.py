"""asyncpg, which speaks the extended protocol only, mostly in binary, and asks the catalogs for types it doesn't know."""

import asyncio
import inspect
import io
import json
import ssl

import asyncpg

import common
from common import *

print("version", asyncpg.__version__)
PLAIN = dict(host=HOST, port=PORT, user="root", database="dev", ssl=False)
loop = asyncio.new_event_loop()
db = loop.run_until_complete(asyncpg.connect(**PLAIN))


def feature(name):
    """As the common one, for coroutines."""

    def run(function):
        common.feature(name)(lambda: loop.run_until_complete(asyncio.wait_for(function(), 200)))

    return run


async def each(cases, check):
    wrong = []
    for case in cases:
        try:
            await check(*case)
        except Exception as error:
            wrong.append(f"{case[0]}: {type(error).__name__}: {' / '.join(str(error).split(chr(10)))}")
    if wrong:
        raise AssertionError("; ".join(wrong))


def python(type, wanted):
    """asyncpg gives JSON as text and "char" as bytes."""
    return {"json": json.dumps, "jsonb": json.dumps, '"char"': str.encode}.get(type, lambda x: x)(wanted)


def equal(got, wanted, what):
    """asyncpg has its own class for UUIDs."""
    if got != wanted:
        raise AssertionError(f"{what}: {got!r} isn't {wanted!r}")


async def failing(statement, *parameters):
    try:
        await db.fetch(statement, *parameters)
    except asyncpg.PostgresError as error:
        return error
    raise AssertionError(f"{statement} succeeded")


@feature("connect")
async def _():
    c = await asyncpg.connect(**PLAIN, server_settings={"application_name": "drivers", "search_path": "tidegate, public"})
    same(await c.fetchval("SHOW application_name"), "drivers")
    same(await c.fetchval("SHOW search_path"), "tidegate, public")
    same(c.get_server_version().major, 15)
    same(c.get_settings().server_encoding, "UTF8")
    await c.reset()
    await c.close()
    async with asyncpg.create_pool(**PLAIN, min_size=1, max_size=3) as pool:
        same(await asyncio.gather(*(pool.fetchval("SELECT $1::int4", n) for n in range(9))), list(range(9)))


@feature("scram")
async def _():
    login = dict(host=HOST, port=PORT, user="reader", database="dev", ssl=False)
    c = await asyncpg.connect(**login, password=PASSWORD)
    same(await c.fetchval("SELECT current_user"), "reader")
    await c.close()
    try:
        await asyncpg.connect(**login, password="wrong")
        raise AssertionError("it came in")
    except asyncpg.InvalidPasswordError as error:
        same(error.sqlstate, "28P01")


@feature("tls")
async def _():
    context = ssl.create_default_context(cafile=CA)
    c = await asyncpg.connect(host=TLS_HOST, port=PORT, user="reader", database="dev", password=PASSWORD, ssl=context)
    same(await c.fetchval("SELECT 1"), 1)
    await c.close()


@feature("text")
async def _():
    c = await asyncpg.connect(**PLAIN)

    async def check(type, text, wanted):
        if type == '"char"':
            # Which it has in its own hands.
            return
        name = type.strip('"')
        await c.set_type_codec(name, schema="pg_catalog", encoder=str, decoder=lambda text: "text " + text, format="text")
        got = await c.fetchval(f"SELECT {literal(type, text)}")
        expected = {"bool": "t", "float8": "-2.25e+100", "timestamptz": "2026-01-02 03:04:05.6+00"}.get(type, text)
        same(got, "text " + expected, type)

    await each(VALUES, check)
    await c.close()


@feature("binary")
async def _():
    async def check(type, text, wanted):
        equal(await db.fetchval(f"SELECT {literal(type, text)}"), python(type, wanted), type)

    await each(VALUES, check)
    c = await asyncpg.connect(**PLAIN)
    await c.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    same(await c.fetchval("SELECT $1::jsonb", {"a": [1]}), {"a": [1]})
    await c.close()


@feature("parameters")
async def _():
    async def check(type, text, wanted):
        equal(await db.fetchval(f"SELECT $1::{type}", python(type, wanted)), python(type, wanted), type)

    await each(VALUES, check)
    same(await db.fetchval("SELECT count(*) FROM mv WHERE id < $1 AND amount IS NOT NULL", 5) >= 0, True)
    same(await db.fetchval("SELECT relname FROM pg_class WHERE oid = $1", 1259), "pg_class")
    same(await db.fetchval("SELECT now() > $1 AND $2 > '1 hour'::interval", dt.datetime(2020, 1, 1, tzinfo=UTC), dt.timedelta(days=1)), True)
    same(await db.fetchval("SELECT $1 || 'x'", "a"), "ax")
    same(await db.fetch("SELECT n FROM generate_series(1, 5) g(n) LIMIT $1 OFFSET $2", 1, 2), [(3,)])


@feature("arrays")
async def _():
    async def check(type, text, wanted):
        wanted = [python(type, wanted), None]
        same(await db.fetchval(f"SELECT array[{literal(type, text)}, NULL]"), wanted, f"{type}[]")
        same(await db.fetchval(f"SELECT $1::{type}[]", wanted), wanted, f"{type}[] sent")

    await each(VALUES, check)
    same(await db.fetchval("SELECT count(*) FROM pg_class WHERE relname = ANY($1)", ["mv", "s", "no"]), 2)
    same(await db.fetchval("SELECT count(*) FROM mv WHERE id = ANY($1::int8[])", list(range(-9, 0))), 0)
    same(await db.fetchval("SELECT $1::int4[]", []), [])
    same(await db.fetch("SELECT x FROM unnest($1::text[]) u(x)", ["a", None]), [("a",), (None,)])


@feature("nulls")
async def _():
    async def check(type, text, wanted):
        row = await db.fetchrow(f"SELECT NULL::{type}, $1::{type}", None)
        same(tuple(row), (None, None))

    await each(VALUES, check)


@feature("batch")
async def _():
    await db.executemany("SELECT $1::int4, $2::text", [(n, str(n)) for n in range(500)])
    same([row[0] for row in await db.fetchmany("SELECT $1::int8 + 1", [(n,) for n in range(50)])], list(range(1, 51)))
    same(await db.execute("SELECT 1; SELECT 2; SELECT n FROM generate_series(1, 3) g(n)"), "SELECT 3")
    try:
        await db.executemany("SELECT 1 / $1::int4", [(1,), (0,), (2,)])
        raise AssertionError("nothing failed")
    except asyncpg.DivisionByZeroError:
        pass


@feature("cursor")
async def _():
    async with db.transaction():
        same(len([row async for row in db.cursor("SELECT id FROM mv WHERE id >= $1", 0, prefetch=7)]), 1000)
        cursor = await db.cursor("SELECT n FROM generate_series(1, 10) g(n)")
        same([row[0] for row in await cursor.fetch(3)], [1, 2, 3])
        same(await cursor.forward(2), 2)
        same((await cursor.fetchrow())[0], 6)


@feature("cancel")
async def _():
    try:
        await db.fetch("SELECT pg_sleep(60)", timeout=0.5)
        raise AssertionError("it went on")
    except asyncio.TimeoutError:
        pass
    same(await db.fetchval("SELECT 1"), 1)
    other = await asyncpg.connect(**PLAIN)
    sleeping = asyncio.ensure_future(failing("SELECT pg_sleep(60)"))
    await asyncio.sleep(0.5)
    same(await other.fetchval("SELECT pg_cancel_backend($1)", db.get_server_pid()), True)
    same((await sleeping).sqlstate, "57014")
    await other.close()


@feature("errors")
async def _():
    error = await failing("SELECT nme FROM mv")
    same(error.sqlstate, "42703")
    same(error.position, "8")
    same((await failing("SELECT * FROM nowhere")).sqlstate, "42P01")
    same((await failing("SELECT $1::int4 / 0", 1)).sqlstate, "22012")
    error = await failing("ALTER SOURCE slow SET PARALLELISM = 3")
    assert error.detail and error.hint
    same(error.severity, "ERROR")
    try:
        await db.fetch("SELECT $1::int4", "x")
        raise AssertionError("text came in as int4")
    except asyncpg.DataError:
        pass


@feature("transactions")
async def _():
    async with db.transaction(isolation="repeatable_read", readonly=True):
        same(await db.fetchval("SHOW transaction_isolation"), "repeatable read")
        before = await db.fetchval("SELECT count(*) FROM tidegate.rescale_history")
        try:
            async with db.transaction():
                await db.fetch("SELECT 1 / 0")
        except asyncpg.DivisionByZeroError:
            pass
        same(await db.fetchval("SELECT count(*) FROM tidegate.rescale_history"), before)
    transaction = db.transaction()
    await transaction.start()
    await failing("SELECT 1 / 0")
    same((await failing("SELECT 1")).sqlstate, "25P02")
    await transaction.rollback()
    same(db.is_in_transaction(), False)


@feature("prepared")
async def _():
    statement = await db.prepare("SELECT id, amount, $1::text AS said FROM mv WHERE id < $2")
    same([(a.name, a.type.name) for a in statement.get_attributes()], [("id", "int8"), ("amount", "float8"), ("said", "text")])
    same([p.name for p in statement.get_parameters()], ["text", "int8"])
    for n in range(20):
        await statement.fetch("x", n)
    await db.execute("CREATE MATERIALIZED VIEW again AS SELECT id FROM s")
    for _ in range(3):
        await db.fetch("SELECT * FROM again LIMIT 1")
    await db.execute("DROP MATERIALIZED VIEW again")
    same((await failing("SELECT * FROM again LIMIT 1")).sqlstate, "42P01")


@feature("copy")
async def _():
    out = io.BytesIO()
    query = "SELECT n, 'x' || n FROM generate_series(1, $1::int4) g(n)"
    same(await db.copy_from_query(query, 3, output=out), "COPY 3")
    same(out.getvalue(), b"1\tx1\n2\tx2\n3\tx3\n")
    out = io.BytesIO()
    same(await db.copy_from_table("mv", columns=["id"], output=out, format="binary"), "COPY 1000")
    assert out.getvalue().startswith(b"PGCOPY\n\xff\r\n\0")


@feature("statements")
async def _():
    await db.execute("CREATE SOURCE mine (id BIGINT) WITH (connector = 'datagen', splits = 2, rows_per_split = 10) FORMAT PLAIN ENCODE JSON")
    await db.execute("CREATE MATERIALIZED VIEW my_view AS SELECT id FROM mine")
    same(await db.fetchval("SELECT count(*) FROM my_view"), 20)
    error = await failing("ALTER SOURCE slow SET PARALLELISM = 3")
    same(error.sqlstate, "55000")
    assert 'of materialized view "busy" would move' in error.detail, error.detail
    assert await db.fetch("SELECT * FROM tidegate.check_rescale($1, $2)", "slow", "3")
    row = await db.fetchrow("SELECT * FROM tidegate.split_backfill_progress WHERE job_name = 'busy'")
    same(type(row["updated_at"]), dt.datetime)
    await db.execute("DROP SOURCE mine CASCADE")


@feature("notices")
async def _():
    heard = []
    db.add_log_listener(lambda _, message: heard.append(message))
    await db.execute("DROP SOURCE IF EXISTS nowhere")
    await asyncio.sleep(0)
    same([message.severity_en for message in heard], ["NOTICE"])


@feature("catalog")
async def _():
    # What it asks when it meets a type that it has no codec for, in one recursive query.
    c = await asyncpg.connect(**PLAIN)
    types = await c.fetch(asyncpg.introspection.INTRO_LOOKUP_TYPES, [1007, 3904, 2249, 4451])
    same({row["oid"] for row in types} >= {23, 1007, 3904}, True)
    row = await c.fetchrow("SELECT * FROM pg_catalog.pg_type WHERE typname = 'jsonb'")
    same((row["oid"], row["typarray"], row["typtype"]), (3802, 3807, b"b"))
    same(await c.fetchval("SELECT typname FROM pg_catalog.pg_type t WHERE t.oid = $1", 1184), "timestamptz")
    for table in ("pg_class", "pg_attribute", "pg_type", "pg_proc", "pg_index", "pg_constraint", "pg_stat_activity", "pg_settings"):
        await c.fetch(f"SELECT * FROM pg_catalog.{table} LIMIT 1")
    await c.close()
