//! One connection, message by message.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures::{FutureExt as _, SinkExt as _, StreamExt as _};
use pgwire::error::PgWireError;
use pgwire::messages::response::{ErrorResponse, NoticeResponse, ReadyForQuery};
use pgwire::messages::startup::ParameterStatus;
use pgwire::messages::{PgWireBackendMessage as Backend, PgWireFrontendMessage as Frontend};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::codec::{Framed, FramedParts};
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use super::codec::Codec;
use super::session::Session;
use super::tls::{self, Tls};
use super::transaction::Status;
use super::{errors, extended, limits, simple};
use crate::catalog::Encryption;
use crate::command;
use crate::error::{Error, Result};

/// How often a running statement's client is looked after.
const CLIENT_CHECK: Duration = Duration::from_millis(500);

/// The socket, with what is still to be sent.
pub(super) struct Link {
    framed: Framed<Stream, Codec>,
    /// The hash of the server's certificate, over TLS.
    end_point: Option<Arc<[u8]>>,
}

/// Bytes in the clear, or over TLS.
type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

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
        Self { framed: Framed::new(Either::Left(socket), Codec::default()), end_point: None }
    }

    /// The same connection, whose socket the runtime that this is called in looks after. One over TLS stays with the
    /// runtime that accepted it.
    pub fn adopted(self) -> std::io::Result<Self> {
        let FramedParts { io, codec, read_buf, write_buf, .. } = self.framed.into_parts();
        let io = match io {
            Either::Left(socket) => Either::Left(TcpStream::from_std(socket.into_std()?)?),
            secured => secured,
        };
        let mut parts = FramedParts::new::<Backend>(io, codec);
        (parts.read_buf, parts.write_buf) = (read_buf, write_buf);
        Ok(Self { framed: Framed::from_parts(parts), end_point: self.end_point })
    }

    fn socket(&self) -> &TcpStream {
        match self.framed.get_ref() {
            Either::Left(socket) => socket,
            Either::Right(stream) => stream.get_ref().0,
        }
    }

    /// Whether the client begins with TLS rather than with a packet of PostgreSQL. Waits for its first byte.
    pub async fn starts_with_tls(&self) -> std::io::Result<bool> {
        let mut first = [0; 1];
        // The type of a record that holds a handshake; a packet's length would be 370 MB.
        Ok(self.socket().peek(&mut first).await? == 1 && first[0] == 0x16)
    }

    /// The same connection, over TLS from here on. `direct`: the client began with it, and has to name our protocol.
    pub async fn secure(self, tls: &Tls, direct: bool) -> std::io::Result<Self> {
        let refused = |what: &str| Err(std::io::Error::new(ErrorKind::InvalidData, what));
        let parts = self.framed.into_parts();
        // Somebody in between could have put it there, to be taken for what came over TLS.
        if !parts.read_buf.is_empty() {
            return refused("unencrypted data came behind a request for encryption");
        }
        let Either::Left(socket) = parts.io else { return refused("TLS within TLS") };
        let (stream, end_point) = tls.accept(socket).await?;
        if direct && stream.get_ref().1.alpn_protocol() != Some(tls::ALPN) {
            return refused("a client that begins with TLS has to offer the protocol \"postgresql\"");
        }
        let mut link =
            Self { framed: Framed::new(Either::Right(Box::new(stream)), Codec::default()), end_point: Some(end_point) };
        link.codec().expect_startup();
        Ok(link)
    }

    /// The hash of the server's certificate; None without TLS.
    pub fn end_point(&self) -> Option<Arc<[u8]>> {
        self.end_point.clone()
    }

    /// How the connection is encrypted; None without TLS.
    pub fn encryption(&self) -> Option<Encryption> {
        match self.framed.get_ref() {
            Either::Left(_) => None,
            Either::Right(stream) => Some(tls::encryption(stream.get_ref().1)),
        }
    }

    pub fn codec(&mut self) -> &mut Codec {
        self.framed.codec_mut()
    }

    /// The client's address.
    pub fn peer(&self) -> Result<std::net::SocketAddr> {
        self.socket().peer_addr().map_err(|error| Error::Internal(format!("a client has no address: {error}")))
    }

    /// The next message; None at the end of the connection.
    pub async fn next(&mut self) -> Option<Result<Frontend, PgWireError>> {
        self.framed.next().await
    }

    /// The statement's result. A client that has gone away cancels it, as PostgreSQL's client_connection_check_interval
    /// does: nobody is left to be told, and a view that is being made in the foreground for nobody is unmade.
    pub async fn watched<T>(&self, token: &CancellationToken, statement: impl Future<Output = T>) -> T {
        let mut statement = std::pin::pin!(statement);
        loop {
            tokio::select! {
                biased;
                result = &mut statement => return result,
                () = tokio::time::sleep(CLIENT_CHECK), if !token.is_cancelled() => if self.is_gone() {
                    tracing::info!("the client of a running statement has gone");
                    token.cancel();
                },
            }
        }
    }

    /// Whether the client has closed its side, whatever it has sent before.
    fn is_gone(&self) -> bool {
        let ready = self.socket().ready(Interest::READABLE).now_or_never();
        matches!(ready, Some(Ok(ready)) if ready.is_read_closed())
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
        self.close().await
    }

    /// Ends the connection so that the client sees that nothing was cut off: TLS says goodbye.
    pub async fn close(&mut self) -> Result<(), PgWireError> {
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
    let read = |message: Option<Result<Frontend, PgWireError>>| message.transpose().map_err(unreadable);
    if session.entry.terminated.is_cancelled() {
        return Err(Error::ShuttingDown.into());
    }
    // What is there already needs no clock.
    if let Some(message) = link.next().now_or_never() {
        return read(message);
    }
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
        message = link.next() => read(message),
        () = idle => Err(expired.into()),
    }
}

/// A message that can't be read: the client is told, unless it is gone.
fn unreadable(error: PgWireError) -> Failure {
    match error {
        PgWireError::MessageTooLarge(limit, length) => limits::message_size(limit, length).into(),
        PgWireError::IoError(error) if error.kind() == ErrorKind::InvalidData => protocol(&error.to_string()).into(),
        PgWireError::IoError(error) if error.kind() == ErrorKind::OutOfMemory => limits::message_memory().into(),
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
        let statement = command::without_secrets(&session.text);
        tracing::error!(%error, %statement, "a statement met an internal error");
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
