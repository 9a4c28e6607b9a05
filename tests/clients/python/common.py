"""What the scripts for Python's drivers share: the line for each feature, the server's address, and a value of each type."""

import datetime as dt
import decimal
import os
import traceback
import uuid

PORT = int(os.environ["TIDEGATE_PORT"])
PASSWORD = os.environ["TIDEGATE_PASSWORD"]
CA = os.environ["TIDEGATE_CA"]
HOST = "127.0.0.1"
# The certificate is for this name.
TLS_HOST = "localhost"

UTC = dt.timezone.utc

# Type, literal, and what Python makes of it.
VALUES = [
    ("bool", "true", True),
    ("int2", "-32768", -32768),
    ("int4", "2147483647", 2147483647),
    ("int8", "-9223372036854775808", -9223372036854775808),
    ("float4", "1.5", 1.5),
    ("float8", "-2.25e100", -2.25e100),
    ("numeric", "12345.6789", decimal.Decimal("12345.6789")),
    ("text", "grüße 'n\"\\", "grüße 'n\"\\"),
    ("varchar", "x y", "x y"),
    ("bytea", "\\x00ff10", b"\x00\xff\x10"),
    ("date", "2026-02-28", dt.date(2026, 2, 28)),
    ("time", "23:59:58.123456", dt.time(23, 59, 58, 123456)),
    ("timestamp", "1999-12-31 23:59:59.000001", dt.datetime(1999, 12, 31, 23, 59, 59, 1)),
    ("timestamptz", "2026-01-02 03:04:05.6+00", dt.datetime(2026, 1, 2, 3, 4, 5, 600000, UTC)),
    ("interval", "3 days 04:05:06.7", dt.timedelta(days=3, hours=4, minutes=5, seconds=6, microseconds=700000)),
    ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
    ("json", '{"a": [1, null]}', {"a": [1, None]}),
    ("jsonb", '{"a": [1, null]}', {"a": [1, None]}),
    ("oid", "4294967295", 4294967295),
    ("name", "pg_class", "pg_class"),
    ('"char"', "r", "r"),
]


class Missing(Exception):
    """The driver has no such thing; the text says why."""


def say(name, outcome):
    print(name, outcome, flush=True)


def said(error):
    """An error as one line, with the line of the script that it came from."""
    at = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if "tests/clients/" in frame.filename]
    return f"{type(error).__name__} at lines {at}: {' / '.join(str(error).split(chr(10)))}"


def feature(name):
    """Runs a function, and says how a feature did."""

    def run(function):
        try:
            function()
        except Missing as why:
            say(name, f"none: {why}")
        except Exception as error:
            say(name, f"failed: {said(error)}")
        else:
            say(name, "ok")

    return run


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def literal(type, text):
    return f"{quoted(text)}::{type}"


def same(got, wanted, what=""):
    if got != wanted or type(got) is not type(wanted):
        raise AssertionError(f"{what}: {got!r} isn't {wanted!r}")


def all_same(pairs):
    """Compares (what, got, wanted) and names every one that differs."""
    wrong = [f"{what}: {got!r} isn't {wanted!r}" for what, got, wanted in pairs if got != wanted or type(got) is not type(wanted)]
    if wrong:
        raise AssertionError("; ".join(wrong))


def each(cases, check):
    """Runs a check for every case and tells all that fail."""
    wrong = []
    for case in cases:
        try:
            check(*case)
        except Exception as error:
            wrong.append(f"{case[0]}: {type(error).__name__}: {' / '.join(str(error).split(chr(10)))}")
    if wrong:
        raise AssertionError("; ".join(wrong))
