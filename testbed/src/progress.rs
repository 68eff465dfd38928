//! How a running experiment tells how far it is, and is told to stop.

use transport::Duration;

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Network time since the start.
    pub now: Duration,
    /// Flows delivered and acknowledged.
    pub flows_finished: u64,
    /// Message bytes in place, of messages that are not whole yet too.
    pub bytes_delivered: u64,
    /// Link traversals so far.
    pub hops: u64,
}

/// Whoever watches a run. Asked now and then, on the thread that runs it.
pub trait Watch {
    /// Takes note; false asks the run to end early with what it has.
    fn goes_on(&mut self, progress: &Progress) -> bool;
}

/// Watches nothing and never stops a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn goes_on(&mut self, _: &Progress) -> bool {
        true
    }
}
