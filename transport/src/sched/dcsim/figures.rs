//! Counters and measurements of DCsim at one host.

use crate::histogram::Spans;
use crate::stats::SimCounts;

/// All figures of one host, or the sums over several hosts.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Counts of SIMs and SIM-ACKs.
    pub sims: SimCounts,
    /// Times from a SIM's departure to the arrival of its SIM-ACK.
    pub sim_rtt: Spans,
    /// Times from the instant at which a DATA might leave to its departure.
    pub departure_error: Spans,
    /// Times from the instant at which a DATA might leave and its host's line was free to its
    /// departure: how late the host's poll was.
    pub departure_lateness: Spans,
}

impl Figures {
    /// Adds the figures of `other`.
    pub fn add(&mut self, other: &Self) {
        self.sims.add(&other.sims);
        self.sim_rtt.add(&other.sim_rtt);
        self.departure_error.add(&other.departure_error);
        self.departure_lateness.add(&other.departure_lateness);
    }
}
