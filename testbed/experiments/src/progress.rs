//! How a running experiment tells how far it is, hands over what it has for good, and is told to
//! stop.

use transport::Duration;

use crate::conductor::FlowRecord;
use crate::series::Sample;

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

    /// Takes note of the record of a line of the matrix. Told line after line, each once, when the
    /// flow and all before it have finished: then it will not change any more. What is not told by
    /// the end of the run is in its outcome, as is what was.
    fn on_record(&mut self, _line: usize, _record: &FlowRecord) {}

    /// May take samples from the front, which lets a long run forget them; the outcome has those
    /// that are left.
    fn on_samples(&mut self, _samples: &mut Vec<Sample>) {}
}

/// Tells a watch of the lines that have finished.
#[derive(Debug, Default)]
pub struct Teller {
    /// The first line not told.
    next: usize,
}

impl Teller {
    /// Tells what has come since the last time; `record_of` gives the record of a line, `None`
    /// while it may change or when there is no such line.
    pub fn tell<'r>(
        &mut self,
        watch: &mut dyn Watch,
        record_of: impl Fn(usize) -> Option<&'r FlowRecord>,
    ) {
        while let Some(record) = record_of(self.next) {
            watch.on_record(self.next, record);
            self.next += 1;
        }
    }
}

/// Watches nothing and never stops a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn goes_on(&mut self, _: &Progress) -> bool {
        true
    }
}
