//! Timeouts of hosts whose flows survive seconds of silence.

use super::Config;
use crate::time::Duration;

/// The longest wait between two attempts to reach a silent peer. When an outage ends, its flows go
/// on within this time; where a link comes and goes, some attempt meets it while it is up. A round
/// trip may be nearly as long before segments are sent again in vain.
const RETRY_WITHIN: Duration = Duration::from_s(1);

impl Config {
    /// How often the timeout may double and stay within a second: at most
    /// [`LossSettings::backoff_max`](super::LossSettings::backoff_max) times, and never where the
    /// first timeout is longer. All of these where timeouts alone end a flow, since shorter ones
    /// would end it sooner.
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
