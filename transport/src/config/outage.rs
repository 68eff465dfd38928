//! Timeouts of hosts whose flows survive seconds of silence.

use super::{Config, LossSettings};
use crate::time::Duration;

/// The longest wait between two attempts to reach a silent peer, unless the first timeout and a
/// quarter of it take longer. When an outage ends, its flows go on within this time. Where a link
/// comes and goes, an attempt is made whenever it is up for at least this long. A flow whose
/// timeout has doubled up to it sends up to eleven segments a second, and its probes where it
/// follows border switches.
const RETRY_WITHIN: Duration = Duration::from_ms(250);

/// The longest round trip for which the timeout of a flow that survives seconds of silence is
/// lengthened, so that its segments are not sent again in vain.
const SLOW_MAX: Duration = Duration::from_s(1);

/// Flows whose longest wait is shorter try a silent peer at least forty times a second. That is
/// often enough without spread attempts. So the timers of papers, which simulated flows have, are
/// not changed.
const SELDOM_FROM: Duration = Duration::from_ms(25);

impl LossSettings {
    /// Whether a flow whose first timeout is `rto` survives seconds of silence and then tries its
    /// peer so seldom that the attempts are spread.
    pub(crate) fn tries_seldom(&self, rto: Duration) -> bool {
        self.give_up > Duration::ZERO && rto * (1 << self.backoff_max) >= SELDOM_FROM
    }

    /// The longest timeout that round trips may cause, where the timeout without back-off is `rto`.
    /// Such a timeout lets a sender resend for at most twice [`Config::give_up_after`], which is
    /// how long receivers keep its state. A flow is given up after all its retries at the earliest.
    /// Where attempts are spread, each of them may wait for a quarter longer.
    pub(crate) fn slow_max(&self, rto: Duration) -> Duration {
        let counted = rto * (1 << self.slow_doublings());
        if !self.tries_seldom(rto) {
            return counted;
        }
        let tries = u64::from(self.retries_max) + 1;
        counted.mul_ratio(4, 5).max(SLOW_MAX.min(self.give_up / tries))
    }
}

impl Config {
    /// How often the timeout may double and stay within a quarter of a second: at most
    /// [`LossSettings::backoff_max`](super::LossSettings::backoff_max) times, and never where the
    /// first timeout is longer. Where only timeouts end a flow, all doublings are allowed, since
    /// shorter timeouts would end it sooner.
    #[must_use]
    pub fn doublings_in_outages(&self) -> u8 {
        let most = self.loss.backoff_max;
        if self.loss.give_up == Duration::ZERO {
            return most;
        }
        let rto = self.rto(&self.default_path());
        let fits = |doublings: &u8| rto * (1 << doublings) <= RETRY_WITHIN;
        (1..=most).take_while(fits).last().unwrap_or(0)
    }
}
