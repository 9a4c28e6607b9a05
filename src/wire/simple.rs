//! The simple protocol: a text with any number of statements, which run one after the other up to the first error.

use std::sync::Arc;

use pgwire::messages::PgWireBackendMessage as Backend;
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};
use tokio_util::sync::CancellationToken;

use super::connection::{Failure, Link, ready, send_notices};
use super::prepared::Prepared;
use super::rows::Reply;
use super::session::Session;
use super::{encode, limits};
use crate::command;
use crate::error::Error;

/// Runs all statements of a text.
pub(super) async fn run(link: &mut Link, session: &mut Session, text: &str) -> Result<(), Failure> {
    limits::check_length(&session.shared, text)?;
    text.clone_into(&mut session.text);
    // A simple query ends what an unnamed statement and portal were kept for.
    if let Some(prepared) = session.planned_before(text) {
        session.forget_unnamed();
        session.start = prepared.parsed.position;
        let token = session.begin_statement(text);
        session.check_not_failed(false)?;
        answer(link, session, &prepared, &token).await?;
    } else {
        let statements = command::parse(text)?;
        session.forget_unnamed();
        let alone = statements.len() == 1;
        for parsed in statements {
            session.start = parsed.position;
            let token = session.begin_statement(&parsed.text);
            session.admit(&parsed).await?;
            let prepared = Arc::new(session.prepare(parsed, &[])?);
            if !prepared.types.is_empty() {
                // There is no Bind here that could give it a value.
                return Err(Error::Semantics { sqlstate: "42P02", message: "there is no parameter $1".into() }.into());
            }
            answer(link, session, &prepared, &token).await?;
            if alone {
                session.keep_plan(text, &prepared);
            }
        }
    }
    session.end_implicit();
    ready(link, session).await?;
    Ok(())
}

async fn answer(
    link: &mut Link,
    session: &mut Session,
    prepared: &Arc<Prepared>,
    token: &CancellationToken,
) -> Result<(), Failure> {
    let reply = link.watched(token, session.execute(prepared, &[], token)).await?;
    send_notices(link, session).await?;
    match reply {
        Reply::Empty => link.feed(Backend::EmptyQueryResponse(EmptyQueryResponse::new())).await?,
        Reply::Done(tag) => link.feed(Backend::CommandComplete(CommandComplete::new(tag))).await?,
        Reply::Rows(mut rows) => {
            link.feed(Backend::RowDescription(encode::row_description(&rows.columns))).await?;
            let (count, _) = rows.send(link, None, &session.interrupt(token)).await?;
            link.feed(Backend::CommandComplete(CommandComplete::new(rows.tag(count)))).await?;
        }
        Reply::Copy(copy) => copy.send(link, &session.interrupt(token)).await?,
    }
    session.end_statement();
    Ok(())
}
