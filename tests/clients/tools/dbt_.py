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


def catalog():
    run("docs", "generate")
    catalog = json.loads((project / "target" / "catalog.json").read_text())
    same(catalog["errors"], None)
    sources = catalog["sources"]
    same(sorted(sources), ["source.tides.public.mv", "source.tides.public.s", "source.tides.tidegate.split_backfill_progress"])
    mv = sources["source.tides.public.mv"]
    same([(c["name"], c["type"]) for c in mv["columns"].values()], [("id", "bigint"), ("amount", "double precision")])
    assert sources["source.tides.tidegate.split_backfill_progress"]["metadata"]["comment"]


# dbt starts processes, which read this file again.
if __name__ == "__main__":
    print("version", version("dbt-postgres"), flush=True)
    (project / "models").mkdir()
    (project / "dbt_project.yml").write_text("name: tides\nprofile: tides\nversion: '1.0'\n")
    (project / "profiles.yml").write_text(PROFILE)
    (project / "models" / "sources.yml").write_text(SOURCES)
    for name, function in (("connect", connect), ("queries", queries), ("catalog", catalog)):
        feature(name)(function)
