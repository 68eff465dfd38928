//! How loss is inferred.

use crate::time::Duration;

/// How loss is inferred where no NACK reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossSettings {
    /// A segment sent this much before an acknowledged one, in quarters of the path's base RTT, is
    /// lost; more once an inference proved wrong. `None` leaves all inference to the timer.
    pub reorder_window_quarters: Option<u16>,
    /// A 64th of the base RTT counts in place of such quarters where a balancer keeps order.
    pub in_order: bool,
    /// Silence after which a segment is lost, in quarters of the path's base RTT, 4..=4000.
    //= smartt#III-D: 7 base RTTs: 6 BDPs of queue in the worst case and 1 in flight.
    pub rto_quarters: u16,
    /// Never time out sooner than this.
    pub rto_min: Duration,
    /// The timeout doubles at most this often, 0..=16.
    pub backoff_max: u8,
    /// Timeouts in a row without any acknowledgement after which a flow's messages fail, 1..=64.
    pub retries_max: u8,
    /// Silence that a flow survives, however many timeouts this is; at most an hour. Zero where
    /// only timeouts are counted.
    pub give_up: Duration,
    /// Resend the last segment in flight after three silent base RTTs with nothing else to send.
    pub tail_probe: bool,
    /// Send a segment again in any silence of two base RTTs where the flow's loops pass through
    /// border switches.
    pub silence_probe: bool,
}

impl LossSettings {
    /// How far slow round trips may lengthen the timeout, in doublings, where only timeouts end a
    /// flow (`outage.rs` has the other case). With a first timeout longer by this, a sender resends
    /// for at most twice [`Config::give_up_after`], which is how long receivers keep it.
    ///
    /// [`Config::give_up_after`]: super::Config::give_up_after
    #[must_use]
    pub fn slow_doublings(&self) -> u8 {
        self.backoff_max.min(self.retries_max / 2 + 1)
    }
}

impl Default for LossSettings {
    fn default() -> Self {
        Self {
            reorder_window_quarters: Some(12),
            in_order: false,
            rto_quarters: 28,
            rto_min: Duration::from_us(1),
            backoff_max: 6,
            retries_max: 12,
            give_up: Duration::ZERO,
            tail_probe: false,
            silence_probe: true,
        }
    }
}
