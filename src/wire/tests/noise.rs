//! Bytes that no client sends: whatever comes, no panic, no hang, and the next connection works.

use std::time::Duration;

use bytes::{BufMut as _, BytesMut};
use proptest::prelude::{Just, Strategy, TestCaseError, any, prop, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::raw::Raw;
use super::{TestServer, one};

/// What a client may have done before the noise.
#[derive(Debug, Clone, Copy)]
enum Before {
    Nothing,
    /// Asked for its first message of SCRAM.
    Asked,
    /// Asked for its proof.
    Challenged,
    Connected,
    InBlock,
    AfterError,
    SkippingToSync,
    AfterCopy,
    WithPortal,
}

/// A message whose tag and length are right, and whose body may be.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        Just("SELECT 1".to_owned()),
        Just("BEGIN".to_owned()),
        Just("SELECT $1::int8 FROM numbers".to_owned()),
        Just("COPY numbers FROM STDIN".to_owned()),
        Just(String::new()),
        any::<String>(),
    ];
    let body = prop_oneof![
        // What a login says: a mechanism and its message, or a proof.
        1 => (prop::sample::select(vec!["SCRAM-SHA-256", "SCRAM-SHA-256-PLUS", "x"]), scram(), any::<Option<i32>>()).prop_map(
            |(mechanism, message, length)| {
                let mut out = [mechanism.as_bytes(), b"\0"].concat();
                out.put_i32(length.unwrap_or(message.len() as i32));
                out.extend(message.bytes());
                out
            }
        ),
        1 => scram().prop_map(String::into_bytes),
        3 => prop::collection::vec(any::<u8>(), 0..40),
        2 => text.clone().prop_map(|text| [text.as_bytes(), b"\0"].concat()),
        2 => (text, any::<i16>()).prop_map(|(text, count)| {
            let mut out = vec![0];
            out.extend(text.as_bytes());
            out.push(0);
            out.put_i16(count);
            out
        }),
        1 => (any::<[i16; 3]>(), any::<i32>()).prop_map(|(counts, length)| {
            // Bind: portal, statement, formats, parameters, formats.
            let mut out = vec![0, 0];
            out.put_i16(counts[0] % 3);
            out.put_i16(counts[1]);
            out.put_i32(length);
            out.put_i16(counts[2]);
            out
        }),
    ];
    let tag = prop_oneof![
        8 => prop::sample::select(b"QPBDECSHdcfpFXpp".to_vec()),
        1 => any::<u8>(),
    ];
    (tag, body, prop_oneof![9 => Just(None), 1 => any::<i32>().prop_map(Some)]).prop_map(|(tag, body, length)| {
        let mut out = vec![tag];
        out.put_i32(length.unwrap_or(body.len() as i32 + 4));
        out.extend(body);
        out
    })
}

/// Attributes in the order of SCRAM's messages, or not.
fn scram() -> impl Strategy<Value = String> {
    let attribute = prop::sample::select(vec![
        "n",
        "y",
        "p=tls-server-end-point",
        "n=",
        "r=abcdefghij",
        "c=biws",
        "p=AAAA",
        "r=",
        "m=",
        "",
    ]);
    prop::collection::vec(prop_oneof![6 => attribute.prop_map(str::to_owned), 1 => any::<String>()], 0..6)
        .prop_map(|attributes| attributes.join(","))
}

fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(message(), 0..8).prop_map(|messages| messages.concat()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ]
}

fn before() -> impl Strategy<Value = Before> {
    prop::sample::select(vec![
        Before::Nothing,
        Before::Asked,
        Before::Challenged,
        Before::Connected,
        Before::InBlock,
        Before::AfterError,
        Before::SkippingToSync,
        Before::AfterCopy,
        Before::WithPortal,
    ])
}

/// What the server answers to the noise.
async fn send(server: &TestServer, before: Before, address: [u8; 2], noise: &[u8]) -> BytesMut {
    let mut raw = match before {
        Before::Nothing => Raw::open(server).await,
        Before::Asked | Before::Challenged => Raw::open_from(server, address).await,
        _ => Raw::connect(server).await,
    };
    let sync = (b'S', bytes::Bytes::new());
    match before {
        Before::Nothing | Before::Connected => {}
        Before::Asked => raw.startup(196_608, &["user", "stranger"]).await,
        Before::Challenged => {
            raw.startup(196_608, &["user", "stranger"]).await;
            assert_eq!(raw.message().await.map(|(tag, _)| tag), Some(b'R'));
            raw.send(&[(b'p', bytes::Bytes::from_static(b"SCRAM-SHA-256\0\0\0\0\x12n,,n=,r=abcdefghij"))]).await;
            assert_eq!(raw.message().await.map(|(tag, _)| tag), Some(b'R'));
        }
        Before::InBlock => raw.send(&[super::raw::query("BEGIN")]).await,
        Before::AfterError => raw.send(&[super::raw::query("BEGIN; SELECT nosuch")]).await,
        Before::SkippingToSync => raw.send(&[super::raw::parse("", "SELECT nosuch")]).await,
        Before::AfterCopy => raw.send(&[super::raw::query("COPY numbers FROM STDIN")]).await,
        Before::WithPortal => {
            let bind = super::raw::bind("p", "s", &[]);
            raw.send(&[super::raw::parse("s", "SELECT id FROM numbers"), bind, sync]).await;
        }
    }
    // The server may have closed already.
    let _ = raw.socket.write_all(noise).await;
    let _ = raw.socket.shutdown().await;
    // Our side is closed, so it has to answer what it can and close as well.
    let mut rest = BytesMut::new();
    let ended = tokio::time::timeout(Duration::from_secs(60), async {
        while raw.socket.read_buf(&mut rest).await.unwrap_or(0) > 0 {}
    });
    ended.await.expect("the server neither goes on nor closes");
    rest
}

#[test]
fn no_bytes_break_the_server() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let server = runtime.block_on(TestServer::start());
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let result = runner.run(&(before(), any::<[u8; 2]>(), noise()), |(before, address, noise)| {
        runtime.block_on(async {
            let answer = send(&server, before, address, &noise).await;
            if answer.windows(9).any(|text| text == b"Incident ") {
                return Err(TestCaseError::fail("a session panicked"));
            }
            Ok(())
        })
    });
    result.unwrap();
    runtime.block_on(async { assert_eq!(one(&server.client().await, "SELECT 1").await, "1") });
}
