//! Pages of materialized views that have been read, kept in memory by column.
//!
//! A view only grows, and in the order of its rowids. So a page that is full holds the same rows at every later moment,
//! whoever reads it; the last page of a view does as long as its last row is the view's. A moment before that doesn't see
//! all of it: who asks says up to which rowid it sees.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array as _, ArrayRef, NullArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use hashlink::LruCache;

/// The columns of pages, as many as there is room for; those not asked for of late go first.
pub struct Pages {
    /// Bytes.
    room: usize,
    kept: Mutex<Kept>,
}

struct Kept {
    columns: LruCache<Key, Column>,
    bytes: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    relation: Arc<str>,
    /// The page begins behind this rowid.
    after: Option<i64>,
    /// Its name; empty for a page without columns, which has rows all the same.
    column: String,
}

struct Column {
    values: ArrayRef,
    end: End,
}

/// How a page ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The rowid of its last row.
    pub last: i64,
    /// Whether no more rows fit.
    pub is_full: bool,
}

impl End {
    /// Whether the page is what a moment sees whose newest row has this rowid.
    pub const fn is_seen_by(self, newest: i64) -> bool {
        if self.is_full { newest >= self.last } else { newest == self.last }
    }
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("room", &self.room).finish_non_exhaustive()
    }
}

impl Pages {
    /// None are kept yet, and never more than `room` bytes.
    pub fn new(room: usize) -> Self {
        Self { room, kept: Mutex::new(Kept { columns: LruCache::new_unbounded(), bytes: 0 }) }
    }

    /// The page of these columns that begins behind a rowid, and how it ends, if it is kept.
    pub fn get(&self, relation: &Arc<str>, after: Option<i64>, schema: &SchemaRef) -> Option<(RecordBatch, End)> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut values, mut end, mut rows) = (Vec::new(), None, 0);
        for column in columns(schema) {
            let key = Key { relation: Arc::clone(relation), after, column };
            let found = kept.columns.get(&key)?;
            // Of a last page, one column may have been read later than another.
            if end.replace(found.end).is_some_and(|before| before != found.end) {
                return None;
            }
            rows = found.values.len();
            values.push(Arc::clone(&found.values));
        }
        values.truncate(schema.fields().len());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), values, &options).ok()?;
        Some((batch, end?))
    }

    /// Keeps a page.
    pub fn put(&self, relation: &Arc<str>, after: Option<i64>, batch: &RecordBatch, end: End) {
        let rows: ArrayRef = Arc::new(NullArray::new(batch.num_rows()));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for (column, values) in columns(batch.schema_ref()).zip(batch.columns().iter().chain([&rows])) {
            let key = Key { relation: Arc::clone(relation), after, column };
            kept.bytes += values.get_array_memory_size();
            if let Some(before) = kept.columns.insert(key, Column { values: Arc::clone(values), end }) {
                kept.bytes -= before.values.get_array_memory_size();
            }
        }
        while kept.bytes > self.room
            && let Some((_, oldest)) = kept.columns.remove_lru()
        {
            kept.bytes -= oldest.values.get_array_memory_size();
        }
    }
}

/// What the columns of a page are kept as.
fn columns(schema: &SchemaRef) -> impl Iterator<Item = String> + '_ {
    let none = schema.fields().is_empty().then(String::new);
    schema.fields().iter().map(|field| field.name().clone()).chain(none)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn schema(names: &[&str]) -> SchemaRef {
        let fields = names
            .iter()
            .map(|name| Field::new(*name, if *name == "text" { DataType::Utf8 } else { DataType::Int64 }, true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    const fn full(last: i64) -> End {
        End { last, is_full: true }
    }

    fn page(from: i64) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 100));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((from..from + 100).map(|n| n.to_string())));
        RecordBatch::try_new(schema(&["n", "text"]), vec![numbers, texts]).unwrap()
    }

    #[test]
    fn any_columns_of_a_kept_page_are_found_and_no_others() {
        let (pages, one, other) = (Pages::new(1 << 20), Arc::from("mv_1"), Arc::from("mv_2"));
        pages.put(&one, None, &page(0), full(100));
        assert_eq!(
            pages.get(&one, None, &schema(&["text", "n"])),
            Some((page(0).project(&[1, 0]).unwrap(), full(100)))
        );
        assert_eq!(pages.get(&one, None, &schema(&["n", "more"])), None);
        assert_eq!(pages.get(&one, Some(100), &schema(&["n"])), None);
        assert_eq!(pages.get(&other, None, &schema(&["n"])), None);
        // Without columns a page still has rows.
        assert_eq!(pages.get(&one, None, &schema(&[])), None);
        pages.put(&one, None, &page(0).project(&[]).unwrap(), full(100));
        assert_eq!(pages.get(&one, None, &schema(&[])).unwrap().0.num_rows(), 100);
    }

    #[test]
    fn the_last_page_is_seen_as_long_as_no_row_has_come() {
        let (pages, one) = (Pages::new(1 << 20), Arc::from("mv_1"));
        let last = End { last: 100, is_full: false };
        assert_eq!([99, 100, 101].map(|newest| last.is_seen_by(newest)), [false, true, false]);
        assert_eq!([99, 100, 101].map(|newest| full(100).is_seen_by(newest)), [false, true, true]);
        pages.put(&one, None, &page(0), last);
        assert_eq!(pages.get(&one, None, &schema(&["n"])).unwrap().1, last);
        // One of its columns was read when there were more rows: they don't go together.
        let later = End { last: 101, is_full: false };
        pages.put(&one, None, &page(0).project(&[1]).unwrap(), later);
        assert_eq!(pages.get(&one, None, &schema(&["n", "text"])), None);
        assert_eq!(pages.get(&one, None, &schema(&["text"])).unwrap().1, later);
    }

    #[test]
    fn what_was_not_asked_for_of_late_makes_room() {
        let relation = Arc::from("mv_1");
        let size: usize = page(100).columns().iter().map(|values| values.get_array_memory_size()).sum();
        let pages = Pages::new(2 * size);
        let has = |after| pages.get(&relation, after, &schema(&["n", "text"])).is_some();
        pages.put(&relation, None, &page(100), full(100));
        pages.put(&relation, Some(100), &page(200), full(200));
        // The same once more takes no more room.
        pages.put(&relation, Some(100), &page(200), full(200));
        assert!(has(None) && has(Some(100)) && has(None));
        pages.put(&relation, Some(200), &page(300), full(300));
        assert_eq!([has(None), has(Some(100)), has(Some(200))], [true, false, true]);
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let (pages, relation) = (Pages::new(0), Arc::from("mv_1"));
        pages.put(&relation, None, &page(0), full(100));
        assert_eq!(pages.get(&relation, None, &schema(&["n"])), None);
    }
}
