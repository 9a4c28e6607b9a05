-- What a connector wants to be told of a split after a restart, in its own words: see Connector::remember.
ALTER TABLE splits ADD COLUMN memory TEXT;

-- Rows that a source deleted (Kafka's retention) before they could be read. The split went on behind them.
CREATE TABLE split_gaps (
  source_id   INTEGER NOT NULL REFERENCES sources ON DELETE CASCADE,
  split_id    TEXT NOT NULL,
  job_id      INTEGER NOT NULL,                -- the view whose backfill missed them; 0: the live stream
  from_offset INTEGER NOT NULL,                -- the first offset that was gone
  to_offset   INTEGER NOT NULL,                -- where the split went on
  at          INTEGER NOT NULL,
  PRIMARY KEY (source_id, split_id, job_id, from_offset)
) STRICT, WITHOUT ROWID;
