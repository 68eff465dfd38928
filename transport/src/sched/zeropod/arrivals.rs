//! Cells that arrived at a host or a Core, until its requests report them.
//!
//! Source: ours; \[zeropod\] has no acknowledgements. Units: epochs, slots.

use alloc::collections::VecDeque;

use crate::wire::pod::REPORTED_MAX;

/// Epochs of which arrivals are kept, beyond those until a request reports them.
const ARRIVALS_MORE: usize = 8;

/// Cells that arrived and were not reported, by the epoch in which they were sent.
#[derive(Clone, Debug)]
pub struct Unreported {
    /// Ascending.
    epochs: VecDeque<(u64, u32)>,
    /// Most epochs that are kept.
    most: usize,
    /// Epochs from the one in which cells are sent to the request that reports them.
    lag: u64,
    /// Whether a request reports the epoch whose turn it is before those that are late.
    in_turn: bool,
    /// Epochs whose cells no request will report; without room each call counts.
    given_up: u64,
}

impl Unreported {
    /// Nothing has arrived. Cells of an epoch are for the request `lag` epochs later, or for the
    /// next one that leaves, which names [`REPORTED_MAX`] epochs at most. With `in_turn`, for hosts
    /// that send a request each epoch, what is late waits for a request without cells in turn:
    /// otherwise all later reports would be as late.
    #[must_use]
    pub fn new(lag: u64, in_turn: bool) -> Self {
        let most = usize::try_from(lag + REPORTED_MAX).unwrap_or(0) + ARRIVALS_MORE;
        Self { epochs: VecDeque::with_capacity(most), most, lag, in_turn, given_up: 0 }
    }

    /// The cells of `epoch` whose slots have a bit in `arrived` arrived.
    pub fn note(&mut self, epoch: u64, arrived: u32) {
        let at = self.epochs.partition_point(|(other, _)| *other < epoch);
        let known = self.epochs.get_mut(at).filter(|(other, _)| *other == epoch);
        if let Some((_, slots)) = known {
            *slots |= arrived;
        } else if self.epochs.len() < self.most {
            // Without room nothing is reported, and the sender sends these cells again.
            self.epochs.insert(at, (epoch, arrived));
        } else {
            self.given_up += 1;
        }
    }

    /// Forgets all cells.
    pub(super) fn clear(&mut self) {
        self.epochs.clear();
    }

    /// The slots that a request of `epoch` reports, and in which epochs, a bit each: the one in
    /// turn, and so on back. The cells of all these epochs arrived in the same slots, as those of
    /// the earliest one that was not reported, or of the one in turn. What is too old for a request
    /// is given up.
    pub fn take(&mut self, epoch: u64) -> (u32, u16) {
        let back = |sent: u64| epoch.checked_sub(sent + self.lag);
        let is_old = |sent| back(sent).is_some_and(|back| back >= REPORTED_MAX);
        while self.epochs.front().is_some_and(|(sent, _)| is_old(*sent)) {
            self.epochs.pop_front();
            self.given_up += 1;
        }
        let first = self.epochs.front().filter(|(sent, _)| back(*sent).is_some());
        let Some((sent, mut slots)) = first.copied() else { return (0, 1) };
        if back(sent) == Some(0) {
            self.epochs.pop_front();
            return (slots, 1);
        }
        if self.in_turn {
            let turn = self.epochs.iter().find(|(sent, _)| back(*sent) == Some(0));
            slots = turn.map_or(slots, |(_, slots)| *slots);
        }
        let mut epochs = 0;
        self.epochs.retain(|(sent, others)| match back(*sent).filter(|_| *others == slots) {
            Some(back) => {
                epochs |= 1 << back;
                false
            }
            None => true,
        });
        (slots, epochs)
    }

    /// The epoch of the next request that has something to report.
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        self.epochs.front().map(|(sent, _)| sent + self.lag)
    }

    /// Epochs whose cells no request will report; without room each [`Self::note`] counts.
    #[must_use]
    pub const fn given_up(&self) -> u64 {
        self.given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_reported_by_the_request_whose_turn_it_is_or_by_the_next_one() {
        let mut arrivals = Unreported::new(7, false);
        arrivals.note(11, 1 << 3);
        arrivals.note(10, 1);
        arrivals.note(10, 1 << 5);
        arrivals.note(12, 1);
        assert_eq!(arrivals.due(), Some(17));
        assert_eq!(arrivals.take(16), (0, 1));
        assert_eq!(arrivals.take(17), (0b10_0001, 1));
        assert_eq!(arrivals.take(19), (1 << 3, 1 << 1), "no request left in its turn");
        assert_eq!(arrivals.take(20), (1, 1 << 1));
        assert_eq!((arrivals.due(), arrivals.given_up()), (None, 0));
        (0..40).for_each(|epoch| arrivals.note(epoch, 1));
        assert_eq!(arrivals.given_up(), 40 - (7 + 16 + 8), "without room");
    }

    #[test]
    fn a_request_reports_all_epochs_whose_cells_arrived_alike() {
        let mut arrivals = Unreported::new(7, false);
        for epoch in [10, 11, 14, 25, 26] {
            arrivals.note(epoch, 0b1111);
        }
        arrivals.note(12, 1 << 3);
        assert_eq!(arrivals.take(16), (0, 1));
        // That of 10 is 16 epochs back, and too old.
        assert_eq!(arrivals.take(33), (0b1111, 1 << 15 | 1 << 12 | 1 << 1 | 1));
        assert_eq!(arrivals.due(), Some(19));
        assert_eq!(arrivals.take(34), (0b1000, 1 << 15));
        assert_eq!((arrivals.due(), arrivals.take(35)), (None, (0, 1)));
        assert_eq!(arrivals.given_up(), 1);
    }

    /// Twelve requests did not leave. Cells of each epoch arrive in another slot.
    #[test]
    fn reports_in_turn_are_not_late_because_others_are() {
        for (in_turn, late, given_up) in [(true, 0, 12), (false, 100, 0)] {
            let mut arrivals = Unreported::new(7, in_turn);
            let mut were_late = 0;
            for epoch in 0..120 {
                arrivals.note(epoch, 1 << (epoch % 20));
                if epoch >= 12 {
                    let (slots, epochs) = arrivals.take(epoch + 7);
                    were_late += u32::from(epoch >= 20 && epochs & 1 == 0);
                    assert_ne!(slots, 0);
                }
            }
            let found = (were_late, arrivals.given_up());
            assert_eq!(found, (late, given_up), "{in_turn}");
        }
    }
}
