//! Sizes. SQLite keeps all relations in one file, so there is a size of the database and none of a relation. Nor is
//! counted what is done to each.

use datafusion::common::ScalarValue;

use super::super::store_error;
use super::{Call, Definition, Value, pure, stable, text};

pub const FUNCTIONS: &[Definition] = &[
    stable("pg_database_size", 1..=1, "int8", |call| {
        call.scope.read(|connection| {
            let pragma = |name: &str| -> rusqlite::Result<i64> {
                connection.query_row(&format!("PRAGMA main.{name}"), [], |row| row.get(0))
            };
            pragma("page_count")
                .and_then(|pages| Ok(pages * pragma("page_size")?))
                .map(|size| ScalarValue::Int64(Some(size)))
                .map_err(|source| store_error("read the size of the database", source))
        })
    }),
    pure("pg_relation_size", 1..=2, "int8", unknown),
    pure("pg_total_relation_size", 1..=1, "int8", unknown),
    pure("pg_table_size", 1..=1, "int8", unknown),
    pure("pg_indexes_size", 1..=1, "int8", unknown),
    pure("pg_tablespace_size", 1..=1, "int8", unknown),
    pure("pg_stat_get_numscans", 1..=1, "int8", unknown),
    pure("pg_stat_get_live_tuples", 1..=1, "int8", unknown),
    pure("pg_stat_get_dead_tuples", 1..=1, "int8", unknown),
    pure("pg_stat_get_mod_since_analyze", 1..=1, "int8", unknown),
    pure("pg_stat_get_ins_since_vacuum", 1..=1, "int8", unknown),
    pure("pg_stat_get_tuples_returned", 1..=1, "int8", unknown),
    pure("pg_stat_get_tuples_fetched", 1..=1, "int8", unknown),
    pure("pg_stat_get_tuples_inserted", 1..=1, "int8", unknown),
    pure("pg_stat_get_tuples_updated", 1..=1, "int8", unknown),
    pure("pg_stat_get_tuples_deleted", 1..=1, "int8", unknown),
    pure("pg_stat_get_tuples_hot_updated", 1..=1, "int8", unknown),
    pure("pg_stat_get_blocks_fetched", 1..=1, "int8", unknown),
    pure("pg_stat_get_blocks_hit", 1..=1, "int8", unknown),
    pure("pg_stat_get_vacuum_count", 1..=1, "int8", unknown),
    pure("pg_stat_get_autovacuum_count", 1..=1, "int8", unknown),
    pure("pg_stat_get_analyze_count", 1..=1, "int8", unknown),
    pure("pg_stat_get_autoanalyze_count", 1..=1, "int8", unknown),
    pure("pg_stat_get_last_vacuum_time", 1..=1, "timestamptz", unknown),
    pure("pg_stat_get_last_autovacuum_time", 1..=1, "timestamptz", unknown),
    pure("pg_stat_get_last_analyze_time", 1..=1, "timestamptz", unknown),
    pure("pg_stat_get_last_autoanalyze_time", 1..=1, "timestamptz", unknown),
    stable("pg_size_pretty", 1..=1, "text", |call| Ok(text(call.integer(0).map(pretty)))),
];

fn unknown(_: &Call<'_>) -> Value {
    Ok(ScalarValue::Int64(None))
}

/// A size as PostgreSQL words it: in the largest unit of which there are at least ten.
fn pretty(size: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let negative = size < 0;
    let mut size = size.unsigned_abs();
    let mut unit = 0;
    let mut half = 0;
    while size >= 10 * 1024 && unit + 1 < UNITS.len() {
        half = size >> 9 & 1;
        size >>= 10;
        unit += 1;
    }
    format!("{}{} {}", if negative { "-" } else { "" }, size + half, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn sizes_read_as_in_postgresql() {
        for (size, words) in
            [(0, "0 bytes"), (10239, "10239 bytes"), (10240, "10 kB"), (10 << 20, "10 MB"), (-20480, "-20 kB")]
        {
            assert_eq!(pretty(size), words);
        }
    }
}
