//! Segments to send: written into frames with their payload, and handed to the device.

use transport::stats::DropReason;
use transport::wire::{Body, Header};
use transport::{BURST, Duration, Instant};

use super::Worker;
use crate::clock::poll_clock::{Clock, Stage};
use crate::io::in_place::InPlace;
use crate::io::packet_io::{HandedOver, PacketIo};
use crate::io::upkeep::Upkeep;
use crate::payload::memory::Received;
use crate::payload::store::{IncomingBytes, OutgoingBytes};
use crate::worker::config::UdpSums;
use crate::worker::filling::{Filling, Headed, Sums};

impl<Io, P, C> Worker<Io, P, C>
where
    Io: PacketIo + Upkeep + InPlace,
    P: OutgoingBytes + IncomingBytes<Received = Received>,
    C: Clock,
{
    /// Sends kept frames, then new ones of the core, until device, pace or burst are full. Returns
    /// how many frames the device took.
    pub(super) fn transmit(&mut self, now: Instant) -> usize {
        let offers = self.io.offers();
        if offers.send_ahead != self.ahead {
            self.ahead = offers.send_ahead;
            self.core.send_ahead(self.ahead);
        }
        let udp = if self.security.is_some() { UdpSums::Without } else { self.config.udp };
        let sums = Sums::of(udp, offers.udp_sums);
        let mut filled = 0;
        // Acknowledgements are small, so the room left is asked for again; each turn fills a frame.
        while filled < BURST {
            let room = self.io.tx_room(now).min(BURST - filled);
            self.clock.mark(Stage::Device);
            if room == 0 {
                break;
            }
            self.tx.reset(room);
            self.core.poll_transmit(now, &mut self.tx);
            self.clock.mark(Stage::Core);
            if self.tx.is_empty() {
                break;
            }
            filled += self.tx.len();
            self.fill_frames(now, sums);
            self.clock.mark(Stage::Header);
        }
        self.counts.parity_recomputed = self.store.parity_recomputed();
        let HandedOver { taken: sent, kept } = self.io.tx_burst();
        self.clock.mark(Stage::Device);
        self.counts.handed_over += sent as u64;
        self.kept = kept;
        if sent > 0 || kept == 0 {
            self.took_at = now;
        } else if now.since(self.took_at) >= self.config.stuck_after {
            let stuck = self.io.tx_discard();
            self.kept = 0;
            self.counts.stuck += stuck as u64;
            (0..stuck).for_each(|_| self.core.count_drop(DropReason::DeviceStuck));
            self.took_at = now;
        }
        sent
    }

    /// Fills a frame for each segment of the burst. A segment whose bytes or address are missing is
    /// counted and left out.
    fn fill_frames(&mut self, now: Instant, sums: Sums) {
        let host = self.core.endpoint().host();
        let is_timed = self.ahead > Duration::ZERO;
        for (index, segment) in self.tx.iter().enumerate() {
            let at = if is_timed { self.tx.departure(index, now) } else { now };
            let ends = (host, segment.peer);
            let addressing = &self.config.addressing;
            let Some(template) = self.templates.of(addressing, ends, segment.class()) else {
                self.counts.unsendable += 1;
                continue;
            };
            let headed = Headed { template, segment, ext: self.tx.ext(index), at };
            let Self { io, store, tap, security, .. } = self;
            let mut filling = Filling { io, store, tap, sums, now };
            let may_attach =
                security.is_none() && segment.payload.len >= ATTACH_MIN && is_first(&segment.hdr);
            if may_attach && filling.attach(&headed).is_some() {
                self.counts.attached += 1;
                self.counts.filled += 1;
            } else if filling.copy(&headed, security.as_deref_mut()).is_some() {
                self.counts.filled += 1;
            } else {
                self.counts.unsendable += 1;
            }
        }
    }
}

/// Shorter payloads are copied: attaching takes a second mbuf and two changes of a shared count,
/// some 30 ns, in which 512 bytes are copied.
const ATTACH_MIN: u16 = 512;

/// Whether a data segment was never sent before. Other segments are copied, so an acknowledgement
/// proves that the attached one has left: [`Upkeep::message_over`].
#[inline]
fn is_first(header: &Header) -> bool {
    matches!(&header.body, Body::Data(data) if !data.retransmission)
}
