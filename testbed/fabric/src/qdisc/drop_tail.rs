//! Drop-tail: data and control with a limit each, nothing else. A host's NIC runs it unless
//! `nic.qdisc` names another.

use transport::{Instant, Rng};

use super::{DataAndControl, Departure, Qdisc, QdiscParams, Queued, Verdict};
use crate::packet::Packet;

/// Drops what does not fit; marks and trims nothing.
#[derive(Clone, Debug)]
pub struct DropTail {
    classes: DataAndControl,
}

impl DropTail {
    /// An empty queue; only the limits of `params` matter.
    #[must_use]
    pub fn new(params: &QdiscParams) -> Self {
        Self { classes: DataAndControl::for_params(params) }
    }
}

impl Qdisc for DropTail {
    #[inline]
    fn enqueue(&mut self, packet: Packet, _now: Instant, _rng: &mut Rng) -> Verdict {
        self.classes.push(packet).map_or_else(Verdict::Dropped, |()| Verdict::Queued)
    }

    #[inline]
    fn dequeue(&mut self, now: Instant, _rng: &mut Rng) -> Option<Departure> {
        let packet = self.classes.pop()?;
        Some(Departure { packet, marked: false, data_left: self.classes.data_bytes(), start: now })
    }

    as_its!(classes);
}
