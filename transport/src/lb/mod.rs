//! Load balancing: which entropy value, hence which path, the next segment takes. One file a balancer,
//! one line in the registry.

use crate::rng::Rng;
use crate::time::Instant;
use crate::units::EntropyValue;

/// What became of a segment that travelled with some entropy value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathFeedback {
    /// Acknowledged without mark.
    Good,
    /// Acknowledged with CE.
    Ecn,
    /// Trimmed on the way.
    Nack,
    /// Inferred lost.
    Timeout,
}

/// Chooses paths from feedback; a pure state machine apart from the chance handed in.
pub trait LoadBalancer {
    /// The entropy value of the next segment.
    fn next_ev(&mut self, now: Instant, rng: &mut Rng) -> EntropyValue;
    /// What became of a segment sent with `ev`.
    fn on_feedback(&mut self, ev: EntropyValue, what: PathFeedback, now: Instant);
}
/// temp
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LbKind {
    /// r
    Reps,
}
/// temp
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LbParams;
impl LbParams {
    /// v
    pub fn validate(&self) -> Result<(), crate::config::ConfigError> {
        Ok(())
    }
}
/// temp
#[derive(Clone, Debug)]
pub struct Lb;
impl Lb {
    /// n
    pub fn new(_: LbKind, _: &LbParams, _: &crate::cc::Path, _: &mut Rng) -> Self {
        Lb
    }
}
impl LoadBalancer for Lb {
    fn next_ev(&mut self, _: Instant, r: &mut Rng) -> EntropyValue {
        EntropyValue(r.next_u32() as u16 | 1)
    }
    fn on_feedback(&mut self, _: EntropyValue, _: PathFeedback, _: Instant) {}
}
