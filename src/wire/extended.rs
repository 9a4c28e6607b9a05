//! The extended protocol: Parse, Bind, Describe, Execute and Close, up to a Sync.

use std::sync::Arc;

use pgwire::messages::PgWireBackendMessage as Backend;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, PortalSuspended,
};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};

use super::connection::{Failure, Link, ready, send_notices};
use super::encode::{self, Column};
use super::limits;
use super::params::{self, Param};
use super::prepared::Prepared;
use super::rows::{Reply, Rows};
use super::session::Session;
use crate::catalog::held;
use crate::clock::now_micros;
use crate::command;
use crate::command::ast::Direction;
use crate::error::{Error, Result};

/// A prepared statement with its parameters, ready to run or running.
pub(super) struct Portal {
    prepared: Arc<Prepared>,
    params: Vec<Param>,
    formats: Vec<i16>,
    /// When it was bound, in microseconds since 1970.
    bound_at: i64,
    state: State,
}

enum State {
    Ready,
    /// Some rows have been sent.
    Open(Box<Rows>),
    Done,
}

impl Portal {
    /// Its row of `pg_cursors`.
    pub fn held(&self, name: &str) -> held::Cursor {
        held::Cursor {
            name: name.to_owned(),
            text: self.prepared.source.clone(),
            hold: false,
            binary: self.formats.first() == Some(&1),
            scroll: false,
            declared_at: self.bound_at,
        }
    }

    /// Takes the rows that are still to come out, if some have been sent.
    pub fn begun(&mut self) -> Option<Box<Rows>> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Open(rows) => Some(rows),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Puts them back.
    pub fn go_on(&mut self, rows: Box<Rows>) {
        self.state = State::Open(rows);
    }
}

pub(super) async fn parse(link: &mut Link, session: &mut Session, message: Parse) -> Result<(), Failure> {
    limits::check_length(&session.shared, &message.query)?;
    session.text.clone_from(&message.query);
    session.start = 1;
    let name = message.name.unwrap_or_default();
    if !name.is_empty() && session.statements.contains_key(&name) {
        return Err(Error::Session {
            sqlstate: "42P05",
            message: format!("prepared statement \"{name}\" already exists"),
        }
        .into());
    }
    session.statements.remove(&name);
    limits::check_prepared(&session.shared, &session.statements, &message.query)?;
    let mut statements = command::parse(&message.query)?;
    let (Some(parsed), true) = (statements.pop(), statements.is_empty()) else {
        return Err(Error::Syntax {
            message: "cannot insert multiple commands into a prepared statement".into(),
            position: None,
            hint: None,
        }
        .into());
    };
    let types = message.type_oids.iter().map(|oid| params::type_by_oid(*oid)).collect::<Result<Vec<_>>>()?;
    session.begin_statement(&message.query);
    session.admit(&parsed).await?;
    let prepared = session.prepare(parsed, &types)?;
    session.end_statement();
    session.statements.insert(name, Arc::new(prepared));
    link.feed(Backend::ParseComplete(ParseComplete::new())).await?;
    Ok(())
}

pub(super) async fn bind(link: &mut Link, session: &mut Session, message: Bind) -> Result<(), Failure> {
    let name = message.statement_name.unwrap_or_default();
    let prepared = Arc::clone(session.statement(&name)?);
    session.text.clone_from(&prepared.text);
    session.admit(&prepared.parsed).await?;
    let expected = prepared.types.len();
    if message.parameters.len() != expected {
        let given = message.parameters.len();
        let message =
            format!("bind message supplies {given} parameters, but prepared statement \"{name}\" requires {expected}");
        return Err(Error::Session { sqlstate: "08P01", message }.into());
    }
    let codes = &message.parameter_format_codes;
    if codes.len() > 1 && codes.len() != expected {
        let given = codes.len();
        let message = format!("bind message has {given} parameter formats but {expected} parameters");
        return Err(Error::Session { sqlstate: "08P01", message }.into());
    }
    let format = |index: usize| match codes.as_slice() {
        [] => 0,
        [one] => *one,
        many => many[index],
    };
    let params = message
        .parameters
        .iter()
        .enumerate()
        .map(|(index, bytes)| Param::new(bytes.as_deref(), format(index), &prepared.types[index], index + 1))
        .collect::<Result<Vec<_>>>()?;
    let portal_name = message.portal_name.unwrap_or_default();
    let taken = session.portals.contains_key(&portal_name) || session.cursors.contains_key(&portal_name);
    if !portal_name.is_empty() && taken {
        let message = format!("cursor \"{portal_name}\" already exists");
        return Err(Error::Session { sqlstate: "42P03", message }.into());
    }
    limits::check_cursors(&session.shared, "portals", session.portals.len())?;
    if let Some(columns) = &prepared.columns {
        encode::with_formats(columns, &message.result_column_format_codes)?;
    }
    let formats = message.result_column_format_codes;
    let portal = Portal { prepared, params, formats, bound_at: now_micros(), state: State::Ready };
    session.portals.insert(portal_name, portal);
    link.feed(Backend::BindComplete(BindComplete::new())).await?;
    Ok(())
}

pub(super) async fn describe(link: &mut Link, session: &mut Session, message: Describe) -> Result<(), Failure> {
    let name = message.name.unwrap_or_default();
    let columns = if message.target_type == b'S' {
        let prepared = Arc::clone(session.statement(&name)?);
        session.text.clone_from(&prepared.text);
        session.check_not_failed(prepared.ends_block())?;
        let oids = prepared.types.iter().map(postgres_types::Type::oid).collect();
        link.feed(Backend::ParameterDescription(ParameterDescription::new(oids))).await?;
        session.current_columns(&prepared)
    } else if let Some(cursor) = session.cursors.get(&name) {
        session.check_not_failed(false)?;
        Some(Arc::clone(&cursor.columns))
    } else {
        let portal = session.portals.get(&name).ok_or_else(|| missing_portal(&name))?;
        session.check_not_failed(portal.prepared.ends_block())?;
        let columns = session.current_columns(&portal.prepared);
        columns.map(|columns| encode::with_formats(&columns, &portal.formats)).transpose()?
    };
    feed_columns(link, columns).await
}

async fn feed_columns(link: &mut Link, columns: Option<Arc<[Column]>>) -> Result<(), Failure> {
    let message = match columns {
        Some(columns) => Backend::RowDescription(encode::row_description(&columns)),
        None => Backend::NoData(NoData::new()),
    };
    link.feed(message).await?;
    Ok(())
}

pub(super) async fn execute(link: &mut Link, session: &mut Session, message: Execute) -> Result<(), Failure> {
    let name = message.name.unwrap_or_default();
    if session.cursors.contains_key(&name) {
        return execute_cursor(link, session, &name, message.max_rows).await;
    }
    let mut portal = session.portals.remove(&name).ok_or_else(|| missing_portal(&name))?;
    session.text.clone_from(&portal.prepared.text);
    let token = session.begin_statement(&portal.prepared.text);
    let reply = match std::mem::replace(&mut portal.state, State::Done) {
        State::Ready => match link.watched(&token, session.execute(&portal.prepared, &portal.params, &token)).await? {
            Reply::Rows(rows) => Reply::Rows(rows.with_formats(&portal.formats)?),
            other => other,
        },
        State::Open(rows) => {
            session.check_not_failed(false)?;
            Reply::Rows(*rows)
        }
        State::Done if portal.prepared.columns.is_none() => {
            let message = format!("portal \"{name}\" cannot be run");
            return Err(Error::Session { sqlstate: "55000", message }.into());
        }
        State::Done => Reply::done("SELECT 0"),
    };
    send_notices(link, session).await?;
    match reply {
        Reply::Empty => link.feed(Backend::EmptyQueryResponse(EmptyQueryResponse::new())).await?,
        Reply::Done(tag) => link.feed(Backend::CommandComplete(CommandComplete::new(tag))).await?,
        Reply::Copy(copy) => copy.send(link, &session.interrupt(&token)).await?,
        Reply::Rows(mut rows) => {
            let limit = u64::try_from(message.max_rows).ok().filter(|limit| *limit > 0);
            let (count, more) = rows.send(link, limit, &session.interrupt(&token)).await?;
            if more {
                link.feed(Backend::PortalSuspended(PortalSuspended::new())).await?;
                portal.state = State::Open(Box::new(rows));
            } else {
                link.feed(Backend::CommandComplete(CommandComplete::new(rows.tag(count)))).await?;
            }
        }
    }
    // COMMIT and DISCARD ALL have just done away with all portals; this one may stay a little longer than it should.
    session.portals.insert(name, portal);
    session.end_statement();
    Ok(())
}

/// A cursor that was declared is a portal too.
async fn execute_cursor(link: &mut Link, session: &mut Session, name: &str, max_rows: i32) -> Result<(), Failure> {
    session.check_not_failed(false)?;
    let token = session.begin_statement(&session.text.clone());
    let direction = if max_rows > 0 { Direction::Forward(max_rows.into()) } else { Direction::ForwardAll };
    let Reply::Rows(mut rows) = session.fetch(name, direction, false, &token).await? else {
        return Err(Error::Internal("a cursor gave no rows".into()).into());
    };
    let (count, _) = rows.send(link, None, &session.interrupt(&token)).await?;
    let message = if max_rows > 0 && count == max_rows as u64 {
        Backend::PortalSuspended(PortalSuspended::new())
    } else {
        Backend::CommandComplete(CommandComplete::new(format!("SELECT {count}")))
    };
    link.feed(message).await?;
    session.end_statement();
    Ok(())
}

pub(super) async fn close(link: &mut Link, session: &mut Session, message: Close) -> Result<(), Failure> {
    let name = message.name.unwrap_or_default();
    if message.target_type == b'S' {
        session.statements.remove(&name);
    } else {
        session.portals.remove(&name);
        session.cursors.remove(&name);
    }
    link.feed(Backend::CloseComplete(CloseComplete::new())).await?;
    Ok(())
}

pub(super) async fn sync(link: &mut Link, session: &mut Session) -> Result<(), Failure> {
    session.end_implicit();
    ready(link, session).await?;
    Ok(())
}

fn missing_portal(name: &str) -> Error {
    Error::Session { sqlstate: "34000", message: format!("portal \"{name}\" does not exist") }
}
