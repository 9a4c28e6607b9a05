#!/usr/bin/env bash
# A release step: rescale a source only if that is safe now.
#   examples/pre_rescale_check.sh SOURCE TARGET
# TIDEGATE_URL names the server, as for `tidegate check`. Exit code: 0 rescaled, 1 not safe, 2 could not tell.
set -u
if [ $# -ne 2 ]; then
  echo "usage: $0 SOURCE TARGET" >&2
  exit 2
fi
source=$1 target=$2
url=${TIDEGATE_URL:-postgres://root@127.0.0.1:4567/dev}

tidegate check --url "$url" "$source" "$target"
code=$?
if [ "$code" -ne 0 ]; then
  echo "not rescaling $source (tidegate check said $code)" >&2
  exit "$code"
fi
# The server checks again, at the barrier at which it commits: what changed since is not a risk.
psql "$url" -X -v ON_ERROR_STOP=1 -v source="$source" -v target="$target" \
  <<<'ALTER SOURCE :"source" SET PARALLELISM = :target;' || exit 1
