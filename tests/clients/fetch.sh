#!/usr/bin/env bash
# Fetches the PostgreSQL clients that tests/it/clients runs, each once, and prints the folder that they are in.
#   tests/clients/fetch.sh [PART ...]
# A part is a folder beside this file, and its versions are pinned there. A part whose runtime isn't on this machine is
# left out, and so are its tests. The folder lies outside the clone, so that it outlives it; TIDEGATE_CLIENTS names
# another one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
clients=${TIDEGATE_CLIENTS:-${CARGO_TARGET_DIR:-$here/../../target}/clients}
mkdir -p "$clients"

# What each part needs, what says which versions, and how it is fetched into the folder that is its first argument.
python_runtime=python3 python_pins=requirements.txt
fetch_python() {
  python3 -m venv "$1"
  "$1/bin/pip" install -q --disable-pip-version-check -r "$here/python/requirements.txt" >&2
}

tools_runtime=python3 tools_pins='requirements.txt templates.txt'
fetch_tools() {
  python3 -m venv "$1"
  "$1/bin/pip" install -q --disable-pip-version-check -r "$here/tools/requirements.txt" >&2
  "$1/bin/pip" download -q --disable-pip-version-check --no-deps -d "$1/wheels" -r "$here/tools/templates.txt" >&2
  "$1/bin/python" "$here/tools/templates.py" "$1"/wheels/*.whl "$1"
  rm -r "$1/wheels"
}

superset_runtime=python3 superset_pins=requirements.txt
fetch_superset() {
  python3 -m venv "$1"
  "$1/bin/pip" install -q --disable-pip-version-check -r "$here/superset/requirements.txt" >&2
}

node_runtime=npm node_pins=package-lock.json
fetch_node() {
  cp "$here/node/package.json" "$here/node/package-lock.json" "$1"
  npm --prefix "$1" ci --silent --no-audit --no-fund >&2
}

java_runtime=mvn java_pins=pom.xml
fetch_java() {
  mvn --quiet --batch-mode --file "$here/java/pom.xml" dependency:copy-dependencies -DoutputDirectory="$1" >&2
}

go_runtime=go go_pins='go.mod go.sum */*.go'
fetch_go() { (cd "$here/go" && go build -o "$1/" ./...) >&2; }

[ $# -gt 0 ] || set -- python tools superset node java go
for part in "$@"; do
  runtime="${part}_runtime" pins="${part}_pins"
  if ! command -v "${!runtime}" >/dev/null; then
    echo "skipped: the clients in $part, since this machine has no ${!runtime}" >&2
    continue
  fi
  # A part that is as its pins want it has their sum in it, written last.
  sum=$(cd "$here/$part" && cat ${!pins} | cksum)
  [ "$(cat "$clients/$part/fetched" 2>/dev/null)" = "$sum" ] && continue
  rm -rf "${clients:?}/$part"
  mkdir "$clients/$part"
  "fetch_$part" "$clients/$part"
  echo "$sum" >"$clients/$part/fetched"
done
echo "$clients"
