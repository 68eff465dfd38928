//! A host's records of epochs: grants for coming epochs, and the segments that left in its cells.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use core::ops::Range;

use crate::sched::Reported;
use crate::units::{FlowId, Psn};
use crate::wire::pod::{CELLS_MAX, Delivered, DemandEnd, Grant};

/// Grants kept at most; an answer is never so many epochs ahead.
pub(super) const GRANTS_MAX: usize = 64;

/// Grants for epochs to come, ascending, one an epoch.
#[derive(Clone, Debug)]
pub(super) struct Grants(VecDeque<(u64, Grant)>);

impl Grants {
    pub(super) fn new() -> Self {
        Self(VecDeque::with_capacity(GRANTS_MAX))
    }

    /// Keeps a grant; false when there is one for that epoch, or too many.
    pub(super) fn insert(&mut self, epoch: u64, grant: Grant) -> bool {
        let at = self.0.partition_point(|(other, _)| *other < epoch);
        if self.0.len() >= GRANTS_MAX || self.0.get(at).is_some_and(|(other, _)| *other == epoch) {
            return false;
        }
        self.0.insert(at, (epoch, grant));
        true
    }

    /// Takes the first grant for an epoch up to `epoch`.
    pub(super) fn take_until(&mut self, epoch: u64) -> Option<(u64, Grant)> {
        self.0.front().filter(|(at, _)| *at <= epoch)?;
        self.0.pop_front()
    }

    /// The first epoch with a grant.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.front().map(|(epoch, _)| *epoch)
    }

    /// The grant for `epoch`.
    #[inline]
    pub(super) fn at(&self, epoch: u64) -> Option<&Grant> {
        let first = self.first().filter(|first| *first <= epoch)?;
        let found = |at: usize| self.0.get(at).filter(|(other, _)| *other == epoch);
        // Where each epoch from the first on has a grant, it is there.
        let guess = usize::try_from(epoch - first).unwrap_or(usize::MAX);
        let grant =
            found(guess).or_else(|| found(self.0.partition_point(|(other, _)| *other < epoch)));
        grant.map(|(_, grant)| grant)
    }
}

/// Epochs whose segments are kept at most, and where no request says that a receipt is missing:
/// longer than a receipt takes.
const SENT_MAX: u64 = 64;

/// Epochs whose segments are kept beyond `lag`. A receipt comes before `lag` is over
/// ([`super::timing::Timing::to_lost`]); these have room for one that waits behind others.
const SENT_MORE: u64 = 8;

/// Segments by the epoch and the slot in which they left.
#[derive(Clone, Debug)]
pub(super) struct Records {
    sent: Box<[Sent]>,
    /// The segment that begins in each slot, `cells` for each record in `sent`.
    segments: Box<[(FlowId, Psn)]>,
    /// Slots of an epoch.
    cells: u16,
    /// Epochs whose cells a host of the pod gets and has reported none of; ascending.
    unreported: VecDeque<u64>,
    /// Epochs whose cells a host of the pod gets and has not reported all of, until no report can
    /// name them; ascending. `None` where a flow's timeout is about as short.
    open: Option<VecDeque<u64>>,
    /// The first epoch whose cells the scheduler of this term may have granted.
    term_from: u64,
    /// Places before this one in `sent` have been looked at since the term began.
    again_from: usize,
    /// Epochs from the one in which cells are sent to the request that says that none has been
    /// reported; `None` where no request does.
    lag: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    epoch: u64,
    /// Slots with a segment that was not reported, a bit each.
    slots: u32,
    /// The slots of these that belong to the segment of the slot before.
    joined: u32,
    /// Whether a host of the pod gets them.
    inside: bool,
}

const NOTHING: Sent = Sent { epoch: 0, slots: 0, joined: 0, inside: false };

const _: () = assert!(CELLS_MAX as u32 == u32::BITS, "a bit for each slot");

/// A bit for each of the slots; those beyond the last have none.
fn slots_of(slots: Range<u16>) -> u32 {
    let below = |slot: u16| 1_u32.checked_shl(slot.into()).map_or(u32::MAX, |bit| bit - 1);
    below(slots.end) & !below(slots.start)
}

impl Records {
    /// Nothing has been sent. An epoch has `cells` slots. A request that leaves `lag` epochs later
    /// says that no receipt came.
    pub(super) fn new(cells: u16, lag: Option<u64>) -> Self {
        // A plan refuses a pod whose receipts take longer, after it has made such a host.
        let kept = lag.map_or(SENT_MAX, |lag| SENT_MAX.min(lag + SENT_MORE)).next_power_of_two();
        let kept = usize::try_from(kept).unwrap_or(usize::MAX);
        // What is older than `lag` is given up.
        let room = if lag.is_some() { kept } else { 0 };
        Self {
            sent: vec![NOTHING; kept].into(),
            segments: vec![(FlowId::UNKNOWN, Psn(0)); kept * usize::from(cells)].into(),
            cells,
            unreported: VecDeque::with_capacity(room),
            open: None,
            term_from: 0,
            again_from: kept,
            lag,
        }
    }

    /// These records, where cells that a host of the pod gets are sent again as soon as no receipt
    /// can name them any more, if `resending`.
    pub(super) fn resending(self, resending: bool) -> Self {
        let open = resending.then(|| VecDeque::with_capacity(self.sent.len() + 1));
        Self { open, ..self }
    }

    /// Epochs for which segments are kept.
    const fn kept(&self) -> u64 {
        self.sent.len() as u64
    }

    /// Whether some cell of an epoch has not been reported.
    fn is_open(&self, epoch: u64) -> bool {
        let sent = &self.sent[self.place(epoch)];
        sent.epoch == epoch && sent.slots != 0
    }

    /// The first epoch in which no receipt can name the cells of some epoch any more that have not
    /// been looked at.
    pub(super) fn expires(&self) -> Option<u64> {
        self.open.as_ref()?.front().map(|sent| sent + self.kept())
    }

    /// Appends segments of some epoch that no receipt can name from `epoch` on to `out`, to be sent
    /// again. False when there are no more. Bounded by the epochs that are kept.
    pub(super) fn expire(&mut self, epoch: u64, out: &mut VecDeque<Reported>) -> bool {
        let kept = self.kept();
        while let Some(open) = &mut self.open
            && let Some(sent) = open.front().copied().filter(|sent| sent + kept <= epoch)
        {
            open.pop_front();
            if self.is_open(sent) {
                self.take(self.place(sent), u32::MAX, true, out);
                return true;
            }
        }
        false
    }

    /// The place of an epoch's record.
    fn place(&self, epoch: u64) -> usize {
        // A power of two: each cell that is sent comes here, and a division costs more.
        usize::try_from(epoch & (self.sent.len() as u64 - 1)).unwrap_or(0)
    }

    /// The place of the segment that begins in a slot of the record at `place`.
    fn segment_place(&self, place: usize, slot: u16) -> usize {
        place * usize::from(self.cells) + usize::from(slot)
    }

    /// Epochs whose segments one call may append, to be sent again.
    pub(super) fn expiring_max(&self) -> usize {
        self.open.as_ref().map_or(0, |_| self.sent.len())
    }

    /// A segment left in some slots of an epoch, several for a train, for a host of the pod or a
    /// Core. The epoch may take the place of one that no receipt can name any more and that has not
    /// been looked at: a host that is polled begins epochs while it sends. Appends what is then to
    /// be sent again to `out`.
    pub(super) fn sent(
        &mut self,
        (epoch, slots): (u64, Range<u16>),
        (flow, psn): (FlowId, Psn),
        to: DemandEnd,
        out: &mut VecDeque<Reported>,
    ) {
        let place = self.place(epoch);
        if self.sent[place].epoch != epoch {
            // Bounded by the epochs that are kept.
            while self.expire(epoch, out) {}
            let inside = matches!(to, DemandEnd::Host(_));
            self.sent[place] = Sent { epoch, slots: 0, joined: 0, inside };
            // Cores send no receipts.
            let lag = self.lag.filter(|_| epoch >= self.term_from);
            if let Some(lag) = lag.filter(|_| inside) {
                while self.unreported.front().is_some_and(|sent| sent + lag < epoch) {
                    self.unreported.pop_front();
                }
                self.unreported.push_back(epoch);
            }
            if let Some(open) = self.open.as_mut().filter(|_| inside) {
                open.push_back(epoch);
            }
        }
        if slots.start >= self.cells {
            return;
        }
        let all = slots_of(slots.clone());
        let record = &mut self.sent[place];
        record.slots |= all;
        record.joined |= all & !slots_of(slots.start..slots.start + 1);
        let begins = self.segment_place(place, slots.start);
        self.segments[begins] = (flow, psn);
    }

    /// Reports no cells before this epoch as lost: the scheduler of this term granted none of them.
    /// It passes no report of them on either, see [`Records::send_again`].
    pub(super) fn begin_term(&mut self, epoch: u64) {
        self.unreported.clear();
        (self.term_from, self.again_from) = (epoch, 0);
    }

    /// Appends segments of some epoch of earlier terms to `out`, to be sent again: those that a
    /// host of the pod gets and has not reported. False when there are no more. Bounded by the
    /// epochs that are kept.
    pub(super) fn send_again(&mut self, out: &mut VecDeque<Reported>) -> bool {
        while let Some(sent) = self.sent.get(self.again_from).copied() {
            let place = self.again_from;
            self.again_from += 1;
            if sent.inside && sent.slots != 0 && sent.epoch < self.term_from {
                self.take(place, u32::MAX, true, out);
                return true;
            }
        }
        false
    }

    /// Forgets all segments.
    pub(super) fn clear(&mut self) {
        self.sent.fill(NOTHING);
        self.unreported.clear();
        self.open.iter_mut().for_each(VecDeque::clear);
        self.again_from = self.sent.len();
    }

    // DEVIATION(zeropod#IV-E): in the paper the receiver says that nothing arrived. The receiver
    // cannot see whether the sender used its grant: a grant that was not used would accuse links.
    /// Whether a request of `epoch` says that no receipt has come; what earlier requests should
    /// have said is given up.
    pub(super) fn take_lost(&mut self, epoch: u64) -> bool {
        let Some(lag) = self.lag else { return false };
        while let Some(sent) = self.unreported.front().copied().filter(|sent| sent + lag <= epoch) {
            self.unreported.pop_front();
            if sent + lag == epoch {
                return true;
            }
        }
        false
    }

    /// The epoch of the next request that says that no receipt has come.
    pub(super) fn lost_due(&self) -> Option<u64> {
        Some(self.unreported.front()? + self.lag?)
    }

    /// Appends the segments that left in `epoch` and whose slots are in `arrived` to `out`, each
    /// once. Bounded by the cells of an epoch.
    pub(super) fn report(&mut self, epoch: u64, arrived: u32, out: &mut VecDeque<Reported>) {
        let place = self.place(epoch);
        if self.sent[place].epoch != epoch {
            return;
        }
        if let Ok(at) = self.unreported.binary_search(&epoch) {
            self.unreported.remove(at);
        }
        self.take(place, arrived, false, out);
        while let Some(first) = self.open.as_ref().and_then(VecDeque::front).copied()
            && !self.is_open(first)
        {
            self.open.iter_mut().for_each(|open| _ = open.pop_front());
        }
    }

    /// Appends the segments of the record at `place` whose slots are all in `arrived` to `out`,
    /// each once: to be sent `again`, or because they arrived.
    fn take(&mut self, place: usize, arrived: u32, again: bool, out: &mut VecDeque<Reported>) {
        let Sent { slots, joined, .. } = self.sent[place];
        let mut begins = slots & !joined;
        while begins != 0 {
            let slot = begins.trailing_zeros();
            begins &= begins - 1;
            // A train has several slots, and has arrived when all its cells have.
            let behind = joined.checked_shr(slot + 1).map_or(0, u32::trailing_ones);
            let slots = (u32::MAX >> (u32::BITS - 1 - behind)) << slot;
            if arrived & slots != slots {
                continue;
            }
            self.sent[place].slots &= !slots;
            #[expect(clippy::cast_possible_truncation, reason = "below 32")]
            let begin = self.segment_place(place, slot as u16);
            let (flow, psn) = self.segments[begin];
            let (first, bit) = (Psn(psn.0 & !63), 1 << (psn.0 & 63));
            let is_alike = |other: &(FlowId, Psn, bool)| *other == (flow, first, again);
            match out.back_mut() {
                Some(Reported::Segments { flow, first, arrived, again })
                    if is_alike(&(*flow, *first, *again)) =>
                {
                    *arrived |= bit;
                }
                _ => out.push_back(Reported::Segments { flow, first, arrived: bit, again }),
            }
        }
    }
}

/// Appends cells that have been delivered in other pods to `out`.
pub(super) fn report_delivered(delivered: Delivered, out: &mut VecDeque<Reported>) {
    let Delivered { flow, first, arrived, again } = delivered;
    let bits = u128::from(arrived) << (first.0 & 63);
    let first = Psn(first.0 & !63);
    #[expect(clippy::cast_possible_truncation, reason = "halves")]
    for (first, arrived) in [(first, bits as u64), (first.plus(64), (bits >> 64) as u64)] {
        if arrived != 0 {
            out.push_back(Reported::Segments { flow, first, arrived, again });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// The flow, the first PSN and the bits of a report, and whether to send these again.
    fn said(reported: &Reported) -> (FlowId, u32, u64, bool) {
        match *reported {
            Reported::Segments { flow, first, arrived, again } => (flow, first.0, arrived, again),
            Reported::Before { .. } => panic!("no record names an instant"),
        }
    }

    /// A segment leaves, and nothing is to be sent again for that.
    fn leaves(
        records: &mut Records,
        cell: (u64, Range<u16>),
        segment: (FlowId, Psn),
        to: DemandEnd,
    ) {
        let mut out = VecDeque::new();
        records.sent(cell, segment, to, &mut out);
        assert!(out.is_empty());
    }

    const GRANT: Grant = Grant {
        epoch: 0,
        to: DemandEnd::Host(1),
        agg: 0,
        layer: None,
        cells: 4,
        epochs: 1,
        total: 0,
        mice_only: false,
    };

    #[test]
    fn grants_are_taken_in_the_order_of_epochs_and_an_epoch_has_one() {
        let mut grants = Grants::new();
        assert!(grants.insert(9, GRANT) && grants.insert(7, GRANT) && !grants.insert(9, GRANT));
        assert_eq!((grants.first(), grants.at(9), grants.at(8)), (Some(7), Some(&GRANT), None));
        assert_eq!(grants.take_until(6), None);
        assert_eq!(grants.take_until(20).map(|(epoch, _)| epoch), Some(7));
        for epoch in 10..100 {
            grants.insert(epoch, GRANT);
        }
        assert_eq!(grants.0.len(), GRANTS_MAX);
    }

    #[test]
    fn a_segment_is_reported_once_and_only_for_its_own_epoch() {
        let (mut records, mut out) = (Records::new(32, None), VecDeque::new());
        let flow = FlowId::new(3, 1);
        for slot in 0..4 {
            leaves(
                &mut records,
                (70, slot..slot + 1),
                (flow, Psn(62 + u32::from(slot))),
                DemandEnd::Host(1),
            );
        }
        records.report(70 - SENT_MAX, !0, &mut out);
        assert!(out.is_empty());
        records.report(70, 0b1101, &mut out);
        records.report(70, 0b1111, &mut out);
        let said = out.iter().map(said);
        let reported: Vec<_> = said.map(|(_, first, bits, _)| (first, bits)).collect();
        assert_eq!(reported, [(0, 1 << 62), (64, 0b11), (0, 1 << 63)]);
    }

    #[test]
    fn segments_are_kept_until_a_receipt_is_overdue_and_a_few_epochs_more() {
        let kept = (9 + SENT_MORE).next_power_of_two();
        for (last, found) in [(70 + kept - 1, 1), (70 + kept, 0)] {
            let (mut records, mut out) = (Records::new(4, Some(9)), VecDeque::new());
            for epoch in 70..=last {
                leaves(
                    &mut records,
                    (epoch, 3..4),
                    (FlowId::new(3, 1), Psn(0)),
                    DemandEnd::Host(1),
                );
            }
            records.report(70, 0b1000, &mut out);
            assert_eq!(out.len(), found, "{last}");
        }
        let (mut records, mut out) = (Records::new(4, Some(9)), VecDeque::new());
        leaves(&mut records, (70, 4..5), (FlowId::new(3, 1), Psn(0)), DemandEnd::Host(1));
        records.report(70, !0, &mut out);
        assert!(out.is_empty(), "a slot behind the last one");
        assert_eq!(Records::new(4, Some(1 << 40)).segments.len(), 4 * 64);
    }

    #[test]
    fn a_train_is_reported_once_all_its_slots_are() {
        let (mut records, mut out) = (Records::new(32, None), VecDeque::new());
        let (flow, to) = (FlowId::new(3, 1), DemandEnd::Host(1));
        for (psn, slots) in (0..).zip([0..1, 1..4, 4..5, 5..16, 16..32]) {
            leaves(&mut records, (70, slots), (flow, Psn(psn)), to);
        }
        let mut report = |arrived| {
            out.clear();
            records.report(70, arrived, &mut out);
            out.iter().fold(0, |all, reported| all | said(reported).2)
        };
        assert_eq!(report(0b1_0101), 0b101, "PSN 1 lacks two of its slots");
        assert_eq!(report(0b1110), 0b10);
        assert_eq!(report(0xFFFF_0000), 0b1_0000);
        assert_eq!(report(u32::MAX), 0b1000);
        assert_eq!(report(u32::MAX), 0, "each once");
    }

    #[test]
    fn a_new_term_sends_again_what_no_host_of_the_pod_has_reported() {
        let (mut records, mut out) = (Records::new(4, Some(9)), VecDeque::new());
        let flow = FlowId::new(3, 1);
        let ends = [DemandEnd::Host(1), DemandEnd::Pod(1), DemandEnd::Host(2)];
        for (epoch, to) in (70..).zip(ends) {
            for slot in 0..4 {
                let psn = Psn(u32::from(slot) + u32::try_from(epoch - 70).unwrap() * 4);
                leaves(&mut records, (epoch, slot..slot + 1), (flow, psn), to);
            }
        }
        records.report(70, 0b0101, &mut out);
        out.clear();
        assert!(!records.send_again(&mut out), "in the same term");
        records.begin_term(73);
        // Cells of the new term are not among them.
        leaves(&mut records, (73, 0..1), (flow, Psn(20)), DemandEnd::Host(1));
        while records.send_again(&mut out) {}
        let runs: Vec<_> = out.iter().map(said).collect();
        assert!(runs.iter().all(|run| (run.0, run.1, run.3) == (flow, 0, true)));
        assert_eq!(runs.iter().fold(0, |all, run| all | run.2), 0b1111_0000_1010);
        assert!(!records.send_again(&mut out), "once a term");
        // A receipt that comes all the same reports none of them.
        out.clear();
        records.report(72, !0, &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn an_epoch_without_a_receipt_is_lost_once_and_only_inside_the_pod() {
        let (mut records, mut out) = (Records::new(4, Some(9)), VecDeque::new());
        let cell = (FlowId::new(3, 1), Psn(0));
        for epoch in 70..74 {
            leaves(&mut records, (epoch, 0..1), cell, DemandEnd::Host(1));
            leaves(&mut records, (epoch, 1..2), cell, DemandEnd::Host(1));
        }
        leaves(&mut records, (74, 0..1), cell, DemandEnd::Pod(1));
        records.report(71, 0b10, &mut out);
        assert_eq!(records.lost_due(), Some(79));
        let lost: Vec<_> = [79, 79, 80, 82, 83].map(|epoch| records.take_lost(epoch)).into();
        assert_eq!(lost, [true, false, false, true, false], "the turn of 72 was missed");
        assert_eq!(records.lost_due(), None);
    }

    #[test]
    fn what_no_receipt_can_name_any_more_is_sent_again_once_and_only_inside_the_pod() {
        let (kept, flow) = ((9 + SENT_MORE).next_power_of_two(), FlowId::new(3, 1));
        let send = |records: &mut Records| {
            for (epoch, to) in
                (70..).zip([DemandEnd::Host(1), DemandEnd::Pod(1), DemandEnd::Host(2)])
            {
                for slot in 0..4 {
                    let psn = Psn(u32::from(slot) + u32::try_from(epoch - 70).unwrap() * 4);
                    leaves(records, (epoch, slot..slot + 1), (flow, psn), to);
                }
            }
        };
        let (mut records, mut out) = (Records::new(4, Some(9)).resending(true), VecDeque::new());
        send(&mut records);
        records.report(70, 0b0101, &mut out);
        out.clear();
        let due = 70 + kept;
        assert_eq!(records.expires(), Some(due));
        assert!(!records.expire(due - 1, &mut out));
        assert!(records.expire(due, &mut out) && !records.expire(due + 1, &mut out));
        assert_eq!(out.iter().map(said).collect::<Vec<_>>(), [(flow, 0, 0b1010, true)]);
        assert_eq!(records.expires(), Some(due + 2), "the cells of 71 are for another pod");
        // All of 72 arrive.
        records.report(72, !0, &mut out);
        assert_eq!(records.expires(), None);
        assert!(!records.expire(due + 2, &mut out));
        // In a single pod the timeout of flows is about as short.
        let mut records = Records::new(4, Some(9));
        send(&mut records);
        assert!(records.expires().is_none() && !records.expire(due, &mut out));
    }

    /// A host that is polled begins an epoch and sends in it before it looks at what is overdue.
    #[test]
    fn an_epoch_that_is_sent_in_first_hides_nothing_that_no_receipt_can_name_any_more() {
        let (kept, flow) = ((9 + SENT_MORE).next_power_of_two(), FlowId::new(3, 1));
        for last in [kept, kept + 1, 3 * kept] {
            let (mut records, mut out) =
                (Records::new(4, Some(9)).resending(true), VecDeque::new());
            for epoch in 70..72 {
                let psn = Psn(u32::try_from(epoch - 70).unwrap());
                leaves(&mut records, (epoch, 1..2), (flow, psn), DemandEnd::Host(1));
            }
            assert_eq!(records.expiring_max(), 32);
            let cell = (70 + last, 0..1);
            records.sent(cell, (flow, Psn(9)), DemandEnd::Host(1), &mut out);
            let again: Vec<_> = out.iter().map(said).collect();
            let expected = if last == kept { 0b1 } else { 0b11 };
            assert_eq!(again, [(flow, 0, expected, true)], "{last}");
            // That of 71 is named until it is looked at, and then the last one.
            let due = if last == kept { 71 } else { 70 + last };
            assert_eq!(records.expires(), Some(due + kept));
        }
    }

    #[test]
    fn what_was_delivered_is_reported_psn_by_psn() {
        for (first, arrived) in [(0, 1), (32, !0), (40, 0x8000_0001), (u32::MAX - 9, !0), (63, 3)] {
            let mut out = VecDeque::new();
            let (flow, first) = (FlowId::new(2, 1), Psn(first));
            report_delivered(Delivered { flow, first, arrived, again: false }, &mut out);
            let mut psns = Vec::new();
            for reported in out {
                let (of, first, bits, _) = said(&reported);
                assert!(of == flow && first % 64 == 0);
                let set = (0..64).filter(|bit| bits >> bit & 1 == 1);
                psns.extend(set.map(|bit| Psn(first).plus(bit)));
            }
            let set = (0..32).filter(|bit| arrived >> bit & 1 == 1);
            assert_eq!(psns, set.map(|bit| first.plus(bit)).collect::<Vec<_>>());
        }
    }
}
