use std::sync::atomic::{AtomicI64, Ordering};

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::util::display::array_value_to_string;

use super::*;

/// 2013-01-01 10:00:00 UTC
const CREATED: i64 = 1_357_034_400_000_000;

const SETTINGS: Settings =
    Settings { splits: 3, rows_per_split: Some(10), rows_per_second: None, seed: 7, created_at_micros: CREATED };

fn schema(columns: &[(&str, &str)]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|(name, pg)| columns::field(name, pg).unwrap()).collect::<Vec<_>>()))
}

/// A source, and its clock in microseconds after the creation.
fn source(settings: Settings, columns: &[(&str, &str)]) -> (Datagen, Arc<AtomicI64>) {
    let elapsed = Arc::new(AtomicI64::new(0));
    let clock = Arc::clone(&elapsed);
    let clock = Arc::new(move || CREATED + clock.load(Ordering::Relaxed));
    (Datagen::with_clock(settings, schema(columns), clock).unwrap(), elapsed)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn reader(source: &Datagen, splits: &[(&str, Start)]) -> Box<dyn Reader> {
    let mut reader = source.reader();
    reader.assign(&splits.iter().map(|(split, start)| (SplitId::from(split), *start)).collect());
    reader
}

async fn drain(reader: &mut dyn Reader, max_rows: usize) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    while let Ok(event) = tokio::time::timeout(Duration::from_millis(5), reader.next(max_rows)).await {
        let ReadEvent::Chunk(chunk) = event else { panic!("{event:?}") };
        chunks.push(chunk);
    }
    chunks
}

fn offsets(chunks: &[Chunk]) -> Vec<(&str, i64)> {
    chunks.iter().flat_map(|chunk| chunk.offsets.iter().map(|offset| (chunk.split.as_str(), offset.0))).collect()
}

const ALL_TYPES: [(&str, &str); 14] = [
    ("id", "int8"),
    ("b", "bool"),
    ("i2", "int2"),
    ("i4", "int4"),
    ("i8", "int8"),
    ("f4", "float4"),
    ("f8", "float8"),
    ("n", "numeric"),
    ("t", "text"),
    ("d", "date"),
    ("ts", "timestamp"),
    ("tz", "timestamptz"),
    ("j", "jsonb"),
    ("by", "bytea"),
];

#[test]
fn values_are_the_same_for_ever() {
    let (source, _) = source(SETTINGS, &ALL_TYPES);
    let rows = source.rows(2, 5, 7);
    let row = |index| -> Vec<String> {
        rows.columns().iter().map(|column| array_value_to_string(column, index).unwrap()).collect()
    };
    assert_eq!(
        row(0).join(" | "),
        "17 | true | 989 | 353 | 402 | 481.75 | 898.6 | 216.6700000000 | sluice | 2013-01-01 | 2013-01-01T10:00:05 | \
         2013-01-01T10:00:05Z | {\"word\": \"pier\", \"value\": 309} | 8ab2ab84cf6d88a0"
    );
    assert_eq!(row(1)[0], "20");
}

#[test]
fn values_rest_on_seed_split_and_offset_only() {
    let (source, _) = source(SETTINGS, &ALL_TYPES);
    let all = source.rows(1, 0, 10);
    assert_eq!(source.rows(1, 3, 8), all.slice(3, 5));
    assert_ne!(source.rows(2, 0, 10).column(4), all.column(4));
    let other = Datagen { settings: Settings { seed: 8, ..SETTINGS }, ..source };
    assert_ne!(other.rows(1, 0, 10).column(4), all.column(4));
    assert_eq!(other.rows(1, 0, 10).column(0), all.column(0), "ids don't rest on the seed");
}

#[test]
fn ids_are_unique_over_all_splits() {
    let (source, _) = source(SETTINGS, &[("id", "int4")]);
    let mut ids: Vec<i32> = (0..3)
        .flat_map(|split| source.rows(split, 0, 10).column(0).as_primitive::<Int32Type>().values().to_vec())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..30).collect::<Vec<_>>());
}

#[test]
fn small_values_are_in_their_ranges() {
    let (source, _) = source(SETTINGS, &[("i", "int2"), ("f", "float8"), ("j", "jsonb"), ("id", "int2")]);
    let rows = source.rows(0, 20_000, 21_000);
    assert!(rows.column(0).as_primitive::<Int16Type>().values().iter().all(|value| (1..=1000).contains(value)));
    let doubles = rows.column(1).as_primitive::<Float64Type>();
    assert!(doubles.values().iter().all(|value| (0.0..1000.0).contains(value)));
    for json in rows.column(2).as_string::<i32>().iter().flatten() {
        assert!(serde_json::from_str::<serde_json::Value>(json).unwrap().is_object());
    }
    assert!(rows.column(3).as_primitive::<Int16Type>().values().iter().all(|id| *id >= 0), "wraps");
    assert_eq!(rows.column(0).null_count(), 0);
}

#[test]
fn without_a_rate_all_rows_are_there_at_once() {
    let (source, _) = source(SETTINGS, &[("id", "int8")]);
    block_on(async {
        let splits = source.discover().await.unwrap();
        assert_eq!(splits.keys().map(SplitId::as_str).collect::<Vec<_>>(), ["0", "1", "2"]);
        let want = Watermarks { low: Offset(0), high: Offset(10), latest: Some(Offset(9)), memory: None };
        assert!(splits.values().all(|found| *found == Ok(want.clone())));
        let mut reader = reader(&source, &[("0", Start::Earliest), ("2", Start::After(Offset(6)))]);
        let chunks = drain(&mut *reader, 4).await;
        let lots: Vec<_> =
            chunks.iter().map(|chunk| (chunk.split.as_str(), chunk.offsets.len(), chunk.position.0)).collect();
        assert_eq!(lots, [("0", 4, 3), ("2", 3, 9), ("0", 4, 7), ("0", 2, 9)]);
    });
}

#[test]
fn rows_come_with_the_clock() {
    let settings = Settings { rows_per_second: Some(2.0), ..SETTINGS };
    let (source, elapsed) = source(settings, &[("at", "timestamptz")]);
    block_on(async {
        let mut reader = reader(&source, &[("0", Start::Earliest)]);
        let mut seen = Vec::new();
        for (seconds, high) in [(-1, 0), (0, 1), (1, 3), (0, 1), (2, 5), (100, 10)] {
            elapsed.store(seconds * 1_000_000, Ordering::Relaxed);
            let splits = source.discover().await.unwrap();
            assert_eq!(splits[&SplitId::from("1")].as_ref().unwrap().high, Offset(high));
            seen.extend(drain(&mut *reader, 100).await);
        }
        assert_eq!(offsets(&seen), (0..10).map(|offset| ("0", offset)).collect::<Vec<_>>());
    });
    let at = source.rows(0, 3, 4);
    assert_eq!(array_value_to_string(at.column(0), 0).unwrap(), "2013-01-01T10:00:01.500Z");
}

#[test]
fn an_empty_split_has_no_latest_row() {
    let (source, _) = source(Settings { rows_per_split: Some(0), ..SETTINGS }, &[("id", "int8")]);
    let splits = block_on(source.discover()).unwrap();
    let want = Watermarks { low: Offset(0), high: Offset(0), latest: None, memory: None };
    assert_eq!(splits[&SplitId::from("0")], Ok(want));
}

#[test]
fn far_ends_do_not_overflow() {
    let settings = Settings { rows_per_split: None, rows_per_second: Some(1e9), ..SETTINGS };
    assert!(settings.high(i64::MAX) > 0);
    assert_eq!(settings.time_of(i64::MAX), CREATED + (i64::MAX as f64 / 1000.0) as i64);
    let slow = Settings { rows_per_second: Some(1e-6), ..settings };
    assert_eq!(slow.time_of(i64::MAX), i64::MAX);
    assert_eq!(slow.high(CREATED + 1_000_000), 1);
}

#[test]
fn a_split_that_stays_keeps_its_place_and_one_that_is_not_ours_is_left() {
    let (source, _) = source(SETTINGS, &[("id", "int8")]);
    block_on(async {
        let mut reader = reader(&source, &[("0", Start::Earliest), ("3", Start::Earliest), ("x", Start::Earliest)]);
        reader.next(4).await;
        reader.assign(&BTreeMap::from([(SplitId::from("0"), Start::Earliest)]));
        assert_eq!(offsets(&drain(&mut *reader, 100).await)[0], ("0", 4));
    });
}

/// `cargo test --release -- --ignored --nocapture drawing_speed`
#[test]
#[ignore = "a measurement"]
fn drawing_speed() {
    let (source, _) = source(SETTINGS, &[("id", "int8"), ("amount", "float8"), ("word", "text")]);
    let start = std::time::Instant::now();
    for lot in 0..1000 {
        source.rows(0, lot * 4096, (lot + 1) * 4096);
    }
    println!("{:.0} rows/s", 4_096_000.0 / start.elapsed().as_secs_f64());
}
