//! Receipts that wait for answers to the hosts that have sent the cells.
//!
//! Source: ours; \[zeropod\] has no acknowledgements. Where requests come on change, a receipt
//! waits for the next answer to its host, for as many epochs as lie between two requests at most,
//! and one receipt is for all epochs whose cells arrived alike.

use std::collections::VecDeque;

use transport::wire::pod::REPORTED_MAX;
use transport_pod::scheduler::Client;

use super::Pod;

/// Receipts of a host that wait at most: those of as many epochs as requests report.
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
    waiting: VecDeque<Receipt>,
    most: usize,
}

impl Receipts {
    /// None yet, where members send a request in one of `ask_every` epochs. Where they send one in
    /// each, a host has one receipt an epoch; else one request may report cells that arrived in so
    /// many different ways that each epoch has a receipt of its own.
    pub(super) fn asking_every(ask_every: u16) -> Self {
        Self::of(if ask_every > 1 { KEPT } else { 1 })
    }

    fn of(most: usize) -> Self {
        Self { waiting: VecDeque::with_capacity(most), most }
    }

    /// Adds a receipt. Without room for it the oldest one is not reported, and the host sends those
    /// cells again.
    #[inline]
    fn add(&mut self, receipt: Receipt) {
        if self.most > 1 && self.waiting.iter_mut().any(|other| other.covers(&receipt)) {
            return;
        }
        if self.waiting.len() >= self.most {
            self.waiting.pop_front();
        }
        self.waiting.push_back(receipt);
    }

    /// Whether some receipt has to leave in `window`.
    #[inline]
    pub(super) fn is_due(&self, window: u64) -> bool {
        self.waiting.front().is_some_and(|first| first.due <= window)
    }

    /// Takes the first one, for an answer that leaves.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Receipt> {
        self.waiting.pop_front()
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl Receipt {
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
        self.receipts[usize::from(self.members.member(sender))].add(receipt);
        self.open_window(due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(sent_in: u64, arrived: u32) -> Receipt {
        Receipt { due: sent_in + 20, sent_in, arrived, also: 0 }
    }

    #[test]
    fn one_receipt_is_for_all_epochs_whose_cells_arrived_alike() {
        let mut receipts = Receipts::of(4);
        for (sent_in, arrived) in [(40, 7), (39, 7), (38, 3), (24, 7), (23, 7), (41, 7)] {
            receipts.add(receipt(sent_in, arrived));
        }
        assert!(!receipts.is_due(59) && receipts.is_due(60));
        let also = 1 | 1 << 15;
        assert_eq!(receipts.take(), Some(Receipt { also, ..receipt(40, 7) }));
        let rest: Vec<_> = std::iter::from_fn(|| receipts.take()).collect();
        assert_eq!(rest, [receipt(38, 3), receipt(23, 7), receipt(41, 7)]);
    }

    #[test]
    fn a_receipt_takes_the_place_of_the_oldest_where_no_more_may_wait() {
        for (most, left) in [(1, vec![9]), (2, vec![8, 9])] {
            let mut receipts = Receipts::of(most);
            for sent_in in [7, 8, 9] {
                receipts.add(receipt(sent_in, u32::try_from(sent_in).unwrap()));
            }
            let rest = std::iter::from_fn(|| receipts.take()).map(|receipt| receipt.sent_in);
            assert_eq!(rest.collect::<Vec<_>>(), left);
        }
    }
}
