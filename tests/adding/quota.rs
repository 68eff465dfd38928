//! A receiver's half of a controller that `tests/adding.rs` adds: it reports a constant share of
//! the BDP. It shows all that a half's file has to state.

use super::{HalfReport, HalfSetup, ReceiverHalf, Reporter, SegmentArrival};
use crate::params::params;
use crate::registry::Registered;
use crate::time::Instant;
use crate::wire::ExtRefusal;

params! {
    /// Settings of [`Quota`].
    pub struct QuotaParams {
        /// Thousandths of the BDP that senders may have in flight.
        share: u32 = 1000, in 1..=1000;
    }
}

/// The half of one flow: what it reports.
#[derive(Clone, Debug)]
pub struct Quota(HalfReport);

impl Registered for Quota {
    const ABOUT: &'static str = "a share of the BDP for senders, added by a test";
    type Params = QuotaParams;
}

impl Reporter for Quota {
    fn build(setup: &HalfSetup<'_>) -> Self {
        Self(HalfReport { number: 0, values: [setup.params.quota.share, 0] })
    }

    fn number() -> u8 {
        200
    }
}

impl ReceiverHalf for Quota {
    fn on_segment(&mut self, _arrival: &SegmentArrival<'_>) -> Option<ExtRefusal> {
        self.0.number = self.0.number.wrapping_add(1);
        None
    }
    fn report(&mut self, _now: Instant) -> Option<HalfReport> {
        Some(self.0)
    }
}
