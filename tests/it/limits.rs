//! What a client can make the server hold or do, over a real connection.

use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn limits_come_from_flags_and_are_shown() {
    let flags = ["--statement-memory", "32MB", "--max-prepared-statements", "2", "--statement-timeout", "90s"];
    let server = Server::start_with(&flags);
    let session = server.connect().await;
    assert_eq!(session.value("SHOW statement_memory").await, "32MB");
    assert_eq!(session.value("SHOW max_prepared_statements").await, "2");
    assert_eq!(session.value("SHOW statement_timeout").await, "90s");
    let setting = "SELECT setting || ' ' || unit FROM pg_settings WHERE name = 'statement_memory'";
    assert_eq!(session.value(setting).await, "32768 kB");
    let shown = "SELECT value || ' ' || source FROM tidegate.settings WHERE name = 'max_prepared_statements'";
    assert_eq!(session.value(shown).await, "2 command line");
    session.run("PREPARE a AS SELECT 1; PREPARE b AS SELECT 1").await;
    let told = session.error("PREPARE c AS SELECT 1").await;
    assert_eq!((told.sqlstate.as_str(), told.message.as_str()), ("53400", "there are 2 prepared statements already"));
    assert_eq!(told.hint, "DEALLOCATE those that are no longer used, or raise max_prepared_statements.");
    assert_eq!(session.error("SET max_connections = 7").await.sqlstate, "55P02");
}

/// Each of these wants more memory than there is; many at once don't bring the server down.
#[tokio::test(flavor = "multi_thread")]
async fn memory_is_shared_and_has_an_end() {
    let server = Server::start_with(&["--statement-memory", "32MB", "--query-memory", "64MB"]);
    let greedy = [
        "SELECT array_agg(x) FROM generate_series(1, 1000000000000) a(x)",
        "SELECT string_agg(x::text, ',') FROM generate_series(1, 1000000000000) a(x)",
        "SELECT a.x FROM generate_series(1, 1000000000000) a(x), generate_series(1, 1000000000000) b(y)",
        "SELECT sum(x) OVER () FROM generate_series(1, 1000000000000) a(x)",
        "SELECT repeat('x', 2000000000)",
        "SELECT lpad('x', 2000000000)",
        "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM generate_series(1, 1000000000000) a(x)",
    ];
    let running = (0..3).flat_map(|_| greedy).map(|sql| {
        let server = &server;
        async move {
            let session = server.connect().await;
            let told = session.error(sql).await;
            assert!(["53200", "54000"].contains(&told.sqlstate.as_str()), "{told:?}: {sql}");
            assert!(!told.hint.is_empty());
            assert_eq!(session.value("SELECT 1").await, "1");
        }
    });
    futures::future::join_all(running).await;
    assert!(server.peak_memory() < 1 << 30, "{} bytes", server.peak_memory());
}

/// The least memory that all statements may have together is enough to sort.
#[tokio::test(flavor = "multi_thread")]
async fn a_sort_needs_little_memory() {
    let server = Server::start_with(&["--query-memory", "1MB"]);
    let session = server.connect().await;
    let sorted = "SELECT x FROM generate_series(1, 1000) g(x) ORDER BY x % 10, x DESC";
    let rows = session.rows(sorted).await;
    assert_eq!((rows.len(), rows[0][0].as_str(), rows[999][0].as_str()), (1000, "1000", "9"));
    session.run("SELECT oid, relname FROM pg_class ORDER BY relname, oid").await;
}

/// A sort of more than it may keep goes to files; where those may not be, it is told so.
#[tokio::test(flavor = "multi_thread")]
async fn a_sort_goes_to_files_within_their_limit() {
    let server = Server::start_with(&["--statement-memory", "32MB", "--temp-file-limit", "64MB"]);
    let session = server.connect().await;
    // 640 bytes a row.
    let sorted = |rows: u32| {
        let wide = format!("SELECT x, repeat(md5(x::text), 20) AS t FROM generate_series(1, {rows}) g(x)");
        format!("{wide} ORDER BY t OFFSET {}", rows - 1)
    };
    let last = session.value(&sorted(60_000)).await;
    session.run("SET statement_memory = '512MB'").await;
    assert_eq!(session.value(&sorted(60_000)).await, last, "the files hold the same order");
    session.run("RESET statement_memory").await;
    let wide = &sorted(300_000);
    let told = session.error(wide).await;
    assert_eq!(told.sqlstate, "53400", "{told:?}");
    assert!(told.hint.contains("temp_file_limit"), "{told:?}");
    assert!(server.peak_memory() < 768 << 20, "{} bytes", server.peak_memory());
    let left: u64 = walk(&server.data_dir().join("spill"));
    assert_eq!(left, 0, "bytes of temporary files are left");
}

/// The bytes of all files below.
fn walk(path: &std::path::Path) -> u64 {
    let size = |entry: std::fs::DirEntry| match entry.metadata().unwrap() {
        metadata if metadata.is_dir() => walk(&entry.path()),
        metadata => metadata.len(),
    };
    std::fs::read_dir(path).unwrap().map(|entry| size(entry.unwrap())).sum()
}

/// A join gives far more than it takes: it goes by at the client's pace, and ends when it is told to.
#[tokio::test(flavor = "multi_thread")]
async fn a_wide_join_takes_little_memory_and_can_be_cancelled() {
    let server = Server::start_with(&["--statement-memory", "64MB"]);
    let session = server.connect().await;
    let wide = "(SELECT x, repeat(md5(x::text), 30) AS t FROM generate_series(1, 20000) g(x))";
    for join in [
        format!("SELECT a.t, b.t FROM {wide} a, {wide} b"),
        format!("SELECT a.t, b.t FROM {wide} a JOIN {wide} b ON a.x <> b.x"),
        format!("SELECT a.t, b.t FROM {wide} a JOIN {wide} b ON a.x % 2 = b.x % 2"),
        format!("SELECT count(*), max(a.t || b.t) FROM {wide} a, {wide} b"),
    ] {
        session.run("SET statement_timeout = '2s'").await;
        let told = session.error(&join).await;
        // A join may also be more than it may keep of one side.
        assert!(["57014", "53200"].contains(&told.sqlstate.as_str()), "{told:?}: {join}");
        session.run("RESET statement_timeout").await;
    }
    // The client's own memory isn't the server's, and it has all that came within two seconds.
    assert!(server.peak_memory() < 1 << 30, "{} bytes", server.peak_memory());
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_never_wrap_around() {
    let server = Server::start();
    let session = server.connect().await;
    let most =
        "(VALUES (9223372036854775807::bigint, 2147483647::int), (9223372036854775807, 2147483647::int)) v(x, y)";
    let both = [["18446744073709551614", "4294967294"]];
    assert_eq!(session.rows(&format!("SELECT sum(x), sum(y) FROM {most}")).await, both);
    assert_eq!(session.rows(&format!("SELECT sum(x) OVER (), sum(y) OVER () FROM {most} LIMIT 1")).await, both);
    let grouped = format!("SELECT sum(x) FROM {most} GROUP BY y HAVING sum(x) > 0 ORDER BY sum(x) DESC");
    assert_eq!(session.value(&grouped).await, "18446744073709551614");
    let within = format!("SELECT (SELECT sum(x) FROM {most}) - 1");
    assert_eq!(session.value(&within).await, "18446744073709551613");
    let types = session.0.prepare(&format!("SELECT sum(x), sum(y) FROM {most}")).await.unwrap();
    let types: Vec<_> = types.columns().iter().map(|column| column.type_().name().to_owned()).collect();
    assert_eq!(types, ["numeric", "int8"]);
    assert_eq!(session.0.prepare("SELECT sum(1)").await.unwrap().columns()[0].type_().name(), "int8");
    for wraps in ["sum(x)::bigint", "(sum(x))::int8", "max(x) + 1", "max(x) * 2", "-min(-x - 1)"] {
        let told = session.error(&format!("SELECT {wraps} FROM {most}")).await;
        assert_eq!(told.sqlstate, "22003", "{wraps}: {told:?}");
    }
}

/// Statements that take long to plan, or would: they end, are refused, or end when they are told to.
#[tokio::test(flavor = "multi_thread")]
async fn planning_has_an_end() {
    let server = Server::start_with(&["--statement-memory", "64MB"]);
    let session = server.connect().await;
    let many = |count: usize, between: &str, item: &dyn Fn(usize) -> String| {
        (0..count).map(item).collect::<Vec<_>>().join(between)
    };
    let from = "FROM generate_series(1, 5) g(x)";
    for (name, sql, answer) in [
        ("IN", format!("SELECT count(*) {from} WHERE x IN ({})", many(10_000, ",", &|n| n.to_string())), "5"),
        ("NOT IN", format!("SELECT count(*) {from} WHERE x NOT IN ({})", many(10_000, ",", &|n| n.to_string())), "0"),
        ("VALUES", format!("SELECT count(*) FROM (VALUES {}) v", many(10_000, ",", &|n| format!("({n})"))), "10000"),
        ("OR", format!("SELECT count(*) {from} WHERE {}", many(450, " OR ", &|n| format!("x = {n}"))), "5"),
        ("AND", format!("SELECT count(*) {from} WHERE {}", many(450, " AND ", &|n| format!("x <> {n}"))), "0"),
        // The tree of such a chain once overflowed the stack, and ended the server.
        ("+", format!("SELECT min({}) {from}", many(950, "+", &|_| "x".into())), "950"),
        ("+ of constants", format!("SELECT {}", many(950, "+", &|_| "1".into())), "950"),
        ("+ of numerics", format!("SELECT {}", many(950, "+", &|_| "1.5".into())), "1425.0"),
        ("+ and -", format!("SELECT max({}) {from}", many(240, "+", &|_| "x - x".into())), "0"),
        ("||", format!("SELECT length({})", many(450, "||", &|_| "'ab'".into())), "900"),
        (
            "JOIN",
            format!("SELECT count(*) FROM (SELECT 1 AS a) t, {}", many(40, ",", &|n| format!("(SELECT {n}) t{n}"))),
            "1",
        ),
    ] {
        assert_eq!(session.value(&sql).await, answer, "{name}");
    }
    for (name, sql) in [
        ("UNION ALL", many(1000, " UNION ALL ", &|n| format!("SELECT {n}"))),
        ("OR", format!("SELECT count(*) {from} WHERE {}", many(2000, " OR ", &|n| format!("x = {n}")))),
        ("brackets", format!("SELECT {}1{}", "(".repeat(500), ")".repeat(500))),
        ("calls", format!("SELECT {}1{}", "abs(".repeat(500), ")".repeat(500))),
    ] {
        let told = session.error(&sql).await;
        assert!(["54001", "54000"].contains(&told.sqlstate.as_str()), "{name}: {told:?}");
    }
    // Each of these is used twice by the next, so that the plan is twice as large.
    let twice = |n: usize| format!("c{} AS (SELECT a.x FROM c{n} a JOIN c{n} b ON a.x = b.x)", n + 1);
    let doubled = |levels: usize| {
        let chain = many(levels, ", ", &twice);
        format!("WITH c0 AS (SELECT 1 AS x), {chain} SELECT count(*) FROM c{levels}")
    };
    assert_eq!(session.error(&doubled(16)).await.sqlstate, "54001");
    session.run("SET statement_timeout = '50ms'").await;
    assert_eq!(session.error(&doubled(11)).await.sqlstate, "57014");
    assert_eq!(session.value("SELECT 1").await, "1");
}
