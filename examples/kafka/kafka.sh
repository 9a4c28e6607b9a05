#!/usr/bin/env bash
# A Kafka to try Tidegate with: one broker on 127.0.0.1:9092, and the tools that fill it. Needs Java 17 and Maven.
#   examples/kafka/kafka.sh broker [DIR]      # runs until Ctrl-C; keeps its data in DIR (./kafka-data)
#   examples/kafka/kafka.sh topics ...        # as kafka-topics.sh: --create --topic flights --partitions 4
#   examples/kafka/kafka.sh produce ...       # as kafka-console-producer.sh: --topic flights < rows.jsonl
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
address=127.0.0.1:9092
controller=127.0.0.1:9093

jars=$("$here/../../tests/clients/kafka/fetch.sh")
run=(java -Xmx512m -XX:+UseSerialGC "-Dlog4j2.configurationFile=$here/log4j2.properties" -cp "$jars/*")

command=${1:-}
shift || true
case $command in
  broker)
    mkdir -p "${1:-kafka-data}"
    dir=$(cd "${1:-kafka-data}" && pwd)
    cat >"$dir/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@$controller
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://$address,CONTROLLER://$controller
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/logs
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
PROPERTIES
    "${run[@]}" kafka.tools.StorageTool format --ignore-formatted -t tidegate-example-broker \
      -c "$dir/server.properties" >/dev/null
    echo "Kafka on $address, until Ctrl-C" >&2
    exec "${run[@]}" kafka.Kafka "$dir/server.properties"
    ;;
  topics) exec "${run[@]}" org.apache.kafka.tools.TopicCommand --bootstrap-server "$address" "$@" ;;
  produce) exec "${run[@]}" org.apache.kafka.tools.ConsoleProducer --bootstrap-server "$address" "$@" ;;
  *)
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
    ;;
esac
