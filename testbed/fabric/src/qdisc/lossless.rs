//! The queue of a lossless switch: RED marks at dequeue, as in `ecn`.
//!
//! What makes it lossless is around it, in `pfc.rs`: the switch counts what waits by the
//! link it came by, and pauses the transmitter of a link that sends more than its share. So what
//! may wait here is the room of all links into the switch together, which the network gives it as
//! its limit; of its own buffer it keeps the thresholds of marking.

use transport::{Instant, Rng};

use super::{Departure, Ecn, Qdisc, QdiscParams, Queued, Verdict};
use crate::packet::Packet;

/// Marks ECN-capable data at dequeue; the switch sees to it that everything fits.
#[derive(Clone, Debug)]
pub struct Lossless {
    queue: Ecn,
}

impl Lossless {
    /// An empty queue.
    #[must_use]
    pub fn new(params: &QdiscParams) -> Self {
        Self { queue: Ecn::new(params) }
    }
}

impl Qdisc for Lossless {
    #[inline]
    fn enqueue(&mut self, packet: Packet, now: Instant, rng: &mut Rng) -> Verdict {
        self.queue.enqueue(packet, now, rng)
    }

    #[inline]
    fn dequeue(&mut self, now: Instant, rng: &mut Rng) -> Option<Departure> {
        self.queue.dequeue(now, rng)
    }

    as_its!(queue);
}
