//! Logins, TLS, and rights that are taken away.

use super::broker::{Broker, PASSWORD};
use super::topic::Topic;
use super::{blocked, finished, view};
use crate::server::{Server, Session};

/// The options of a login at another listener of the broker.
fn login(topic: &Topic, address: &str, protocol: &str, user: &str, password: &str) -> String {
    let more = format!(
        ", properties.security.protocol = '{protocol}', properties.sasl.mechanism = 'PLAIN',
         properties.sasl.username = '{user}', properties.sasl.password = '{password}'"
    );
    let source = topic.source(&more);
    let (before, rest) = source.split_once("properties.bootstrap.server = '").unwrap();
    let (_, after) = rest.split_once('\'').unwrap();
    format!("{before}properties.bootstrap.server = '{address}'{after}")
}

/// No table shows the password, and no statement that repeats what was created.
async fn hides_the_password(session: &Session, source: &str) {
    for sql in [
        "SELECT * FROM rw_catalog.rw_sources".to_owned(),
        "SELECT * FROM rw_catalog.rw_relations".to_owned(),
        "SELECT * FROM rw_catalog.rw_event_logs".to_owned(),
        "SELECT * FROM tidegate.split_backfill_progress".to_owned(),
        format!("SHOW CREATE SOURCE {source}"),
    ] {
        let shown = format!("{:?}", session.rows(&sql).await);
        assert!(!shown.contains(PASSWORD), "{sql}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_with_a_wrong_and_the_right_password() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "login", 1).await;
    topic.send(0, 0..100);
    let server = Server::start();
    let session = server.connect().await;
    let wrong = format!("wrong-{PASSWORD}");
    let error = session.error(&login(&topic, &broker.sasl_address(), "SASL_PLAINTEXT", "admin", &wrong)).await;
    assert_eq!(error.sqlstate, "58000", "{error:?}");
    assert!(error.detail.contains("refuses the login"), "{error:?}");
    assert!(!format!("{error:?}").contains(PASSWORD), "{error:?}");
    session.run(&login(&topic, &broker.sasl_address(), "SASL_PLAINTEXT", "admin", PASSWORD)).await;
    session.run(&view(&topic, "")).await;
    finished(&session, 1).await;
    session.wait_for("SELECT count(*) FROM mv", "100").await;
    hides_the_password(&session, "login").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_known_and_one_that_is_not() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "tls", 1).await;
    topic.send(0, 0..100);
    let server = Server::start();
    let session = server.connect().await;
    let unknown = login(&topic, &broker.tls_address(), "SASL_SSL", "admin", PASSWORD);
    let error = session.error(&unknown).await;
    assert_eq!(error.sqlstate, "58000", "{error:?}");
    assert!(error.detail.contains("certificate"), "{error:?}");
    let authority = format!(", properties.ssl.ca.location = '{}', properties.sasl", broker.certificate().display());
    session.run(&unknown.replacen(", properties.sasl", &authority, 1)).await;
    session.run(&view(&topic, "")).await;
    finished(&session, 1).await;
    session.wait_for("SELECT count(*) FROM mv", "100").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_taken_away_and_given_back() {
    let Some(broker) = Broker::shared() else { return };
    let topic = Topic::create(broker, "rights", 1).await;
    topic.send(0, 0..100);
    let rights = |change: &str| {
        let address = broker.address();
        let arguments = [
            "--bootstrap-server",
            &address,
            change,
            "--force",
            "--allow-principal",
            "User:reader",
            "--operation",
            "Read",
            "--operation",
            "Describe",
            "--topic",
            "rights",
        ];
        broker.tool("org.apache.kafka.tools.AclCommand", &arguments);
    };
    let server = Server::start();
    let session = server.connect().await;
    let create = login(&topic, &broker.sasl_address(), "SASL_PLAINTEXT", "reader", PASSWORD);
    let error = session.error(&create).await;
    assert!(error.detail.contains("not authorised"), "{error:?}");
    rights("--add");
    session.run(&create).await;
    session.run(&view(&topic, "")).await;
    session.wait_for("SELECT count(*) FROM mv", "100").await;
    rights("--remove");
    blocked(&session, "not authorised").await;
    topic.send(0, 100..200);
    rights("--add");
    session.wait_for("SELECT count(*) FROM mv", "200").await;
    assert_eq!(session.value("SELECT count(DISTINCT n) FROM mv").await, "200");
}
