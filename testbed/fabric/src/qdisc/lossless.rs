//! The queue of a lossless switch: RED marks at dequeue, as in `ecn`.
//!
//! What makes it lossless is around it, in `program/pfc.rs`: the switch counts what waits by the
//! link it came by, and pauses the transmitter of a link that sends more than its share. So what
//! may wait here is the room of all links into the switch together, which the network gives it as
//! its limit; of its own buffer it keeps the thresholds of marking.

use transport::params::NoParams;
use transport::registry::Registered;
use transport::{Instant, Rate, Rng};

use super::{
    Dequeued, Discipline, Ecn, LinkState, Qdisc, QdiscParams, QdiscSettings, Queued, Verdict,
};
use crate::packet::Packet;

/// Marks ECN-capable data at dequeue; pauses of the switch make sure that everything fits.
#[derive(Clone, Debug)]
pub struct Lossless {
    queue: Ecn,
}

impl Registered for Lossless {
    const ABOUT: &'static str =
        "as ecn, and links that send too much are paused (PFC): data never drops";
    type Params = NoParams;
}

impl Discipline for Lossless {
    fn build(_settings: &QdiscSettings, port: &QdiscParams, _rate: Rate) -> Self {
        Self { queue: Ecn::new(port) }
    }

    fn needs_pauses() -> bool {
        true
    }
}

impl Qdisc for Lossless {
    #[inline]
    fn enqueue(&mut self, packet: Packet, now: Instant, lost: &mut Option<Packet>) -> Verdict {
        self.queue.enqueue(packet, now, lost)
    }

    #[inline]
    fn dequeue(&mut self, now: Instant, rng: &mut Rng) -> Option<Dequeued> {
        self.queue.dequeue(now, rng)
    }

    as_its!(queue);
}
