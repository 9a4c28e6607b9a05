//! A connection to a running server, for the commands that ask one.

use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, Client};

use super::secure::Wanted;
use crate::error::{Error, Result};

/// The server that a command asks when it isn't told another.
pub const DEFAULT_URL: &str = "postgres://root@127.0.0.1:4567/dev";

/// What a server tells beside its results.
pub type Notices = mpsc::UnboundedReceiver<DbError>;

/// Connects, as the URL says and with the password in it, or in PGPASSWORD, and with an `application_name` that the history shows.
///
/// # Errors
/// [`Error::Connection`] when the URL is wrong or nobody answers there.
pub async fn connect(url: &str, application_name: &str) -> Result<(Client, Notices)> {
    let failed = |error: tokio_postgres::Error| Error::Connection {
        message: format!("cannot connect to {}: {}", without_password(url), with_causes(&error)),
        hint: "Is `tidegate serve` running there? Another address goes with --url.".into(),
    };
    let wanted = Wanted::of(url)?;
    let mut config: tokio_postgres::Config = wanted.url.parse().map_err(failed)?;
    config.application_name(application_name).ssl_mode(wanted.mode);
    if config.get_password().is_none()
        && let Ok(password) = std::env::var("PGPASSWORD")
    {
        config.password(password);
    }
    let (client, mut connection) =
        config.connect(wanted.connector()?).await.map_err(|error| match error.as_db_error() {
            Some(_) => self::failed(error),
            None => failed(error),
        })?;
    let (notices, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        // The connection's end shows in the client's next request.
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notice(notice) = message {
                let _ = notices.send(notice);
            }
        }
    });
    Ok((client, told))
}

/// An error of the client as one of ours. What the server says is passed on as it is.
pub fn failed(error: tokio_postgres::Error) -> Error {
    if let Some(said) = error.as_db_error() {
        return Error::Server {
            // Leaked: a command that fails has just this one error, and ends.
            sqlstate: said.code().code().to_owned().leak(),
            message: said.message().to_owned(),
            detail: said.detail().map(str::to_owned),
            hint: said.hint().map(str::to_owned),
        };
    }
    Error::Connection { message: with_causes(&error), hint: "The server's log may say more.".into() }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// The URL as it may be shown.
fn without_password(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) => match url[scheme + 3..at].find(':') {
            Some(colon) => format!("{}:***{}", &url[..scheme + 3 + colon], &url[at..]),
            None => url.to_owned(),
        },
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(without_password("postgres://a:secret@host/dev"), "postgres://a:***@host/dev");
        assert_eq!(without_password("postgres://root@127.0.0.1:4567/dev"), "postgres://root@127.0.0.1:4567/dev");
    }
}
