"""What the scripts share that send what a tool would send, in our own words: one connection, and its rows."""

import psycopg

from common import *

db = psycopg.connect(f"host={HOST} port={PORT} user=root dbname=dev sslmode=disable", autocommit=True)


def rows(query, *parameters):
    cursor = db.execute(query, parameters or None)
    return cursor.fetchall() if cursor.description else []


def simple(*queries):
    """Runs each as a simple query: no parameters, and the text format."""
    each([(query,) for query in queries], lambda query: psycopg.ClientCursor(db).execute(query))


def oid(name):
    return rows("SELECT oid FROM pg_class WHERE relname = %s", name)[0][0]
