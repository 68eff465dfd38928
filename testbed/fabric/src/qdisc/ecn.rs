//! RED marking at dequeue over drop-tail queues for data and control.
//!
//! Source: \[smartt\] sec. II-A b and III-J. Marks grow linearly in the queue's size between Kmin
//! and Kmax. They are set when a packet is dequeued, so that they report what is behind the packet
//! and not what was before it. The queue's size is the instantaneous data backlog in bytes, no
//! average; control packets neither count nor are marked.

use transport::params::NoParams;
use transport::registry::Registered;
use transport::{Instant, Rate, Rng};

use super::{
    DataAndControl, Dequeued, Discipline, LinkState, Qdisc, QdiscParams, QdiscSettings, Queued,
    Verdict,
};
use crate::packet::{Flags, Packet};

/// Marks ECN-capable data at dequeue; drops what does not fit.
#[derive(Clone, Debug)]
pub struct Ecn {
    classes: DataAndControl,
    red: Red,
}

/// The marking rule, shared with trimming.
#[derive(Clone, Copy, Debug)]
pub(super) struct Red {
    kmin: u64,
    kmax: u64,
}

impl Ecn {
    /// An empty queue.
    #[must_use]
    pub fn new(params: &QdiscParams) -> Self {
        Self { classes: DataAndControl::for_params(params), red: Red::new(params) }
    }
}

impl Registered for Ecn {
    const ABOUT: &'static str = "control before data; data is marked by its queue at departure";
    type Params = NoParams;
}

impl Discipline for Ecn {
    fn build(_settings: &QdiscSettings, port: &QdiscParams, _rate: Rate) -> Self {
        Self::new(port)
    }

    fn keeps_order() -> bool {
        true
    }
}

impl Red {
    pub(super) const fn new(params: &QdiscParams) -> Self {
        Self { kmin: params.kmin.0, kmax: params.kmax.0 }
    }

    /// Dequeues from `classes`, and by chance marks the packet.
    ///
    /// The departing packet is not part of the queue it is judged by: fig. 4 of the paper reads the
    /// mark as what the packet leaves behind, and the reference simulator removes it first too. The
    /// probability is 0 up to Kmin, (queue - Kmin) / (Kmax - Kmin) between, 1 above Kmax.
    #[inline]
    pub(super) fn dequeue(self, classes: &mut DataAndControl, rng: &mut Rng) -> Option<Dequeued> {
        let mut packet = classes.pop()?;
        let data_left = classes.data_bytes();
        let marked = data_left > self.kmin
            && packet.is_data()
            && packet.flags.has(Flags::ECT)
            && !packet.flags.has(Flags::CE)
            && self.wants_mark(data_left, rng);
        if marked {
            packet.flags = packet.flags.with(Flags::CE);
        }
        Some(Dequeued { packet, marked })
    }

    /// Whether chance marks a packet with `queue` bytes behind it. In integers, so that a result
    /// never depends on a float's last bit; draws only between Kmin and Kmax.
    fn wants_mark(self, queue: u64, rng: &mut Rng) -> bool {
        queue > self.kmax
            || rng.below(self.kmax.saturating_sub(self.kmin)) < queue.saturating_sub(self.kmin)
    }
}

impl Qdisc for Ecn {
    #[inline]
    fn enqueue(&mut self, packet: Packet, _now: Instant, _lost: &mut Option<Packet>) -> Verdict {
        self.classes.push(packet).map_or_else(Verdict::Dropped, |()| Verdict::Queued)
    }

    #[inline]
    fn dequeue(&mut self, _now: Instant, rng: &mut Rng) -> Option<Dequeued> {
        self.red.dequeue(&mut self.classes, rng)
    }

    as_its!(classes);
}
