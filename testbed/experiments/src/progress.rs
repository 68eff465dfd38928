//! The interface between a running experiment and its observer: progress, finished records, and a
//! request to stop.

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
    /// Message bytes in place, including those of messages that are not whole yet.
    pub bytes_delivered: u64,
    /// Link traversals so far.
    pub hops: u64,
}

/// An observer of a run. Its methods are called now and then, on the thread that runs it.
pub trait Watch {
    /// Reports progress; false asks the run to end early with its results so far.
    fn goes_on(&mut self, progress: &Progress) -> bool;

    /// Takes note of what the run waits for before its flows begin, as in "waits for (what)". It
    /// replaces what was noted before, and has no meaning once there is progress.
    fn on_wait(&mut self, _what: &str) {}

    /// Takes note of the record of a line of the matrix. Called line after line, each once, when
    /// the flow and all before it have finished: then it will not change any more. The outcome of
    /// the run has the records of all lines.
    fn on_record(&mut self, _line: usize, _record: &FlowRecord) {}

    /// Shows the samples. The observer may take samples from the front, which lets a long run
    /// forget them; the outcome has the rest.
    fn on_samples(&mut self, _samples: &mut Vec<Sample>) {}
}

/// Passes the records of lines that have finished to a watch.
#[derive(Debug, Default)]
pub struct RecordFeed {
    /// The first line not passed.
    next: usize,
}

impl RecordFeed {
    /// Passes the records that have been settled since the last call; `record_of` gives the record
    /// of a line, `None` while it may change or when there is no such line.
    pub fn pass_settled<'r>(
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
