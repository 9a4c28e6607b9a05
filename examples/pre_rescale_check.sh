#!/usr/bin/env bash
# A release step: rescale a source only if that is safe now.
#   examples/pre_rescale_check.sh SOURCE TARGET
# TIDEGATE_URL names the server, or PGHOST, PGPORT and the other variables of PostgreSQL's clients, as for
# `tidegate check`. Exit code: 0 rescaled, 1 not safe or not allowed, 2 could not tell.
set -u
if [ $# -ne 2 ]; then
  echo "usage: $0 SOURCE TARGET" >&2
  exit 2
fi
source=$1 target=$2
# The defaults of `tidegate check`, for psql.
export PGHOST=${PGHOST:-127.0.0.1} PGPORT=${PGPORT:-4567} PGUSER=${PGUSER:-root} PGDATABASE=${PGDATABASE:-dev}

tidegate check "$source" "$target"
code=$?
if [ "$code" -ne 0 ]; then
  echo "not rescaling $source (tidegate check said $code)" >&2
  exit "$code"
fi
# The server checks again, at the barrier at which it commits: what changed since is not a risk.
psql "${TIDEGATE_URL:-}" -X -v ON_ERROR_STOP=1 -v source="$source" -v target="$target" \
  <<<'ALTER SOURCE :"source" SET PARALLELISM = :target;'
case $? in
  0) exit 0 ;;
  3) exit 1 ;; # refused
  *) exit 2 ;; # no connection
esac
