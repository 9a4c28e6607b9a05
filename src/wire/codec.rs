//! Messages to and from bytes.

use bytes::BytesMut;
use pgwire::error::PgWireError;
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use tokio_util::codec::{Decoder, Encoder};

/// Messages to and from bytes, by the pgwire crate. Which messages may come depends on how far the startup is.
#[derive(Debug, Default)]
pub(super) struct Codec {
    context: DecodeContext,
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
    pub fn expect_messages(&mut self, version: ProtocolVersion) {
        self.context.protocol_version = version;
        self.context.awaiting_frontend_ssl = false;
        self.context.awaiting_frontend_startup = false;
    }
}

impl Decoder for Codec {
    type Item = PgWireFrontendMessage;
    type Error = PgWireError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Self::Item>, Self::Error> {
        PgWireFrontendMessage::decode(source, &self.context)
    }
}

impl Encoder<PgWireBackendMessage> for Codec {
    type Error = PgWireError;

    fn encode(&mut self, message: PgWireBackendMessage, out: &mut BytesMut) -> Result<(), Self::Error> {
        message.encode(out)
    }
}
