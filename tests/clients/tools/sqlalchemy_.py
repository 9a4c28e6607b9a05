"""SQLAlchemy, over every driver that it has: what its inspector finds, its own queries, and pandas on top of it."""

import asyncio

import pandas
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from common import *

print("version", sa.__version__)
engine = sa.create_engine(f"postgresql+psycopg://root@{HOST}:{PORT}/dev")
inspector = sa.inspect(engine)


@feature("connect")
def _():
    for driver in ("psycopg", "psycopg2", "pg8000"):
        each = sa.create_engine(f"postgresql+{driver}://root@{HOST}:{PORT}/dev", isolation_level="REPEATABLE READ")
        with each.connect() as c:
            same(c.scalar(sa.text("SELECT count(*) FROM mv WHERE id >= :low"), {"low": 0}) > 0, True, driver)
            same(c.dialect.server_version_info[0], 15, driver)
            same(c.dialect.default_schema_name, "public", driver)
            same(c.get_isolation_level(), "REPEATABLE READ", driver)
        each.dispose()

    async def over_asyncpg():
        each = create_async_engine(f"postgresql+asyncpg://root@{HOST}:{PORT}/dev")
        async with each.connect() as c:
            names = await c.run_sync(lambda c: sa.inspect(c).get_materialized_view_names())
            same(sorted(names), ["busy", "mv"])
            same(await c.scalar(sa.text("SELECT count(*) FROM mv WHERE id = :id"), {"id": -1}), 0)
        await each.dispose()

    asyncio.run(over_asyncpg())


@feature("databases")
def _():
    same(inspector.default_schema_name, "public")
    same(set(inspector.get_schema_names()) >= {"public", "tidegate", "rw_catalog", "information_schema"}, True)


@feature("relations")
def _():
    same(sorted(inspector.get_materialized_view_names()), ["busy", "mv"])
    same(sorted(inspector.get_foreign_table_names()), ["s", "slow"])
    # Those of the search path.
    assert {"split_gaps", "rw_sources"} <= set(inspector.get_view_names()), inspector.get_view_names()
    same(inspector.get_table_names(), [])
    assert "split_backfill_progress" in inspector.get_view_names(schema="tidegate")
    assert inspector.has_table("mv") and inspector.has_table("split_gaps", schema="tidegate")
    assert not inspector.has_table("nowhere") and not inspector.has_schema("nowhere")
    same(inspector.has_sequence("nowhere"), False)
    assert inspector.get_view_definition("split_gaps", schema="tidegate")
    assert "SELECT" in inspector.get_view_definition("mv")


@feature("columns")
def _():
    columns = inspector.get_columns("mv")
    same([(c["name"], str(c["type"]), c["nullable"]) for c in columns], [("id", "BIGINT", True), ("amount", "DOUBLE PRECISION", True)])
    at = inspector.get_columns("s")[2]
    same((at["name"], str(at["type"]), at["type"].timezone), ("at", "TIMESTAMP", True))
    for schema in ("public", "tidegate", "rw_catalog"):
        for (_, table), columns in inspector.get_multi_columns(schema=schema, kind=sa.engine.reflection.ObjectKind.ANY).items():
            unknown = [c["name"] for c in columns if isinstance(c["type"], sa.types.NullType)]
            same(unknown, [], table)


@feature("details")
def _():
    assert "backfill of every split" in inspector.get_table_comment("split_backfill_progress", schema="tidegate")["text"]
    assert all(c["comment"] for c in inspector.get_columns("split_backfill_progress", schema="tidegate"))
    same(inspector.get_table_comment("mv"), {"text": None})
    same(inspector.get_pk_constraint("mv")["constrained_columns"], [])
    for get in ("get_foreign_keys", "get_indexes", "get_unique_constraints", "get_check_constraints"):
        same(getattr(inspector, get)("mv"), [], get)
    same(inspector.get_enums(), [])
    same({domain["schema"] for domain in inspector.get_domains()}, {"information_schema"})


@feature("queries")
def _():
    metadata = sa.MetaData()
    metadata.reflect(engine, schema="tidegate", views=True)
    progress = metadata.tables["tidegate.split_backfill_progress"]
    with engine.connect() as c:
        query = sa.select(progress.c.job_name, sa.func.count()).group_by(progress.c.job_name).order_by(progress.c.job_name)
        same([tuple(row) for row in c.execute(query)], [("busy", 4), ("mv", 4)])
    mv = sa.Table("mv", metadata, autoload_with=engine)
    with engine.connect() as c:
        query = sa.select(mv.c.id).where(mv.c.id.in_([-1, -2]) | mv.c.amount.is_(None)).limit(5).offset(1)
        same(c.execute(query).all(), [])
    # pandas, on top of it.
    frame = pandas.read_sql("SELECT id, amount FROM mv ORDER BY id", engine)
    same((len(frame), [str(t) for t in frame.dtypes]), (1000, ["int64", "float64"]))
    frame = pandas.read_sql_table("split_assignments", engine, schema="tidegate")
    same(len(frame) > 0, True)
    parts = pandas.read_sql(sa.text("SELECT id FROM mv WHERE id >= :low"), engine, params={"low": -(2**63)}, chunksize=300)
    same([len(part) for part in parts], [300, 300, 300, 100])


@feature("completion")
def _():
    raise Missing("it is a library")


@feature("errors")
def _():
    with engine.connect() as c:
        try:
            c.execute(sa.text("SELECT nme FROM mv"))
            raise AssertionError("it succeeded")
        except sa.exc.ProgrammingError as error:
            same((error.orig.sqlstate, error.orig.diag.statement_position), ("42703", "8"))
        c.rollback()
        same(c.scalar(sa.text("SELECT 1")), 1)
