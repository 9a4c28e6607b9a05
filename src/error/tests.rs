//! Every error has an SQLSTATE, and a specification that shows it.

use super::*;

/// One error of each variant. A variant that is missing here doesn't compile: see the match.
fn one_of_each() -> Vec<Error> {
    let text = String::new;
    let all = vec![
        Error::Syntax { message: "m".into(), position: None, hint: None },
        Error::StatementTooComplex { position: 1 },
        Error::FeatureNotSupported { what: text(), hint: text() },
        Error::UndefinedRelation { kind: "relation", name: text(), nearest: None },
        Error::UndefinedColumn { name: text(), nearest: None },
        Error::UndefinedFunction { call: text() },
        Error::UndefinedOperator { call: text() },
        Error::CannotCast { from: text(), to: text() },
        Error::Json { detail: text() },
        Error::UndefinedType { name: text(), supported: "" },
        Error::DuplicateRelation { kind: "source", name: text() },
        Error::WrongObjectType { name: text(), expected: "source", hint: text() },
        Error::InvalidValue { what: text(), value: text(), allowed: text() },
        Error::UnknownOption { name: text(), of: text(), nearest: None, known: Vec::new() },
        Error::MissingOption { name: "path", of: text() },
        Error::UnknownSetting { name: text(), nearest: None },
        Error::ReadOnlySetting { name: text() },
        Error::BackfillOrder { message: "m".into(), hint: text() },
        Error::UnsupportedView { message: "m".into(), hint: text() },
        Error::Query { sqlstate: "XX000", message: "m", detail: text() },
        Error::InvalidQuery { sqlstate: "42000", detail: text() },
        Error::DependentObjects { object: text(), dependents: Vec::new() },
        Error::Privilege { message: "m".into(), detail: text(), hint: text() },
        Error::OwnsObjects { name: text(), dependents: Vec::new() },
        Error::Login { message: "m".into(), hint: text() },
        Error::NoPassword { message: "m".into(), detail: text(), hint: text() },
        Error::ObjectInUse { object: text(), doing: "", since: text() },
        Error::UnsafeRescale(Box::new(Refusal { message: "m".into(), detail: text(), hint: text() })),
        Error::NoSuchRescale { id: 1, state: None },
        Error::BarrierTimeout { setting: "rescale_timeout", limit: text(), waiting_for: text() },
        Error::Canceled,
        Error::InTransactionBlock { statement: text() },
        Error::TransactionAborted,
        Error::Session { sqlstate: "34000", message: "m".into() },
        Error::LimitReached { sqlstate: "54000", message: "m".into(), hint: text() },
        Error::Panic { incident: text() },
        Error::StatementTimeout,
        Error::ShuttingDown,
        Error::SourceUnreachable { source_name: text(), detail: text() },
        Error::Data { sqlstate: "22P02", message: "m".into() },
        Error::Semantics { sqlstate: "42804", message: "m".into() },
        Error::DataDirectory { message: "m".into(), detail: text(), hint: text() },
        Error::DamagedFile { file: text(), detail: text() },
        Error::DamagedBackup { file: text(), detail: text() },
        Error::CheckpointFailed { sqlstate: "53100", detail: text() },
        Error::Store { context: "read", source: rusqlite::Error::InvalidQuery },
        Error::Config { message: "m".into(), hint: text() },
        Error::Connection { message: "m".into(), hint: text() },
        Error::Server { sqlstate: "XX000", message: "m".into(), detail: None, hint: None },
        Error::Recovering { detail: text() },
        Error::Internal("m".into()),
    ];
    assert_eq!(all.iter().map(std::mem::discriminant).collect::<std::collections::HashSet<_>>().len(), all.len());
    all
}

/// Errors that no statement of a specification can bring about; other tests do, as far as anything can.
const NOT_BY_A_STATEMENT: &[&str] = &[
    // The disk, the state file or the process itself.
    "53100", "XX001", "XX000", "F0000", "58000", "57P01", "57P03", "08001", "42000",
    // Time and other sessions.
    "57014", "55006", "28000", // Limits that a specification would take long to reach.
    "54001",
];

#[test]
fn every_sqlstate_is_told_by_a_specification() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let files = std::fs::read_dir(folder).unwrap();
    let told: String = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    for error in one_of_each() {
        let sqlstate = error.sqlstate();
        assert!(sqlstate.len() == 5 && sqlstate.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()));
        assert!(!error.to_string().is_empty());
        let specified = told.contains(&format!("ERROR:  {sqlstate}: "));
        let listed = NOT_BY_A_STATEMENT.contains(&sqlstate);
        assert!(specified || listed, "{sqlstate}, {error:?}, is neither in tests/slt nor listed");
    }
}
