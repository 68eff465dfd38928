//! Frames that are sealed before their device gets them, and opened before anything reads them.
//!
//! Payload is copied into a sealed frame, never attached: it is encrypted there, and the memory of
//! a message stays as its application wrote it. Sealed frames have no UDP checksum. Parity is
//! computed of plain bytes on both sides, and sealed as any packet.

use transport::stats::DropReason;
use transport::wire::seal;
use transport::wire::template::FrameTemplate;
use transport::wire::{Body, Ext, Extent};
use transport::{Endpoint, Instant, RxSegment, TxSegment};

use super::Worker;
use crate::clock::poll_clock::Clock;
use crate::io::in_place::InPlace;
use crate::io::packet_io::{PacketIo, TxFrame};
use crate::io::tap::Tap;
use crate::io::upkeep::Upkeep;
use crate::payload::memory::Received;
use crate::payload::store::{IncomingBytes, OutgoingBytes};
use crate::security::{Opened, Security};

/// The result for a received frame: [`Opened::Whole`] in a worker without keys, too.
pub(super) type OpenedFrame = Result<Opened, DropReason>;

impl<Io, P, C> Worker<Io, P, C>
where
    Io: PacketIo + Upkeep + InPlace,
    P: OutgoingBytes + IncomingBytes<Received = Received>,
    C: Clock,
{
    /// Opens the frames of a received burst in place.
    pub(super) fn open_burst(&mut self, frames: usize, now: Instant) {
        let Some(security) = &mut self.security else { return };
        let here = (&self.config.addressing, self.core.endpoint().host());
        for (index, opened) in self.burst.opened.iter_mut().enumerate().take(frames) {
            let frame = self.io.rx_edit(index).ok_or(DropReason::NoBuffer);
            *opened = frame.and_then(|frame| security.opener.open(frame, here, now));
        }
    }
}

/// Checks a segment by how its frame was `opened`, and removes from a hint what it may not claim.
///
/// # Errors
/// Why it must be dropped.
#[inline]
pub(super) fn check_opened(
    opened: Opened,
    segment: &mut RxSegment,
    endpoint: &Endpoint,
) -> Result<(), DropReason> {
    match opened {
        Opened::Whole => Ok(()),
        Opened::Unsealed => Err(DropReason::Unsealed),
        Opened::Hint => {
            if !endpoint.has_message_of(segment) {
                return Err(DropReason::TrimmedStranger);
            }
            // That a segment was trimmed is all that a hint may say.
            if let Body::Data(data) = &mut segment.hdr.body {
                data.demand = None;
            }
            segment.hdr.ext = Extent::NONE;
            Ok(())
        }
    }
}

/// What makes a sealed frame, beside its segment.
pub(super) struct Sealing<'a, Io, P> {
    pub(super) io: &'a mut Io,
    pub(super) store: &'a mut P,
    pub(super) security: &'a mut Security,
    pub(super) tap: &'a mut Option<Tap>,
    /// The time of the turn.
    pub(super) now: Instant,
}

impl<Io: PacketIo, P: OutgoingBytes> Sealing<'_, Io, P> {
    /// Fills a frame that leaves at `at` with `segment`, sealed; `None`, with nothing kept, when
    /// its bytes are missing or there is no room.
    pub(super) fn fill(
        &mut self,
        template: &FrameTemplate,
        (segment, ext): (&TxSegment, &Ext),
        at: Instant,
    ) -> Option<()> {
        let (header, payload) = (&segment.hdr, &segment.payload);
        let head_len = template.overhead() + header.emit_len();
        let plain_len = head_len + payload.len;
        let len = plain_len + seal::LEN;
        let frame = self.io.tx_frame(TxFrame { len, attached: None, at, udp_sum: None })?;
        let (plain, _) = frame.split_at_mut(usize::from(plain_len));
        let (head, body) = plain.split_at_mut(usize::from(head_len));
        if payload.len > 0 && !self.store.fill(payload, body, None) {
            self.io.tx_cancel();
            return None;
        }
        template.emit(header, ext, payload.len, None, head);
        if let Some(tap) = &mut *self.tap {
            tap.record(self.now, true, head, body);
        }
        if !self.security.sealer.seal(frame, self.now) {
            self.io.tx_cancel();
            return None;
        }
        Some(())
    }
}
