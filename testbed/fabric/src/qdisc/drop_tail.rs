//! Drop-tail: two classes with limits, nothing else. Also what a host's NIC runs.

use transport::{Instant, Rng};

use super::{Backlog, Departure, Qdisc, QdiscParams, TwoClass, Verdict};
use crate::packet::Packet;

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

    as_its!(classes);
}
