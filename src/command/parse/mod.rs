//! From text to statements: one file a family of statements.

mod alter;
mod copy;
mod create;
mod cursor;
mod depth;
mod dialect;
mod include;
mod query;
mod roles;
mod secrets;
mod session;
mod show;
#[cfg(test)]
mod tests;
mod text;
mod transaction;
mod types;
mod unsupported;

use datafusion::sql::sqlparser::tokenizer::Token;

use self::cursor::Cursor;
use self::dialect::PatientPostgres;
use self::text::{Fragment, Text};
use super::Parsed;
use super::ast::{Command, Session, Statement};
use crate::error::{Error, Result};

/// See [`super::parse`].
pub(super) fn parse(sql: &str) -> Result<Vec<Parsed>> {
    let text = Text::read(sql)?;
    let mut parsed = text.statements().map(statement).collect::<Result<Vec<_>>>()?;
    if parsed.is_empty() {
        parsed.push(Parsed { text: String::new(), statement: Statement::Empty, params: 0, position: 1 });
    }
    Ok(parsed)
}

/// See [`super::relation_name`].
pub(super) fn relation_name(text: &str, kind: &'static str) -> Result<String> {
    let malformed = || Error::Semantics { sqlstate: "42602", message: "invalid name syntax".into() };
    let text = Text::read(text).map_err(|_| malformed())?;
    let fragment = text.statements().next().ok_or_else(malformed)?;
    let dialect = PatientPostgres::new(fragment.lexemes.len());
    let mut cursor = Cursor::new(&dialect, fragment);
    let name = cursor.relation(kind)?;
    if cursor.at_end() { Ok(name) } else { Err(malformed()) }
}

/// See [`super::without_secrets`].
pub(super) fn without_secrets(sql: &str) -> std::borrow::Cow<'_, str> {
    secrets::hide(sql)
}

/// The tokens `$n` of a text that has been read before: their number and their bytes.
pub(super) fn placeholders(sql: &str) -> Result<Vec<(usize, std::ops::Range<usize>)>> {
    let text = Text::read(sql)?;
    let lexemes = text.statements().flat_map(|fragment| fragment.lexemes);
    lexemes
        .filter_map(|lexeme| match &lexeme.token.token {
            Token::Placeholder(text) => Some(session::parameter_number(text).map(|n| (n, lexeme.start..lexeme.end))),
            _ => None,
        })
        .collect()
}

fn statement(fragment: Fragment<'_>) -> Result<Parsed> {
    depth::check(&fragment)?;
    let mut params = 0;
    for lexeme in fragment.lexemes {
        if let Token::Placeholder(text) = &lexeme.token.token {
            params = params.max(session::parameter_number(text)?);
        }
    }
    let dialect = PatientPostgres::new(fragment.lexemes.len());
    let mut cursor = Cursor::new(&dialect, fragment);
    let statement = dispatch(&mut cursor)?;
    let (statement, params) = match statement {
        // They are those of what is prepared.
        prepare @ Statement::Session(Session::Prepare { .. }) => (prepare, 0),
        query @ Statement::Query(_) => (query, params),
        command if params > 0 => (Statement::Unbound(Box::new(command)), params),
        command => (command, 0),
    };
    Ok(Parsed { text: fragment.as_written().to_owned(), statement, params, position: fragment.position(0) })
}

/// The first words of all statements that run.
const FIRST_WORDS: [&str; 37] = [
    "SELECT",
    "WITH",
    "VALUES",
    "TABLE",
    "EXPLAIN",
    "CREATE",
    "DROP",
    "ALTER",
    "CANCEL",
    "WAIT",
    "FLUSH",
    "RECOVER",
    "SHOW",
    "SET",
    "RESET",
    "BEGIN",
    "START",
    "COMMIT",
    "END",
    "ROLLBACK",
    "ABORT",
    "SAVEPOINT",
    "RELEASE",
    "DISCARD",
    "DECLARE",
    "FETCH",
    "MOVE",
    "CLOSE",
    "COPY",
    "PREPARE",
    "EXECUTE",
    "DEALLOCATE",
    "LISTEN",
    "UNLISTEN",
    "GRANT",
    "REVOKE",
    "REASSIGN",
];

fn dispatch(cursor: &mut Cursor<'_>) -> Result<Statement> {
    if query::starts(cursor) {
        let query = query::query(cursor)?;
        cursor.expect_end()?;
        return Ok(Statement::Query(Box::new(datafusion::sql::sqlparser::ast::Statement::Query(query))));
    }
    if cursor.at(&["ALTER"]) && !cursor.at(&["ALTER", "USER"]) && !cursor.at(&["ALTER", "ROLE"]) {
        return alter::statement(cursor).map(Statement::Command);
    }
    let Some(word) = cursor.accept_one_of(&FIRST_WORDS) else {
        unsupported::check_statement(cursor, "")?;
        return Err(unknown(cursor));
    };
    let statement = match word {
        "EXPLAIN" => query::explain(cursor)?,
        "SHOW" => show::show(cursor)?,
        "CREATE" if roles::starts(cursor) => Statement::Command(roles::create(cursor)?),
        "DROP" if cursor.accept(&["OWNED"]) => Statement::Command(roles::drop_owned(cursor)?),
        "REASSIGN" => Statement::Command(roles::reassign(cursor)?),
        "DROP" if roles::starts(cursor) => Statement::Command(roles::drop(cursor)?),
        "ALTER" => Statement::Command(roles::alter(cursor)?),
        "GRANT" | "REVOKE" => Statement::Command(roles::grant(cursor, word == "REVOKE")?),
        "CREATE" => Statement::Command(create::create(cursor)?),
        "DROP" => Statement::Command(alter::drop(cursor)?),
        "CANCEL" => Statement::Command(alter::cancel(cursor)?),
        "WAIT" => Statement::Command(Command::Wait),
        "FLUSH" => Statement::Command(Command::Flush),
        "RECOVER" => Statement::Command(Command::Recover),
        // What is prepared takes all that is left.
        "PREPARE" => return session::prepare(cursor).map(Statement::Session),
        _ => Statement::Session(session_statement(cursor, word)?),
    };
    cursor.expect_end()?;
    Ok(statement)
}

/// A session statement, behind its first word.
fn session_statement(cursor: &mut Cursor<'_>, word: &'static str) -> Result<Session> {
    match word {
        "SET" => session::set(cursor),
        "RESET" => session::reset(cursor),
        "BEGIN" => transaction::begin(cursor),
        "START" => transaction::start(cursor),
        "COMMIT" | "END" => transaction::commit(cursor),
        "ROLLBACK" | "ABORT" => transaction::rollback(cursor),
        "SAVEPOINT" => session::named(cursor, Session::Savepoint, "SAVEPOINT name"),
        "RELEASE" => transaction::release(cursor),
        "DISCARD" => session::discard(cursor),
        "DECLARE" => session::declare(cursor),
        "FETCH" => session::fetch(cursor, false),
        "MOVE" => session::fetch(cursor, true),
        "CLOSE" => session::close(cursor),
        "COPY" => copy::copy(cursor),
        "EXECUTE" => session::execute(cursor),
        "DEALLOCATE" => session::deallocate(cursor),
        "LISTEN" => session::named(cursor, Session::Listen, "LISTEN channel"),
        "UNLISTEN" => session::unlisten(cursor),
        _ => Err(Error::Internal(format!("{word} has no parser"))),
    }
}

/// The error for a statement that starts as none does.
fn unknown(cursor: &Cursor<'_>) -> Error {
    let words: Vec<&str> = FIRST_WORDS.into_iter().chain(unsupported::first_words()).collect();
    cursor.expected(&words)
}
