"""dbt over sources that are Tidegate's relations: it connects, compiles, tests the data and documents what there is."""

import contextlib
import json
import pathlib
import sys
import tempfile
from importlib.metadata import version

from dbt.cli.main import dbtRunner

from common import *


PROFILE = f"""
tides:
  target: dev
  outputs:
    dev: {{type: postgres, host: {HOST}, port: {PORT}, user: root, password: none, dbname: dev, schema: public, threads: 2}}
"""
SOURCES = """
sources:
  - name: public
    tables:
      - name: mv
        columns: [{name: id, data_tests: [unique, not_null]}]
      - name: s
  - name: tidegate
    tables: [{name: split_backfill_progress}]
"""
project = pathlib.Path(tempfile.mkdtemp())
sources = {}


def run(*command):
    folders = ["--project-dir", str(project), "--profiles-dir", str(project), "--log-path", str(project)]
    with contextlib.redirect_stdout(sys.stderr):
        result = dbtRunner().invoke(["--quiet", "--no-use-colors", "--no-send-anonymous-usage-stats", *command, *folders])
    if not result.success:
        log = (project / "dbt.log").read_text().splitlines()
        raise AssertionError(f"{result.exception} {log[-25:]}")


def connect():
    run("debug")


def queries():
    run("test")
    run("show", "--inline", "SELECT id FROM {{ source('public', 'mv') }}", "--limit", "3")


def relations():
    run("docs", "generate")
    catalog = json.loads((project / "target" / "catalog.json").read_text())
    same(catalog["errors"], None)
    sources.update({name.removeprefix("source.tides."): table for name, table in catalog["sources"].items()})
    same(sorted(sources), ["public.mv", "public.s", "tidegate.split_backfill_progress"])


def columns():
    of_mv = [(column["name"], column["type"]) for column in sources["public.mv"]["columns"].values()]
    same(of_mv, [("id", "bigint"), ("amount", "double precision")])


def details():
    assert sources["tidegate.split_backfill_progress"]["metadata"]["comment"]
    same(sources["public.mv"]["metadata"]["owner"], "root")


def errors():
    try:
        run("show", "--inline", "SELECT nme FROM {{ source('public', 'mv') }}")
    except AssertionError as error:
        assert 'column "nme" does not exist' in str(error), error
    else:
        raise AssertionError("it succeeded")


def none(why):
    def function():
        raise Missing(why)

    return function


# dbt starts processes, which read this file again.
if __name__ == "__main__":
    print("version", version("dbt-postgres"), flush=True)
    (project / "models").mkdir()
    (project / "dbt_project.yml").write_text("name: tides\nprofile: tides\nversion: '1.0'\n")
    (project / "profiles.yml").write_text(PROFILE)
    (project / "models" / "sources.yml").write_text(SOURCES)
    features = dict(
        connect=connect, databases=none("its project names them"), relations=relations, columns=columns, details=details,
        queries=queries, completion=none("it has no editor"), errors=errors,
    )
    for name, function in features.items():
        feature(name)(function)
