//! Segments to send: written into frames with their payload, and handed to the device.

use transport::stats::DropReason;
use transport::wire::checksum::Checksum;
use transport::wire::{Body, Header};
use transport::{BURST, Duration, Instant};

use super::Worker;
use crate::clock::poll_clock::{Clock, Stage};
use crate::io::in_place::InPlace;
use crate::io::packet_io::{HandedOver, PacketIo, TxFrame};
use crate::io::upkeep::Upkeep;
use crate::payload::memory::{Received, add_payload};
use crate::payload::store::{IncomingBytes, OutgoingBytes};
use crate::worker::config::UdpSums;
use crate::worker::sealing::Sealing;

/// Whether the worker or the device computes the UDP checksums of a turn's frames; at most one.
#[derive(Clone, Copy, Debug)]
struct Sums {
    by_worker: bool,
    by_device: bool,
}

impl Sums {
    fn of(wanted: UdpSums, device_offers: bool) -> Self {
        let by_device = wanted == UdpSums::Software && device_offers;
        Self { by_device, by_worker: wanted != UdpSums::Without && !by_device }
    }
}

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
        let sums = Sums::of(self.config.udp, offers.udp_sums);
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
            let (header, payload) = (&segment.hdr, &segment.payload);
            let ends = (host, segment.peer);
            let addressing = &self.config.addressing;
            let Some(template) = self.templates.of(addressing, ends, segment.class()) else {
                self.counts.unsendable += 1;
                continue;
            };
            if let Some(security) = &mut self.security {
                let Self { io, store, tap, .. } = self;
                let mut sealing = Sealing { io, store, security, tap, now };
                let filled = sealing.fill(template, (segment, self.tx.ext(index)), at);
                self.counts.filled += u64::from(filled.is_some());
                self.counts.unsendable += u64::from(filled.is_none());
                continue;
            }
            let headers = template.overhead() + header.emit_len();
            let udp_sum = sums.by_device.then(|| template.version());
            let lent = if payload.len >= ATTACH_MIN && is_first(header) {
                let lent = self.store.lend(payload);
                lent.and_then(|(memory, range)| Some((memory.range(range.clone())?, memory, range)))
            } else {
                None
            };
            let attached = lent.and_then(|(bytes, memory, range)| {
                let attached = Some((memory, range));
                let head = self.io.tx_frame(TxFrame { len: headers, attached, at, udp_sum })?;
                Some((head, bytes))
            });
            let (head, body, sum) = if let Some((head, bytes)) = attached {
                self.counts.attached += 1;
                (head, bytes, sums.by_worker.then(|| sum_of(bytes)))
            } else {
                let len = headers + payload.len;
                let frame = TxFrame { len, attached: None, at, udp_sum };
                let Some(out) = self.io.tx_frame(frame) else {
                    self.counts.unsendable += 1;
                    continue;
                };
                let (head, body) = out.split_at_mut(usize::from(headers));
                // Summed while the bytes are in the cache.
                let mut sum = sums.by_worker.then(Checksum::new);
                if payload.len > 0 && !self.store.fill(payload, body, sum.as_mut()) {
                    self.counts.unsendable += 1;
                    self.io.tx_cancel();
                    continue;
                }
                (head, &*body, sum)
            };
            template.emit(header, self.tx.ext(index), payload.len, sum, head);
            if sums.by_device {
                template.seed(head);
            }
            if let Some(tap) = &mut self.tap {
                tap.record(now, true, head, body);
            }
            self.counts.filled += 1;
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

fn sum_of(bytes: &[u8]) -> Checksum {
    let mut sum = Checksum::new();
    add_payload(&mut sum, bytes);
    sum
}
