//! Drop-tail: two classes with limits, nothing else. Also what a host's NIC runs.

use transport::{Instant, Rng};

use super::{Backlog, Departure, Qdisc, QdiscParams, TwoClass, Verdict};
use crate::fabric::packet::Packet;

/// Drops what does not fit; marks and trims nothing.
#[derive(Clone, Debug)]
pub struct DropTail {
    classes: TwoClass,
}

impl DropTail {
    /// An empty queue; only the limits of `params` matter.
    #[must_use]
    pub fn new(params: &QdiscParams) -> Self {
        Self { classes: TwoClass::new(params) }
    }
}

impl Qdisc for DropTail {
    #[inline]
    fn enqueue(&mut self, packet: Packet, _now: Instant, _rng: &mut Rng) -> Verdict {
        self.classes.offer(packet).map_or_else(Verdict::Dropped, |()| Verdict::Queued)
    }

    #[inline]
    fn dequeue(&mut self, now: Instant, _rng: &mut Rng) -> Option<Departure> {
        let packet = self.classes.take()?;
        Some(Departure { packet, marked: false, data_left: self.classes.data_bytes(), start: now })
    }

    #[inline]
    fn dequeue_control(&mut self, now: Instant) -> Option<Departure> {
        self.classes.depart_control(now)
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.classes.backlog()
    }

    #[inline]
    fn pass(&mut self, packet: Packet, now: Instant) -> Result<Departure, Packet> {
        self.classes.pass(packet, now)
    }
}
