//! Messages to and from bytes.

use bytes::BytesMut;
use pgwire::error::PgWireError;
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use tokio_util::codec::{Decoder, Encoder};

use crate::limits::Limits;

/// Messages to and from bytes, by the pgwire crate. Which messages may come depends on how far the startup is.
#[derive(Debug)]
pub(super) struct Codec {
    context: DecodeContext,
    /// The most bytes of a message.
    limit: usize,
}

/// The most bytes of a message before the session has started; PostgreSQL's.
const STARTUP_LIMIT: usize = 10_000;

impl Default for Codec {
    fn default() -> Self {
        Self { context: DecodeContext::default(), limit: STARTUP_LIMIT }
    }
}

impl Codec {
    /// The client has asked for encryption, or hasn't: the next message is its startup packet.
    pub fn expect_startup(&mut self) {
        self.context.awaiting_frontend_ssl = false;
        self.context.awaiting_frontend_startup = true;
    }

    /// A refused request for encryption may be followed by one for another kind of it.
    pub fn expect_negotiation(&mut self) {
        self.context.awaiting_frontend_ssl = true;
    }

    /// The startup is over.
    pub fn expect_messages(&mut self, version: ProtocolVersion, limits: &Limits) {
        self.limit = limits.message_size;
        self.context.protocol_version = version;
        self.context.awaiting_frontend_ssl = false;
        self.context.awaiting_frontend_startup = false;
    }
}

impl Codec {
    /// Looks at the length that the next message says it has, before room is made for it. A length that is too small
    /// for the length itself is a protocol violation.
    fn check_length(&self, source: &BytesMut) -> Result<(), PgWireError> {
        let starting = self.context.awaiting_frontend_ssl || self.context.awaiting_frontend_startup;
        let offset = usize::from(!starting);
        let Some(bytes) = source.get(offset..offset + 4).and_then(|bytes| bytes.try_into().ok()) else {
            return Ok(());
        };
        let length = i32::from_be_bytes(bytes);
        match usize::try_from(length) {
            Ok(length) if length > self.limit => Err(PgWireError::MessageTooLarge(self.limit, length)),
            Ok(length) if length >= 4 => Ok(()),
            _ => Err(PgWireError::IoError(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                format!("invalid message length {length}"),
            ))),
        }
    }
}

impl Decoder for Codec {
    type Item = PgWireFrontendMessage;
    type Error = PgWireError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Self::Item>, Self::Error> {
        self.check_length(source)?;
        PgWireFrontendMessage::decode(source, &self.context)
    }
}

impl Encoder<PgWireBackendMessage> for Codec {
    type Error = PgWireError;

    fn encode(&mut self, message: PgWireBackendMessage, out: &mut BytesMut) -> Result<(), Self::Error> {
        message.encode(out)
    }
}
