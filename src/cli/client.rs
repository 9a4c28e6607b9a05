//! A connection to a running server, for the commands that ask one.

use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, Client};

use super::pgpass;
use super::secure::Wanted;
use crate::error::{Error, Result};

/// The server that a command asks when it isn't told another: what the variables of PostgreSQL's clients say, and else
/// root@127.0.0.1:4567/dev.
pub const DEFAULT_URL: &str = "postgres://";

/// What a server tells beside its results.
pub type Notices = mpsc::UnboundedReceiver<DbError>;

/// Connects, as the URL says, with an `application_name` that the history shows. What it doesn't say comes from PGHOST,
/// PGPORT, PGUSER, PGDATABASE, PGPASSWORD, PGSSLMODE and PGSSLROOTCERT, the password also from PGPASSFILE or ~/.pgpass.
///
/// # Errors
/// [`Error::Connection`] when the URL is wrong or nobody answers there.
pub async fn connect(url: &str, application_name: &str) -> Result<(Client, Notices)> {
    let shown = if url == DEFAULT_URL { "the server" } else { url };
    let failed = |error: tokio_postgres::Error| Error::Connection {
        message: format!("cannot connect to {}: {}", without_password(shown), with_causes(&error)),
        hint: "Is `tidegate serve` running there? Another address goes with --url.".into(),
    };
    let wanted = Wanted::of(url)?;
    let mut config: tokio_postgres::Config = wanted.url.parse().map_err(failed)?;
    config.application_name(application_name).ssl_mode(wanted.mode);
    complete(&mut config)?;
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

/// Fills in what a URL has left open, as libpq does.
fn complete(config: &mut tokio_postgres::Config) -> Result<()> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        config.host(variable("PGHOST").unwrap_or_else(|| "127.0.0.1".into()));
    }
    if config.get_ports().is_empty() {
        let port = variable("PGPORT").unwrap_or_else(|| "4567".into());
        config.port(port.parse().map_err(|_| Error::InvalidValue {
            what: "PGPORT".into(),
            value: port,
            allowed: "a number from 1 to 65535".into(),
        })?);
    }
    if config.get_user().is_none() {
        config.user(variable("PGUSER").unwrap_or_else(|| "root".into()));
    }
    if config.get_dbname().is_none() {
        config.dbname(variable("PGDATABASE").unwrap_or_else(|| "dev".into()));
    }
    if config.get_password().is_none()
        && let Some(password) = variable("PGPASSWORD").or_else(|| pgpass::password(config))
    {
        config.password(password);
    }
    Ok(())
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
