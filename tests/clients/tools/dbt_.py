"""dbt over sources that are Tidegate's relations: it connects, compiles, tests the data and documents what there is."""

import json
import pathlib
import tempfile
from importlib.metadata import version

from dbt.cli.main import dbtRunner

from common import *

print("version", version("dbt-postgres"))
project = pathlib.Path(tempfile.mkdtemp())
(project / "models").mkdir()
(project / "dbt_project.yml").write_text("name: tides\nprofile: tides\nversion: '1'\nflags: {send_anonymous_usage_stats: false}\n")
(project / "profiles.yml").write_text(f"""
tides:
  target: dev
  outputs:
    dev: {{type: postgres, host: {HOST}, port: {PORT}, user: root, password: none, dbname: dev, schema: public, threads: 2}}
""")
(project / "models" / "sources.yml").write_text("""
sources:
  - name: public
    tables:
      - name: mv
        columns: [{name: id, data_tests: [unique, not_null]}]
      - name: s
  - name: tidegate
    tables: [{name: split_backfill_progress}]
""")
runner = dbtRunner()


def run(*command):
    folders = ["--project-dir", str(project), "--profiles-dir", str(project)]
    result = runner.invoke(["--quiet", "--no-use-colors", "--log-path", str(project), *command, *folders])
    if not result.success:
        log = (project / "dbt.log").read_text().splitlines()
        raise AssertionError(f"{result.exception} {log[-25:]}")
    return result.result


@feature("connect")
def _():
    run("debug")


@feature("queries")
def _():
    run("test")
    run("show", "--inline", "SELECT id FROM {{ source('public', 'mv') }}", "--limit", "3")


@feature("catalog")
def _():
    run("docs", "generate")
    catalog = json.loads((project / "target" / "catalog.json").read_text())
    same(catalog["errors"], None)
    sources = catalog["sources"]
    same(sorted(sources), ["source.tides.public.mv", "source.tides.public.s", "source.tides.tidegate.split_backfill_progress"])
    mv = sources["source.tides.public.mv"]
    same([(c["name"], c["type"]) for c in mv["columns"].values()], [("id", "bigint"), ("amount", "double precision")])
    assert sources["source.tides.tidegate.split_backfill_progress"]["metadata"]["comment"]
