//! One connection, message by message.

use bytes::BytesMut;
use futures::{SinkExt as _, StreamExt as _};
use pgwire::error::PgWireError;
use pgwire::messages::response::{ErrorResponse, NoticeResponse, ReadyForQuery};
use pgwire::messages::startup::ParameterStatus;
use pgwire::messages::{PgWireBackendMessage as Backend, PgWireFrontendMessage as Frontend};
use tokio::net::TcpStream;
use tokio_util::codec::Framed;

use super::codec::Codec;
use super::session::Session;
use super::transaction::Status;
use super::{errors, extended, limits, simple};
use crate::error::{Error, Result};

/// The socket, with what is still to be sent.
pub(super) struct Link {
    framed: Framed<TcpStream, Codec>,
}

/// Why a message's answer broke off.
#[derive(Debug)]
pub(super) enum Failure {
    /// The statement failed: the client is told.
    Statement(Error),
    /// The connection is of no more use.
    Connection(PgWireError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Statement(error)
    }
}

impl From<PgWireError> for Failure {
    fn from(error: PgWireError) -> Self {
        Self::Connection(error)
    }
}

impl Link {
    pub fn new(socket: TcpStream) -> Self {
        Self { framed: Framed::new(socket, Codec::default()) }
    }

    pub fn codec(&mut self) -> &mut Codec {
        self.framed.codec_mut()
    }

    /// The client's address.
    pub fn peer(&self) -> Result<std::net::SocketAddr> {
        self.framed.get_ref().peer_addr().map_err(|error| Error::Internal(format!("a client has no address: {error}")))
    }

    /// The next message; None at the end of the connection.
    pub async fn next(&mut self) -> Option<Result<Frontend, PgWireError>> {
        self.framed.next().await
    }

    /// Lays a message by, to be sent with the next flush or when many have come together.
    pub async fn feed(&mut self, message: Backend) -> Result<(), PgWireError> {
        self.framed.feed(message).await
    }

    /// Sends all that was laid by.
    pub async fn flush(&mut self) -> Result<(), PgWireError> {
        self.framed.flush().await
    }

    /// Sends a message at once.
    pub async fn send(&mut self, message: Backend) -> Result<(), PgWireError> {
        self.framed.send(message).await
    }

    /// What is still to be sent, to append whole messages to.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.framed.write_buffer_mut()
    }

    /// Tells of an error after which the connection ends.
    pub async fn fatal(&mut self, error: &Error) -> Result<(), PgWireError> {
        let response = ErrorResponse::new(errors::fields("FATAL", error, None));
        self.send(Backend::ErrorResponse(response)).await?;
        self.framed.close().await
    }
}

/// Serves a session to its end.
pub(super) async fn serve(link: &mut Link, session: &mut Session) -> Result<(), PgWireError> {
    // After an error in the extended protocol, all is ignored up to the next Sync.
    let mut skipping = false;
    loop {
        let message = match next(link, session).await {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(()),
            Err(Failure::Statement(error)) => return link.fatal(&error).await,
            Err(Failure::Connection(error)) => return Err(error),
        };
        let result = match message {
            Frontend::Terminate(_) => return Ok(()),
            Frontend::Sync(_) => {
                skipping = false;
                extended::sync(link, session).await
            }
            _ if skipping => Ok(()),
            Frontend::Query(query) => match simple::run(link, session, &query.query).await {
                Err(Failure::Statement(error)) => {
                    report(link, session, &error).await?;
                    ready(link, session).await.map_err(Failure::from)
                }
                other => other,
            },
            Frontend::Parse(parse) => extended::parse(link, session, parse).await,
            Frontend::Bind(bind) => extended::bind(link, session, bind).await,
            Frontend::Describe(describe) => extended::describe(link, session, describe).await,
            Frontend::Execute(execute) => extended::execute(link, session, execute).await,
            Frontend::Close(close) => extended::close(link, session, close).await,
            Frontend::Flush(_) => link.flush().await.map_err(Failure::from),
            // Left over from a COPY that has failed: PostgreSQL ignores them too.
            Frontend::CopyData(_) | Frontend::CopyDone(_) | Frontend::CopyFail(_) => Ok(()),
            _ => return link.fatal(&protocol("unexpected message")).await,
        };
        match result {
            Ok(()) => {}
            Err(Failure::Statement(error)) => {
                report(link, session, &error).await?;
                link.flush().await?;
                skipping = true;
            }
            Err(Failure::Connection(error)) => return Err(error),
        }
    }
}

/// The next message, or the error that ends the session while it waits for one.
async fn next(link: &mut Link, session: &Session) -> Result<Option<Frontend>, Failure> {
    let (idle_limit, expired) = match session.transaction.status {
        Status::Idle => (session.settings.idle_session_timeout(), limits::idle_session()),
        _ => (session.settings.idle_in_transaction_timeout(), limits::idle_in_transaction()),
    };
    let idle = async {
        match idle_limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = session.entry.terminated.cancelled() => Err(Error::ShuttingDown.into()),
        message = link.next() => match message {
            None => Ok(None),
            Some(Ok(message)) => Ok(Some(message)),
            Some(Err(error)) => Err(unreadable(error)),
        },
        () = idle => Err(expired.into()),
    }
}

/// A message that can't be read: the client is told, unless it is gone.
fn unreadable(error: PgWireError) -> Failure {
    match error {
        PgWireError::MessageTooLarge(limit, length) => limits::message_size(limit, length).into(),
        PgWireError::IoError(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            protocol(&error.to_string()).into()
        }
        PgWireError::IoError(error) => PgWireError::IoError(error).into(),
        error => protocol(&error.to_string()).into(),
    }
}

fn protocol(message: &str) -> Error {
    Error::Session { sqlstate: "08P01", message: format!("protocol violation: {message}") }
}

/// Tells of a statement's error, and of what was to be noticed before it.
async fn report(link: &mut Link, session: &mut Session, error: &Error) -> Result<(), PgWireError> {
    session.fail();
    send_notices(link, session).await?;
    if error.sqlstate() == "XX000" {
        tracing::error!(%error, statement = session.text, "a statement met an internal error");
    }
    let fields = errors::fields("ERROR", error, Some((&session.text, session.start)));
    link.feed(Backend::ErrorResponse(ErrorResponse::new(fields))).await
}

/// Sends what the session has to tell beside its results.
pub(super) async fn send_notices(link: &mut Link, session: &mut Session) -> Result<(), PgWireError> {
    for notice in session.take_notices() {
        link.feed(Backend::NoticeResponse(NoticeResponse::new(errors::notice_fields(&notice)))).await?;
    }
    Ok(())
}

/// The answer to a text or a pipeline is complete.
pub(super) async fn ready(link: &mut Link, session: &mut Session) -> Result<(), PgWireError> {
    for (name, value) in session.take_changed_settings() {
        link.feed(Backend::ParameterStatus(ParameterStatus::new(name.to_owned(), value))).await?;
    }
    session.idle();
    link.send(Backend::ReadyForQuery(ReadyForQuery::new(session.transaction.status.wire()))).await
}
