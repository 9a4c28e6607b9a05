"""Begins with TLS, as sslnegotiation=direct does, and says how its own connection is encrypted.

usage: direct.py PORT CA PASSWORD
"""

import sys

import psycopg

port, ca, password = sys.argv[1:]
assert psycopg.pq.version() >= 170000, psycopg.pq.version()
with psycopg.connect(
    host="localhost",
    hostaddr="127.0.0.1",
    port=port,
    user="root",
    dbname="dev",
    password=password,
    sslmode="verify-full",
    sslrootcert=ca,
    sslnegotiation="direct",
    channel_binding="require",
) as connection:
    row = connection.execute(
        "SELECT ssl, version, bits FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    ).fetchone()
    print(*row)
