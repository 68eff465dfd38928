//! Received bursts: frames parsed, segments handled by the core, payloads placed.

use transport::stats::DropReason;
use transport::wire::Body;
use transport::wire::frame::{self, Ecn, Envelope, UdpCheck};
use transport::{BURST, FlowId, Instant, Placement};

use super::Worker;
use crate::clock::poll_clock::{Clock, Stage};
use crate::io::in_place::InPlace;
use crate::io::packet_io::{PacketIo, RxCheck};
use crate::io::upkeep::Upkeep;
use crate::payload::memory::Received;
use crate::payload::store::{IncomingBytes, OutgoingBytes};
use crate::security::Opened;
use crate::worker::config::UdpSums;
use crate::worker::rx_burst::RxBurst;
use crate::worker::sealing::check_opened;

impl<Io, P, C> Worker<Io, P, C>
where
    Io: PacketIo + Upkeep + InPlace,
    P: OutgoingBytes + IncomingBytes<Received = Received>,
    C: Clock,
{
    /// Receives a burst and carries out the core's decisions about it. Returns how many frames
    /// there were, and whether they are work: one was not dropped or is answered, or more wait.
    pub(super) fn receive(&mut self, now: Instant) -> (usize, bool) {
        let frames = self.io.rx_burst(now);
        self.clock.mark(Stage::Device);
        if frames == 0 {
            return (0, false);
        }
        let dropped_before = self.stats().drops.total();
        self.counts.received += frames as u64;
        if self.security.is_some() {
            self.open_burst(frames, now);
        }
        if self.tap.is_some() {
            self.capture_burst(frames, now);
        }
        self.burst.clear();
        for index in 0..frames {
            if let Err(reason) = self.admit(index, now) {
                self.core.count_drop(reason);
            }
        }
        self.burst.give_refused_what_is_left(&self.store);
        self.clock.mark(Stage::Header);
        let RxBurst { segments, exts, len, sources, places, .. } = &mut self.burst;
        let (segments, exts) = (&segments[..*len], &exts[..*len]);
        self.counts.parsed += segments.len() as u64;
        if let Some(meter) = &self.meter {
            meter.received(frames, segments);
        }
        self.core.handle_extended(now, (segments, exts), places);
        self.clock.mark(Stage::Core);
        for ((segment, (index, start)), place) in segments.iter().zip(sources).zip(places) {
            if *place == Placement::Release {
                continue;
            }
            let placed = self.io.rx_frame(*index).is_some_and(|frame| {
                put(&mut self.store, place, frame.split(*start, segment.payload_len.into()))
            });
            assert!(placed, "a segment was acknowledged without memory for its bytes");
        }
        while let Some(restore) = self.core.poll_restore() {
            self.counts.unrestored += u64::from(!self.store.restore(&restore));
        }
        self.clock.mark(Stage::Payload);
        self.io.rx_release();
        self.clock.mark(Stage::Device);
        let dropped = self.stats().drops.total() - dropped_before;
        // An answer to what was dropped leaves in the next turn, and a full burst may have more
        // frames behind it.
        let waits = frames == BURST || self.core.endpoint().has_answers();
        (frames, waits || dropped < frames as u64)
    }

    /// Gives the tap the burst that was received.
    fn capture_burst(&mut self, frames: usize, now: Instant) {
        for index in 0..frames {
            if let (Some(tap), Some(frame)) = (&mut self.tap, self.io.rx_frame(index)) {
                let at = frame.stamp.unwrap_or(now).min(now);
                tap.record(at, false, frame.bytes, frame.tail);
            }
        }
    }

    /// Makes a segment of frame `index`, if it is one for this host, and has memory.
    fn admit(&mut self, index: usize, now: Instant) -> Result<(), DropReason> {
        let Some(frame) = self.io.rx_frame(index) else {
            self.counts.malformed += 1;
            return Err(DropReason::NotHeadrace);
        };
        let opened = self.burst.opened[index].inspect_err(|_| self.counts.malformed += 1)?;
        let check = match (frame.check, self.config.udp) {
            // A tag covers more than a checksum, and what is not opened is not accepted.
            _ if self.security.is_some() => UdpCheck::Skip,
            (RxCheck::Good, _) => UdpCheck::Skip,
            (RxCheck::Unknown | RxCheck::Bad, UdpSums::Software) => UdpCheck::Required,
            (RxCheck::Unknown | RxCheck::Bad, _) => UdpCheck::IfPresent,
        };
        let addressing = &self.config.addressing;
        let (at, skip) = (self.burst.len, UdpCheck::Skip);
        let (earlier, rest) = self.burst.segments.split_at_mut(at);
        let (segment, ext) = (&mut rest[0], &mut self.burst.exts[at]);
        let (bytes, tail, stamp) = (frame.bytes, frame.tail, frame.stamp);
        let parsed = frame::parse_into(bytes, tail, addressing, skip, &mut segment.hdr, ext);
        let sound = || frame::verify(bytes, tail, addressing, check);
        let Envelope { route, start, payload_len, trimmed } = match parsed {
            Ok(envelope) => envelope,
            Err(error) => {
                // A damaged frame is named by its checksum.
                let error = sound().err().unwrap_or(error);
                self.counts.malformed += 1;
                self.io.rx_stray(index);
                return Err(error.into());
            }
        };
        if route.dst != self.core.endpoint().host() {
            self.counts.foreign += 1;
            return Err(DropReason::WrongHost);
        }
        // A switch may hand a frame over just before its time.
        segment.at = stamp.unwrap_or(now).min(now);
        segment.from = route.src;
        segment.payload_len = if trimmed { 0 } else { payload_len };
        segment.ce = route.ecn == Ecn::Ce;
        segment.trimmed = trimmed;
        if opened != Opened::Whole {
            let endpoint = self.core.endpoint();
            check_opened(opened, segment, endpoint).inspect_err(|_| self.counts.malformed += 1)?;
        }
        let is_data = matches!(segment.hdr.body, Body::Data(_));
        // The flow is looked up before the checksum. So no payload is read that belongs to a flow
        // which is named and not here, or to an opening which is dropped without an answer.
        let named = segment.hdr.dst_flow != FlowId::UNKNOWN;
        if is_data && !named && self.core.withhold_question(segment, earlier) {
            self.counts.refused += 1;
            return Err(DropReason::Unproven);
        }
        let (endpoint, store) = (self.core.endpoint(), &self.store);
        if check != skip
            && !(is_data && named && endpoint.is_strange(segment))
            && let Err(error) = sound()
        {
            self.counts.malformed += 1;
            return Err(error.into());
        }
        let kept = !is_data || self.burst.reserve_parity(endpoint, store);
        if is_data && (!kept || !self.burst.reserve(endpoint, store)) {
            self.counts.refused += 1;
            self.counts.parity_refused += u64::from(!kept);
            return Err(DropReason::NoBuffer);
        }
        self.burst.sources[at] = (index, start);
        self.burst.len += 1;
        Ok(())
    }
}

/// Puts the payload of a segment where the core decides; false when that is impossible.
#[inline]
fn put<P: IncomingBytes>(store: &mut P, place: &Placement, (near, far): (&[u8], &[u8])) -> bool {
    match *place {
        Placement::Release => true,
        Placement::Place { msg, offset, msg_len } => {
            let behind = u32::try_from(near.len()).map_or(u32::MAX, |len| offset + len);
            // Most payloads lie in one buffer: the first or, when it was attached, the second.
            (near.is_empty() || store.place(msg, offset, msg_len, near))
                && (far.is_empty() || store.place(msg, behind, msg_len, far))
        }
        Placement::Parity { msg, offset, msg_len, index } => {
            store.keep(msg, offset, msg_len, index, (near, far))
        }
    }
}
