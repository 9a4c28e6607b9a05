//! The order of messages, byte by byte.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::TestServer;

/// A client that says exactly what it is told to.
pub(super) struct Raw {
    pub(super) socket: TcpStream,
    buffer: BytesMut,
}

impl Raw {
    pub(super) async fn open(server: &TestServer) -> Self {
        Self { socket: TcpStream::connect(server.address).await.unwrap(), buffer: BytesMut::new() }
    }

    /// From an address that nobody has failed from: failures slow their address down.
    pub(super) async fn open_from(server: &TestServer, address: [u8; 2]) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 1, address[0], address[1]], 0).into()).unwrap();
        Self { socket: socket.connect(server.address).await.unwrap(), buffer: BytesMut::new() }
    }

    pub(super) async fn connect(server: &TestServer) -> Self {
        let mut raw = Self::open(server).await;
        raw.startup(196_608, &["user", "root", "database", "dev"]).await;
        raw.until_ready().await;
        raw
    }

    pub(super) async fn startup(&mut self, version: i32, parameters: &[&str]) {
        let mut body = BytesMut::new();
        body.put_i32(version);
        parameters.iter().for_each(|text| put_text(&mut body, text));
        body.put_u8(0);
        self.socket.write_i32(body.len() as i32 + 4).await.unwrap();
        self.socket.write_all(&body).await.unwrap();
    }

    pub(super) async fn send(&mut self, messages: &[(u8, Bytes)]) {
        let mut out = BytesMut::new();
        for (tag, body) in messages {
            out.put_u8(*tag);
            out.put_i32(body.len() as i32 + 4);
            out.put_slice(body);
        }
        self.socket.write_all(&out).await.unwrap();
    }

    pub(super) async fn message(&mut self) -> Option<(u8, Bytes)> {
        loop {
            if self.buffer.len() >= 5 {
                let length = (&self.buffer[1..5]).get_i32() as usize;
                if self.buffer.len() > length {
                    let mut message = self.buffer.split_to(length + 1).freeze();
                    return Some((message[0], message.split_off(5)));
                }
            }
            if self.socket.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The tags of all messages up to ReadyForQuery, which is told with its status; with the code of errors, the tag of
    /// completed commands and the number of columns of descriptions.
    pub(super) async fn until_ready(&mut self) -> String {
        let mut tags = Vec::new();
        loop {
            let (tag, body) = self.message().await.expect("the connection ended");
            tags.push(match tag {
                b'Z' => format!("Z{}", body[0] as char),
                b'C' => format!("C({})", String::from_utf8_lossy(&body[..body.len() - 1])),
                b'T' => format!("T{}", (&body[..2]).get_i16()),
                b'E' => format!("E({})", code(&body)),
                tag => (tag as char).to_string(),
            });
            if tag == b'Z' {
                return tags.join(" ");
            }
        }
    }
}

pub(super) fn put_text(out: &mut BytesMut, text: &str) {
    out.put_slice(text.as_bytes());
    out.put_u8(0);
}

pub(super) fn code(body: &Bytes) -> String {
    let fields: Vec<&[u8]> = body.split(|byte| *byte == 0).collect();
    let code = fields.iter().find(|field| field.first() == Some(&b'C')).unwrap();
    String::from_utf8_lossy(&code[1..]).into_owned()
}

pub(super) fn body(fill: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::new();
    fill(&mut out);
    out.freeze()
}

pub(super) fn query(sql: &str) -> (u8, Bytes) {
    (b'Q', body(|out| put_text(out, sql)))
}

pub(super) fn parse(name: &str, sql: &str) -> (u8, Bytes) {
    let fill = |out: &mut BytesMut| {
        put_text(out, name);
        put_text(out, sql);
        out.put_i16(0);
    };
    (b'P', body(fill))
}

pub(super) fn bind(portal: &str, statement: &str, params: &[&str]) -> (u8, Bytes) {
    let fill = |out: &mut BytesMut| {
        put_text(out, portal);
        put_text(out, statement);
        out.put_i16(0);
        out.put_i16(params.len() as i16);
        for param in params {
            out.put_i32(param.len() as i32);
            out.put_slice(param.as_bytes());
        }
        out.put_i16(0);
    };
    (b'B', body(fill))
}

fn named(tag: u8, kind: u8, name: &str) -> (u8, Bytes) {
    let fill = |out: &mut BytesMut| {
        out.put_u8(kind);
        put_text(out, name);
    };
    (tag, body(fill))
}

fn execute(portal: &str, rows: i32) -> (u8, Bytes) {
    let fill = |out: &mut BytesMut| {
        put_text(out, portal);
        out.put_i32(rows);
    };
    (b'E', body(fill))
}

fn bare(tag: u8) -> (u8, Bytes) {
    (tag, Bytes::new())
}

#[tokio::test(flavor = "multi_thread")]
async fn simple_queries() {
    let server = TestServer::start().await;
    let mut raw = Raw::connect(&server).await;
    for (sql, answer) in [
        ("SELECT 1", "T1 D C(SELECT 1) ZI"),
        ("SELECT id, name FROM numbers WHERE false", "T2 C(SELECT 0) ZI"),
        ("", "I ZI"),
        (" ; -- nothing", "I ZI"),
        ("BEGIN", "C(BEGIN) ZT"),
        ("SET application_name = 'x'", "C(SET) S ZT"),
        ("SELECT nope", "E(42703) ZE"),
        ("SELECT 1", "E(25P02) ZE"),
        ("ROLLBACK", "C(ROLLBACK) S ZI"),
        ("SELECT 1; SELECT nope; SELECT 2", "T1 D C(SELECT 1) E(42703) ZI"),
        ("BEGIN; SELECT 1; COMMIT", "C(BEGIN) T1 D C(SELECT 1) C(COMMIT) ZI"),
        ("SHOW timezone; RESET timezone; DISCARD ALL", "T1 D C(SHOW) C(RESET) C(DISCARD ALL) ZI"),
        (
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1; FETCH ALL FROM c; MOVE c; CLOSE c",
            "C(DECLARE CURSOR) T1 D C(FETCH 1) C(MOVE 0) C(CLOSE CURSOR) ZI",
        ),
        ("FLUSH", "N C(FLUSH) ZI"),
        ("EXPLAIN SELECT 1", "T2 D D C(EXPLAIN) ZI"),
    ] {
        raw.send(&[query(sql)]).await;
        assert_eq!(raw.until_ready().await, answer, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn extended_queries() {
    let server = TestServer::start().await;
    let mut raw = Raw::connect(&server).await;
    let select = "SELECT id FROM numbers WHERE id < $1";
    for (messages, answer) in [
        // Describe before Bind, and after.
        (vec![parse("s", select), named(b'D', b'S', "s"), bare(b'S')], "1 t T1 ZI"),
        (vec![bind("", "s", &["3"]), named(b'D', b'P', ""), execute("", 0), bare(b'S')], "2 T1 D D C(SELECT 2) ZI"),
        // No Describe, no RowDescription.
        (vec![bind("", "s", &["3"]), execute("", 0), bare(b'S')], "2 D D C(SELECT 2) ZI"),
        // A limit suspends the portal, also at the very end.
        (
            vec![bind("p", "s", &["4"]), execute("p", 2), execute("p", 1), execute("p", 2), bare(b'S')],
            "2 D D s D s C(SELECT 0) ZI",
        ),
        // An error skips all up to Sync.
        (
            vec![bind("", "s", &["x"]), execute("", 0), bind("", "s", &["3"]), query("SELECT 1"), bare(b'S')],
            "2 E(22P02) ZI",
        ),
        (vec![bind("", "nosuch", &[]), execute("", 0), bare(b'S')], "E(26000) ZI"),
        (vec![bind("", "s", &[]), bare(b'S')], "E(08P01) ZI"),
        (vec![execute("nosuch", 0), bare(b'S')], "E(34000) ZI"),
        (vec![parse("s", "SELECT 1"), bare(b'S')], "E(42P05) ZI"),
        (vec![parse("", "SELECT 1; SELECT 2"), bare(b'S')], "E(42601) ZI"),
        (vec![parse("", "SELEC 1"), bare(b'S')], "E(42601) ZI"),
        // The empty query.
        (
            vec![
                parse("", ""),
                named(b'D', b'S', ""),
                bind("", "", &[]),
                named(b'D', b'P', ""),
                execute("", 0),
                bare(b'S'),
            ],
            "1 t n 2 n I ZI",
        ),
        // Closing what isn't there is no error.
        (vec![named(b'C', b'S', "s"), named(b'C', b'P', "nosuch"), bare(b'S')], "3 3 ZI"),
        (vec![bind("", "s", &["3"]), bare(b'S')], "E(26000) ZI"),
        // Statements without rows.
        (
            vec![parse("", "BEGIN"), named(b'D', b'S', ""), bind("", "", &[]), execute("", 0), bare(b'S')],
            "1 t n 2 C(BEGIN) ZT",
        ),
        (vec![parse("", "SELECT nope"), bare(b'S')], "E(42703) ZE"),
        (vec![parse("", "SELECT 1"), bare(b'S')], "E(25P02) ZE"),
        (vec![parse("", "ROLLBACK"), bind("", "", &[]), execute("", 0), bare(b'S')], "1 2 C(ROLLBACK) ZI"),
        (
            vec![parse("", "SET timezone = 'Asia/Tokyo'"), bind("", "", &[]), execute("", 0), bare(b'S')],
            "1 2 C(SET) S ZI",
        ),
        // Our commands.
        (
            vec![parse("", "SHOW JOBS"), named(b'D', b'S', ""), bind("", "", &[]), execute("", 0), bare(b'S')],
            "1 t T2 2 D C(SHOW) ZI",
        ),
        (
            vec![parse("", "FLUSH"), bind("", "", &[]), execute("", 0), execute("", 0), bare(b'S')],
            "1 2 N C(FLUSH) E(55000) ZI",
        ),
        // A SET is undone when a later statement of the same pipeline fails.
        (
            vec![
                parse("", "SET application_name = 'y'"),
                bind("", "", &[]),
                execute("", 0),
                parse("", "SELECT nope"),
                bare(b'S'),
            ],
            "1 2 C(SET) E(42703) ZI",
        ),
    ] {
        raw.send(&messages).await;
        assert_eq!(raw.until_ready().await, answer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flush_sends_what_there_is() {
    let server = TestServer::start().await;
    let mut raw = Raw::connect(&server).await;
    raw.send(&[parse("", "SELECT 1"), named(b'D', b'S', ""), bare(b'H')]).await;
    let mut tags = Vec::new();
    for _ in 0..3 {
        tags.push(raw.message().await.unwrap().0);
    }
    assert_eq!(tags, *b"1tT");
    raw.send(&[bare(b'S')]).await;
    assert_eq!(raw.until_ready().await, "ZI");
}

#[tokio::test(flavor = "multi_thread")]
async fn result_formats() {
    let server = TestServer::start().await;
    let mut raw = Raw::connect(&server).await;
    let bind = |formats: &[i16]| {
        let fill = |out: &mut BytesMut| {
            out.put_slice(b"\0\0");
            out.put_i16(0);
            out.put_i16(0);
            out.put_i16(formats.len() as i16);
            formats.iter().for_each(|format| out.put_i16(*format));
        };
        (b'B', body(fill))
    };
    for (formats, row) in [
        (vec![], &b"\0\x02\0\0\0\x017\0\0\0\x01x"[..]),
        (vec![1], b"\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x07\0\0\0\x01x"),
        (vec![1, 0], b"\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x07\0\0\0\x01x"),
    ] {
        raw.send(&[parse("", "SELECT 7, 'x'"), bind(&formats), execute("", 0), bare(b'H')]).await;
        let (mut tag, mut data) = raw.message().await.unwrap();
        while tag != b'D' {
            (tag, data) = raw.message().await.unwrap();
        }
        assert_eq!(data.as_ref(), row);
        raw.send(&[bare(b'S')]).await;
        raw.until_ready().await;
    }
    raw.send(&[parse("", "SELECT 7, 'x'"), bind(&[0, 0, 0]), bare(b'S')]).await;
    assert_eq!(raw.until_ready().await, "1 E(08P01) ZI");
}

#[tokio::test(flavor = "multi_thread")]
async fn startups() {
    let server = TestServer::start().await;
    // Encryption of both kinds is refused, and the startup goes on.
    let mut raw = Raw::open(&server).await;
    for request in [80_877_104, 80_877_103] {
        raw.socket.write_i32(8).await.unwrap();
        raw.socket.write_i32(request).await.unwrap();
        assert_eq!(raw.socket.read_u8().await.unwrap(), b'N');
    }
    raw.startup(196_608, &["user", "root", "database", "dev"]).await;
    assert!(raw.until_ready().await.starts_with("R S S S"));
    // A newer minor version is negotiated down, protocol 2 is not spoken.
    let mut raw = Raw::open(&server).await;
    raw.startup(196_608 + 9, &["user", "root", "database", "dev", "_pq_.x", "1"]).await;
    let (tag, body) = raw.message().await.unwrap();
    assert_eq!((tag, &body[..4], &body[8..]), (b'v', &[0, 3, 0, 2][..], &b"_pq_.x\0"[..]));
    assert!(raw.until_ready().await.ends_with("K ZI"));
    let mut raw = Raw::open(&server).await;
    raw.startup(131_072, &["user", "root"]).await;
    assert_eq!(code(&raw.message().await.unwrap().1), "08P01");
    assert!(raw.message().await.is_none());
    // Nonsense.
    let mut raw = Raw::connect(&server).await;
    raw.send(&[bare(b'~')]).await;
    assert_eq!(code(&raw.message().await.unwrap().1), "08P01");
    assert!(raw.message().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_cursors_are_portals() {
    let server = TestServer::start().await;
    let mut raw = Raw::connect(&server).await;
    raw.send(&[query("BEGIN; DECLARE c CURSOR FOR SELECT id FROM numbers WHERE id < 5")]).await;
    assert_eq!(raw.until_ready().await, "C(BEGIN) C(DECLARE CURSOR) ZT");
    for (messages, answer) in [
        (vec![named(b'D', b'P', "c"), execute("c", 2), bare(b'S')], "T1 D D s ZT"),
        (vec![query("FETCH 1 FROM c")], "T1 D C(FETCH 1) ZT"),
        (vec![parse("", "SELECT 1"), execute("c", 0), bare(b'S')], "1 D C(SELECT 1) ZT"),
        (vec![execute("c", 3), bare(b'S')], "C(SELECT 0) ZT"),
        (vec![named(b'C', b'P', "c"), bare(b'S')], "3 ZT"),
        (vec![query("SAVEPOINT a"), query("DECLARE d CURSOR FOR SELECT 1")], "C(SAVEPOINT) ZT"),
    ] {
        raw.send(&messages).await;
        assert_eq!(raw.until_ready().await, answer);
    }
    assert_eq!(raw.until_ready().await, "C(DECLARE CURSOR) ZT");
    // A portal can't take a cursor's name, nor the other way about.
    raw.send(&[query("SAVEPOINT b"), parse("", "SELECT 1"), bind("d", "", &[]), bare(b'S')]).await;
    assert_eq!(raw.until_ready().await, "C(SAVEPOINT) ZT");
    assert_eq!(raw.until_ready().await, "1 E(42P03) ZE");
    // It was declared behind the savepoint.
    raw.send(&[query("ROLLBACK TO a"), named(b'D', b'P', "d"), bare(b'S')]).await;
    assert_eq!(raw.until_ready().await, "C(ROLLBACK) ZT");
    assert_eq!(raw.until_ready().await, "E(34000) ZE");
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_cursors_and_unknown_formats() {
    let server = TestServer::start().await;
    let mut raw = Raw::connect(&server).await;
    raw.send(&[query("BEGIN; DECLARE c BINARY CURSOR FOR SELECT id FROM numbers WHERE id = 1; FETCH c")]).await;
    let mut row = Bytes::new();
    loop {
        match raw.message().await.unwrap() {
            (b'D', body) => row = body,
            (b'Z', _) => break,
            _ => {}
        }
    }
    assert_eq!(row.as_ref(), b"\0\x01\0\0\0\x08\0\0\0\0\0\0\0\x01");
    let bad = body(|out| {
        out.put_slice(b"\0\0\0\0\0\0\0\x01\0\x02");
    });
    raw.send(&[query("ROLLBACK"), parse("", "SELECT 1"), (b'B', bad), bare(b'S')]).await;
    assert_eq!(raw.until_ready().await, "C(ROLLBACK) ZI");
    assert_eq!(raw.until_ready().await, "1 E(22023) ZI");
}

#[tokio::test(flavor = "multi_thread")]
async fn copies() {
    let server = TestServer::start().await;
    let mut raw = Raw::connect(&server).await;
    let rows = "SELECT id, name FROM numbers WHERE id IN (1, 2)";
    for (messages, answer) in [
        (vec![query(&format!("COPY ({rows}) TO STDOUT"))], "H d d c C(COPY 2) ZI"),
        (vec![query(&format!("COPY ({rows}) TO STDOUT CSV HEADER"))], "H d d d c C(COPY 2) ZI"),
        (vec![query(&format!("COPY ({rows}) TO STDOUT (FORMAT binary)"))], "H d d d c C(COPY 2) ZI"),
        (vec![query("COPY (SELECT id FROM numbers WHERE false) TO STDOUT")], "H c C(COPY 0) ZI"),
        // A text goes on after it, and so does a session after a refusal.
        (vec![query("COPY (SELECT 1) TO STDOUT; SELECT 1")], "H d c C(COPY 1) T1 D C(SELECT 1) ZI"),
        (vec![query("COPY numbers FROM STDIN")], "E(0A000) ZI"),
        // A function's call by its oid.
        (vec![(b'F', Bytes::from_static(&[0; 10]))], "E(0A000) ZI"),
        (vec![(b'd', Bytes::from_static(b"1\n")), bare(b'c'), query("SELECT 1")], "T1 D C(SELECT 1) ZI"),
        // The extended protocol knows no row limit here, and no columns.
        (
            vec![
                parse("", "COPY (SELECT 1) TO STDOUT"),
                named(b'D', b'S', ""),
                bind("", "", &[]),
                named(b'D', b'P', ""),
                execute("", 1),
                bare(b'S'),
            ],
            "1 t n 2 n H d c C(COPY 1) ZI",
        ),
    ] {
        raw.send(&messages).await;
        assert_eq!(raw.until_ready().await, answer);
    }
    raw.send(&[query("COPY (SELECT 7, 'x', NULL) TO STDOUT BINARY")]).await;
    let mut data = Vec::new();
    loop {
        match raw.message().await.unwrap() {
            (b'H', body) => assert_eq!(body.as_ref(), b"\x01\0\x03\0\x01\0\x01\0\x01"),
            (b'd', body) => data.extend_from_slice(&body),
            (b'Z', _) => break,
            _ => {}
        }
    }
    let expected =
        b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x08\0\0\0\0\0\0\0\x07\0\0\0\x01x\xff\xff\xff\xff\xff\xff";
    assert_eq!(data, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_a_pipeline_spares_what_is_behind_the_next_sync() {
    let server = TestServer::start().await;
    let mut raw = Raw::connect(&server).await;
    let one = |sql: &str| vec![parse("", sql), bind("", "", &[]), execute("", 0)];
    let mut messages = one("SELECT 1");
    messages.extend(one("SELECT nope"));
    messages.extend(one("SELECT 2"));
    messages.push(bare(b'S'));
    messages.extend(one("SELECT 3"));
    messages.push(bare(b'S'));
    raw.send(&messages).await;
    assert_eq!(raw.until_ready().await, "1 2 D C(SELECT 1) E(42703) ZI");
    assert_eq!(raw.until_ready().await, "1 2 D C(SELECT 1) ZI");
}
