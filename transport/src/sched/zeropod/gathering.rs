//! Hosts that send a request on change: one that asks for nothing new waits for its turn, and
//! reports by one request all that has arrived since the last one.
//!
//! Source: ours; in \[zeropod\] IV-A every host sends a request in every epoch. A scheduler has on
//! record what it has granted, so only a demand that grows is news to it, and such a request leaves
//! in the next epoch. What else requests say may wait: receipts, and how late a request is where
//! hosts follow a clock. Turns of hosts are spread over the epochs, so that a scheduler gets as
//! many requests in each of them.

use super::Zeropod;
use crate::wire::pod::REPORTED_MAX;

/// The first turn in `epoch` or later of host `number`, which has one in `every` epochs. `every` is
/// at least 1.
#[inline]
#[must_use]
pub const fn turn_from(epoch: u64, every: u64, number: u64) -> u64 {
    (epoch + number).next_multiple_of(every) - number
}

impl Zeropod {
    /// Whether requests wait for turns.
    #[inline]
    pub(super) const fn gathers(&self) -> bool {
        self.params.ask_every > 1
    }

    /// The first turn of this host in `epoch` or later.
    #[inline]
    pub(super) fn turn_from(&self, epoch: u64) -> u64 {
        turn_from(epoch, self.params.ask_every.into(), self.pod_end.number.into())
    }

    /// The epoch of the next request that leaves whether or not there is something to say, as hosts
    /// that follow a clock send them: in every epoch until the clock has settled, and then in
    /// turns.
    pub(super) fn next_turn_epoch(&self) -> Option<u64> {
        let waits = self.gathers() && self.is_settled();
        let epoch = || if waits { self.turn_from(self.request_from) } else { 0 };
        self.follows().then(epoch)
    }

    /// Whether the request of `epoch` leaves whether or not there is something to say.
    pub(super) fn is_turn(&self, epoch: u64) -> bool {
        self.next_turn_epoch().is_some_and(|turn| turn <= epoch)
    }

    /// The epoch of the next request that has arrivals to report.
    pub(super) fn reports_from(&self) -> Option<u64> {
        self.arrivals.due().map(|due| self.turn_from(due))
    }

    /// The arrivals that a request of `epoch` reports, and in which epochs. They wait for their
    /// turn, unless the request leaves anyway.
    pub(super) fn take_arrivals(&mut self, epoch: u64, leaves: bool) -> (u32, u16) {
        if leaves || self.reports_from().is_some_and(|from| from <= epoch) {
            return self.arrivals.take(epoch);
        }
        (0, 1)
    }

    /// A receipt says what arrived of `epoch`, and that the same did of the epochs before it that
    /// have a bit in `also`.
    pub(super) fn report(&mut self, epoch: u64, arrived: u32, also: u16) {
        self.records.report(epoch, arrived, &mut self.reports);
        for back in (0..REPORTED_MAX).filter(|back| also >> back & 1 == 1) {
            if let Some(epoch) = epoch.checked_sub(back + 1) {
                self.records.report(epoch, arrived, &mut self.reports);
            }
        }
    }
}
