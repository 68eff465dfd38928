//! A fixed-size ring of the last events of flows. Off, it costs one predicted branch.

use alloc::vec::Vec;

use crate::time::Instant;
use crate::units::FlowId;

/// The event of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceKind {
    /// A message was posted; `a` is its length.
    Post,
    /// A segment left; `a` is its offset.
    Send,
    /// An ACK came; `a` is its PSN, `b` the window after it.
    Ack,
    /// A NACK came; `a` and `b` as for `Ack`.
    Nack,
    /// A BLOCK_NACK came; `a` is the block's first PSN, `b` the low half of the missing packets'
    /// bits.
    BlockNack,
    /// A flow's timer fired.
    Timer,
    /// A packet was dropped; `a` is its PSN, `b` the reason.
    Drop,
}

/// A record of one event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceRecord {
    /// The time of the event.
    pub at: Instant,
    /// The flow of the event.
    pub flow: FlowId,
    /// The kind of the event.
    pub kind: TraceKind,
    /// See [`TraceKind`].
    pub a: u32,
    /// See [`TraceKind`].
    pub b: u32,
}

const _: () = assert!(size_of::<TraceRecord>() <= 24);

/// The ring. Keeps the last `capacity` records.
#[derive(Clone, Debug)]
pub struct Trace {
    ring: Vec<TraceRecord>,
    capacity: usize,
    recorded: usize,
}

impl Trace {
    /// A ring of `capacity` records; 0 records nothing.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { ring: Vec::with_capacity(capacity), capacity, recorded: 0 }
    }

    /// Notes one event.
    #[inline]
    pub fn record(&mut self, at: Instant, kind: TraceKind, flow: FlowId, a: u32, b: u32) {
        if self.capacity > 0 {
            self.keep(TraceRecord { at, flow, kind, a, b });
        }
    }

    /// Most endpoints keep no records, so this is no part of what handles segments.
    #[cold]
    fn keep(&mut self, record: TraceRecord) {
        if self.ring.len() < self.capacity {
            self.ring.push(record);
        } else {
            self.ring[self.recorded % self.capacity] = record;
        }
        self.recorded += 1;
    }

    /// The records that are kept, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &TraceRecord> {
        let oldest =
            if self.ring.len() < self.capacity { 0 } else { self.recorded % self.capacity.max(1) };
        self.ring[oldest..].iter().chain(&self.ring[..oldest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_records_are_kept_in_order() {
        let mut trace = Trace::new(3);
        for a in 0..5 {
            trace.record(Instant::ZERO, TraceKind::Send, FlowId::UNKNOWN, a, 0);
        }
        assert!(trace.iter().map(|r| r.a).eq([2, 3, 4]));
    }

    #[test]
    fn a_trace_of_no_size_records_nothing() {
        let mut trace = Trace::new(0);
        trace.record(Instant::ZERO, TraceKind::Send, FlowId::UNKNOWN, 0, 0);
        assert_eq!(trace.iter().count(), 0);
    }
}
