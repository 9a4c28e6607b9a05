use std::time::{Duration, Instant};

use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;
use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_oneof, proptest};
use proptest::sample::select;

use super::{error, one};
use crate::command::parse;
use crate::secret::HIDDEN;

/// On a stack as small as a server's worker has.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(test).unwrap().join().unwrap();
}

/// What can be put into itself.
const NESTS: [(&str, &str, &str); 12] = [
    ("(", "1", ")"),
    ("f(", "1", ")"),
    ("(SELECT ", "1", ")"),
    ("ARRAY[", "1", "]"),
    ("CASE WHEN ", "1", " THEN 1 END"),
    ("NOT ", "1", ""),
    ("- ", "1", ""),
    ("CAST(", "1", " AS int)"),
    ("ARRAY<", "int", ">"),
    ("1 + (", "1", ")"),
    ("EXISTS (SELECT * FROM (", "SELECT 1", ") x)"),
    ("(WITH x AS (SELECT ", "1", ") SELECT * FROM x)"),
];

#[test]
fn nesting_ends_in_an_error() {
    on_a_small_stack(|| {
        for (open, inner, close) in NESTS {
            let nested = |n: usize| format!("SELECT {}{inner}{}", open.repeat(n), close.repeat(n));
            if let Some(deepest) = (1..).take_while(|n| parse(&nested(*n)).is_ok()).last() {
                drop(one(&nested(deepest)).clone());
            }
            for depth in [100_000, 190] {
                let body = format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
                let state = error(&format!("CREATE MATERIALIZED VIEW v AS SELECT {body}")).sqlstate();
                assert!(["54001", "42601"].contains(&state), "{depth} of {open}: {state}");
            }
        }
        let explained = error(&format!("{} SELECT 1", "EXPLAIN ".repeat(100_000)));
        assert!(["54001", "42601"].contains(&explained.sqlstate()));
        assert_eq!(error(&"PREPARE p AS ".repeat(200)).sqlstate(), "42601");
        let sql = format!("CREATE SOURCE s (a {}int) WITH () FORMAT PLAIN ENCODE JSON", "struct<a ".repeat(100_000));
        assert_eq!(error(&sql).sqlstate(), "54001");
    });
}

#[test]
fn the_place_of_too_much() {
    let error = error(&format!("SELECT 'é', {}", "(".repeat(100_000)));
    assert_eq!((error.sqlstate(), error.position()), ("54001", Some(213)));
    assert_eq!(error.to_string(), "statement is too complex");
}

/// A tree of the greatest depth that is allowed is made, shown, copied and dropped; a deeper one is refused.
#[test]
fn chains_end_in_an_error() {
    on_a_small_stack(|| {
        for link in [
            " + 1",
            " OR a = 1",
            "::int",
            " UNION ALL SELECT 1",
            " IS NULL",
            "[1]",
            " AND a",
            " AT TIME ZONE x",
            "::int[]",
            " LIKE x",
            " IN (1)",
            " BETWEEN 1 AND 2",
        ] {
            let longest = (1..)
                .take_while(|n| parse(&format!("SELECT 1{}", link.repeat(n * 50))).is_ok())
                .last()
                .unwrap_or_else(|| panic!("{link}"));
            let sql = format!("SELECT 1{}", link.repeat(longest * 50));
            let parsed = one(&sql);
            drop(parsed.clone());
            assert_eq!(error(&format!("SELECT 1{}", link.repeat(100_000))).sqlstate(), "54001", "{link}");
        }
        one(&format!("SELECT a IN ({}1)", "1, ".repeat(100_000)));
        one(&format!("VALUES (1){}", ", (-2, NULL, f(x) + 1)".repeat(20_000)));
    });
}

#[test]
fn no_statement_takes_for_ever() {
    let started = Instant::now();
    for nested in
        ["ceil(", "substring(", "f(", "trim(", "extract(", "position(", "overlay(", "CASE ", "convert(", "cast("]
    {
        let sql = format!("SELECT {}1{}", nested.repeat(40), ")".repeat(40));
        drop(parse(&sql));
        drop(parse(&format!("SELECT {}]", nested.repeat(45))));
    }
    one(&format!("SELECT {}x{}", "coalesce(1, ".repeat(40), ")".repeat(40)));
    one(&format!("SELECT {}x{}", "ceil(".repeat(40), ")".repeat(40)));
    drop(parse(&format!("SELECT * FROM {}t{}", "(".repeat(40), ")".repeat(40))));
    assert_eq!(parse(&"SELECT 'é';".repeat(20_000)).unwrap().len(), 20_000);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// Pieces of statements, right and wrong.
fn piece() -> impl Strategy<Value = String> {
    let ours = "ALTER SOURCE s SET PARALLELISM = 4 DEFERRED bounded ( ) , ; . -> FIXED backfill_order CREATE MATERIALIZED VIEW \
        AS SELECT FROM WITH FORMAT PLAIN ENCODE JSON EXPLAIN $1 $2 $ $$ ' \" -- /* */ \n \r\n E' U&' 'x' \"é\" 日本 😀 1.5 0x1 1e \
        :: [ ] { } < > :: + - * / % ^ | & # ~ ! @ ? \\ ` FETCH DECLARE CURSOR FOR PREPARE EXECUTE SHOW RESET DISCARD BEGIN \
        CANCEL RESCALE INTERVAL DROP int varchar ceil( ARRAY< CASE WHEN";
    let ours: Vec<String> = ours.split(' ').map(str::to_owned).collect();
    prop_oneof![
        4 => select(ours),
        2 => select(ALL_KEYWORDS).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => Just(String::new()),
    ]
}

proptest! {
    #[test]
    fn soup_gives_statements_or_an_error_with_a_place_in_it(
        pieces in prop::collection::vec(piece(), 0..40),
        separator in select(vec![" ", ""]),
    ) {
        let sql = pieces.join(separator);
        match parse(&sql) {
            Ok(statements) => {
                prop_assert!(!statements.is_empty());
                for parsed in statements {
                    let rest: String = sql.chars().skip(parsed.position - 1).collect();
                    prop_assert!(rest.starts_with(&parsed.text));
                }
            }
            Err(error) => {
                prop_assert!(error.sqlstate() != "XX000", "{error}");
                if let Some(position) = error.position() {
                    prop_assert!((1..=sql.chars().count() + 1).contains(&position));
                    if let Some((_, token)) = error.to_string().split_once("at or near \"") {
                        let rest: String = sql.chars().skip(position - 1).collect();
                        let token = token.strip_suffix('"').unwrap_or(token);
                        // PASSWORD, SECRET and TOKEN are among the keywords.
                        prop_assert!(rest.starts_with(token) || token == HIDDEN, "{error} in {sql:?}");
                    }
                }
            }
        }
    }

    /// Wherever a wrong word stands, and whatever is before it, its place is found.
    #[test]
    fn the_place_of_a_wrong_word(before in "[a-zé日😀 \n\t]{0,30}") {
        let sql = format!("SELECT '{before}';{before}");
        let start = sql.chars().count() - before.chars().count();
        let sql = format!("{}/*{before}*/ALTER SOURCE é SET PARALELISM = 1", sql.chars().take(start).collect::<String>());
        let found = error(&sql).position().unwrap();
        let rest: String = sql.chars().skip(found - 1).collect();
        prop_assert!(rest.starts_with("PARALELISM"), "{rest}");
    }

    /// Real statements with something taken out, put in or said twice: an error or statements, and soon.
    #[test]
    fn mutations_of_statements_are_read_or_refused(
        which in 0..REAL.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..5, piece()), 1..5),
    ) {
        let mut tokens: Vec<String> = REAL[which].split_inclusive([' ', '(', ')', ',', '\'']).map(str::to_owned).collect();
        for (at, other, kind, piece) in changes {
            if tokens.is_empty() {
                break;
            }
            let (at, other) = (at.index(tokens.len()), other.index(tokens.len()));
            match kind {
                0 => drop(tokens.remove(at)),
                1 => tokens.insert(at, piece),
                2 => tokens.swap(at, other),
                3 => tokens.insert(at, tokens[other].clone()),
                _ => tokens[at] = tokens[at].repeat(50),
            }
        }
        let sql = tokens.concat();
        let started = Instant::now();
        if let Err(error) = parse(&sql) {
            prop_assert!(error.sqlstate() != "XX000", "{error} in {sql:?}");
        }
        prop_assert!(started.elapsed() < Duration::from_secs(20), "{sql:?}");
    }
}

/// One of each kind.
const REAL: [&str; 12] = [
    "ALTER SOURCE s SET PARALLELISM = bounded(4) DEFERRED",
    "EXPLAIN (FORMAT JSON) ALTER SOURCE s SET PARALLELISM TO ratio(0.5)",
    "CREATE SOURCE IF NOT EXISTS s (a BIGINT, b NUMERIC(38, 10), c TIMESTAMPTZ) WITH (connector = 'file', path = '/x') FORMAT PLAIN ENCODE JSON",
    "CREATE MATERIALIZED VIEW v WITH (backfill_order = FIXED(a -> b)) AS SELECT a, upper(b) FROM s WHERE a > 1 UNION ALL SELECT 1, 'x' FROM t",
    "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT * FROM x, LATERAL f(n) AS y(z) LIMIT 1",
    "SELECT count(*) FILTER (WHERE a > 1), CASE a WHEN 1 THEN ARRAY[1, 2] ELSE NULL END, x::int[] FROM t GROUP BY 1",
    "PREPARE p (int, text) AS SELECT $1, $2; EXECUTE p (1, 'a'); DEALLOCATE ALL",
    "DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1; FETCH BACKWARD 3 FROM c; CLOSE c",
    "SET LOCAL search_path TO a, \"B\"; SHOW ALL; RESET x",
    "BEGIN ISOLATION LEVEL SERIALIZABLE; SAVEPOINT a; ROLLBACK TO SAVEPOINT a; COMMIT",
    "DROP MATERIALIZED VIEW IF EXISTS v CASCADE; CANCEL RESCALE 3; WAIT; FLUSH; RECOVER",
    "SELECT E'\\n', U&'\\0041', $$x$$, 1.5e3, interval '1 day', a AT TIME ZONE 'UTC' FROM t -- c",
];
