//! Loss detection for packets of erasure-coded blocks. Source: \[uno\] sec. 4.2.
//!
//! ```text
//!             taken for lost              the rest of the block is not enough
//!  InFlight ------------------> Spare -------------------------------------> Lost (queued)
//! ```
//!
//! A lost packet is sent again only when the block cannot be decoded without it. The packets of a
//! block have consecutive PSNs, data first, so its first PSN and the number of its packets name a
//! block. The code decides which packets are enough. Everything here is O(packets of a block), at
//! most 64.

use super::{Recovery, SentPacket};
use crate::ec::Resend;
use crate::flow::sent_packets::Fate;
use crate::time::Instant;
use crate::units::{Bytes, Psn};

/// The packets of a block by PSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockSpan {
    /// The first data packet.
    pub(crate) first: Psn,
    /// Data and parity packets, 1..=64.
    pub(crate) packets: u8,
}

impl BlockSpan {
    fn psn(self, packet: u8) -> Psn {
        self.first.plus(u32::from(packet))
    }

    /// The bitmap with every packet.
    pub(crate) const fn all(self) -> u64 {
        if self.packets >= 64 { u64::MAX } else { (1 << self.packets) - 1 }
    }
}

impl Recovery {
    /// The entry of `psn` while it is outstanding.
    pub(crate) fn entry(&self, psn: Psn) -> Option<&SentPacket> {
        self.sent.entry(psn)
    }

    /// The first PSN that is outstanding; the next one when none is.
    pub(crate) fn base(&self) -> Psn {
        self.sent.base()
    }

    /// The PSN that the next new packet gets.
    pub(crate) fn next(&self) -> Psn {
        self.sent.next()
    }

    /// The packets of a block for which `is` holds, as a bitmap. `is` gets a packet's entry, or,
    /// where there is none, whether the packet has arrived: true before all outstanding PSNs, false
    /// for one that was not sent.
    fn bits_of(&self, span: BlockSpan, is: impl Fn(Result<&SentPacket, bool>) -> bool) -> u64 {
        (0..span.packets).fold(0, |bits, packet| {
            let psn = span.psn(packet);
            let arrived = psn.distance_from(self.sent.base()) < 0;
            bits | u64::from(is(self.sent.entry(psn).ok_or(arrived))) << packet
        })
    }

    /// The packets of a block that have arrived or may still arrive, as a bitmap: packets that have
    /// arrived, are queued, are not sent yet, or are in flight and not `gone`.
    pub(crate) fn hoped_of(&self, span: BlockSpan, gone: impl Fn(&SentPacket) -> bool) -> u64 {
        self.bits_of(span, |entry| {
            entry.map_or(true, |packet| match packet.fate {
                Fate::Acked | Fate::Lost => true,
                Fate::InFlight => !gone(packet),
                Fate::Spare => false,
            })
        })
    }

    /// The packets of a block that are known to have arrived, as a bitmap.
    pub(crate) fn arrived_of(&self, span: BlockSpan) -> u64 {
        self.bits_of(span, |entry| entry.map_or_else(|past| past, |e| e.fate == Fate::Acked))
    }

    /// Notes that the packets `bits` of a block have arrived, or are needed no more; calls
    /// `arrived` for each packet whose arrival was not known. True when there is one.
    pub(crate) fn on_arrived_of(
        &mut self,
        span: BlockSpan,
        bits: u64,
        mut arrived: impl FnMut(&SentPacket),
    ) -> bool {
        let bits = bits & span.all();
        let (word, shift) = (Psn(span.first.0 & !63), span.first.0 & 63);
        let mut any = self.acknowledge(word, bits << shift, &mut arrived);
        if shift > 0 {
            any |= self.acknowledge(word.plus(64), bits >> (64 - shift), &mut arrived);
        }
        self.sent.advance();
        any
    }

    /// Handles a receiver's request for more of a block at `now`. `current`: the block is
    /// outstanding; `any`: the receiver reported an arrival that was not known yet. Returns the
    /// instant up to which packets have had time to arrive: packets sent later, less than a round
    /// trip ago, may have arrived since. The span is widened when it proves too short.
    pub(crate) fn on_asked(&mut self, any: bool, current: bool, now: Instant) -> Instant {
        self.note_feedback(any, current);
        Instant::from_ps(now.as_ps().saturating_sub(self.block_window.as_ps()))
    }

    /// Declares lost, without queueing it, the first packet of a block from number `from` on that
    /// is in flight and for which `which` holds; returns it and the number after it. Call until
    /// `None`, then [`Recovery::want_of`].
    pub(crate) fn spare_of(
        &mut self,
        span: BlockSpan,
        from: u8,
        which: impl Fn(u8, &SentPacket) -> bool,
    ) -> Option<(SentPacket, u8)> {
        let flies = |packet: &u8| {
            let entry = self.sent.entry(span.psn(*packet));
            entry.is_some_and(|e| e.fate == Fate::InFlight && which(*packet, e))
        };
        let packet = (from..span.packets).find(flies)?;
        let entry = self.sent.spare(span.psn(packet))?;
        self.in_flight -= entry.wire_bytes();
        Some((entry, packet + 1))
    }

    /// Queues spare packets of a block, data first, until the packets that have arrived, are in
    /// flight, queued or not sent yet are `enough`. If they were not, [`Resend::Lost`] queues all
    /// spare packets.
    pub(crate) fn want_of(
        &mut self,
        span: BlockSpan,
        resend: Resend,
        enough: impl Fn(u64) -> bool,
    ) {
        let mut hoped =
            self.bits_of(span, |entry| entry.map_or(true, |packet| packet.fate != Fate::Spare));
        if enough(hoped) {
            return;
        }
        for packet in 0..span.packets {
            if resend == Resend::Needed && enough(hoped) {
                return;
            }
            if hoped & 1 << packet == 0 {
                let psn = span.psn(packet);
                self.lost_bytes += self.sent.entry(psn).map_or(Bytes::ZERO, SentPacket::wire_bytes);
                self.sent.want(psn);
                hoped |= 1 << packet;
            }
        }
    }

    /// Takes in a refusal as [`Recovery::on_refused`] does, and declares the packet lost without
    /// queueing it.
    pub(crate) fn spare_refused(&mut self, psn: Psn, echo_sent_at: u32) -> Option<SentPacket> {
        let refused = self.is_refusal(psn, echo_sent_at);
        let alone = BlockSpan { first: psn, packets: 1 };
        self.spare_of(alone, 0, |_, _| refused).map(|(packet, _)| packet)
    }

    /// The packet in flight that was sent longest ago, if before `limit`.
    pub(crate) fn oldest_before(&mut self, limit: Instant) -> Option<(Psn, SentPacket)> {
        let (psn, _) = self.oldest().filter(|&(_, at)| at < limit)?;
        self.sent.entry(psn).map(|packet| (psn, *packet))
    }

    /// Passes over the next PSN: its packet is not needed.
    pub(crate) fn pass_over(&mut self) {
        self.sent.pass_over();
    }
}
