//! Measures how fast the payload of a flow arrives, and what its equal share of the receiver's link
//! is. The number of a report counts measurements; the values are the rate that was measured last
//! and the share, both kb/s. The controller decides what to do with them.

use super::{HalfReport, HalfSetup, ReceiverHalf, Reporter, SegmentArrival};
use crate::params::params;
use crate::registry::Registered;
use crate::time::{Duration, Instant, Rate};
use crate::units::Bytes;
use crate::wire::ExtRefusal;

params! {
    /// Settings of [`ArrivalRate`].
    pub struct ArrivalRateParams {
        /// The time over which a rate is measured; longer where segments arrive less often.
        window: Duration = Duration::from_us(20),
            in Duration::from_us(1)..=Duration::from_s(1);
    }
}

/// The rate at which a flow arrives.
#[derive(Clone, Debug)]
pub struct ArrivalRate {
    window: Duration,
    line_rate: Rate,
    /// When the measurement under way began; `None` before the first segment.
    since: Option<Instant>,
    /// What arrived after that.
    bytes: Bytes,
    report: HalfReport,
}

/// Unit of reported rates, bit/s.
const UNIT: u64 = 1000;

impl Registered for ArrivalRate {
    const ABOUT: &'static str = "the rate at which a flow arrives, and its share of the link";
    type Params = ArrivalRateParams;
}

impl Reporter for ArrivalRate {
    fn build(setup: &HalfSetup<'_>) -> Self {
        Self {
            window: setup.params.arrival_rate.window,
            line_rate: setup.line_rate,
            since: None,
            bytes: Bytes::ZERO,
            report: HalfReport { number: 0, values: [0; 2] },
        }
    }

    fn number() -> u8 {
        1
    }
}

impl ArrivalRate {
    /// The share of the link that the values of a report stand for; `None` when they have none.
    #[must_use]
    pub fn share(values: [u32; 2]) -> Option<Rate> {
        (values[1] > 0).then(|| Rate::from_bps(u64::from(values[1]) * UNIT))
    }
}

impl ReceiverHalf for ArrivalRate {
    fn on_segment(&mut self, arrival: &SegmentArrival<'_>) -> Option<ExtRefusal> {
        let share = self.line_rate.as_bps() / u64::from(arrival.sharers.max(1)) / UNIT;
        self.report.values[1] = u32::try_from(share).unwrap_or(u32::MAX).max(1);
        let Some(since) = self.since else {
            // The first segment only starts the clock: when it began to arrive is not known.
            self.since = Some(arrival.at);
            return None;
        };
        self.bytes += arrival.bytes;
        let elapsed = arrival.at.since(since);
        if elapsed < self.window {
            return None;
        }
        let bits = u128::from(self.bytes.0) * 8 * 1_000_000_000_000;
        let rate = bits / u128::from(elapsed.as_ps().max(1)) / u128::from(UNIT);
        self.report.values[0] = u32::try_from(rate).unwrap_or(u32::MAX);
        self.report.number = self.report.number.wrapping_add(1);
        (self.since, self.bytes) = (Some(arrival.at), Bytes::ZERO);
        None
    }

    fn report(&mut self, _now: Instant) -> Option<HalfReport> {
        self.since.map(|_| self.report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rc::RcParams;
    use crate::units::Psn;
    use crate::wire::Extensions;

    fn half() -> ArrivalRate {
        ArrivalRate::build(&HalfSetup {
            params: &RcParams::default(),
            line_rate: Rate::from_gbps(100),
            base_rtt: Duration::from_us(12),
            mtu: Bytes(4160),
        })
    }

    fn arrives(half: &mut ArrivalRate, ns: u64, bytes: u64, sharers: u16) -> Option<HalfReport> {
        let at = Instant::from_ps(ns * 1000);
        let (psn, bytes) = (Psn(0), Bytes(bytes));
        let extensions = Extensions::NONE;
        let arrival =
            SegmentArrival { at, psn, bytes, ce: false, trimmed: false, sharers, extensions };
        half.on_segment(&arrival);
        half.report(at)
    }

    #[test]
    fn the_rate_is_what_arrived_in_a_window_and_the_share_that_of_all_flows() {
        let mut half = half();
        assert_eq!(half.report(Instant::ZERO), None);
        let first = arrives(&mut half, 1000, 4096, 1).unwrap();
        assert_eq!(first, HalfReport { number: 0, values: [0, 100_000_000] });
        // 50 Gb/s: 5000 octets each 800 ns.
        let reports = (1..=50).map(|n| arrives(&mut half, 1000 + n * 800, 5000, 4).unwrap());
        let last = reports.last().unwrap();
        assert_eq!(last, HalfReport { number: 2, values: [50_000_000, 25_000_000] });
        assert_eq!(ArrivalRate::share(last.values), Some(Rate::from_gbps(25)));
    }

    #[test]
    fn what_arrives_again_or_trimmed_is_no_rate() {
        let mut half = half();
        let last = (0..=40).map(|n| arrives(&mut half, n * 1000, 0, 1).unwrap()).last();
        assert_eq!(last.map(|report| (report.number, report.values[0])), Some((2, 0)));
    }
}
