-- A source over the topic, and two views of it: one at once, one slowly enough to be watched.
--   psql -h 127.0.0.1 -p 4567 -U root dev -f examples/kafka/source.sql
SET streaming_parallelism = 2;
CREATE SOURCE flights (carrier TEXT, flight BIGINT, origin TEXT, dest TEXT, distance BIGINT, dep_delay BIGINT, time_hour TIMESTAMPTZ)
  WITH (connector = 'kafka', topic = 'flights', properties.bootstrap.server = '127.0.0.1:9092')
  FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW late AS
  SELECT carrier, origin, dest, dep_delay FROM flights WHERE dep_delay > 15;
SET background_ddl = true;
CREATE MATERIALIZED VIEW all_flights WITH (backfill_rate_limit = 10) AS
  SELECT carrier, flight, distance, dep_delay, time_hour FROM flights;
