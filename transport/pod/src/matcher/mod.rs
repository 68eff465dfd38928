//! Matchers: which demands send in an epoch, and by which route. One file a matcher, one line in
//! the registry.
//!
//! A matcher appends grants to those that are there and marks what they take in the ports. It looks
//! at demands, ports and chance alone, so every kernel gives the same grants, to the bit.

pub mod exact;
pub mod greedy;
mod pass;

use transport::registry::registry;

pub use exact::Exact;
pub use greedy::Greedy;

use crate::chance::Chance;
use crate::demands::Demands;
use crate::kernel::Kernel;
use crate::ports::{Grant, Ports};
use crate::shape::Shape;

/// Decides one epoch.
pub trait Match {
    /// Grants what it can of `demands` with the idle `ports`, which it marks, and appends to
    /// `grants`. Nothing is allocated when `grants` has room for every sender.
    fn decide(
        &mut self,
        demands: &Demands,
        ports: &mut Ports,
        chance: &mut Chance,
        grants: &mut Vec<Grant>,
    );
}

registry! {
    /// Names the registered matchers.
    pub enum MatcherKind;
    /// One scheduler's matcher.
    pub enum Matcher: Match;
    new(shape: &Shape, kernel: Kernel);
    {
        /// [`Greedy`].
        "greedy" => Greedy: Greedy::new(shape, kernel),
        /// [`Exact`].
        "exact" => Exact: Exact::new(shape, kernel),
    }
    fn decide(
        &mut self,
        demands: &Demands,
        ports: &mut Ports,
        chance: &mut Chance,
        grants: &mut Vec<Grant>
    );
}
