-- The first schema. Times are microseconds since 1970 (UTC), booleans 0 or 1, names ending in _json hold JSON.
-- Raw tables are exact and dumb: percentages, ETAs and verdicts are made by sql/views and by the backfill module.

-- One row: what the server must not forget between starts.
CREATE TABLE meta (
  only_row      INTEGER PRIMARY KEY CHECK (only_row = 1),
  epoch         INTEGER NOT NULL,            -- the last committed checkpoint
  checkpoint_at INTEGER NOT NULL,            -- when it was committed
  next_oid      INTEGER NOT NULL,            -- ids of relations and fragments: from 16384, as in PostgreSQL, never reused
  next_actor_id INTEGER NOT NULL             -- ids of actors: from 1, never reused
) STRICT;
INSERT INTO meta VALUES (1, 0, 0, 16384, 1);

-- Every relation that a user made.
CREATE TABLE relations (
  id         INTEGER PRIMARY KEY,            -- the relation's oid
  schema     TEXT NOT NULL,                  -- always 'public' so far
  name       TEXT NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('source', 'materialized view')),
  owner      TEXT NOT NULL,
  definition TEXT NOT NULL,                  -- the statement, as given
  created_at INTEGER NOT NULL,
  UNIQUE (schema, name)
) STRICT;

-- The visible columns of a relation, in order.
CREATE TABLE columns (
  relation_id INTEGER NOT NULL REFERENCES relations ON DELETE CASCADE,
  attnum      INTEGER NOT NULL,              -- from 1
  name        TEXT NOT NULL,
  type        TEXT NOT NULL,                 -- PostgreSQL's short name: int8, text, timestamptz, ...
  PRIMARY KEY (relation_id, attnum)
) STRICT, WITHOUT ROWID;

CREATE TABLE sources (
  id                INTEGER PRIMARY KEY REFERENCES relations ON DELETE CASCADE,
  connector         TEXT NOT NULL,
  options_json      TEXT NOT NULL,           -- WITH (...), defaults not filled in
  parallelism       TEXT NOT NULL,           -- the target as given: '4', 'adaptive', 'bounded(4)', 'ratio(0.5)'
  rate_limit        INTEGER,                 -- rows a second and actor; NULL: none; 0: paused
  discovery_error   TEXT,                    -- why the splits could not be listed, or NULL
  discovery_error_at INTEGER                 -- since when
) STRICT;

CREATE TABLE jobs (
  id           INTEGER PRIMARY KEY REFERENCES relations ON DELETE CASCADE,
  query        TEXT NOT NULL,                -- the SELECT
  status       TEXT NOT NULL CHECK (status IN ('creating', 'created')),
  background   INTEGER NOT NULL,             -- made with background_ddl
  parallelism  TEXT NOT NULL,
  rate_limit   INTEGER,                      -- backfill rows a second and actor; NULL: none; 0: paused
  order_json   TEXT NOT NULL,                -- backfill_order as [[before, after], ...] of source ids
  started_at   INTEGER NOT NULL,
  finished_at  INTEGER                       -- when every split was Finished or SourceCachingUp; NULL: not yet
) STRICT;

-- A source's own fragment, and one a source in every job.
CREATE TABLE fragments (
  id        INTEGER PRIMARY KEY,
  job_id    INTEGER NOT NULL REFERENCES relations ON DELETE CASCADE,  -- the source itself for kind 'source'
  source_id INTEGER NOT NULL REFERENCES sources ON DELETE CASCADE,
  kind      TEXT NOT NULL CHECK (kind IN ('source', 'source scan')),
  forwarding_epoch INTEGER,                  -- when its last actor first left the backfill stage; NULL: not yet
  UNIQUE (job_id, source_id)
) STRICT;
CREATE INDEX fragments_by_source ON fragments (source_id, kind);

CREATE TABLE actors (
  id          INTEGER PRIMARY KEY,
  fragment_id INTEGER NOT NULL REFERENCES fragments ON DELETE CASCADE,
  position    INTEGER NOT NULL,              -- from 0; a scan actor is paired with the source actor of its position
  stage       TEXT CHECK (stage IN ('backfill', 'forwarding')),  -- NULL for a source's actor
  reader_live INTEGER NOT NULL DEFAULT 0,    -- its backfill reader still exists
  checkpoints INTEGER NOT NULL DEFAULT 0,    -- checkpoints that it took part in since it was built
  UNIQUE (fragment_id, position)
) STRICT;

-- Every split that a source ever had, and how far the live stream has read it.
CREATE TABLE splits (
  source_id       INTEGER NOT NULL REFERENCES sources ON DELETE CASCADE,
  split_id        TEXT NOT NULL,
  upstream_offset INTEGER,                   -- last row passed by the live stream; NULL: none
  low_watermark   INTEGER,                   -- first offset that can be read
  high_watermark  INTEGER,                   -- where the next row will be
  latest_offset   INTEGER,                   -- of the last row; NULL: none
  first_seen_at   INTEGER NOT NULL,
  found_at_run_time INTEGER NOT NULL,        -- 1: appeared after CREATE SOURCE, so it needs no backfill in older jobs
  error           TEXT,                      -- why it can't be read, or NULL
  error_at        INTEGER,                   -- since when
  PRIMARY KEY (source_id, split_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE split_assignments (
  source_id   INTEGER NOT NULL,
  split_id    TEXT NOT NULL,
  actor_id    INTEGER NOT NULL,              -- the source's actor
  assigned_at INTEGER NOT NULL,
  assigned_by INTEGER,                       -- rescales.id; NULL: first assignment
  PRIMARY KEY (source_id, split_id),
  FOREIGN KEY (source_id, split_id) REFERENCES splits ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX split_assignments_by_actor ON split_assignments (actor_id);

CREATE TABLE split_assignment_history (
  id          INTEGER PRIMARY KEY,
  source_id   INTEGER NOT NULL,
  source_name TEXT NOT NULL,
  split_id    TEXT NOT NULL,
  actor_id    INTEGER NOT NULL,
  assigned_at INTEGER NOT NULL,
  assigned_by INTEGER,
  ended_at    INTEGER NOT NULL,
  ended_by    INTEGER                        -- rescales.id; NULL: the source was dropped
) STRICT;
CREATE INDEX split_assignment_history_by_split ON split_assignment_history (source_id, split_id);

-- The state table: RisingWave's key and value, one row a fragment and split.
CREATE TABLE backfill_states (
  fragment_id INTEGER NOT NULL REFERENCES fragments ON DELETE CASCADE,
  split_id    TEXT NOT NULL,
  state       TEXT NOT NULL,                 -- JSON as RisingWave's; checked whenever it is read
  epoch       INTEGER NOT NULL,              -- the checkpoint that wrote it
  PRIMARY KEY (fragment_id, split_id)
) STRICT, WITHOUT ROWID;

-- What RisingWave's state doesn't hold: where a split started, how fast it moves, what holds it.
CREATE TABLE split_progress (
  fragment_id        INTEGER NOT NULL REFERENCES fragments ON DELETE CASCADE,
  split_id           TEXT NOT NULL,
  start_offset       INTEGER,                -- first offset that there was to read; NULL: not known
  first_seen_at      INTEGER NOT NULL,
  last_change_at     INTEGER NOT NULL,       -- when its state last moved
  max_percent        REAL,                   -- progress never goes down, though its target moves
  rows_per_second    REAL,                   -- smoothed; NULL: not known yet
  offsets_per_second REAL,
  blocked_by         TEXT,                   -- in words; NULL: nothing holds it
  updated_at         INTEGER NOT NULL,
  PRIMARY KEY (fragment_id, split_id)
) STRICT, WITHOUT ROWID;

-- Every ALTER ... SET PARALLELISM: pending, running or decided.
CREATE TABLE rescales (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  source_id        INTEGER NOT NULL,
  source_name      TEXT NOT NULL,
  statement        TEXT NOT NULL,
  policy           TEXT NOT NULL,
  target           TEXT NOT NULL,
  from_parallelism INTEGER NOT NULL,
  to_parallelism   INTEGER NOT NULL,
  decision         TEXT NOT NULL CHECK (decision IN ('pending', 'committed', 'refused', 'cancelled')),
  moved_splits     INTEGER,
  offending_json   TEXT NOT NULL DEFAULT '[]',  -- splits that stand in the way: [{job_name, split_id, state, ...}, ...]
  waiting_json     TEXT NOT NULL DEFAULT '[]',  -- the same in words, for a pending one
  requested_by     TEXT NOT NULL,
  application_name TEXT NOT NULL,
  requested_at     INTEGER NOT NULL,
  decided_at       INTEGER,
  epoch            INTEGER,                  -- the checkpoint at which it was decided
  sqlstate         TEXT,
  previous_assignment_json TEXT              -- {actor id: [split id, ...]} before it
) STRICT;
CREATE INDEX rescales_pending ON rescales (decision) WHERE decision = 'pending';

CREATE TABLE invariant_violations (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  at       INTEGER NOT NULL,
  fragment_id INTEGER,
  job_name TEXT,
  split_id TEXT,
  actor_id INTEGER,
  stage    TEXT,
  message  TEXT NOT NULL,
  state    TEXT                              -- the row's content, in full, whether it parses or not
) STRICT;

-- Rows that don't fit their source's columns, or that a view's query fails on. They never stop a split.
CREATE TABLE bad_rows (
  source_id INTEGER NOT NULL,
  split_id  TEXT NOT NULL,
  "offset"  INTEGER NOT NULL,
  job_id    INTEGER NOT NULL,                -- the view whose query failed; 0: the row doesn't fit its source
  error     TEXT NOT NULL,
  text      TEXT NOT NULL,
  at        INTEGER NOT NULL,
  PRIMARY KEY (source_id, split_id, "offset", job_id)
) STRICT, WITHOUT ROWID;

-- rw_catalog.rw_event_logs.
CREATE TABLE events (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  at         INTEGER NOT NULL,
  event_type TEXT NOT NULL,
  info_json  TEXT NOT NULL
) STRICT;

-- Server settings as they are in force; written at every start.
CREATE TABLE settings (
  name       TEXT PRIMARY KEY,
  value      TEXT,
  unit       TEXT,
  short_desc TEXT NOT NULL,
  source     TEXT NOT NULL                   -- 'default', 'file', 'environment' or 'command line'
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
  id        INTEGER PRIMARY KEY,             -- the role's oid
  name      TEXT NOT NULL UNIQUE,
  superuser INTEGER NOT NULL
) STRICT;
INSERT INTO users VALUES (10, 'root', 1);
