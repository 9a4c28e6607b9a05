"""Harlequin without its terminal: its PostgreSQL adapter's catalog, level by level, its completions and a query."""

from importlib.metadata import version

from harlequin_postgres.adapter import HarlequinPostgresAdapter

from common import *

print("version", version("harlequin-postgres"))
adapter = HarlequinPostgresAdapter([f"postgresql://root@{HOST}:{PORT}/dev"])
db = adapter.connect()


def children(item):
    if not item.loaded:
        item.children = item.fetch_children()
        item.loaded = True
    return {child.label: child for child in item.children}


@feature("connect")
def _():
    same(db.execute("SELECT 1").fetchall(), [(1,)])


databases = {item.label: item for item in db.get_catalog().items}


@feature("databases")
def _():
    same(list(databases), ["dev"])
    same({"public", "tidegate", "rw_catalog"} <= set(children(databases["dev"])), True)


@feature("relations")
def _():
    same({"mv", "busy", "s", "slow"} <= set(children(children(databases["dev"])["public"])), True)


@feature("columns")
def _():
    same(list(children(children(children(databases["dev"])["public"])["mv"])), ["id", "amount"])
    for schema in children(databases["dev"]).values():
        for relation in children(schema).values():
            assert children(relation), relation.label


@feature("details")
def _():
    raise Missing("its tree shows names and types")


@feature("queries")
def _():
    same([name for name, _ in db.execute("SELECT id, amount FROM mv").columns()], ["id", "amount"])
    same(len(db.execute("SELECT id FROM mv").set_limit(7).fetchall()), 7)


@feature("completion")
def _():
    labels = {completion.label for completion in db.get_completions()}
    same({"count", "select"} <= {label.lower() for label in labels}, True)
    if hasattr(db, "search_catalog"):
        assert db.search_catalog("mv")


@feature("errors")
def _():
    try:
        db.execute("SELECT nme FROM mv")
        raise AssertionError("it succeeded")
    except Exception as error:
        assert 'column "nme" does not exist' in str(error), error
    same(db.execute("SELECT 1").fetchall(), [(1,)])


db.close()
