//! Messages to and from bytes.

use std::io::{Error as IoError, ErrorKind};
use std::sync::Arc;

use bytes::{Buf as _, BytesMut};
use pgwire::error::PgWireError;
use pgwire::messages::simplequery::Query;
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::codec::{Decoder, Encoder};

use crate::limits::Limits;

/// Messages to and from bytes, by the pgwire crate. Which messages may come depends on how far the startup is.
///
/// That crate trusts the lengths and counts inside a message. So a message comes to it whole and alone, after a look at
/// its form.
#[derive(Debug)]
pub(super) struct Codec {
    context: DecodeContext,
    /// The most bytes of a message.
    limit: usize,
    /// Room for the large messages of all sessions, in kB; none before the client has proven who it is.
    room: Option<Arc<Semaphore>>,
    /// What of it this one takes, until its message has been dealt with.
    taken: Option<OwnedSemaphorePermit>,
}

/// What is shorter isn't counted, in kB.
const LARGE: usize = 64;

/// The most bytes of a message before the session has started; PostgreSQL's.
const STARTUP_LIMIT: usize = 10_000;

impl Default for Codec {
    fn default() -> Self {
        Self { context: DecodeContext::default(), limit: STARTUP_LIMIT, room: None, taken: None }
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

    /// The client has said who it is.
    pub fn expect_messages(&mut self, version: ProtocolVersion) {
        self.context.protocol_version = version;
        self.context.awaiting_frontend_ssl = false;
        self.context.awaiting_frontend_startup = false;
    }

    /// The client has proven who it is, and may send more at a time.
    pub fn allow(&mut self, limits: &Limits, room: &Arc<Semaphore>) {
        self.limit = limits.message_size;
        self.room = Some(Arc::clone(room));
    }

    /// Takes room for so many bytes that have come. A client that sends half of a long message can hold them for as long
    /// as it likes, and there may be many such.
    fn take(&mut self, bytes: usize) -> Result<(), PgWireError> {
        let Some(room) = &self.room else { return Ok(()) };
        let (wanted, had) = (bytes >> 10, self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        if wanted < LARGE {
            self.taken = None;
        } else if let Ok(more) = u32::try_from(wanted.saturating_sub(had)) {
            let Ok(more) = Arc::clone(room).try_acquire_many_owned(more) else {
                return Err(PgWireError::IoError(ErrorKind::OutOfMemory.into()));
            };
            match &mut self.taken {
                Some(taken) => taken.merge(more),
                none => *none = Some(more),
            }
        }
        Ok(())
    }

    /// The bytes of the next message, its tag and length among them, as soon as its length is there. A length beyond the
    /// limit is an error before there is any room for it.
    fn length(&self, source: &BytesMut, tag: usize) -> Result<Option<usize>, PgWireError> {
        let Some(bytes) = source.get(tag..tag + 4).and_then(|bytes| bytes.try_into().ok()) else { return Ok(None) };
        let length = i32::from_be_bytes(bytes);
        match usize::try_from(length) {
            Ok(length) if length > self.limit => Err(PgWireError::MessageTooLarge(self.limit, length)),
            // A startup packet has a version, too.
            Ok(length) if length >= 4 + 4 * (1 - tag) => Ok(Some(tag + length)),
            _ => Err(invalid(format!("invalid message length {length}"))),
        }
    }
}

impl Decoder for Codec {
    type Item = PgWireFrontendMessage;
    type Error = PgWireError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Self::Item>, Self::Error> {
        let starting = self.context.awaiting_frontend_ssl || self.context.awaiting_frontend_startup;
        let tag = usize::from(!starting);
        self.take(source.len())?;
        let Some(length) = self.length(source, tag)?.filter(|length| source.len() >= *length) else {
            return Ok(None);
        };
        if self.context.awaiting_frontend_ssl {
            // What isn't a request for encryption is left where it is, to be read as a startup packet.
            return PgWireFrontendMessage::decode(source, &self.context);
        }
        let mut message = source.split_to(length);
        let well_formed = match message.split_first() {
            // The crate looks at each step of these itself.
            Some(_) if starting => true,
            Some((tag, rest)) => is_well_formed(*tag, &rest[4..]),
            None => false,
        };
        // Drivers of long ago call functions by their oids (libpq's large objects). It is the statement of that kind.
        if message.first() == Some(&b'F') && !starting {
            return Ok(Some(PgWireFrontendMessage::Query(Query::new("CALL".to_owned()))));
        }
        if !well_formed {
            return Err(invalid("invalid message format".into()));
        }
        PgWireFrontendMessage::decode(&mut message, &self.context)
    }
}

impl Encoder<PgWireBackendMessage> for Codec {
    type Error = PgWireError;

    fn encode(&mut self, message: PgWireBackendMessage, out: &mut BytesMut) -> Result<(), Self::Error> {
        message.encode(out)
    }
}

fn invalid(message: String) -> PgWireError {
    PgWireError::IoError(IoError::new(ErrorKind::InvalidData, message))
}

/// Whether a message's body is what its tag says, to its last byte. Messages that nobody looks into may have any.
fn is_well_formed(tag: u8, mut body: &[u8]) -> bool {
    let body = &mut body;
    let parts = match tag {
        b'Q' | b'f' => text(body),
        b'P' => text(body).and_then(|()| text(body)).and_then(|()| list(body, |body| skip(body, 4))),
        b'B' => text(body)
            .and_then(|()| text(body))
            .and_then(|()| list(body, |body| skip(body, 2)))
            .and_then(|()| list(body, value))
            .and_then(|()| list(body, |body| skip(body, 2))),
        b'D' | b'C' => skip(body, 1).and_then(|()| text(body)),
        b'E' => text(body).and_then(|()| skip(body, 4)),
        b'S' | b'H' | b'X' | b'c' => Some(()),
        _ => return true,
    };
    parts.is_some() && body.is_empty()
}

fn skip(body: &mut &[u8], count: usize) -> Option<()> {
    (body.len() >= count).then(|| body.advance(count))
}

fn text(body: &mut &[u8]) -> Option<()> {
    let end = body.iter().position(|byte| *byte == 0)?;
    skip(body, end + 1)
}

fn list(body: &mut &[u8], mut item: impl FnMut(&mut &[u8]) -> Option<()>) -> Option<()> {
    let count = body.try_get_u16().ok()?;
    (0..count).try_for_each(|_| item(body))
}

/// A length, -1 for NULL, and so many bytes.
fn value(body: &mut &[u8]) -> Option<()> {
    match body.try_get_i32().ok()? {
        -1 => Some(()),
        length => skip(body, usize::try_from(length).ok()?),
    }
}
