"""What Npgsql asks, in our own words and of the same shape: nested joins that tell arrays by their receive function, a
correlated subquery for multiranges, several statements in one message. Sent as it does, over libpq."""

from psycopg import pq

from common import *

conn = pq.PGconn.connect(f"host={HOST} port={PORT} user=root dbname=dev sslmode=disable".encode())
assert conn.status == pq.ConnStatus.OK, conn.error_message


def checked(result):
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        raise AssertionError(result.error_message.decode())
    cell = lambda row, column: (result.get_value(row, column) or b"").decode()
    return [tuple(cell(row, column) for column in range(result.nfields)) for row in range(result.ntuples)]


def simple(text):
    """The rows of each statement of one message."""
    conn.send_query(text.encode())
    results = []
    while result := conn.get_result():
        results.append(result)
    return [checked(result) for result in results]


def extended(text, *parameters):
    return checked(conn.exec_params(text.encode(), [str(parameter).encode() for parameter in parameters]))


TYPES = """
SELECT space.nspname, kinds.oid, kinds.typname, kinds.kind, kinds.typnotnull, kinds.item
FROM (
    SELECT own.oid, own.typnamespace, own.typname, own.kind, own.typnotnull, own.relkind, element.oid AS item,
        element_table.relkind AS item_relkind,
        CASE WHEN element_receive.proname = 'array_recv' THEN 'a' ELSE element.typtype END AS item_kind
    FROM (
        SELECT t.oid, t.typnamespace, t.typname, t.typrelid, t.typnotnull, c.relkind, t.typcategory,
            CASE WHEN receive.proname = 'array_recv' THEN 'a' ELSE t.typtype END AS kind,
            CASE
                WHEN receive.proname = 'array_recv' THEN t.typelem
                WHEN t.typtype = 'r' THEN ranges.rngsubtype
                WHEN t.typtype = 'm' THEN (SELECT rngtypid FROM pg_range WHERE rngmultitypid = t.oid)
                WHEN t.typtype = 'd' THEN t.typbasetype
            END AS item
        FROM pg_type AS t
        LEFT JOIN pg_class AS c ON (c.oid = t.typrelid)
        LEFT JOIN pg_proc AS receive ON receive.oid = t.typreceive
        LEFT JOIN pg_range AS ranges ON (ranges.rngtypid = t.oid)
    ) AS own
    LEFT JOIN pg_type AS element ON element.oid = own.item
    LEFT JOIN pg_class AS element_table ON (element_table.oid = element.typrelid)
    LEFT JOIN pg_proc AS element_receive ON element_receive.oid = element.typreceive
) AS kinds
JOIN pg_namespace AS space ON (space.oid = kinds.typnamespace)
WHERE kind IN ('b', 'r', 'm', 'e', 'd') OR
    (kind = 'c' AND relkind = 'c') OR
    (kind = 'p' AND typname IN ('record', 'void', 'unknown')) OR
    (kind = 'a' AND (item_kind IN ('b', 'r', 'm', 'e', 'd') OR
        (item_kind = 'p' AND typname IN ('_record', '_void')) OR
        (item_kind = 'c' AND item_relkind = 'c')))
ORDER BY CASE WHEN kind IN ('b', 'e', 'p') THEN 0 WHEN kind = 'c' THEN 1 WHEN kind = 'r' THEN 2 WHEN kind = 'm' THEN 3
    WHEN kind = 'd' THEN 4 WHEN kind = 'a' THEN 5 END
"""

FIELDS = """
SELECT t.oid, a.attname, a.atttypid
FROM pg_type AS t
JOIN pg_namespace AS n ON (n.oid = t.typnamespace)
JOIN pg_class AS c ON (c.oid = t.typrelid)
JOIN pg_attribute AS a ON (a.attrelid = t.typrelid)
WHERE (t.typtype = 'c' AND c.relkind = 'c') AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY t.oid, a.attnum
"""

LABELS = """
SELECT pg_type.oid, enumlabel
FROM pg_enum
JOIN pg_type ON pg_type.oid = enumtypid
ORDER BY oid, enumsortorder
"""


@feature("types")
def _():
    version, types, fields, labels = simple(f"SELECT version();{TYPES};{FIELDS};{LABELS}")
    assert version[0][0].startswith("PostgreSQL 15"), version
    known = {row[2]: row for row in types}
    same(known["jsonb"][1:4], ("3802", "jsonb", "b"))
    same(known["_timestamptz"][3:], ("a", "f", "1184"))
    same(known["int4range"][3:], ("r", "f", "23"))
    same(known["int4multirange"][3:], ("m", "f", "3904"))
    same(known["record"][3], "p")
    kinds = [row[3] for row in types]
    assert kinds.index("r") > max(n for n, kind in enumerate(kinds) if kind == "b"), "they aren't in order"
    same((fields, labels), ([], []))


@feature("pooling")
def _():
    simple("SET application_name = 'pooled'")
    simple("DISCARD ALL")
    same(simple("SHOW application_name"), [[("",)]])
    simple("SELECT pg_advisory_unlock_all()")


@feature("hosts")
def _():
    same(simple("SELECT pg_is_in_recovery();SHOW default_transaction_read_only"), [[("f",)], [("off",)]])


@feature("schema")
def _():
    tables = extended(
        "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables"
        " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
    )
    assert ("dev", "tidegate", "split_backfill_progress") in [row[:3] for row in tables], tables
    columns = extended(
        "SELECT c.table_schema, c.table_name, c.column_name, c.ordinal_position, c.is_nullable, c.data_type, t.oid"
        " FROM information_schema.columns AS c JOIN pg_type AS t ON t.typname = c.udt_name"
        " WHERE c.table_name = $1 ORDER BY c.ordinal_position", "mv",
    )
    same([row[2:] for row in columns], [("id", "1", "YES", "bigint", "20"), ("amount", "2", "YES", "double precision", "701")])
    same(extended("SELECT usename, usesysid FROM pg_user WHERE usename = $1", "root"), [("root", "10")])
    same(
        extended(
            "SELECT con.conname, a.attname FROM pg_constraint AS con"
            " JOIN pg_class AS c ON c.oid = con.conrelid"
            " JOIN pg_attribute AS a ON a.attrelid = con.conrelid AND a.attnum = ANY (con.conkey)"
            " WHERE c.relname = $1", "mv",
        ),
        [],
    )
    for view in ("views", "key_column_usage", "referential_constraints", "table_constraints", "character_sets", "view_column_usage"):
        extended(f"SELECT * FROM information_schema.{view}")
