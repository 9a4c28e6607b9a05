use super::*;

fn parse(given: &[(&str, &str)]) -> Result<Settings> {
    Settings::parse(&given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

/// With what is required.
fn with(given: &[(&str, &str)]) -> Result<Settings> {
    parse(&[&[("topic", "t"), ("properties.bootstrap.server", "b:9092")], given].concat())
}

fn told(result: Result<Settings>) -> String {
    let error = result.expect_err("refused");
    let rest = [error.detail(), error.hint()].into_iter().flatten();
    [error.sqlstate().to_owned(), error.to_string()].into_iter().chain(rest).collect::<Vec<_>>().join(" | ")
}

#[test]
fn defaults() {
    assert_eq!(
        with(&[]).unwrap(),
        Settings {
            topic: "t".into(),
            bootstrap: "b:9092".into(),
            startup: Startup::Earliest,
            group_id_prefix: "tidegate".into(),
            client: Vec::new(),
        }
    );
}

#[test]
fn everything_given() {
    let settings = parse(&[
        ("topic", "a.B_c-9"),
        ("properties.bootstrap.servers", "SSL://one:9093, two , [::1]:9092"),
        ("scan.startup.mode", "Timestamp"),
        ("scan.startup.timestamp.millis", "1357034400000"),
        ("group.id.prefix", "billing"),
        ("source_rate_limit", "10"),
        ("properties.client.id", "tide"),
        ("properties.isolation.level", "read_uncommitted"),
        ("properties.queued.max.messages.kbytes", "1024"),
        ("properties.sasl.mechanism", "SCRAM-SHA-512"),
        ("properties.sasl.password", "hunter2"),
        ("properties.sasl.username", "u"),
        ("properties.security.protocol", "sasl_ssl"),
        ("properties.ssl.ca.location", "/etc/ssl/ca.pem"),
    ])
    .unwrap();
    assert_eq!((settings.topic.as_str(), settings.group_id_prefix.as_str()), ("a.B_c-9", "billing"));
    assert_eq!(settings.bootstrap, "SSL://one:9093, two , [::1]:9092");
    assert_eq!(settings.startup, Startup::Timestamp(1_357_034_400_000));
    let names: Vec<&str> = settings.client.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "client.id",
            "isolation.level",
            "queued.max.messages.kbytes",
            "sasl.mechanism",
            "sasl.password",
            "sasl.username",
            "security.protocol",
            "ssl.ca.location",
        ]
    );
    assert!(settings.client.contains(&("sasl.password".into(), "hunter2".into())));
    let printed = format!("{settings:?}");
    assert!(printed.contains("[hidden]") && !printed.contains("hunter2"), "{printed}");
}

#[test]
fn where_to_start() {
    assert_eq!(with(&[("scan.startup.mode", "latest")]).unwrap().startup, Startup::Latest);
    assert_eq!(with(&[("scan.startup.mode", "earliest")]).unwrap().startup, Startup::Earliest);
    assert_eq!(with(&[("scan.startup.timestamp.millis", "0")]).unwrap().startup, Startup::Timestamp(0));
}

#[test]
fn a_refusal_names_option_value_and_what_is_allowed() {
    let bootstrap = [("properties.bootstrap.server", "b")];
    assert_eq!(told(parse(&bootstrap)), "42601 | option \"topic\" is required for connector 'kafka'");
    assert_eq!(
        told(parse(&[("topic", "t")])),
        "42601 | option \"properties.bootstrap.server\" is required for connector 'kafka'"
    );
    const TOPIC: &str = "Allowed: the name of one topic: 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'.";
    for topic in ["", "..", "a b", "^a.*", "ä"] {
        let result = parse(&[("topic", topic), ("properties.bootstrap.server", "b")]);
        assert_eq!(told(result), format!("22023 | invalid value for option \"topic\": \"{topic}\" | {TOPIC}"));
    }
    for brokers in ["", "a,,b", "a:", "a:0", "a:65536", "a:b", ":9092", "user:pw@a:1", "a b:1"] {
        assert_eq!(
            told(parse(&[("topic", "t"), ("properties.bootstrap.server", brokers)])),
            format!(
                "22023 | invalid value for option \"properties.bootstrap.server\": \"{brokers}\" | Allowed: brokers as \
                 host:port,host:port."
            )
        );
    }
}

#[test]
fn refusals() {
    for (name, value, want) in [
        (
            "scan.startup.mode",
            "newest",
            "22023 | invalid value for option \"scan.startup.mode\": \"newest\" | Allowed: earliest, latest or timestamp.",
        ),
        (
            "scan.startup.mode",
            "timestamp",
            "42601 | option \"scan.startup.timestamp.millis\" is required for scan.startup.mode = 'timestamp'",
        ),
        (
            "scan.startup.timestamp.millis",
            "-1",
            "22023 | invalid value for option \"scan.startup.timestamp.millis\": \"-1\" | Allowed: a whole number from 0 \
             to 9223372036854775807.",
        ),
        (
            "group.id.prefix",
            " ",
            "22023 | invalid value for option \"group.id.prefix\": \" \" | Allowed: 1 to 200 characters, without control \
             characters.",
        ),
        (
            "properties.bootstrap.servers",
            "c",
            "22023 | invalid value for option \"properties.bootstrap.servers\": \"c\" | Allowed: only one of it and \
             properties.bootstrap.server.",
        ),
        (
            "properties.fetch.min.bytes",
            "0",
            "22023 | invalid value for option \"properties.fetch.min.bytes\": \"0\" | Allowed: a number from 1 to \
             100000000.",
        ),
        (
            "properties.fetch.min.bytes",
            "few",
            "22023 | invalid value for option \"properties.fetch.min.bytes\": \"few\" | Allowed: a number.",
        ),
        (
            "properties.check.crcs",
            "perhaps",
            "22023 | invalid value for option \"properties.check.crcs\": \"perhaps\" | Allowed: true or false.",
        ),
        (
            "properties.isolation.level",
            "committed",
            "22023 | invalid value for option \"properties.isolation.level\": \"committed\" | Allowed: read_committed or \
             read_uncommitted.",
        ),
        (
            "properties.security.protocol",
            "tls",
            "22023 | invalid value for option \"properties.security.protocol\": \"tls\" | Allowed: plaintext, ssl, \
             sasl_plaintext or sasl_ssl.",
        ),
        (
            "properties.security.protocol",
            "SASL_SSL",
            "42601 | option \"properties.sasl.mechanism\" is required for properties.security.protocol = 'SASL_SSL'",
        ),
        (
            "properties.sasl.mechanism",
            "MD5",
            "22023 | invalid value for option \"properties.sasl.mechanism\": \"MD5\" | Allowed: PLAIN, SCRAM-SHA-256, \
             SCRAM-SHA-512.",
        ),
        (
            "properties.sasl.mechanism",
            "GSSAPI",
            "0A000 | SASL mechanism GSSAPI is not supported | Use properties.sasl.mechanism = 'PLAIN', 'SCRAM-SHA-256' or \
             'SCRAM-SHA-512', or a client certificate (properties.ssl.certificate.location).",
        ),
        (
            "properties.enable.auto.commit",
            "true",
            "0A000 | option \"properties.enable.auto.commit\" is not supported | Leave it away: offsets are kept in the \
             state file, together with the rows; none is committed to the broker.",
        ),
        (
            "properties.auto.offset.reset",
            "latest",
            "0A000 | option \"properties.auto.offset.reset\" is not supported | Use scan.startup.mode. An offset that the \
             broker doesn't have any more is never passed over in silence.",
        ),
        ("properties.group.id", "g", "0A000 | option \"properties.group.id\" is not supported | Use group.id.prefix."),
        (
            "properties.plugin.library.paths",
            "evil.so",
            "0A000 | option \"properties.plugin.library.paths\" is not supported | Leave it away: it would run code of \
             others in the server.",
        ),
    ] {
        assert_eq!(told(with(&[(name, value)])), want, "{name} = {value}");
    }
}

#[test]
fn an_unknown_option_names_the_nearest_one() {
    for (name, near) in [
        ("scan.startup.modus", Some("scan.startup.mode")),
        ("topics", Some("topic")),
        ("group.id", Some("group.id.prefix")),
        ("bootstrap.servers", Some("properties.bootstrap.server")),
        ("properties.bootstrap_server", Some("properties.bootstrap.server")),
        ("sasl.username", Some("properties.sasl.username")),
        ("properties.sasl.user", Some("properties.sasl.username")),
        ("properties.fetch.min.byte", Some("properties.fetch.min.bytes")),
        ("properties.linger.ms", None),
        ("properties.xyz", None),
        ("properties.", None),
    ] {
        let told = told(with(&[(name, "x")]));
        let head = format!("42601 | unknown option \"{name}\" for connector 'kafka' | Known: topic, ");
        assert!(told.starts_with(&head), "{told}");
        match near {
            Some(near) => assert!(told.ends_with(&format!("Perhaps you meant \"{near}\".")), "{told}"),
            None => assert!(!told.contains("Perhaps"), "{told}"),
        }
    }
}

#[test]
fn no_refusal_tells_a_secret() {
    for name in [
        "properties.ssl.key.pem",
        "properties.ssl.keystore.password",
        "properties.sasl.oauthbearer.client.secret",
        "properties.sasl.oauthbearer.config",
        "properties.sasl.jaas.config",
        "properties.ssl_key",
        "properties.sasl.passwort",
    ] {
        for value in ["hunter2", "hunter2\0", ""] {
            if let Err(error) = with(&[(name, value)]) {
                assert!(!told(Err(error)).contains("hunter2"), "{name}");
            }
        }
    }
    assert_eq!(
        told(with(&[("properties.sasl.password", "hunter2\0")])),
        "22023 | invalid value for option \"properties.sasl.password\": \"[hidden]\" | Allowed: a value that librdkafka \
         takes."
    );
}
