//! What must hold after any fault.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tempfile::TempDir;

use crate::server::{Server, Session};

/// A directory of splits whose every row is known: line k of a split is `{"n": k}`.
pub struct Rows {
    dir: TempDir,
}

impl Rows {
    /// So many splits of so many rows.
    pub fn create(splits: usize, rows: usize) -> Self {
        let rows_of = Self { dir: tempfile::tempdir().unwrap() };
        (0..splits).for_each(|split| rows_of.append(&format!("s{split}"), rows));
        rows_of
    }

    /// Adds rows to a split, which may be new.
    pub fn append(&self, split: &str, rows: usize) {
        let path = self.dir.path().join(format!("{split}.jsonl"));
        let there = fs::read_to_string(&path).map_or(0, |text| text.lines().count());
        let text: String = (there..there + rows).map(|n| format!("{{\"n\": {n}}}\n")).collect();
        fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Adds a row to every split.
    pub fn append_to_all(&self) {
        for path in self.files() {
            self.append(&path.file_stem().unwrap().to_string_lossy(), 1);
        }
    }

    /// Takes a split away again, for a server that has never seen it.
    pub fn remove(&self, split: &str) {
        let _ = fs::remove_file(self.dir.path().join(format!("{split}.jsonl")));
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.files().iter().map(|path| fs::read_to_string(path).unwrap().lines().count()).sum()
    }

    /// The statement that makes source `s` of them.
    pub fn create_source(&self) -> String {
        format!(
            "CREATE SOURCE s (n BIGINT) WITH (connector = 'file', path = '{}', poll_interval = '20ms')
             FORMAT PLAIN ENCODE JSON",
            self.dir.path().display()
        )
    }

    fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

/// Waits until every view over `rows` has all of them, each once and in order, and looks into the books before and after.
pub async fn assert_all(server: &Server, session: &Session, rows: &Rows) {
    assert_books(server.data_dir());
    let views: Vec<String> =
        session.rows("SELECT name FROM rw_catalog.rw_materialized_views").await.into_iter().flatten().collect();
    for view in &views {
        session.run(&format!("ALTER MATERIALIZED VIEW {view} SET backfill_rate_limit = DEFAULT")).await;
    }
    rows.append_to_all();
    for view in &views {
        session.wait_for(&format!("SELECT count(*) FROM {view}"), &rows.count().to_string()).await;
    }
    session.wait_for("SELECT count(*) FROM tidegate.split_backfill_progress WHERE state <> 'Finished'", "0").await;
    // A row that comes twice may come late.
    session.run("FLUSH; FLUSH").await;
    for view in &views {
        let distinct = format!("SELECT count(*) FROM (SELECT DISTINCT _split, n FROM {view}) AS d");
        let counts = [session.value(&format!("SELECT count(*) FROM {view}")).await, session.value(&distinct).await];
        assert_eq!(counts, [rows.count().to_string(), rows.count().to_string()], "{view}");
    }
    assert_eq!(session.value("SELECT count(*) FROM tidegate.invariant_violations").await, "0");
    assert_eq!(session.value("SELECT count(*) FROM tidegate.bad_rows").await, "0");
    assert_books(server.data_dir());
}

/// Questions to a state file whose answer is 0 unless something is half done.
const BOOKS: &[(&str, &str)] = &[
    (
        "a split is held by nobody, or by an actor that is not its source's",
        "SELECT count(*) FROM splits p LEFT JOIN split_assignments a USING (source_id, split_id)
         WHERE NOT EXISTS (SELECT 1 FROM actors x JOIN fragments f ON f.id = x.fragment_id
                           WHERE x.id = a.actor_id AND f.source_id = p.source_id AND f.kind = 'source')",
    ),
    (
        "a view's actors do not pair with its source's",
        "WITH n AS (SELECT f.id, f.source_id, f.kind, count(x.id) AS actors, max(x.position) + 1 AS positions
                    FROM fragments f LEFT JOIN actors x ON x.fragment_id = f.id GROUP BY f.id)
         SELECT count(*) FROM n JOIN n AS source ON source.source_id = n.source_id AND source.kind = 'source'
         WHERE n.actors <> source.actors OR n.positions IS NOT n.actors",
    ),
    (
        "a source has not as many actors as its last committed rescale says",
        "SELECT count(*) FROM rescales r JOIN sources s ON s.id = r.source_id
         WHERE r.decision = 'committed'
           AND r.id = (SELECT max(id) FROM rescales WHERE source_id = s.id AND decision = 'committed')
           AND r.to_parallelism <> (SELECT count(*) FROM actors x JOIN fragments f ON f.id = x.fragment_id
                                    WHERE f.source_id = s.id AND f.kind = 'source')",
    ),
    (
        "the history of assignments does not hold what a committed rescale moved",
        "SELECT count(*) FROM rescales r
         WHERE r.decision = 'committed'
           AND r.moved_splits <> (SELECT count(*) FROM split_assignment_history WHERE ended_by = r.id)",
    ),
    (
        "a rescale that was not committed has moved something",
        "SELECT count(*) FROM rescales r WHERE r.decision <> 'committed'
           AND (EXISTS (SELECT 1 FROM split_assignments WHERE assigned_by = r.id)
             OR EXISTS (SELECT 1 FROM split_assignment_history WHERE ended_by = r.id OR assigned_by = r.id))",
    ),
    (
        "the history has a hole, or a decision without its facts",
        // An ALTER that never came to the check, such as one of a rate limit, has no target and no assignment.
        "SELECT (SELECT coalesce(max(id), 0) FROM rescales) - (SELECT count(*) FROM rescales)
              + (SELECT count(*) FROM rescales
                 WHERE (decision = 'pending') = (decided_at IS NOT NULL)
                    OR decision IN ('committed', 'refused')
                       AND (epoch IS NULL OR target <> '' AND previous_assignment_json IS NULL)
                    OR decision = 'refused' AND sqlstate IS NULL)",
    ),
    (
        "a split of a view has no state, or a state is of no split",
        "SELECT (SELECT count(*) FROM fragments f JOIN splits p ON p.source_id = f.source_id
                 WHERE f.kind = 'source scan'
                   AND NOT EXISTS (SELECT 1 FROM backfill_states b WHERE b.fragment_id = f.id AND b.split_id = p.split_id))
              + (SELECT count(*) FROM backfill_states b JOIN fragments f ON f.id = b.fragment_id
                 WHERE NOT EXISTS (SELECT 1 FROM splits p WHERE p.source_id = f.source_id AND p.split_id = b.split_id))",
    ),
    (
        "a view has no table, or a table is of no view",
        "SELECT abs((SELECT count(*) FROM jobs)
                  - (SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name GLOB 'mv_[0-9]*'))
              + (SELECT count(*) FROM jobs
                 WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema x WHERE x.name = 'mv_' || jobs.id))",
    ),
    (
        "an id could be given twice",
        "SELECT (SELECT count(*) FROM meta WHERE next_actor_id <= (SELECT coalesce(max(id), 0) FROM actors))
              + (SELECT count(*) FROM meta WHERE next_oid <= (SELECT coalesce(max(id), 0) FROM fragments))",
    ),
    ("a row refers to nothing", "SELECT count(*) FROM pragma_foreign_key_check"),
    ("the file is damaged", "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
];

/// Actors, assignment and history agree, and the file is whole.
pub fn assert_books(data_dir: &Path) {
    let file = Connection::open(data_dir.join("tidegate.db")).unwrap();
    file.busy_timeout(crate::server::PATIENCE).unwrap();
    for (wrong, sql) in BOOKS {
        let found: i64 = file.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{wrong}: {error}"));
        assert_eq!(found, 0, "{wrong}");
    }
}
