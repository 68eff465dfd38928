//! Receipts that wait for answers to the hosts that have sent the cells.
//!
//! Source: ours; \[zeropod\] has no acknowledgements. Where requests come on change, a receipt
//! waits for the next answer to its host, for as many epochs as lie between two requests at most,
//! and one receipt is for all epochs whose cells arrived alike.

use transport::wire::pod::REPORTED_MAX;

use super::{NEVER, Pod};
use crate::pod::scheduler::Client;

/// Receipts of a host that wait at most: as many as the epochs that one request may report.
const KEPT: usize = u16::BITS as usize;

/// One receipt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Receipt {
    /// The window in which it leaves at the latest.
    due: u64,
    /// The epoch in which the cells were sent.
    pub(super) sent_in: u64,
    pub(super) arrived: u32,
    /// Bit i: the same arrived of the epoch i + 1 before.
    pub(super) also: u16,
}

/// The receipts of one host.
#[derive(Clone, Debug)]
pub(super) struct Receipts {
    /// In the order in which they leave, the first one next. No epoch is in two of them. There are
    /// one or two as a rule, so a list is faster than a ring.
    waiting: Vec<Receipt>,
}

impl Receipts {
    /// None yet. Hosts may report several epochs by one request whatever settings the scheduler
    /// has, and each epoch may need a receipt of its own.
    pub(super) fn new() -> Self {
        Self { waiting: Vec::with_capacity(KEPT) }
    }

    /// Adds a receipt. Without room for it the oldest one is not reported, and the host sends those
    /// cells again.
    #[inline]
    fn add(&mut self, receipt: Receipt) {
        // Where requests come in every epoch, the last receipt has left.
        if self.waiting.is_empty() {
            self.waiting.push(receipt);
            return;
        }
        let earlier = self.waiting.iter().position(|other| other.is_for(receipt.sent_in));
        if let Some(at) = earlier {
            self.add_to(at, receipt);
        } else if !self.waiting.iter_mut().any(|other| other.covers(&receipt)) {
            self.insert(self.waiting.len(), receipt);
        }
    }

    /// Adds the cells of an epoch that the receipt at `at` is for. One epoch has one receipt, which
    /// leaves when the earlier one does. Otherwise a receiver that repeats its epochs would take
    /// the places of receipts of others. Without room for one more, the earlier report stands.
    fn add_to(&mut self, at: usize, receipt: Receipt) {
        let has_room = self.waiting.len() < KEPT;
        let other = &mut self.waiting[at];
        let arrived = other.arrived | receipt.arrived;
        if other.also == 0 {
            other.arrived = arrived;
        } else if other.arrived != arrived && has_room {
            let due = other.due;
            other.leave_out(receipt.sent_in);
            self.insert(at + 1, Receipt { due, arrived, ..receipt });
        }
    }

    fn insert(&mut self, at: usize, receipt: Receipt) {
        let is_full = self.waiting.len() >= KEPT;
        if is_full {
            self.waiting.remove(0);
        }
        self.waiting.insert(at - usize::from(is_full), receipt);
    }

    /// The window in which the first receipt has to leave; [`NEVER`] while none waits.
    #[inline]
    pub(super) fn due(&self) -> u64 {
        self.waiting.first().map_or(NEVER, |first| first.due)
    }

    /// Takes the first one, for an answer that leaves.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Receipt> {
        match self.waiting.len() {
            0 | 1 => self.waiting.pop(),
            _ => Some(self.waiting.remove(0)),
        }
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl Receipt {
    /// Whether this receipt is for cells that were sent in this epoch.
    #[inline]
    fn is_for(&self, sent_in: u64) -> bool {
        match self.sent_in.checked_sub(sent_in) {
            Some(0) => true,
            Some(back) => back <= REPORTED_MAX && self.also >> (back - 1) & 1 == 1,
            None => false,
        }
    }

    /// Takes an epoch out of this receipt, which is for others, too.
    fn leave_out(&mut self, sent_in: u64) {
        match self.sent_in.saturating_sub(sent_in) {
            0 => {
                let back = self.also.trailing_zeros() + 1;
                self.sent_in -= u64::from(back);
                self.also = self.also.checked_shr(back).unwrap_or(0);
            }
            back => self.also &= !(1 << (back - 1)),
        }
    }

    /// Makes this receipt one for the epoch of another, too, where that says the same of an epoch
    /// that is not long before; whether it does.
    #[inline]
    fn covers(&mut self, other: &Self) -> bool {
        let back = self.sent_in.saturating_sub(other.sent_in);
        let fits = self.arrived == other.arrived && (1..=REPORTED_MAX).contains(&back);
        if fits {
            self.also |= 1 << (back - 1);
        }
        fits
    }
}

impl Pod {
    /// A request that counts in `decision` reports what arrived of the cells that `sender` sent in
    /// an epoch.
    #[inline]
    pub(super) fn pass_on(
        &mut self,
        (sender, sent_in, arrived): (Client, u64, u32),
        decision: u64,
    ) {
        let due = self.window_of(decision) + self.ask_every - 1;
        let receipt = Receipt { due, sent_in, arrived, also: 0 };
        let member = usize::from(self.members.member(sender));
        self.receipts[member].add(receipt);
        self.refresh_due(member);
        self.open_window(due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(sent_in: u64, arrived: u32) -> Receipt {
        Receipt { due: sent_in + 20, sent_in, arrived, also: 0 }
    }

    /// All that wait, in their order.
    fn rest(mut receipts: Receipts) -> Vec<Receipt> {
        std::iter::from_fn(|| receipts.take()).collect()
    }

    #[test]
    fn one_receipt_is_for_all_epochs_whose_cells_arrived_alike() {
        let mut receipts = Receipts::new();
        for (sent_in, arrived) in [(40, 7), (39, 7), (38, 3), (24, 7), (23, 7), (41, 7)] {
            receipts.add(receipt(sent_in, arrived));
        }
        assert_eq!(receipts.due(), 60);
        let also = 1 | 1 << 15;
        assert_eq!(receipts.take(), Some(Receipt { also, ..receipt(40, 7) }));
        assert_eq!(rest(receipts), [receipt(38, 3), receipt(23, 7), receipt(41, 7)]);
    }

    #[test]
    fn a_receipt_takes_the_place_of_the_oldest_where_no_more_may_wait() {
        let mut receipts = Receipts::new();
        let of = |sent_in: u64| receipt(sent_in, u32::try_from(sent_in).unwrap());
        (7..9 + KEPT as u64).for_each(|sent_in| receipts.add(of(sent_in)));
        assert_eq!(rest(receipts), (9..9 + KEPT as u64).map(of).collect::<Vec<_>>());
    }

    #[test]
    fn an_epoch_that_is_reported_again_takes_no_place_of_another() {
        let mut receipts = Receipts::new();
        let honest = receipt(30, 0xffff);
        receipts.add(honest);
        // Two epochs of another receiver, alone and alike, over and over again.
        for arrived in 1..200 {
            receipts.add(receipt(40, arrived));
            receipts.add(receipt(39, arrived));
        }
        let waiting = rest(receipts.clone());
        assert_eq!(waiting[0], honest);
        assert!(waiting.len() <= 3, "{waiting:?}");
    }

    #[test]
    fn where_no_more_may_wait_a_receipt_for_several_epochs_stays_whole() {
        let mut receipts = Receipts::new();
        [40, 39].into_iter().for_each(|sent_in| receipts.add(receipt(sent_in, 7)));
        for other in 1..KEPT as u64 {
            receipts.add(receipt(100 * other, u32::try_from(other).unwrap() << 8));
        }
        let full = rest(receipts.clone());
        assert_eq!(full.len(), KEPT);
        receipts.add(receipt(39, 8));
        assert_eq!(rest(receipts), full);
    }

    #[test]
    fn cells_that_are_reported_later_join_those_of_their_epoch() {
        for (again, kept) in [
            (40, [Receipt { also: 0b10, ..receipt(39, 3) }, receipt(40, 7)]),
            (39, [Receipt { also: 0b100, ..receipt(40, 3) }, receipt(39, 7)]),
        ] {
            let mut receipts = Receipts::new();
            [40, 39, 37].into_iter().for_each(|sent_in| receipts.add(receipt(sent_in, 3)));
            receipts.add(Receipt { due: 99, ..receipt(again, 1) });
            assert_eq!(receipts.waiting.len(), 1, "nothing new");
            receipts.add(Receipt { due: 99, ..receipt(again, 4) });
            let due = receipts.waiting[0].due;
            let kept = kept.map(|receipt| Receipt { due, ..receipt });
            assert_eq!(rest(receipts), kept);
        }
        let mut receipts = Receipts::new();
        [3, 4].into_iter().for_each(|arrived| receipts.add(receipt(40, arrived)));
        assert_eq!(rest(receipts), [receipt(40, 7)]);
    }
}
