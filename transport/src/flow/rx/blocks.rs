//! The receiving side of a flow whose messages are erasure-coded. Source: \[uno\] sec. 4.2.
//!
//! Which packets of a block have arrived is in the bitmap of PSNs that every flow keeps. As soon as
//! they are enough the whole block counts as arrived. Packets still on their way are not needed
//! then, and the same bitmap shows the sender that nothing of the block has to be sent again.

use core::num::NonZeroU8;

use super::super::open_blocks::OpenBlock;
use super::super::reassembly::MsgState;
use super::super::received::ReceivedPsns;
use super::super::recovery::BlockSpan;
use super::super::rx_buffers::RxBuffers;
use super::{RxContext, RxFlow};
use crate::config::Config;
use crate::ec::{Block, BlockShape, Ec, ErasureCode as _};
use crate::segment::{Restore, RxSegment};
use crate::stats::DropReason;
use crate::units::{MsgId, Psn};
use crate::wire::{BlockNack, Body, Coded, Data, Header};

/// The place of a packet in a block.
pub(super) struct BlockPosition {
    shape: BlockShape,
    block: Block,
    /// Length of the message, and where the block begins in it, bytes.
    msg_len: u32,
    offset: u32,
    pub(super) span: BlockSpan,
    /// Payload that the packet must have, bytes.
    pub(super) payload_len: u16,
}

/// The effect of a packet's arrival on its block.
pub(super) struct Gain {
    place: BlockPosition,
    /// The block is decoded now.
    pub(super) whole: bool,
    /// The packet was the first of the block, and is not enough.
    pub(super) opens: bool,
    /// Segments that are restored now, and their bytes.
    pub(super) segments: u32,
    pub(super) bytes: u32,
    /// The packets that have arrived.
    have: u64,
}

impl BlockPosition {
    /// The place that `data`, of a message of `msg_len` bytes, claims; `None` when it belongs to no
    /// block.
    #[inline]
    pub(super) fn claimed(
        data: &Data,
        msg_len: u32,
        config: &Config,
    ) -> Result<Option<Self>, DropReason> {
        match data.code {
            Some(code) => Self::of(code, data, msg_len, config).map(Some),
            None => Ok(None),
        }
    }

    /// The place that `data`, of a message of `msg_len` bytes, claims by its extension `code`.
    pub(super) fn of(
        code: Coded,
        data: &Data,
        msg_len: u32,
        config: &Config,
    ) -> Result<Self, DropReason> {
        let bad = DropReason::BadSegment;
        let payload_max = u32::from(config.payload_max);
        let shape = BlockShape::new(code.data(), code.parity()).map_err(|_| bad)?;
        let number = config.ec.number().map(NonZeroU8::get);
        if number != Some(code.number()) || shape != config.ec_shape {
            // The memory for blocks has another shape.
            return Err(bad);
        }
        let blocks = shape.blocks(msg_len.div_ceil(payload_max));
        let (index, first) = blocks.find(data.offset / payload_max).ok_or(bad)?;
        let block = blocks.get(index).ok_or(bad)?;
        let (claimed, number) = match code.parity_index() {
            Some(parity) => (0, block.data + parity),
            None => (code.packet(), code.packet()),
        };
        if !data.offset.is_multiple_of(payload_max) || first != claimed {
            return Err(bad);
        }
        let left = u16::try_from(msg_len - data.offset).unwrap_or(u16::MAX);
        let first = Psn(data.psn.0.wrapping_sub(u32::from(number)));
        let span = BlockSpan { first, packets: block.packets() };
        let payload_len = left.min(config.payload_max);
        let offset = block.first * payload_max;
        Ok(Self { shape, block, msg_len, offset, span, payload_len })
    }

    /// Computes the effect on the block after a packet of it has been noted in `received`.
    pub(super) fn after(
        self,
        received: &mut ReceivedPsns,
        words: &mut [u64],
        config: &Config,
    ) -> Gain {
        let BlockSpan { first, packets } = self.span;
        let have = received.bits_of(words, first, packets);
        let whole =
            Ec::new(config.ec, self.shape, &config.code_params).is_decodable(&self.block, have);
        let opens = !whole && have.count_ones() == 1;
        let (mut segments, mut bytes) = (0, 0);
        let missing = self.block.missing_data(have);
        let payload_max = u32::from(config.payload_max);
        for packet in (0..packets).filter(|packet| whole && have & 1 << packet == 0) {
            received.insert(words, first.plus(u32::from(packet)));
            if missing & 1 << packet != 0 {
                let offset = (self.block.first + u32::from(packet)) * payload_max;
                segments += 1;
                bytes += (self.msg_len - offset).min(payload_max);
            }
        }
        Gain { place: self, whole, opens, segments, bytes, have }
    }
}

impl Gain {
    /// The block for the driver to restore, if parity of it was kept.
    fn restore(&self, msg: MsgId) -> Option<Restore> {
        let BlockPosition { shape, block, msg_len, offset, .. } = self.place;
        let parity = self.have & block.all() & !block.all_data();
        (self.whole && parity != 0).then_some(Restore {
            msg,
            offset,
            msg_len,
            full: shape.data(),
            data: block.data,
            parity: shape.parity(),
            have: self.have,
        })
    }
}

impl RxFlow {
    /// Notes the effect of `rx` on its block, of message `id`.
    pub(super) fn note(&self, gain: &Gain, id: MsgId, rx: &RxSegment, cx: &mut RxContext<'_>) {
        cx.stats.restored += u64::from(gain.segments);
        cx.stats.data_placed_bytes += u64::from(gain.bytes);
        cx.restores.extend(gain.restore(id));
        if gain.opens {
            cx.blocks.wait_for(OpenBlock {
                since: rx.at,
                asked: 0,
                have: 1,
                flow: self.id,
                span: gain.place.span,
                ev: rx.hdr.ev,
            });
        }
    }

    /// True when every packet of the block of `data`, which has arrived before, counts as arrived.
    pub(super) fn is_whole(&self, data: &Data, cx: &RxContext<'_>) -> bool {
        let Some(code) = data.code else { return false };
        match self.msgs.state(cx.buffers.ring(self.lease), data.msg) {
            Some(MsgState::Done) => true,
            Some(MsgState::Open(id)) => {
                let len = cx.msgs.get(id).map_or(0, |msg| msg.len);
                let place = BlockPosition::of(code, data, len, cx.config).ok();
                place.is_some_and(|place| self.missing(place.span, cx.buffers) == 0)
            }
            Some(MsgState::Unseen) | None => false,
        }
    }

    /// The packets of a block that have not arrived and are needed, as a bitmap.
    pub(crate) fn missing(&self, span: BlockSpan, buffers: &RxBuffers) -> u64 {
        let words = buffers.words(self.lease);
        span.all() & !self.received.bits_of(words, span.first, span.packets)
    }

    /// The header of a request for the packets that a block lacks, at the moment it leaves; `None`
    /// when it lacks none by now.
    pub(crate) fn block_header(&self, open: &OpenBlock, buffers: &RxBuffers) -> Option<Header> {
        let missing = self.missing(open.span, buffers);
        let nack = BlockNack { src_flow: self.id, psn: open.span.first, missing };
        let header = Header::new(open.ev, self.src_flow, Body::BlockNack(nack)).keyed(self.key);
        (missing != 0).then_some(header)
    }
}
