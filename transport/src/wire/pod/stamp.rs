//! What requests and answers say where clocks of hosts are off: in which slot of which epoch an
//! answer left, and how late a request of its host was.
//!
//! Source: \[zeropod\] IV-E; the exchange is ours (`transport/src/sched/zeropod/clock.rs`).

use crate::time::Duration;

/// What a host whose clock may be off says in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockState {
    /// The gap of the receiver of the host's cells is before this request.
    pub behind_gap: bool,
    /// The host keeps the pod's time well enough to send cells.
    pub settled: bool,
}

/// When an answer left its scheduler, and how late a request of its host was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The epoch between whose cells the answer slips in, modulo 2^32; `None` in an answer with a
    /// grant, which has no room for it.
    pub window: Option<u32>,
    /// The gap of the sender of the epoch's cells is before this answer.
    pub behind_gap: bool,
    /// How much later than its slot a request came, in units of [`Stamp::unit`]. It is the request
    /// that left [`Stamp::BEHIND`] epochs before that epoch; `None` where none came, or one that
    /// was further off.
    pub late: Option<i16>,
}

impl Stamp {
    /// The least unit of lateness.
    const UNIT: Duration = Duration::from_ps(20);
    /// Epochs up to which lateness is in the least unit: those of links of a pod. Longer ones are
    /// of networks whose hosts are late by parts of an epoch.
    const SHORT: Duration = Duration::from_us(10);
    /// Units in a longer epoch: an answer can say up to 8 epochs.
    const OF_LONG: u64 = 1 << 12;

    /// The unit of lateness where an epoch takes `epoch`.
    #[must_use]
    pub const fn unit(epoch: Duration) -> Duration {
        if epoch.as_ps() <= Self::SHORT.as_ps() {
            return Self::UNIT;
        }
        Duration::from_ps(epoch.as_ps() / Self::OF_LONG)
    }

    /// Epochs from a request to the answer that says how late it was: it has come by then.
    pub const BEHIND: u64 = 3;
}
