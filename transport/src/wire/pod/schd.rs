//! The answer of a pod's scheduler, octet by octet.
//!
//! Source: \[zeropod\] III-A, IV-C. The paper's answer has a grant alone. Receipts, standings and
//! deliveries are ours: they take the place of acknowledgements.

use super::super::note::OCTETS_MAX;
use super::super::{Note, TrafficClass};
use super::{
    AGGS_MAX, CELLS_MAX, Delivered, DemandEnd, LAYERS_MAX, RUN_MAX, Reader, SCHD, Stamp, Writer,
};
use crate::units::{FlowId, Psn};

/// A grant: cells may be sent to this receiver in this epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The first epoch in which to send, modulo 2^32.
    pub epoch: u32,
    /// The receiver.
    pub to: DemandEnd,
    /// The aggregation switch of the route, below [`AGGS_MAX`].
    pub agg: u8,
    /// The Core of a route that leaves the pod, by its number at that switch.
    pub layer: Option<u8>,
    /// Cells that are granted in each of the epochs, 1..=[`CELLS_MAX`].
    pub cells: u8,
    /// Epochs in a row that are granted, from `epoch` on, 1..=[`RUN_MAX`].
    pub epochs: u8,
    /// Bytes granted to this demand so far, these among them, modulo 2^32.
    pub total: u32,
    /// Only mice may be sent.
    pub mice_only: bool,
}

/// An answer of a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schd {
    /// The term of the scheduler that answers, modulo 2^16.
    pub term: u16,
    /// The grant of one epoch or of several in a row; `None` where the answer has none.
    pub grant: Option<Grant>,
    /// The epoch, modulo 2^16, in which cells were sent, and those that arrived, a bit each.
    pub receipt: Option<(u16, u32)>,
    /// Bit i: the same cells arrived as of the receipt's epoch that were sent in the epoch `i + 1`
    /// before it. 0 in an answer with delivered cells.
    pub also: u16,
    /// A receiver and the bytes granted for it so far, modulo 2^32: the answer to a total that was
    /// asked for again.
    pub standing: Option<(DemandEnd, u32)>,
    /// Cells of the host that are at their receivers in other pods, or are to be sent again: a
    /// second receipt. An answer with them has no standing and grants one epoch at most, and beside
    /// a receipt it has no more of them than [`Delivered::take_few`] takes.
    pub delivered: Option<Delivered>,
    /// Where clocks of hosts are off: when it left.
    pub stamp: Option<Stamp>,
}

const HAS_GRANT: u8 = 1;
const MICE_ONLY: u8 = 2;
const HAS_RECEIPT: u8 = 4;
const HAS_STANDING: u8 = 8;
const HAS_DELIVERED: u8 = 16;
const HAS_STAMP: u8 = 32;
const STAMP_BEHIND_GAP: u8 = 64;
/// The route leaves the pod.
const HAS_LAYER: u8 = 128;
/// The value of a stamp's lateness for none.
const NOT_LATE: i16 = i16::MIN;
/// Where the cells of a grant begin in the 16 bits of its destination, and the layer in the 8 of
/// its route.
const CELLS_AT: u32 = 11;
const LAYER_AT: u32 = 5;

/// Octets of a second receipt, or of a standing.
const SECOND: usize = 10;
const LEN: usize = 22 + SECOND;
const _: () = assert!(LEN <= OCTETS_MAX);
const _: () = assert!(CELLS_MAX <= 1 << (16 - CELLS_AT), "0 stands for all of them");
const _: () = assert!(AGGS_MAX <= 1 << LAYER_AT && LAYERS_MAX <= 1 << (8 - LAYER_AT));

#[inline]
const fn flag(set: bool, flag: u8) -> u8 {
    if set { flag } else { 0 }
}

impl Schd {
    /// The NOTE of this answer.
    #[inline]
    #[must_use]
    pub fn note(&self) -> Note {
        let none = Grant {
            epoch: 0,
            to: DemandEnd::Host(0),
            agg: 0,
            layer: None,
            cells: 0,
            epochs: 1,
            total: 0,
            mice_only: false,
        };
        let grant = self.grant.unwrap_or(none);
        // An answer without a grant has room for its own epoch.
        let epoch = match (self.grant, self.stamp) {
            (None, Some(Stamp { window: Some(window), .. })) => window,
            _ => grant.epoch,
        };
        let late = self.stamp.map_or(0, |stamp| stamp.late.unwrap_or(NOT_LATE));
        let cells = u16::from(grant.cells) % CELLS_MAX;
        let mut out = Writer::new();
        out.put(self.term.to_be_bytes()).put(epoch.to_be_bytes());
        out.put([self.flags(), grant.agg | grant.layer.unwrap_or(0) << LAYER_AT]);
        out.put(late.to_be_bytes());
        out.put((cells << CELLS_AT | grant.to.word()).to_be_bytes()).put(grant.total.to_be_bytes());
        self.put_receipts(&mut out);
        out.note(SCHD)
    }

    #[inline(always)]
    fn flags(&self) -> u8 {
        let of_grant = |is: fn(&Grant) -> bool| self.grant.as_ref().is_some_and(is);
        let of_run = |is: fn(&Delivered) -> bool| self.delivered.as_ref().is_some_and(is);
        flag(self.grant.is_some(), HAS_GRANT)
            | flag(of_grant(|grant| grant.mice_only), MICE_ONLY)
            | flag(of_grant(|grant| grant.layer.is_some()), HAS_LAYER)
            | flag(self.receipt.is_some(), HAS_RECEIPT)
            | flag(self.standing.is_some() || of_run(|run| run.again), HAS_STANDING)
            | flag(self.delivered.is_some(), HAS_DELIVERED)
            | flag(self.stamp.is_some(), HAS_STAMP)
            | flag(self.stamp.is_some_and(|stamp| stamp.behind_gap), STAMP_BEHIND_GAP)
    }

    /// Writes the receipt, and the second one or the standing.
    #[inline(always)]
    fn put_receipts(&self, out: &mut Writer) {
        debug_assert!(self.delivered.is_none() || self.standing.is_none(), "one has room");
        debug_assert!(self.delivered.is_none() || self.also == 0, "there is no room beside it");
        let beside = self.delivered.map_or(0, |run| run.arrived >> Delivered::BESIDE_RECEIPT);
        debug_assert!(beside == 0 || self.receipt.is_none(), "a few have room beside a receipt");
        #[expect(clippy::cast_possible_truncation, reason = "halves")]
        let (sent_in, arrived) = self.receipt.unwrap_or((beside as u16, 0));
        out.put(sent_in.to_be_bytes()).put(arrived.to_be_bytes());
        if let Some(Delivered { flow, first, arrived, .. }) = self.delivered {
            #[expect(clippy::cast_possible_truncation, reason = "halves")]
            let few = arrived as u16;
            out.put(flow.0.to_be_bytes()).put(first.0.to_be_bytes()).put(few.to_be_bytes());
        } else {
            let (to, granted) = self.standing.unwrap_or((DemandEnd::Host(0), 0));
            out.put(to.word().to_be_bytes()).put(granted.to_be_bytes());
            let epochs = self.grant.map_or(1, |grant| grant.epochs);
            out.put(self.also.to_be_bytes()).put([epochs.wrapping_sub(1), 0]);
        }
    }

    /// The answer in a NOTE; `None` for any other NOTE.
    #[must_use]
    pub fn of(note: &Note) -> Option<Self> {
        if note.protocol != SCHD || note.class != TrafficClass::Control {
            return None;
        }
        let mut from = Reader(note.said());
        let (term, epoch, [flags, route]) = (from.u16()?, from.u32()?, from.take()?);
        let late = from.u16()?.cast_signed();
        let (to, total) = (from.u16()?, from.u32()?);
        let (sent_in, arrived) = (from.u16()?, from.u32()?);
        let second: [u8; SECOND] = from.take()?;
        let has = |flag| flags & flag != 0;
        let odd = (has(STAMP_BEHIND_GAP) || late != 0) && !has(HAS_STAMP);
        if odd || !from.0.is_empty() {
            return None;
        }
        let stamp = has(HAS_STAMP).then_some(Stamp {
            window: (!has(HAS_GRANT)).then_some(epoch),
            behind_gap: has(STAMP_BEHIND_GAP),
            late: (late != NOT_LATE).then_some(late),
        });
        // 0 stands for all of them.
        let cells = Some(to >> CELLS_AT).filter(|cells| *cells > 0).unwrap_or(CELLS_MAX);
        // Receipts of further epochs and further epochs of the grant have their place where no
        // delivered cells have it.
        let [.., also0, also1, further, _] = second;
        let shown = !has(HAS_DELIVERED);
        let further = if shown && has(HAS_GRANT) { further } else { 0 };
        if u16::from(further) >= RUN_MAX {
            return None;
        }
        let grant = has(HAS_GRANT).then_some(Grant {
            epoch,
            to: DemandEnd::of(to),
            agg: route & ((1 << LAYER_AT) - 1),
            layer: has(HAS_LAYER).then_some(route >> LAYER_AT),
            cells: u8::try_from(cells).unwrap_or(u8::MAX),
            epochs: further + 1,
            total,
            mice_only: has(MICE_ONLY),
        });
        let receipt = has(HAS_RECEIPT).then_some((sent_in, arrived));
        let also = u16::from_be_bytes([also0, also1]);
        let also = if shown && has(HAS_RECEIPT) { also } else { 0 };
        let beside = if has(HAS_RECEIPT) { 0 } else { sent_in };
        let mut second = Reader(&second);
        let (mut delivered, mut standing) = (None, None);
        if has(HAS_DELIVERED) {
            let (flow, first) = (FlowId(second.u32()?), Psn(second.u32()?));
            let arrived = u32::from(beside) << Delivered::BESIDE_RECEIPT | u32::from(second.u16()?);
            // A standing has no room beside it: both flags say that the cells are to be sent again.
            let again = has(HAS_STANDING);
            delivered = Some(Delivered { flow, first, arrived, again });
        } else if has(HAS_STANDING) {
            standing = Some((DemandEnd::of(second.u16()?), second.u32()?));
        }
        Some(Self { term, grant, receipt, also, standing, delivered, stamp })
    }
}
