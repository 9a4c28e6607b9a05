#!/usr/bin/env bash
# Fetches a libpq of version 17 or newer once, inside the wheel of psycopg, and prints the Python that has it.
#   tests/clients/libpq/fetch.sh
# Needs python3 with venv and pip. The folder lies outside the clone, so that it outlives it; TIDEGATE_LIBPQ names
# another one.
set -euo pipefail
version=3.3.9
folder=${TIDEGATE_LIBPQ:-${XDG_CACHE_HOME:-$HOME/.cache}/tidegate/psycopg-$version}

# A folder that is whole has this file.
if [ ! -e "$folder/whole" ]; then
  rm -rf "$folder"
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "psycopg[binary]==$version" >&2
  touch "$folder/whole"
fi
echo "$folder/bin/python"
