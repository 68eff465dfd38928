//! Sealed frames, opened before anything reads them. `filling.rs` seals frames before their device
//! gets them.

use transport::stats::DropReason;
use transport::wire::{Body, Extent};
use transport::{Endpoint, Instant, RxSegment};

use super::Worker;
use crate::clock::poll_clock::Clock;
use crate::io::in_place::InPlace;
use crate::io::packet_io::PacketIo;
use crate::io::upkeep::Upkeep;
use crate::payload::memory::Received;
use crate::payload::store::{IncomingBytes, OutgoingBytes};
use crate::security::Opened;

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
