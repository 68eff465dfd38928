//! Matchers: which demands send in an epoch, and by which route. One file a matcher, one line in
//! the registry.
//!
//! A matcher appends grants to the list of grants, and marks in the ports what they take. It
//! depends only on demands, ports and random numbers, so every kernel gives the same grants, to the
//! bit.

mod pass;

use transport::registry::{Registered, registry};

use crate::pod::chance::Chance;
use crate::pod::demands::{Demands, To};
use crate::pod::kernel::Kernel;
use crate::pod::ports::{Grant, IdlePorts};
use crate::pod::shape::Shape;

/// A sender, by its number, and where its cells go.
pub type Pair = (u16, To);

/// Decides one epoch.
pub trait Match {
    /// Grants as many of `demands` as it can with the idle `ports`, which it marks, and appends to
    /// `grants`: those of `first` that are open, in their order, before all others. Nothing is
    /// allocated when `grants` has room for every sender.
    fn decide(
        &mut self,
        first: &[Pair],
        demands: &Demands,
        ports: &mut IdlePorts,
        chance: &mut Chance,
        grants: &mut Vec<Grant>,
    );
}

/// The inputs of matchers beside the pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatcherSetup {
    /// The code that looks at many ports at once.
    pub kernel: Kernel,
    /// Iterations of [`Iterative`], at least 1.
    pub iterations: u32,
}

impl Default for MatcherSetup {
    fn default() -> Self {
        //= zeropod#V-A
        Self { kernel: Kernel::best(), iterations: 6 }
    }
}

/// A registered matcher.
pub trait Built: Registered + Match {
    /// A matcher for `shape`.
    fn build(shape: &Shape, setup: MatcherSetup) -> Self;
}

registry! {
    /// Names the registered matchers.
    pub enum MatcherKind;
    /// One scheduler's matcher.
    pub enum Matcher: Match;
    new: Built::build(shape: &Shape, setup: MatcherSetup);
    params {}
    kinds {}
    policies {
        "iterative" => iterative::Iterative,
        "greedy" => greedy::Greedy,
        "exact" => exact::Exact,
    }
    fn decide(
        &mut self,
        first: &[Pair],
        demands: &Demands,
        ports: &mut IdlePorts,
        chance: &mut Chance,
        grants: &mut Vec<Grant>
    );
}
