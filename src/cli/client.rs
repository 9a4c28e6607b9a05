//! A connection to a running server, for the commands that ask one.

use std::{io, iter};

use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_postgres::config::Host;
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
    let wanted = Wanted::of(url)?;
    let mut config: tokio_postgres::Config =
        wanted.url.parse().map_err(|error| unreached(&without_password(url), &error))?;
    config.application_name(application_name).ssl_mode(wanted.mode);
    complete(&mut config)?;
    let (client, mut connection) =
        config.connect(wanted.connector()?).await.map_err(|error| match error.as_db_error() {
            Some(_) => failed(error),
            None => unreached(&address(&config), &error),
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

/// Whom and where, as a URL without its password.
fn address(config: &tokio_postgres::Config) -> String {
    let host = match (config.get_hosts().first(), config.get_hostaddrs().first()) {
        (Some(Host::Tcp(name)), _) => name.clone(),
        (Some(Host::Unix(path)), _) => path.display().to_string(),
        (None, Some(address)) => address.to_string(),
        (None, None) => String::new(),
    };
    let port = config.get_ports().first().map_or_else(String::new, |port| format!(":{port}"));
    format!(
        "postgres://{}@{host}{port}/{}",
        config.get_user().unwrap_or_default(),
        config.get_dbname().unwrap_or_default()
    )
}

/// The error of a connection that was never made, with what to do about its cause.
fn unreached(address: &str, error: &tokio_postgres::Error) -> Error {
    let text = with_causes(error);
    let mut causes = iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let hint = if text.contains("password missing") {
        "The user has a password: PGPASSWORD, a line of ~/.pgpass or --url gives it."
    } else if text.contains("does not support TLS") {
        "The server has no certificate: see its --tls-cert and --tls-key, or ask for sslmode=prefer."
    } else if causes.any(is_of_tls) {
        "sslrootcert (or PGSSLROOTCERT) names the authority to trust, and verify-full wants the host that the certificate is for."
    } else {
        "Is `tidegate serve` running there? Another address goes with --url."
    };
    Error::Connection { message: format!("cannot connect to {address}: {text}"), hint: hint.into() }
}

fn is_of_tls(cause: &(dyn std::error::Error + 'static)) -> bool {
    let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    cause.is::<rustls::Error>() || inner.is_some_and(|inner| inner.is::<rustls::Error>())
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
