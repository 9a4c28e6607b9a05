#!/usr/bin/env bash
# Fetches the jars of an Apache Kafka broker once, with Maven, and prints the folder that they are in.
#   tests/clients/kafka/fetch.sh
# Needs mvn and Java 17 or newer. The folder lies outside the clone, so that it outlives it; TIDEGATE_KAFKA_JARS names
# another one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's:.*<kafka\.version>\(.*\)</kafka\.version>.*:\1:p' "$here/pom.xml")
jars=${TIDEGATE_KAFKA_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/tidegate/kafka-$version}

# A folder that exists is whole: it gets its name only when all jars are in it.
if [ ! -d "$jars" ]; then
  mkdir -p "$(dirname "$jars")"
  part=$(mktemp -d "$jars.XXXXXX")
  trap 'rm -rf "$part"' EXIT
  chmod 755 "$part"
  mvn --quiet --batch-mode --file "$here/pom.xml" dependency:copy-dependencies \
    -DoutputDirectory="$part" -DincludeScope=runtime >&2
  mv "$part" "$jars"
fi
echo "$jars"
