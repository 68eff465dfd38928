//! A worker's hand on its board.
//!
//! Called by the worker between its steps. It allocates nothing after it is made and writes to
//! memory of its own and to the board.

use std::sync::Arc;

use transport::wire::Body;
use transport::{Duration, Instant, MsgId, RxSegment, Stats};

use super::{Board, HistogramName, catalogue};
use crate::io::upkeep::IoCounts;
use crate::telemetry::counts::{Pressure, WorkerCounts};

/// The result of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnReport {
    pub(crate) now: Instant,
    pub(crate) busy: bool,
    /// Frames that the device took.
    pub(crate) sent: usize,
    /// Whether something waits for the application, for the device, or for the end of reading, in
    /// this order.
    pub(crate) waiting: [bool; 3],
}

/// The writing end of a [`Board`].
#[derive(Debug)]
pub struct Meter {
    board: Arc<Board>,
    interval: Duration,
    publish_at: Instant,
    /// When the last turn began, if it did something.
    busy_since: Option<Instant>,
    /// When each outgoing message was posted, by its index.
    posted_at: Box<[Instant]>,
    pressure: Pressure,
}

impl Meter {
    pub(super) fn new(board: Arc<Board>, msgs_max: u32, interval: Duration) -> Self {
        Self {
            board,
            interval,
            publish_at: Instant::ZERO,
            busy_since: None,
            posted_at: (0..msgs_max).map(|_| Instant::ZERO).collect(),
            pressure: Pressure::default(),
        }
    }

    /// A burst has come in: `frames`, some of which are `segments` for the endpoint.
    pub(crate) fn received(&self, frames: usize, segments: &[RxSegment]) {
        self.count(HistogramName::RxBurst, frames as u64);
        for segment in segments {
            // As `flow/tx/feedback.rs` measures it, whether or not it still has the segment.
            let (Body::Ack(ack) | Body::Nack(ack)) = segment.hdr.body else { continue };
            let round_trip = segment.at.round_trip(ack.echo_sent_at);
            let rtt = round_trip.saturating_sub(Duration::from_wire(ack.held));
            self.count(HistogramName::Rtt, ns(rtt));
        }
    }

    /// Outgoing message `msg` was posted.
    pub(crate) fn posted(&mut self, msg: MsgId, now: Instant) {
        if let Some(at) = self.posted_at.get_mut(msg.index()) {
            *at = now;
        }
    }

    /// Outgoing message `msg` is wholly acknowledged.
    pub(crate) fn sent(&self, msg: MsgId, now: Instant) {
        if let Some(at) = self.posted_at.get(msg.index()) {
            self.count(HistogramName::MessageTime, ns(now.since(*at)));
        }
    }

    /// Notes that a turn is over; returns whether counters are due.
    pub(crate) fn turned(&mut self, turn: TurnReport) -> bool {
        let since = if turn.busy { Some(turn.now) } else { None };
        if let Some(start) = std::mem::replace(&mut self.busy_since, since) {
            self.count(HistogramName::Poll, ns(turn.now.since(start)));
        }
        if turn.sent > 0 {
            self.count(HistogramName::TxBurst, turn.sent as u64);
        }
        let [application, device, lingering] = turn.waiting.map(u64::from);
        self.pressure.add(&Pressure { application, device, lingering });
        turn.now >= self.publish_at
    }

    /// Brings the board up to date.
    pub(crate) fn publish(
        &mut self,
        now: Instant,
        stats: &Stats,
        counts: &WorkerCounts,
        io: &IoCounts,
    ) {
        self.publish_at = now + self.interval;
        self.board.publish(catalogue::values(stats, counts, io, &self.pressure));
    }

    #[inline]
    fn count(&self, histogram: HistogramName, value: u64) {
        self.board.histogram(histogram).count(value);
    }
}

fn ns(span: Duration) -> u64 {
    span.as_ps() / 1000
}
