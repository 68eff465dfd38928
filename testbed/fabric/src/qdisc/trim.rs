//! Trimming: a data packet that does not fit loses its payload and travels on above data.
//!
//! Source: \[smartt\] sec. III-D: packets are trimmed only if they would otherwise be dropped
//! because of a full buffer. It is the arriving packet that is trimmed. Marks as in `ecn`.

use transport::params::NoParams;
use transport::registry::Registered;
use transport::{Instant, Rate, Rng};

use super::ecn::Red;
use super::{
    DataAndControl, Dequeued, Discipline, LinkState, Qdisc, QdiscParams, QdiscSettings, Queued,
    Verdict,
};
use crate::packet::{Flags, Packet};

/// Marks at dequeue, trims at enqueue, drops when not even the headers fit.
#[derive(Clone, Debug)]
pub struct Trim {
    classes: DataAndControl,
    red: Red,
}

impl Trim {
    /// An empty queue.
    #[must_use]
    pub fn new(params: &QdiscParams) -> Self {
        Self { classes: DataAndControl::for_params(params), red: Red::new(params) }
    }
}

impl Registered for Trim {
    const ABOUT: &'static str = "as ecn, and data that does not fit goes on as its header";
    type Params = NoParams;
}

impl Discipline for Trim {
    fn build(_settings: &QdiscSettings, port: &QdiscParams, _rate: Rate) -> Self {
        Self::new(port)
    }
}

impl Qdisc for Trim {
    #[inline]
    fn enqueue(&mut self, packet: Packet, _now: Instant, _lost: &mut Option<Packet>) -> Verdict {
        match self.classes.push(packet) {
            Ok(()) => Verdict::Queued,
            Err(_) if packet.flags.has(Flags::TRIMMABLE) && packet.is_data() => self
                .classes
                .push(packet.trimmed())
                .map_or_else(Verdict::Dropped, |()| Verdict::Trimmed),
            Err(reason) => Verdict::Dropped(reason),
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Instant, rng: &mut Rng) -> Option<Dequeued> {
        self.red.dequeue(&mut self.classes, rng)
    }

    as_its!(classes);
}
