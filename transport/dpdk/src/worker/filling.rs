//! The frame of one segment: its payload, copied or attached, its headers, its copy for a capture,
//! and its seal. `send.rs` chooses between copying and attaching, and which frames have a checksum.
//!
//! Payload is copied into a sealed frame, never attached: it is encrypted there, and the memory of
//! a message stays as its application wrote it. Sealed frames have no UDP checksum. Parity is
//! computed of plain bytes on both sides, and sealed as any packet.

use transport::wire::checksum::Checksum;
use transport::wire::template::FrameTemplate;
use transport::wire::{Ext, seal};
use transport::{Instant, TxSegment};

use crate::io::packet_io::{PacketIo, TxFrame};
use crate::io::tap::Tap;
use crate::payload::memory::add_payload;
use crate::payload::store::OutgoingBytes;
use crate::security::Security;
use crate::worker::config::UdpSums;

/// Whether the worker or the device computes the UDP checksums of a turn's frames; at most one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    pub(super) by_worker: bool,
    pub(super) by_device: bool,
}

impl Sums {
    /// The device computes the sums if it offers to and others' settings are known. For sealed
    /// frames `wanted` is [`UdpSums::Without`].
    pub(super) fn of(wanted: UdpSums, device_offers: bool) -> Self {
        let by_device = wanted == UdpSums::Software && device_offers;
        Self { by_device, by_worker: wanted != UdpSums::Without && !by_device }
    }
}

/// A segment, and what the headers of its frame are made of.
pub(super) struct Headed<'a> {
    pub(super) template: &'a FrameTemplate,
    pub(super) segment: &'a TxSegment,
    pub(super) ext: &'a Ext,
    /// The departure.
    pub(super) at: Instant,
}

impl Headed<'_> {
    /// The length of all headers.
    #[inline]
    fn len(&self) -> u16 {
        self.template.overhead() + self.segment.hdr.emit_len()
    }
}

/// What fills the frames of a turn.
pub(super) struct Filling<'a, Io, P> {
    pub(super) io: &'a mut Io,
    pub(super) store: &'a mut P,
    pub(super) tap: &'a mut Option<Tap>,
    pub(super) sums: Sums,
    /// The time of the turn.
    pub(super) now: Instant,
}

impl<Io: PacketIo, P: OutgoingBytes> Filling<'_, Io, P> {
    /// Fills a frame to which the bytes of its segment are attached; `None`, with nothing kept,
    /// when devices may not read them where they lie, or there is no room.
    #[inline]
    pub(super) fn attach(&mut self, of: &Headed<'_>) -> Option<()> {
        let (memory, range) = self.store.lend(&of.segment.payload)?;
        let bytes = memory.range(range.clone())?;
        let udp_sum = self.sums.by_device.then(|| of.template.version());
        let attached = Some((memory, range));
        let head = self.io.tx_frame(TxFrame { len: of.len(), attached, at: of.at, udp_sum })?;
        let sum = self.sums.by_worker.then(|| sum_of(bytes));
        finish(of, (self.sums, sum), (head, bytes), (self.tap, self.now));
        Some(())
    }

    /// Fills a frame with a copy of the bytes of its segment, and seals it where there is
    /// `security`; `None`, with nothing kept, when the bytes are missing or there is no room.
    #[inline]
    pub(super) fn copy(&mut self, of: &Headed<'_>, security: Option<&mut Security>) -> Option<()> {
        let payload = &of.segment.payload;
        let head_len = of.len();
        let plain_len = head_len + payload.len;
        let len = if security.is_some() { plain_len + seal::LEN } else { plain_len };
        let udp_sum = self.sums.by_device.then(|| of.template.version());
        let frame = self.io.tx_frame(TxFrame { len, attached: None, at: of.at, udp_sum })?;
        let (plain, _) = frame.split_at_mut(usize::from(plain_len));
        let (head, body) = plain.split_at_mut(usize::from(head_len));
        // Summed while the bytes are in the cache.
        let mut sum = self.sums.by_worker.then(Checksum::new);
        if payload.len > 0 && !self.store.fill(payload, body, sum.as_mut()) {
            self.io.tx_cancel();
            return None;
        }
        finish(of, (self.sums, sum), (head, body), (self.tap, self.now));
        if let Some(security) = security
            && !security.sealer.seal(frame, self.now)
        {
            self.io.tx_cancel();
            return None;
        }
        Some(())
    }
}

/// Writes the headers of a frame to `head`, and records the plain frame in the tap.
#[inline]
fn finish(
    of: &Headed<'_>,
    (sums, sum): (Sums, Option<Checksum>),
    (head, body): (&mut [u8], &[u8]),
    (tap, now): (&mut Option<Tap>, Instant),
) {
    let TxSegment { hdr, payload, .. } = of.segment;
    of.template.emit(hdr, of.ext, payload.len, sum, head);
    if sums.by_device {
        of.template.seed(head);
    }
    if let Some(tap) = tap {
        tap.record(now, true, head, body);
    }
}

fn sum_of(bytes: &[u8]) -> Checksum {
    let mut sum = Checksum::new();
    add_payload(&mut sum, bytes);
    sum
}
