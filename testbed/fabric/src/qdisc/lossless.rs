//! The queue of a lossless switch: RED marks at dequeue, as in `ecn`.
//!
//! The code that makes it lossless is in `program/pfc.rs`. The switch counts waiting packets by the
//! link by which they came, and pauses the transmitter of a link that sends more than its share. So
//! the room of all links into the switch together may wait here, and the network gives this queue
//! that limit. The thresholds of marking are those of the port's own buffer.

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

    fn keeps_order() -> bool {
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
