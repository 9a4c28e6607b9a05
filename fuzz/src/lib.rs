//! The modules under test, as they stand in the product.
#![allow(dead_code, unused_imports, missing_docs, clippy::all)]

#[path = "../../src/error.rs"]
pub mod error;
#[path = "../../src/jsonb.rs"]
pub mod jsonb;
#[path = "../../src/limits.rs"]
pub mod limits;
#[path = "../../src/secret.rs"]
pub mod secret;

#[path = "../../src/store"]
pub mod store {
    pub mod format;
}

#[path = "../../src/backfill"]
pub mod backfill {
    pub mod id;
    pub mod state;
    pub mod target;
}

#[path = "../../src/catalog"]
pub mod catalog {
    mod schemas;

    pub use schemas::{DATABASE, SCHEMAS, other_database};
}

#[path = "../../src/command"]
pub mod command {
    pub mod ast;
    mod parse;

    /// As in the product.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Parsed {
        pub text: String,
        pub statement: ast::Statement,
        pub params: usize,
        pub position: usize,
    }

    pub use ast::Statement;

    pub fn parse(sql: &str) -> crate::error::Result<Vec<Parsed>> {
        parse::parse(sql)
    }
}

#[path = "../../src/engine"]
pub mod engine {
    pub const MAX_RATE_LIMIT: u32 = i32::MAX as u32;

    pub mod embedded {
        pub mod columns;

        pub mod connector {
            pub mod json;

            pub mod kafka {
                pub mod decode;
            }

            /// As in the product.
            #[derive(Debug, Clone, PartialEq, Eq)]
            pub struct BadRow {
                pub offset: crate::backfill::id::Offset,
                pub error: String,
                pub text: String,
            }
        }
    }
}

#[path = "../../src/wire"]
pub mod wire {
    mod codec;

    use std::sync::Arc;

    use bytes::BytesMut;
    use pgwire::messages::{PgWireFrontendMessage as Message, ProtocolVersion};
    use tokio::sync::Semaphore;
    use tokio_util::codec::Decoder as _;

    /// Reads all messages of some bytes: from the first one on, or those of a session.
    pub fn messages(bytes: &[u8], in_session: bool) {
        let mut codec = codec::Codec::default();
        if in_session {
            codec.expect_messages(ProtocolVersion::PROTOCOL3_0);
            codec.allow(&crate::limits::Limits::default(), &Arc::new(Semaphore::new(64)));
        }
        let mut buffer = BytesMut::from(bytes);
        let mut left = buffer.len();
        while let Ok(Some(message)) = codec.decode(&mut buffer) {
            if matches!(message, Message::SslNegotiation(_)) {
                codec.expect_startup();
            } else {
                assert!(buffer.len() < left, "a message of no bytes: {message:?}");
            }
            left = buffer.len();
        }
    }
}
