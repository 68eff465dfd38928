//! Drop-tail: data and control with a limit each, nothing else. A host's NIC runs it unless
//! `nic.qdisc` names another.

use transport::params::NoParams;
use transport::registry::Registered;
use transport::{Instant, Rate, Rng};

use super::{
    DataAndControl, Dequeued, Discipline, LinkState, Qdisc, QdiscParams, QdiscSettings, Queued,
    Verdict,
};
use crate::packet::Packet;

/// Drops what does not fit; marks and trims nothing.
#[derive(Clone, Debug)]
pub struct DropTail {
    classes: DataAndControl,
}

impl Registered for DropTail {
    const ABOUT: &'static str = "control before data; what does not fit is dropped";
    type Params = NoParams;
}

impl Discipline for DropTail {
    fn marks() -> bool {
        false
    }

    fn keeps_order() -> bool {
        true
    }

    fn build(_settings: &QdiscSettings, port: &QdiscParams, _rate: Rate) -> Self {
        Self { classes: DataAndControl::for_params(port) }
    }
}

impl Qdisc for DropTail {
    #[inline]
    fn enqueue(&mut self, packet: Packet, _now: Instant, _lost: &mut Option<Packet>) -> Verdict {
        self.classes.push(packet).map_or_else(Verdict::Dropped, |()| Verdict::Queued)
    }

    #[inline]
    fn dequeue(&mut self, _now: Instant, _rng: &mut Rng) -> Option<Dequeued> {
        let packet = self.classes.pop()?;
        Some(Dequeued { packet, marked: false })
    }

    as_its!(classes);
}
