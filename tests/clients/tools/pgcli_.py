"""pgcli without its terminal: what it loads for its completion, its backslash commands, and what it prints."""

from importlib.metadata import version

import psycopg
from pgcli.completion_refresher import CompletionRefresher
from pgcli.main import PGCli
from pgcli.pgexecute import PGExecute
from prompt_toolkit.document import Document
from pgspecial.main import PGSpecial

from common import *

print("version", version("pgcli"))
db = PGExecute(database="dev", user="root", host=HOST, port=str(PORT))
special = PGSpecial()


def run(text):
    """The rows of every result."""
    rows = []
    for title, result, headers, status, sql, success, is_special, *_ in db.run(text, special):
        if not success:
            raise AssertionError(f"{text}: {status}")
        rows.extend(result or [])
    return rows


@feature("connect")
def _():
    same(db.dbname, "dev")
    same(db.is_virtual_database(), False)
    same(db.server_version.startswith("15"), True)
    same(PGCli(pgexecute=db).pgexecute.short_host, HOST)


@feature("databases")
def _():
    same(db.databases(), ["dev"])
    same([row[0] for row in next(iter(db.full_databases()))], ["dev"])
    same({"public", "tidegate", "rw_catalog"} <= set(db.schemata()), True)
    same(list(db.search_path())[:1], ["public"])


@feature("relations")
def _():
    relations = set(db.tables()) | set(db.views())
    same({("public", "mv"), ("public", "s"), ("tidegate", "split_gaps")} <= relations, True)


@feature("columns")
def _():
    columns = [row[:4] for rows in (db.table_columns(), db.view_columns()) for row in rows]
    same(("public", "mv", "id", "bigint") in columns, True)


@feature("completion")
def _():
    for load in (db.functions, db.datatypes, db.foreignkeys, db.casing):
        list(load())
    completer = PGCli(pgexecute=db).completer
    for refresh in CompletionRefresher.refreshers.values():
        refresh(completer, db)
    said = completer.get_completions(Document("SELECT * FROM split_ga"), None)
    same("split_gaps" in [completion.text for completion in said], True)


@feature("details")
def _():
    commands = r"\d \d+ \dt \dv \dm \dE \dn \dn+ \df \dT \du \di \ds \dx \dp \ddp \db \dD \l \l+".split()
    named = [r"\d mv", r"\d+ mv", r"\d+ s", r"\d tidegate.split_backfill_progress", r"\dt *.*"]
    each([(command,) for command in commands + named], run)


@feature("queries")
def _():
    same(run("SELECT count(*) FROM mv"), [(1000,)])
    same(len(run("SELECT * FROM tidegate.split_backfill_progress; SELECT 1")), 9)
    assert run(db.explain_prefix() + "SELECT id FROM mv")


@feature("errors")
def _():
    try:
        run("SELECT nme FROM mv")
        raise AssertionError("it succeeded")
    except psycopg.errors.UndefinedColumn as error:
        same(error.diag.statement_position, "8")
    same(run("SELECT 1"), [(1,)])
