use std::num::NonZeroU32;

use proptest::prelude::{prop_assert_eq, proptest};

use super::{command, error, one};
use crate::backfill::target::Target;
use crate::command::ast::{
    Alter, AlterAction, ColumnType, Command, CreateSource, CreateView, Drop, ObjectKind, RateLimit, Show,
};
use crate::command::{Statement, bind, parse};
use crate::store::format::MessageFormat;

fn source(sql: &str) -> CreateSource {
    match command(sql) {
        Command::CreateSource(source) => source,
        other => panic!("{other:?}"),
    }
}

fn view(sql: &str) -> CreateView {
    match command(sql) {
        Command::CreateView(view) => view,
        other => panic!("{other:?}"),
    }
}

fn alter(sql: &str) -> Alter {
    match command(sql) {
        Command::Alter(alter) => alter,
        other => panic!("{other:?}"),
    }
}

fn rescale(sql: &str) -> (Target, String, bool) {
    match alter(sql).action {
        AlterAction::Parallelism(to) | AlterAction::BackfillParallelism(to) => (to.target, to.target_text, to.deferred),
        other => panic!("{other:?}"),
    }
}

fn fixed(n: u32) -> Target {
    Target::Fixed(NonZeroU32::new(n).unwrap())
}

#[test]
fn create_source() {
    let sql = "CREATE SOURCE IF NOT EXISTS public.S (id BIGINT, \"Amount\" DOUBLE PRECISION, at TIMESTAMPTZ)\n  \
        WITH (connector = 'file', properties.bootstrap.server = 'a;b', \"Quoted.Key\" = 7, x = -1.5, y = true, \
        poll_interval = INTERVAL '1 s', z = interval '2' minute) FORMAT PLAIN ENCODE JSON";
    let source = source(&format!(" /* before */ {sql} -- behind\n ; "));
    assert!(source.if_not_exists);
    assert_eq!(source.name, "s");
    let columns: Vec<_> = source.columns.iter().map(|column| (column.name.as_str(), column.data_type)).collect();
    let types = [ColumnType::BigInt, ColumnType::DoublePrecision, ColumnType::Timestamptz];
    assert_eq!(columns, ["id", "Amount", "at"].into_iter().zip(types).collect::<Vec<_>>());
    let options: Vec<_> = source.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        options,
        [
            ("connector", "file"),
            ("properties.bootstrap.server", "a;b"),
            ("Quoted.Key", "7"),
            ("x", "-1.5"),
            ("y", "true"),
            ("poll_interval", "1 s"),
            ("z", "2 minute"),
        ]
    );
    assert_eq!(source.format, MessageFormat::default());
    assert_eq!(source.definition, sql);
}

#[test]
fn every_spelling_of_every_type() {
    let spellings = [
        (ColumnType::Boolean, "boolean bool"),
        (ColumnType::SmallInt, "smallint int2"),
        (ColumnType::Integer, "int integer int4"),
        (ColumnType::BigInt, "bigint int8"),
        (ColumnType::Real, "real float4 float(24)"),
        (ColumnType::DoublePrecision, "double_precision float8 float double float(53)"),
        (ColumnType::Numeric, "numeric decimal dec"),
        (ColumnType::Varchar, "varchar text string character_varying char_varying"),
        (ColumnType::Date, "date"),
        (ColumnType::Timestamp, "timestamp timestamp_without_time_zone"),
        (ColumnType::Timestamptz, "timestamptz timestamp_with_time_zone"),
        (ColumnType::Jsonb, "jsonb"),
        (ColumnType::Bytea, "bytea"),
    ];
    for (expected, spellings) in spellings {
        for spelling in spellings.split(' ').map(|spelling| spelling.replace('_', " ")) {
            for spelling in [spelling.to_uppercase(), spelling] {
                let sql = format!("CREATE SOURCE s (c {spelling}) WITH () FORMAT PLAIN ENCODE JSON");
                assert_eq!(source(&sql).columns[0].data_type, expected, "{spelling}");
            }
        }
        let sql = format!("CREATE SOURCE s (c {expected}) WITH () FORMAT PLAIN ENCODE JSON");
        assert_eq!(source(&sql).columns[0].data_type, expected, "its own name");
    }
}

#[test]
fn types_that_there_are_not() {
    let of = |spelling: &str| {
        let error = error(&format!("CREATE SOURCE s (c {spelling}) WITH () FORMAT PLAIN ENCODE JSON"));
        (error.sqlstate(), error.to_string(), error.hint().unwrap())
    };
    for spelling in
        ["int[]", "interval", "time", "uuid", "json", "char(3)", "money", "int(3)", "tinyint", "int unsigned"]
    {
        let (sqlstate, message, hint) = of(spelling);
        assert_eq!((sqlstate, message), ("0A000", format!("type {spelling} in a source is not supported")));
        assert!(hint.contains("timestamptz"), "{hint}");
    }
    assert_eq!(of("struct<a int>").1, "type struct<...> in a source is not supported");
    assert_eq!(of("map(varchar, int)").0, "0A000");
    assert_eq!(of("varchar(10)").1, "a length or precision of type varchar is not supported");
    assert_eq!(of("numeric(10, 2)").1, "a length or precision of type numeric is not supported");
    assert_eq!(of("timestamp(3)").1, "a length or precision of type timestamp is not supported");
    let (sqlstate, message, hint) = of("bigintt");
    assert_eq!((sqlstate, message.as_str()), ("42704", "type \"bigintt\" does not exist"));
    assert!(hint.contains("bigint"));
}

#[test]
fn create_materialized_view() {
    let sql = "CREATE MATERIALIZED VIEW mv WITH (backfill_rate_limit = 1000, backfill_order = FIXED(a -> B, b->\"C\")) \
        AS SELECT 'x;y' AS t /* kept */ FROM s WHERE a > 1";
    let created = view(sql);
    assert_eq!((created.if_not_exists, created.name.as_str()), (false, "mv"));
    assert_eq!(created.backfill_rate_limit, Some(RateLimit::RowsPerSecond(1000)));
    let arrows: Vec<_> = created.backfill_order.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(arrows, [("a", "b"), ("b", "C")]);
    assert_eq!(created.query_text, "SELECT 'x;y' AS t /* kept */ FROM s WHERE a > 1");
    assert_eq!(created.definition, sql);
    assert_eq!(created.query.to_string(), "SELECT 'x;y' AS t FROM s WHERE a > 1");

    let plain = view("create materialized view if not exists v as (select 1) union all table s");
    assert!(plain.if_not_exists);
    assert_eq!((plain.backfill_rate_limit, plain.backfill_order.len()), (None, 0));
    for unlimited in ["DEFAULT", "default", "'default'"] {
        let sql = format!("CREATE MATERIALIZED VIEW v WITH (backfill_rate_limit = {unlimited}) AS SELECT 1");
        assert_eq!(view(&sql).backfill_rate_limit, Some(RateLimit::Unlimited));
    }
    let paused = view("CREATE MATERIALIZED VIEW v WITH (backfill_rate_limit = '0') AS SELECT 1");
    assert_eq!(paused.backfill_rate_limit, Some(RateLimit::RowsPerSecond(0)));
}

#[test]
fn every_target() {
    for (written, expected) in [
        ("4", fixed(4)),
        ("'4'", fixed(4)),
        ("0", Target::Adaptive),
        ("ADAPTIVE", Target::Adaptive),
        ("'adaptive'", Target::Adaptive),
        ("DEFAULT", Target::Adaptive),
        ("default", Target::Adaptive),
        ("bounded(4)", Target::Bounded(NonZeroU32::new(4).unwrap())),
        ("'bounded(4)'", Target::Bounded(NonZeroU32::new(4).unwrap())),
        ("BOUNDED ( 4 )", Target::Bounded(NonZeroU32::new(4).unwrap())),
        ("ratio(0.5)", Target::Ratio(0.5)),
    ] {
        for (form, deferred) in [("=", ""), ("TO", ""), ("=", " DEFERRED"), ("to", " deferred")] {
            let sql = format!("ALTER SOURCE s SET PARALLELISM {form} {written}{deferred}");
            let (target, _, waits) = rescale(&sql);
            assert_eq!((target, waits), (expected, !deferred.is_empty()), "{sql}");
        }
    }
    assert_eq!(rescale("ALTER SOURCE s SET PARALLELISM='Bounded(4)'").1, "Bounded(4)");
    assert_eq!(rescale("ALTER SOURCE s SET PARALLELISM = bounded( 4 )").1, "bounded(4)");
}

#[test]
fn alter_forms() {
    let sql = "alter materialized view public.\"MV\" set backfill_parallelism to 2 deferred";
    let altered = alter(&format!("{sql};"));
    assert_eq!((altered.kind, altered.name.as_str()), (ObjectKind::MaterializedView, "MV"));
    assert!(matches!(altered.action, AlterAction::BackfillParallelism(_)));
    assert_eq!(altered.text, sql);
    let limit = |sql: &str| alter(sql).action;
    let rows = RateLimit::RowsPerSecond;
    assert_eq!(limit("ALTER SOURCE s SET source_rate_limit TO 10"), AlterAction::SourceRateLimit(rows(10)));
    assert_eq!(limit("ALTER SOURCE s SET SOURCE_RATE_LIMIT = 0"), AlterAction::SourceRateLimit(rows(0)));
    let unlimited = AlterAction::BackfillRateLimit(RateLimit::Unlimited);
    assert_eq!(limit("ALTER MATERIALIZED VIEW s SET backfill_rate_limit = DEFAULT"), unlimited);
}

#[test]
fn explain_alter() {
    let alter = "ALTER SOURCE s SET PARALLELISM = 4";
    for (options, expected) in [
        ("", false),
        ("(FORMAT JSON) ", true),
        ("(format 'json') ", true),
        ("(FORMAT TEXT) ", false),
        ("(ANALYZE false, FORMAT JSON, VERBOSE off) ", true),
    ] {
        match command(&format!("EXPLAIN {options}{alter}")) {
            Command::Explain { json, alter: explained } => {
                assert_eq!((json, explained.text.as_str()), (expected, alter));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_other_commands() {
    let drop = |kind, names: &[&str], if_exists, cascade| {
        let names = names.iter().map(ToString::to_string).collect();
        Command::Drop(Drop { kind, names, if_exists, absent: Vec::new(), cascade })
    };
    assert_eq!(command("DROP SOURCE s"), drop(ObjectKind::Source, &["s"], false, false));
    assert_eq!(
        command("DROP MATERIALIZED VIEW IF EXISTS a, public.B CASCADE"),
        drop(ObjectKind::MaterializedView, &["a", "b"], true, true)
    );
    assert_eq!(command("DROP SOURCE s RESTRICT"), drop(ObjectKind::Source, &["s"], false, false));
    assert_eq!(command("CANCEL RESCALE 7"), Command::CancelRescale(7));
    assert_eq!(command("cancel rescale '7'"), Command::CancelRescale(7));
    assert_eq!(command("WAIT"), Command::Wait);
    assert_eq!(command("flush;"), Command::Flush);
    assert_eq!(command("RECOVER"), Command::Recover);
    for (sql, expected) in [
        ("SHOW JOBS", Show::Jobs),
        ("show sources", Show::Sources),
        ("SHOW MATERIALIZED VIEWS", Show::MaterializedViews),
        ("SHOW PARAMETERS", Show::Parameters),
        ("SHOW CREATE SOURCE public.s", Show::CreateSource("s".into())),
        ("SHOW CREATE MATERIALIZED VIEW \"V\"", Show::CreateMaterializedView("V".into())),
    ] {
        assert_eq!(command(sql), Command::Show(expected));
    }
}

#[test]
fn queries() {
    for sql in [
        "SELECT 1",
        "(SELECT 1)",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "VALUES (1), (2)",
        "TABLE s",
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE VERBOSE SELECT 1",
        "EXPLAIN (ANALYZE, VERBOSE off) TABLE s",
        "EXPLAIN (SELECT 1)",
        "SELECT * FROM tidegate.check_rescale('s', $2)",
        "SELECT current_setting('x'), date '2020-01-01', a::int, interval '1 day', x[1], j -> 'a' ->> 'b' FROM t",
    ] {
        assert!(matches!(one(sql).statement, Statement::Query(_)), "{sql}");
    }
    let parsed = one("SELECT $2");
    assert_eq!(parsed.params, 2);
    assert_eq!(bind(&parsed, &[]).unwrap(), parsed.statement);
}

#[test]
fn several_statements() {
    let sql = "SELECT ';' /* ; */; -- ;\nFLUSH;; SELECT $$;$$, $a$;$$;$a$, \"x;y\", E'\\';' ; ";
    let texts: Vec<_> = parse(sql).unwrap().into_iter().map(|parsed| (parsed.position, parsed.text)).collect();
    let expected = [(1, "SELECT ';'"), (26, "FLUSH"), (34, "SELECT $$;$$, $a$;$$;$a$, \"x;y\", E'\\';'")];
    assert_eq!(texts, expected.map(|(position, text)| (position, text.to_owned())));
    for nothing in ["", " ", ";", ";; ;", "-- only\n", "/* /* nested */ ; */", "\u{a0}; "] {
        if let Ok(parsed) = parse(nothing) {
            assert_eq!(parsed.len(), 1);
        }
        if !nothing.contains('\u{a0}') {
            assert_eq!(one(nothing).statement, Statement::Empty, "{nothing}");
        }
    }
}

#[test]
fn parameters_of_commands() {
    let parsed = one("EXPLAIN ALTER SOURCE s SET PARALLELISM = $1 DEFERRED");
    assert_eq!(parsed.params, 1);
    assert!(matches!(&parsed.statement, Statement::Unbound(inner)
        if matches!(**inner, Statement::Command(Command::Explain { json: false, .. }))));
    let bound = |sql: &str, params: &[Option<&str>]| {
        bind(&one(sql), &params.iter().map(|value| value.map(str::to_owned)).collect::<Vec<_>>())
    };
    let same = |sql: &str, params: &[Option<&str>], plain: &str| {
        assert_eq!(bound(sql, params).unwrap(), one(plain).statement);
    };
    same("ALTER SOURCE s SET PARALLELISM = $1", &[Some("4")], "ALTER SOURCE s SET PARALLELISM = '4'");
    same("ALTER SOURCE s SET PARALLELISM = bounded($1)", &[Some("4")], "ALTER SOURCE s SET PARALLELISM = bounded('4')");
    same("CANCEL RESCALE $2", &[None, Some("9")], "CANCEL RESCALE 9");
    same("SET rescale_policy = $1", &[Some("all_finished")], "SET rescale_policy = 'all_finished'");
    same("FETCH $1 FROM c", &[Some("5")], "FETCH 5 FROM c");
    let Statement::Command(Command::Alter(alter)) = bound("ALTER SOURCE s SET PARALLELISM = $1", &[None]).unwrap()
    else {
        panic!("no ALTER");
    };
    assert!(matches!(alter.action, AlterAction::Invalid(_)), "{alter:?}");
    assert_eq!(bound("CANCEL RESCALE $1", &[]).unwrap_err().sqlstate(), "08P01");
    assert_eq!(super::error("SELECT $0").sqlstate(), "42P02");
    assert_eq!(super::error("SELECT $70000").to_string(), "there is no parameter $70000");
}

proptest! {
    /// Whatever a value holds, it stays one value.
    #[test]
    fn a_bound_value_is_only_a_value(value in "(?s).{0,20}|['\"\\\\;$/*-]{0,9}") {
        let parsed = one("CREATE SOURCE s (id int) WITH (path = $1, b = $2) FORMAT PLAIN ENCODE JSON");
        let bound = bind(&parsed, &[Some(value.clone()), Some("x".into())]).unwrap();
        match bound {
            Statement::Command(Command::CreateSource(source)) => {
                prop_assert_eq!(&source.options[0].1, &value);
                prop_assert_eq!(&source.options[1].1, "x");
                prop_assert_eq!(one(&source.definition).statement, Statement::Command(Command::CreateSource(source)));
            }
            other => panic!("{other:?}"),
        }
    }
}
