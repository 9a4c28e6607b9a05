"""pgAdmin 4's own statements: the SQL templates of its package, rendered for PostgreSQL 15 with what this server has, and run."""

import pathlib
import re
import sys

import jinja2
import psycopg

from common import *

PACKAGE = pathlib.Path(sys.prefix) / "pgadmin4"
print("version", (PACKAGE / "version").read_text().strip())
db = psycopg.connect(f"host={HOST} port={PORT} user=root dbname=dev sslmode=disable", autocommit=True)

# The templates that make a whole statement of what this server has, as PostgreSQL 15 finds.
WHOLE = (pathlib.Path(__file__).parent / "pgadmin.list").read_text().split()
OF_DATABASES = """casts catalog databases event_triggers foreign_data_wrappers foreign_servers languages publications roles schemas
    subscriptions tablespaces user_mappings""".split()
FEATURES = {
    "connect": lambda folder, name: folder in ("connect", "servers"),
    "databases": lambda folder, name: folder in OF_DATABASES,
    "columns": lambda folder, name: folder in ("columns", "catalog_object_column"),
    "queries": lambda folder, name: folder in ("dashboard", "sqleditor"),
    "completion": lambda folder, name: folder == "sqlautocomplete",
    "relations": lambda folder, name: name in ("nodes.sql", "node.sql", "count.sql"),
    "details": lambda folder, name: True,
}


def quoted_identifier(*parts):
    return ".".join('"' + str(part).replace('"', '""') + '"' for part in parts if part)


def environment():
    folders = sorted(PACKAGE.rglob("templates"))
    env = jinja2.Environment(loader=jinja2.FileSystemLoader([str(folder) for folder in folders]), extensions=["jinja2.ext.do"])
    env.filters.update(
        qtLiteral=lambda value, *_: quoted(str(value)) if isinstance(value, str) else str(value),
        qtIdent=lambda *parts: quoted_identifier(*[part for part in parts if isinstance(part, str)]),
        qtTypeIdent=lambda value, *_: str(value),
        hasAny=lambda data, keys: any(key in data for key in keys),
    )
    env.globals.update(conn=None, _=str, gettext=str)
    return env, folders


def for_version_15(folders):
    """The templates of the newest version that isn't newer than 15, a name at a time, as pgAdmin looks for them."""
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.sql")):
            name = path.relative_to(folder)
            at = next((n for n, part in enumerate(name.parts) if re.fullmatch(r"default|\d+_plus", part)), None)
            if at is None:
                continue
            version = 0 if name.parts[at] == "default" else int(name.parts[at].split("_")[0])
            key = (*name.parts[:at], *name.parts[at + 1 :])
            if version <= 15 and version >= found.get(key, (-1, None))[0]:
                found[key] = (version, name)
    return {"/".join(key): name for key, (_, name) in found.items()}


def one(query, *parameters):
    return db.execute(query, parameters).fetchone()[0]


def objects():
    """What the templates call the ids of what the tree has: a database, a schema, and a relation of each kind."""
    relation = one("SELECT oid FROM pg_class WHERE relname = %s", "mv")
    return dict(
        did=one("SELECT oid FROM pg_database WHERE datname = 'dev'"),
        scid=one("SELECT relnamespace FROM pg_class WHERE relname = %s", "mv"),
        tid=relation, vid=relation, foid=one("SELECT oid FROM pg_class WHERE relname = %s", "s"),
        last_system_oid=0, datlastsysoid=16383, rid=10, nspname="public", schema="public", table="mv", name="mv",
    )


env, folders = environment()
templates = for_version_15(folders)
of_feature = {name: [] for name in FEATURES}
for key in WHOLE:
    folder, *_, last = key.split("/")
    of_feature[next(name for name, is_of in FEATURES.items() if is_of(folder, last))].append((key,))


def run(key):
    db.execute(env.get_template(str(templates[key])).render(**objects()))


for name, keys in of_feature.items():
    feature(name)(lambda: each(keys, run))


@feature("errors")
def _():
    raise Missing("its templates alone are run")
