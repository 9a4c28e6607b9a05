use super::{one, session};
use crate::command::Statement;
use crate::command::ast::{Direction, Discard, Session, SetValue, TransactionModes};

fn set(name: &str, values: &[&str], local: bool) -> Session {
    let value = match values {
        [] => SetValue::Default,
        values => SetValue::Values(values.iter().map(ToString::to_string).collect()),
    };
    Session::Set { name: name.into(), value, local }
}

#[test]
fn transactions() {
    let modes = TransactionModes::default();
    for sql in ["BEGIN", "begin work", "BEGIN TRANSACTION"] {
        assert_eq!(session(sql), Session::Begin(modes));
    }
    assert_eq!(session("START TRANSACTION"), Session::StartTransaction(modes));
    let all = TransactionModes { isolation: Some("repeatable read"), read_only: Some(true), deferrable: Some(false) };
    let text = "ISOLATION LEVEL REPEATABLE READ, READ ONLY NOT DEFERRABLE";
    assert_eq!(session(&format!("BEGIN {text}")), Session::Begin(all));
    assert_eq!(session(&format!("SET TRANSACTION {text}")), Session::SetTransaction(all));
    let characteristics = format!("SET SESSION CHARACTERISTICS AS TRANSACTION {text}");
    assert_eq!(session(&characteristics), Session::SetSessionCharacteristics(all));
    for (level, name) in [
        ("SERIALIZABLE", "serializable"),
        ("READ COMMITTED", "read committed"),
        ("READ UNCOMMITTED", "read uncommitted"),
    ] {
        let begun = session(&format!("BEGIN ISOLATION LEVEL {level}"));
        assert_eq!(begun, Session::Begin(TransactionModes { isolation: Some(name), ..modes }));
    }
    for sql in ["COMMIT", "END", "COMMIT WORK", "END TRANSACTION", "COMMIT AND NO CHAIN"] {
        assert_eq!(session(sql), Session::Commit);
    }
    for sql in ["ROLLBACK", "ABORT", "ROLLBACK TRANSACTION"] {
        assert_eq!(session(sql), Session::Rollback);
    }
    assert_eq!(session("SAVEPOINT A"), Session::Savepoint("a".into()));
    assert_eq!(session("RELEASE SAVEPOINT a"), Session::Release("a".into()));
    assert_eq!(session("RELEASE a"), Session::Release("a".into()));
    assert_eq!(session("ROLLBACK TO SAVEPOINT a"), Session::RollbackTo("a".into()));
    assert_eq!(session("ROLLBACK WORK TO a"), Session::RollbackTo("a".into()));
}

#[test]
fn settings() {
    for (sql, expected) in [
        ("SET application_name = 'x'", set("application_name", &["x"], false)),
        ("SET Rescale_Policy TO Stage_Aware", set("rescale_policy", &["stage_aware"], false)),
        ("SET SESSION a.b = -1.5", set("a.b", &["-1.5"], false)),
        ("SET LOCAL x TO on", set("x", &["on"], true)),
        ("SET x TO true", set("x", &["true"], false)),
        ("SET x = DEFAULT", set("x", &[], false)),
        ("SET search_path TO \"$user\", public", set("search_path", &["$user", "public"], false)),
        ("SET SCHEMA 'tidegate'", set("search_path", &["tidegate"], false)),
        ("SET NAMES 'UTF8'", set("client_encoding", &["UTF8"], false)),
        ("SET NAMES", set("client_encoding", &[], false)),
        ("SET TIME ZONE 'UTC'", set("timezone", &["UTC"], false)),
        ("SET LOCAL TIME ZONE -7", set("timezone", &["-7"], true)),
        ("SET TIME ZONE LOCAL", set("timezone", &[], false)),
        ("SET TIME ZONE DEFAULT", set("timezone", &[], false)),
        ("SET streaming_parallelism = adaptive", set("streaming_parallelism", &["adaptive"], false)),
        ("SET session = 1", set("session", &["1"], false)),
        ("SET local to 1", set("local", &["1"], false)),
    ] {
        assert_eq!(session(sql), expected, "{sql}");
    }
    for (sql, name) in [
        ("SHOW server_version", "server_version"),
        ("SHOW Time Zone", "timezone"),
        ("SHOW transaction isolation level", "transaction_isolation"),
        ("SHOW session authorization", "session_authorization"),
        ("SHOW A.\"B\"", "a.b"),
    ] {
        assert_eq!(session(sql), Session::Show(name.into()));
    }
    assert_eq!(session("SHOW ALL"), Session::ShowAll);
    assert_eq!(session("RESET x"), Session::Reset("x".into()));
    assert_eq!(session("RESET TIME ZONE"), Session::Reset("timezone".into()));
    assert_eq!(session("RESET ALL"), Session::ResetAll);
    assert_eq!(session("DISCARD ALL"), Session::Discard(Discard::All));
    assert_eq!(session("DISCARD TEMPORARY"), Session::Discard(Discard::Temp));
    assert_eq!(session("DISCARD plans"), Session::Discard(Discard::Plans));
    assert_eq!(session("DISCARD SEQUENCES"), Session::Discard(Discard::Sequences));
}

#[test]
fn cursors() {
    match session("DECLARE C INSENSITIVE NO SCROLL CURSOR WITH HOLD FOR SELECT 1 ;") {
        Session::DeclareCursor { name, scroll, hold, query, query_text, .. } => {
            assert_eq!((name.as_str(), scroll, hold, query_text.as_str()), ("c", Some(false), true, "SELECT 1"));
            assert_eq!(query.to_string(), "SELECT 1");
        }
        other => panic!("{other:?}"),
    }
    let fetch = |direction| Session::Fetch { cursor: "c".into(), direction, move_only: false };
    for (sql, direction) in [
        ("FETCH c", Direction::Forward(1)),
        ("FETCH FROM c", Direction::Forward(1)),
        ("FETCH NEXT IN c", Direction::Forward(1)),
        ("FETCH NEXT c", Direction::Forward(1)),
        ("FETCH PRIOR FROM c", Direction::Forward(-1)),
        ("FETCH FIRST c", Direction::Absolute(1)),
        ("FETCH LAST c", Direction::Absolute(-1)),
        ("FETCH ABSOLUTE -2 c", Direction::Absolute(-2)),
        ("FETCH RELATIVE 0 c", Direction::Relative(0)),
        ("FETCH 100 FROM c", Direction::Forward(100)),
        ("FETCH -3 c", Direction::Forward(-3)),
        ("FETCH ALL c", Direction::ForwardAll),
        ("FETCH FORWARD c", Direction::Forward(1)),
        ("FETCH FORWARD 5 IN c", Direction::Forward(5)),
        ("FETCH FORWARD ALL IN c", Direction::ForwardAll),
        ("FETCH BACKWARD 5 c", Direction::Forward(-5)),
        ("FETCH BACKWARD ALL c", Direction::BackwardAll),
    ] {
        assert_eq!(session(sql), fetch(direction), "{sql}");
    }
    let moved = Session::Fetch { cursor: "c".into(), direction: Direction::Forward(5), move_only: true };
    assert_eq!(session("MOVE 5 c"), moved);
    assert_eq!(session("CLOSE c"), Session::Close("c".into()));
    assert_eq!(session("CLOSE ALL"), Session::CloseAll);
}

#[test]
fn prepared_statements() {
    let parsed = one("PREPARE P (int, double precision) AS SELECT $1;");
    assert_eq!(parsed.params, 0);
    let Statement::Session(Session::Prepare { name, types, statement }) = parsed.statement else { panic!() };
    assert_eq!((name.as_str(), types), ("p", vec!["int".to_owned(), "double precision".to_owned()]));
    assert_eq!((statement.params, statement.text.as_str()), (1, "SELECT $1"));
    match session("PREPARE p AS ALTER SOURCE s SET PARALLELISM = $1") {
        Session::Prepare { statement, .. } => assert!(matches!(statement.statement, Statement::Unbound(_))),
        other => panic!("{other:?}"),
    }
    let params = ["a", "-2", "true"].map(|value| Some(value.to_owned())).into_iter().chain([None]).collect();
    assert_eq!(session("EXECUTE p ('a', -2, TRUE, NULL)"), Session::Execute { name: "p".into(), params });
    assert_eq!(session("EXECUTE p"), Session::Execute { name: "p".into(), params: vec![] });
    assert_eq!(session("DEALLOCATE p"), Session::Deallocate("p".into()));
    assert_eq!(session("DEALLOCATE PREPARE p"), Session::Deallocate("p".into()));
    assert_eq!(session("DEALLOCATE ALL"), Session::DeallocateAll);
    assert_eq!(session("DEALLOCATE PREPARE ALL"), Session::DeallocateAll);
}

#[test]
fn channels() {
    assert_eq!(session("LISTEN x"), Session::Listen("x".into()));
    assert_eq!(session("UNLISTEN x"), Session::Unlisten("x".into()));
    assert_eq!(session("UNLISTEN *"), Session::UnlistenAll);
}
