//! From a fresh socket to a session: encryption, protocol version, user, database and settings. Or a cancel request.

use std::sync::Arc;

use pgwire::error::PgWireError;
use pgwire::messages::response::{GssEncResponse, ReadyForQuery, SslResponse, TransactionStatus};
use pgwire::messages::startup::{Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, Startup};
use pgwire::messages::{
    PgWireBackendMessage as Backend, PgWireFrontendMessage as Frontend, ProtocolVersion,
    SslNegotiationMetaMessage as Negotiation,
};
use tokio_util::sync::CancellationToken;

use super::connection::Link;
use super::registry::Peer;
use super::session::Session;
use super::settings::Settings;
use super::tls::Tls;
use super::{DATABASE, SessionInfo, SettingsView, Shared, limits, login};
use crate::catalog::held::Held;
use crate::error::{Error, Result};
use crate::store::users::User;

/// Makes a session of a fresh connection. None when it is to be closed, as when `crowded_out` fires before the client has
/// proven who it is. The connection is always in its slot, except
/// while TLS is agreed on.
pub(super) async fn run(
    slot: &mut Option<Link>,
    shared: &Arc<Shared>,
    shutdown: &CancellationToken,
    crowded_out: &CancellationToken,
) -> Result<Option<Session>, PgWireError> {
    let came_in = tokio::select! {
        biased;
        () = shutdown.cancelled() => return Ok(None),
        () = crowded_out.cancelled() => {
            if let Some(link) = slot {
                link.fatal(&limits::connections(shared)).await?;
            }
            return Ok(None);
        }
        came_in = tokio::time::timeout(shared.limits.authentication_timeout, come_in(slot, shared)) => match came_in {
            Ok(came_in) => came_in?,
            Err(_) => {
                if let Some(link) = slot {
                    link.fatal(&limits::authentication()).await?;
                }
                return Ok(None);
            }
        },
    };
    let (Some(CameIn { startup, version, user }), Some(link)) = (came_in, slot) else { return Ok(None) };
    let result = open(link, shared, shutdown, &startup, version, &user);
    match result {
        Ok(session) => {
            let reported: Vec<_> = session.settings.read(|settings| settings.reported().collect());
            let key = BackendKeyData::new(session.pid(), session.entry.secret.clone());
            greet(link, reported, key).await?;
            Ok(Some(session))
        }
        Err(error) => {
            link.fatal(&error).await?;
            Ok(None)
        }
    }
}

/// A client that has proven who it is.
struct CameIn {
    startup: Startup,
    version: ProtocolVersion,
    user: User,
}

/// Up to the proof of the user. None if the connection is to be closed.
async fn come_in(slot: &mut Option<Link>, shared: &Shared) -> Result<Option<CameIn>, PgWireError> {
    let Some(startup) = negotiate(slot, shared).await? else { return Ok(None) };
    let Some(link) = slot else { return Ok(None) };
    let version = version(link, &startup).await?;
    let proven = match user_of(&startup, shared, link) {
        Ok(name) => {
            link.codec().expect_messages(version);
            login::prove(link, &shared.door, name).await?
        }
        Err(error) => Err(error),
    };
    match proven {
        Ok(user) => Ok(user.map(|user| CameIn { startup, version, user })),
        Err(error) => {
            link.fatal(&error).await?;
            Ok(None)
        }
    }
}

/// The user that a client names, if it may go on.
fn user_of<'a>(startup: &'a Startup, shared: &Shared, link: &Link) -> Result<&'a str> {
    if shared.door.tls_required && link.end_point().is_none() {
        return Err(Error::Login {
            message: "this server takes connections over TLS only".into(),
            hint: "Connect with sslmode=require, or better sslmode=verify-full.".into(),
        });
    }
    startup.parameters.get("user").map(String::as_str).ok_or_else(|| Error::Session {
        sqlstate: "28000",
        message: "no PostgreSQL user name specified in startup packet".into(),
    })
}

/// Up to the startup packet. None if there will be none.
async fn negotiate(slot: &mut Option<Link>, shared: &Shared) -> Result<Option<Startup>, PgWireError> {
    if let Some(link) = slot
        && link.starts_with_tls().await?
    {
        let Some(tls) = &shared.door.tls else { return Ok(None) };
        secure(slot, tls, true).await?;
    }
    loop {
        let Some(link) = slot else { return Ok(None) };
        let message = match link.next().await {
            None => return Ok(None),
            Some(Ok(message)) => message,
            Some(Err(PgWireError::IoError(error))) if error.kind() != std::io::ErrorKind::InvalidData => {
                return Err(error.into());
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "a startup packet can't be read");
                link.fatal(&Error::Session {
                    sqlstate: "08P01",
                    message: "invalid startup packet, or a protocol other than 3.0 to 3.2".into(),
                })
                .await?;
                return Ok(None);
            }
        };
        match message {
            Frontend::SslNegotiation(Negotiation::PostgresSsl(_)) => match &shared.door.tls {
                Some(tls) => {
                    link.send(Backend::SslResponse(SslResponse::Accept)).await?;
                    secure(slot, tls, false).await?;
                }
                None => {
                    link.send(Backend::SslResponse(SslResponse::Refuse)).await?;
                    link.codec().expect_negotiation();
                }
            },
            Frontend::SslNegotiation(Negotiation::PostgresGss(_)) => {
                link.send(Backend::GssEncResponse(GssEncResponse::Refuse)).await?;
                link.codec().expect_negotiation();
            }
            Frontend::SslNegotiation(Negotiation::None) => link.codec().expect_startup(),
            Frontend::CancelRequest(request) => {
                shared.sessions.cancel_with(request.pid, &request.secret_key);
                link.close().await?;
                return Ok(None);
            }
            Frontend::Startup(startup) => return Ok(Some(startup)),
            _ => return Ok(None),
        }
    }
}

/// Puts the same connection, over TLS from here on, in its slot.
async fn secure(slot: &mut Option<Link>, tls: &Tls, direct: bool) -> std::io::Result<()> {
    if let Some(link) = slot.take() {
        *slot = Some(link.secure(tls, direct).await?);
    }
    Ok(())
}

/// The protocol version to speak: the newest that both sides know. The codec lets only version 3 come here.
async fn version(link: &mut Link, startup: &Startup) -> Result<ProtocolVersion, PgWireError> {
    let (major, minor) = (startup.protocol_number_major, startup.protocol_number_minor);
    let version = if minor >= 2 { ProtocolVersion::PROTOCOL3_2 } else { ProtocolVersion::PROTOCOL3_0 };
    let unknown: Vec<String> = startup.parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
    if version.version_number() != (major, minor) || !unknown.is_empty() {
        let message = NegotiateProtocolVersion::new(version.into(), unknown);
        link.feed(Backend::NegotiateProtocolVersion(message)).await?;
    }
    Ok(version)
}

fn open(
    link: &mut Link,
    shared: &Arc<Shared>,
    shutdown: &CancellationToken,
    startup: &Startup,
    version: ProtocolVersion,
    user: &User,
) -> Result<Session> {
    let refused = |sqlstate, message: String| Err(Error::Session { sqlstate, message });
    let (name, superuser) = (user.name.as_str(), user.superuser);
    if startup
        .parameters
        .get("replication")
        .is_some_and(|value| !matches!(value.as_str(), "false" | "off" | "no" | "0"))
    {
        return refused("0A000", "replication connections are not supported".into());
    }
    let database = startup.parameters.get("database").filter(|name| !name.is_empty()).map_or(name, String::as_str);
    if database != DATABASE {
        return refused("3D000", format!("database \"{database}\" does not exist"));
    }
    let settings = SettingsView::new(settings(shared, startup, name, superuser)?);
    let peer = Peer { address: link.peer()?, encryption: link.encryption() };
    let entry = shared.sessions.enter(version, name, peer, settings.clone(), shutdown, superuser, &shared.limits)?;
    let limit = usize::try_from(user.connection_limit).ok().filter(|_| !superuser);
    if limit.is_some_and(|limit| shared.sessions.count(name) > limit) {
        return refused("53300", format!("too many connections for role \"{name}\""));
    }
    link.codec().allow(&shared.limits, &shared.message_room);
    let info = SessionInfo {
        user: name.to_owned(),
        pid: entry.pid,
        settings: settings.clone(),
        held: Held::default(),
        sessions: Arc::clone(&shared.sessions),
    };
    let held = info.held.clone();
    let plans = shared.planner.session(info);
    Ok(Session::new(shared, entry, name, settings, plans, held))
}

/// The session's settings: whatever the packet holds that has no meaning of its own.
fn settings(shared: &Shared, startup: &Startup, user: &str, superuser: bool) -> Result<Settings> {
    let mut settings = Settings::new(&shared.settings)?;
    settings.set_by_server("session_authorization", user);
    settings.set_by_server("is_superuser", if superuser { "on" } else { "off" });
    if let Some(options) = startup.parameters.get("options") {
        for (name, value) in parse_options(options)? {
            settings.set_at_connect(&name, &value)?;
        }
    }
    for (name, value) in &startup.parameters {
        let own = matches!(name.as_str(), "user" | "database" | "options" | "replication");
        if !own && !name.starts_with("_pq_.") {
            settings.set_at_connect(name, value)?;
        }
    }
    Ok(settings)
}

/// The settings in `options`, as on PostgreSQL's command line: `-c name=value` and `--name=value`. A backslash takes
/// the meaning from a space.
fn parse_options(options: &str) -> Result<Vec<(String, String)>> {
    let mut words = vec![String::new()];
    let mut chars = options.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => words.last_mut().into_iter().for_each(|word| word.extend(chars.next())),
            c if c.is_whitespace() => words.push(String::new()),
            c => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.as_str() {
            "-c" => words.next(),
            word => word.strip_prefix("-c").or_else(|| word.strip_prefix("--")).map(str::to_owned),
        };
        let Some((name, value)) = setting.as_deref().and_then(|setting| setting.split_once('=')) else {
            return Err(Error::Syntax {
                message: format!("invalid command-line argument for server process: {word}"),
                position: None,
                hint: Some("Give settings as -c name=value.".into()),
            });
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

async fn greet(link: &mut Link, reported: Vec<(&str, String)>, key: BackendKeyData) -> Result<(), PgWireError> {
    link.feed(Backend::Authentication(Authentication::Ok)).await?;
    for (name, value) in reported {
        link.feed(Backend::ParameterStatus(ParameterStatus::new(name.to_owned(), value))).await?;
    }
    link.feed(Backend::BackendKeyData(key)).await?;
    link.send(Backend::ReadyForQuery(ReadyForQuery::new(TransactionStatus::Idle))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_as_on_the_command_line() {
        let parsed =
            parse_options(r"-c statement_timeout=5s --rescale-policy=all_finished -cmy.x=a\ b  -c a.b=").unwrap();
        let expected = [("statement_timeout", "5s"), ("rescale_policy", "all_finished"), ("my.x", "a b"), ("a.b", "")];
        assert_eq!(parsed, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(parse_options("-d 5").is_err());
        assert!(parse_options("-c").is_err());
    }
}
