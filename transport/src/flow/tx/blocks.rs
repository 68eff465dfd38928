//! The sending side of a flow whose messages are erasure-coded. Source: \[uno\] sec. 4.2.
//!
//! Each block's parity leaves right behind its last segment, in PSNs of its own and through the
//! same window and pacer. A lost packet is sent again only when its block cannot be decoded without
//! it: the receiver asks for the block by BLOCK_NACK, or silence counts as loss. Where such a block
//! shows paths to be dead, packets of other blocks on these paths are lost, too. Packets of a block
//! that is decoded count as acknowledged.
//!
//! Where blocks are coded by loss ([`LossWatch`]), later acknowledgements show losses as in flows
//! without a code, of coded blocks, too, as long as these cannot be decoded.

use alloc::boxed::Box;

use super::super::ahead::{Leave, MaybeChoice};
use super::super::recovery::{BlockSpan, Loss};
use super::super::sent_packets::{Fate, Marks, SentPacket};
use super::feedback::arrivals;
use super::send::{Carried, New};
use super::{TxContext, TxFlow, TxMsg, Wait};
use crate::cc::Inference;
use crate::config::Config;
use crate::ec::{Block, BlockChoice, Blocks, Ec, ErasureCode as _};
use crate::ec::{LossWatch, PathLosses, QueueSign};
use crate::lb::{Lb, LoadBalancer as _};
use crate::segment::{RxSegment, TxSegment};
use crate::time::{Duration, Instant};
use crate::units::{Bytes, Psn};
use crate::wire::{Ack, BlockNack, Coded};

/// Parity to be sent before anything else that is new.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ParityDue {
    /// Offset of its block in the message being sent, bytes.
    offset: u32,
    /// Payload bytes: the longest segment of the block.
    len: u16,
    /// Packets left, 0..=`PARITY_MAX`.
    pub(super) left: u8,
    /// Packets of parity in the block.
    all: u8,
    /// Data packets of the block.
    data: u8,
    /// Whether the block is the message's last.
    last: bool,
}

impl TxFlow {
    fn blocks(code: &Ec, config: &Config, len: u32) -> Blocks {
        code.shape().blocks(len.div_ceil(u32::from(config.payload_max)))
    }

    /// Packets of a message of `len` bytes, and their payload bytes.
    pub(super) fn packets_of(&self, config: &Config, len: u32) -> (u64, u64) {
        let payload_max = u64::from(config.payload_max);
        let Some(code) = self.code.as_ref().filter(|_| self.watch.is_none()) else {
            return (u64::from(len).div_ceil(payload_max), u64::from(len));
        };
        let blocks = Self::blocks(code, config, len);
        let full = u64::from(blocks.count().saturating_sub(1));
        let before_last = full * u64::from(code.shape().data()) * payload_max;
        let longest = (u64::from(len) - before_last).min(payload_max);
        let parity = u64::from(code.shape().parity()) * (full * payload_max + longest);
        (blocks.packets(), u64::from(len) + parity)
    }

    /// The header fields that the packet at `offset` of a message carries beside the fixed ones.
    #[inline]
    pub(super) fn carried(
        &self,
        config: &Config,
        state: &TxMsg,
        offset: u32,
        marks: Marks,
    ) -> Carried {
        // Parity of the first block has offset 0 and carries the tag, too: it may stand in for the
        // segment.
        let carried = Carried::of(state, offset, self.id, self.dst_flow);
        let code = self.code.as_ref().filter(|_| marks.is_coded());
        let code = code.and_then(|code| coded(code, config, offset, marks));
        Carried { code, ..carried }
    }

    /// Whether the block being sent is coded, or was the last one.
    #[inline]
    pub(super) fn is_coding(&self) -> bool {
        self.code.is_some() && self.watch.as_ref().is_none_or(|watch| watch.coding)
    }

    /// The most packets that may leave of what was posted and never sent.
    pub(super) fn unsent_packets(&self) -> u64 {
        let shape = self.code.as_ref().filter(|_| self.watch.is_some()).map(Ec::shape);
        let parity = shape.map_or(0, |shape| {
            // A message ends with a block of its own; the one under way may be coded, too.
            let blocks = self.unsent_segments / u64::from(shape.data()) + u64::from(self.unsent);
            (blocks + 1) * u64::from(shape.parity())
        });
        self.unsent_segments + parity
    }

    /// Notes that the segment at `offset` of a message of `len` bytes, the `last` or not, leaves at
    /// `now`, and the parity that is to follow it.
    pub(super) fn owe_parity(
        &mut self,
        (len, offset, last): (u32, u32, bool),
        now: Instant,
        cx: &mut TxContext<'_>,
    ) {
        if let Some(watch) = &mut self.watch {
            watch.on_sent(now, cx.losses);
            match watch.begun() {
                Some(BlockChoice::Coded) => cx.stats.ec_auto_coded += 1,
                Some(BlockChoice::Uncoded) => cx.stats.ec_auto_uncoded += 1,
                None => {}
            }
        }
        if !self.is_coding() {
            return;
        }
        self.parity = self.parity_behind(cx.config, len, offset, last);
        if self.watch.is_some() {
            // Blocks that are coded were not known to be when the message was posted.
            let (packets, payload) = (u64::from(self.parity.left), u64::from(self.parity.len));
            self.unsent_segments += packets;
            self.unsent_bytes += Bytes(packets * (payload + u64::from(self.coded_overhead)));
        }
    }

    /// The parity that belongs behind the segment at `offset` of a message of `len` bytes.
    fn parity_behind(&self, config: &Config, len: u32, offset: u32, last: bool) -> ParityDue {
        let Some(code) = &self.code else { return ParityDue::default() };
        let payload_max = u32::from(config.payload_max);
        let found = Self::blocks(code, config, len).find(offset / payload_max);
        let Some((_, packet)) = found else { return ParityDue::default() };
        if !last && packet + 1 < code.shape().data() {
            return ParityDue::default();
        }
        let begin = offset - u32::from(packet) * payload_max;
        let longest = u16::try_from(len - begin).unwrap_or(u16::MAX).min(config.payload_max);
        let all = code.shape().parity();
        ParityDue { offset: begin, len: longest, left: all, all, data: packet + 1, last }
    }

    /// The next parity packet.
    pub(super) fn send_parity(
        &mut self,
        leave: Leave<impl MaybeChoice>,
        now: Instant,
        cx: &mut TxContext<'_>,
        out: &mut TxSegment,
    ) -> Result<(), Wait> {
        let due = self.parity;
        // Its message counts as unsent until its last parity has left.
        let ahead = self.unfinished.len() - self.unsent as usize;
        let msg = self.unfinished.get(ahead).copied().unwrap_or_default();
        let Some(state) = cx.msgs.get(msg).copied() else { return Err(Wait::Application) };
        let marks = Marks::parity(due.all - due.left);
        let (segments, payload_len) = (1, due.len);
        let new = New { msg, offset: due.offset, payload_len, segments, marks };
        self.send(&new, &state, (leave, now), cx.config, out)?;
        cx.stats.parity_new += 1;
        self.parity.left -= 1;
        self.unsent -= u32::from(due.last && self.parity.left == 0);
        Ok(())
    }

    /// Leaves out the parity of a block that was whole at the receiver before the parity was sent.
    /// The PSNs of that parity are passed over, since the receiver counts them as arrived.
    #[inline]
    pub(super) fn pass_over_parity(&mut self) {
        if self.parity.left > 0 {
            self.pass_over_due();
        }
    }

    /// [`TxFlow::pass_over_parity`] while parity is due.
    #[inline(never)]
    fn pass_over_due(&mut self) {
        let due = self.parity;
        let behind = u32::from(due.data) + u32::from(due.all - due.left);
        let first = Psn(self.recovery.next().0.wrapping_sub(behind));
        let data = BlockSpan { first, packets: due.data };
        if self.recovery.arrived_of(data).count_ones() < u32::from(due.data) {
            return;
        }
        let packet = Bytes(u64::from(self.coded_overhead + due.len));
        for _ in 0..due.left {
            self.recovery.pass_over();
            self.unsent_segments -= 1;
            self.unsent_bytes -= packet;
        }
        self.unsent -= u32::from(due.last);
        self.parity = ParityDue::default();
    }

    /// The block that `packet`, sent as `psn`, belongs to; `None` when its message is finished.
    fn block_of(
        &self,
        psn: Psn,
        packet: &SentPacket,
        cx: &TxContext<'_>,
    ) -> Option<(BlockSpan, Block)> {
        let code = self.code.as_ref().filter(|_| packet.marks.is_coded())?;
        let len = cx.msgs.get(packet.msg)?.len.get();
        let blocks = Self::blocks(code, cx.config, len);
        let (index, data) = blocks.find(packet.offset / u32::from(cx.config.payload_max))?;
        let block = blocks.get(index)?;
        let number = packet.marks.parity_index().map_or(data, |parity| block.data + parity);
        let first = Psn(psn.0.wrapping_sub(u32::from(number)));
        Some((BlockSpan { first, packets: block.packets() }, block))
    }

    /// The packets of the block of `psn`, while it is outstanding and its message unfinished.
    pub(super) fn span_at(&self, psn: Psn, cx: &TxContext<'_>) -> Option<BlockSpan> {
        let packet = self.recovery.entry(psn)?;
        self.block_of(psn, packet, cx).map(|(span, _)| span)
    }

    /// Counts the outstanding packets of a packet's block as acknowledged if the receiver has
    /// enough of the block. True when it has; false for a packet of no coded block.
    pub(super) fn settle(&mut self, psn: Psn, packet: &SentPacket, cx: &mut TxContext<'_>) -> bool {
        if !packet.marks.is_coded() {
            return false;
        }
        let span = match (self.block_of(psn, packet, cx), &self.code) {
            (Some((span, block)), Some(code)) => {
                if !code.is_decodable(&block, self.recovery.arrived_of(span)) {
                    return false;
                }
                span
            }
            _ => BlockSpan { first: psn, packets: 1 },
        };
        self.take_arrived(span, u64::MAX, cx);
        true
    }

    /// Notes that the packets `bits` of a block have arrived, or are needed no more. True when an
    /// arrival was not known.
    fn take_arrived(&mut self, span: BlockSpan, bits: u64, cx: &mut TxContext<'_>) -> bool {
        let mut acked = Bytes::ZERO;
        let arrived = arrivals(&mut self.unfinished, &mut acked, cx);
        let any = self.recovery.on_arrived_of(span, bits, arrived);
        self.pass_over_parity();
        any
    }

    /// Declares every packet sent before `limit` lost.
    pub(super) fn lose_before(
        &mut self,
        limit: Instant,
        by: Inference,
        now: Instant,
        cx: &mut TxContext<'_>,
    ) {
        // Each turn takes a packet out of flight.
        while let Some((psn, packet)) = self.recovery.oldest_before(limit) {
            if !packet.marks.is_coded() {
                if let Some(loss) = self.recovery.next_sent_before(limit, by) {
                    self.on_loss(&loss, now, cx);
                }
            } else if !self.settle(psn, &packet, cx) {
                let before = |_: u8, packet: &SentPacket| packet.sent_at < limit;
                self.lose(psn, &packet, before, by, now, cx);
            }
        }
    }

    /// Counts `ack`, an acknowledgement or a refusal, as evidence. Only flows that are coded by
    /// loss take any.
    #[inline(never)]
    pub(super) fn watch_answer(&mut self, rx: &RxSegment, ack: &Ack, refused: bool) {
        let Some(watch) = &mut self.watch else { return };
        let sign = match (refused, ack.ce) {
            (true, _) => QueueSign::Refused,
            (false, true) => QueueSign::Marked,
            (false, false) => QueueSign::None,
        };
        let took = rx.at.round_trip(ack.echo_sent_at);
        let waited = took.saturating_sub(Duration::from_wire(ack.held) + self.path.base_rtt);
        watch.on_answer(rx.at.before(took), waited, sign);
    }

    /// Counts an acknowledgement as evidence, declares lost what it shows to be lost, and has the
    /// evidence judged that is complete with it.
    #[inline(never)]
    pub(super) fn watch_ack(&mut self, rx: &RxSegment, ack: &Ack, cx: &mut TxContext<'_>) {
        self.watch_answer(rx, ack, false);
        let limit = self.recovery.overtaken_before();
        if let Some(limit) = limit {
            self.lose_before(limit, Inference::LaterAck, rx.at, cx);
        }
        self.judge_idle(rx.at, cx);
        if let (Some(watch), Some(limit)) = (&mut self.watch, limit) {
            watch.judge(limit, rx.at, cx.losses);
        }
    }

    /// Has all evidence judged where nothing is outstanding.
    pub(super) fn judge_idle(&mut self, now: Instant, cx: &mut TxContext<'_>) {
        if self.is_idle()
            && let Some(watch) = &mut self.watch
        {
            watch.judge_all(now, cx.losses);
        }
    }

    /// Declares lost the packets of a packet's block that are in flight and for which `which`
    /// holds, and queues those that the block needs.
    fn lose(
        &mut self,
        psn: Psn,
        packet: &SentPacket,
        which: impl Fn(u8, &SentPacket) -> bool,
        by: Inference,
        now: Instant,
        cx: &mut TxContext<'_>,
    ) {
        let Some((span, block)) = self.block_of(psn, packet, cx) else { return };
        let mut from = 0;
        while let Some((packet, next)) = self.recovery.spare_of(span, from, &which) {
            from = next;
            self.on_loss(&Loss { packet, by }, now, cx);
        }
        self.want(span, &block, cx.config);
    }

    /// Looks for packets on dead paths after a block could not be decoded. If paths of that block
    /// are taken for dead, no other block with too many packets on these paths can be decoded
    /// either. Such packets are declared lost now, without waiting for a request for each block.
    /// O(outstanding), once per round trip.
    fn lose_silent(&mut self, lacking: BlockSpan, now: Instant, cx: &mut TxContext<'_>) {
        let gone = |lb: &Lb, packet: &SentPacket| lb.is_silent(packet.ev, now);
        let any = (0..lacking.packets).any(|number| {
            let packet = self.recovery.entry(lacking.first.plus(u32::from(number)));
            packet.is_some_and(|packet| packet.fate != Fate::Acked && gone(&self.lb, packet))
        });
        if !any || now < self.swept_until {
            return;
        }
        self.swept_until = now + self.path.base_rtt;
        let lb = self.lb.clone();
        let mut psn = self.recovery.base();
        while psn.distance_from(self.recovery.next()) < 0 {
            let packet = self.recovery.entry(psn).copied();
            let known = packet.and_then(|packet| Some((packet, self.block_of(psn, &packet, cx)?)));
            let Some((packet, (span, block))) = known else {
                psn = psn.plus(1);
                continue;
            };
            let hoped = self.recovery.hoped_of(span, |packet| gone(&lb, packet));
            if self.code.as_ref().is_some_and(|code| !code.is_decodable(&block, hoped)) {
                let which = |_: u8, packet: &SentPacket| gone(&lb, packet);
                self.lose(psn, &packet, which, Inference::Block, now, cx);
            }
            psn = span.first.plus(u32::from(span.packets));
        }
    }

    fn want(&mut self, span: BlockSpan, block: &Block, config: &Config) {
        if let Some(code) = &self.code {
            let resend = config.ec_params.resend;
            self.recovery.want_of(span, resend, |have| code.is_decodable(block, have));
        }
    }

    /// Declares the segment that a NACK refuses lost, queues it if its block needs it, and returns
    /// it.
    pub(super) fn take_refused(&mut self, nack: &Ack, cx: &TxContext<'_>) -> Option<SentPacket> {
        let coded = |packet: &SentPacket| packet.marks.is_coded();
        if self.code.is_none() || !self.recovery.entry(nack.psn).is_some_and(coded) {
            return self.recovery.on_refused(nack.psn, nack.echo_sent_at);
        }
        let packet = self.recovery.spare_refused(nack.psn, nack.echo_sent_at)?;
        if let Some((span, block)) = self.block_of(nack.psn, &packet, cx) {
            self.want(span, &block, cx.config);
        }
        Some(packet)
    }

    /// Takes in a BLOCK_NACK: the packets of a block that the receiver lacks. False when it
    /// contradicts the packets that were sent.
    pub(crate) fn on_block_nack(
        &mut self,
        rx: &RxSegment,
        nack: &BlockNack,
        cx: &mut TxContext<'_>,
    ) -> bool {
        let lacking = nack.psn.plus(nack.missing.trailing_zeros());
        let ahead = lacking.distance_from(self.recovery.next());
        if self.code.is_none() || ahead >= i32::from(self.parity.left.max(1)) {
            return false;
        }
        if !self.is_named(nack.src_flow) {
            return false;
        }
        cx.stats.block_nacks_received += 1;
        // A packet that is not outstanding, or is of a finished message, has arrived since.
        let packet = self.recovery.entry(lacking).copied();
        let known = packet.and_then(|packet| Some((packet, self.block_of(lacking, &packet, cx)?)));
        let Some((packet, (span, _))) = known else {
            self.recovery.on_asked(false, false, rx.at);
            return true;
        };
        if span.first != nack.psn {
            return false;
        }
        let any = self.take_arrived(span, !nack.missing, cx);
        let limit = self.recovery.on_asked(any, true, rx.at);
        if !self.settle(lacking, &packet, cx) {
            let gone = |number: u8, packet: &SentPacket| {
                nack.missing & 1 << number != 0 && packet.sent_at <= limit
            };
            self.lose(lacking, &packet, gone, Inference::Block, rx.at, cx);
            self.lose_silent(span, rx.at, cx);
        }
        self.judge_idle(rx.at, cx);
        self.window = crate::cc::CongestionControl::window(&self.cc);
        true
    }
}

/// The marks of the segment of a message of a flow with `code`, which is to leave at `now` through
/// a window of `cwnd`. Where a watch decides, it does so for whole blocks.
pub(super) fn code_marks(
    (code, watch): (&Ec, &mut Option<Box<LossWatch>>),
    msg: &TxMsg,
    (now, cwnd): (Instant, Bytes),
    config: &Config,
    losses: &mut PathLosses,
) -> Marks {
    let Some(watch) = watch else { return Marks::CODED };
    let block = u32::from(code.shape().data()) * u32::from(config.payload_max);
    let (offset, left) = (msg.next_offset, msg.len.get() - msg.next_offset);
    watch.on_offset((offset, left, block), (now, cwnd), losses);
    if watch.coding { Marks::CODED } else { Marks::default() }
}

/// The place of the packet at `offset` in its block.
fn coded(code: &Ec, config: &Config, offset: u32, marks: Marks) -> Option<Coded> {
    let shape = code.shape();
    let segment = offset / u32::from(config.payload_max);
    let data = u8::try_from(segment % u32::from(shape.data())).ok()?;
    let packet = marks.parity_index().map_or(data, |parity| shape.data() + parity);
    Coded::new(code.kind().number()?, shape.data(), shape.parity(), packet)
}
