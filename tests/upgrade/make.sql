-- What the state files beside this one hold. Run by psql on a new data directory of the release's own program, with
-- three splits "a", "b" and "c" of twenty lines {"n": 0, "word": "a0"}, ... in the directory named below.
SET streaming_parallelism = 2;
CREATE SOURCE upgraded (n BIGINT, word TEXT)
  WITH (connector = 'file', path = '/var/lib/tidegate-upgrade/files', poll_interval = '50ms') FORMAT PLAIN ENCODE JSON;
CREATE SOURCE made (id BIGINT, amount DOUBLE PRECISION)
  WITH (connector = 'datagen', splits = 2, rows_per_split = 30, seed = 7) FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW words AS SELECT n, word FROM upgraded WHERE n < 10;
CREATE MATERIALIZED VIEW amounts AS SELECT id, amount FROM made;
FLUSH; FLUSH; FLUSH;
-- Committed, refused, deferred.
ALTER SOURCE upgraded SET PARALLELISM = 3;
SET background_ddl = true;
CREATE MATERIALIZED VIEW held WITH (backfill_rate_limit = 0) AS SELECT n FROM upgraded;
FLUSH; FLUSH; FLUSH;
ALTER SOURCE upgraded SET PARALLELISM = 1;
ALTER SOURCE upgraded SET PARALLELISM = 2 DEFERRED;
