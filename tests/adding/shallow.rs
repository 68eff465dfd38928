//! A queue discipline that `tests/adding.rs` adds: drop-tail that holds few data packets. It shows
//! all that a discipline's file has to state.

use transport::params::params;
use transport::registry::Registered;
use transport::{DropReason, Instant, Rate, Rng};

use super::{
    DataAndControl, Dequeued, Discipline, LinkState, Qdisc, QdiscParams, QdiscSettings, Queued,
    Verdict,
};
use crate::packet::Packet;

params! {
    /// Settings of [`Shallow`].
    pub struct ShallowParams {
        /// data packets that may wait at a port
        packets: u32 = 100, in 1..=10_000;
    }
}

/// Control before data, of which only so many packets wait.
#[derive(Clone, Debug)]
pub struct Shallow {
    classes: DataAndControl,
    packets_max: usize,
    refused: u64,
}

impl Registered for Shallow {
    const ABOUT: &'static str = "few packets of data, added by a test";
    type Params = ShallowParams;

    fn own_counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("refused", self.refused);
    }
}

impl Discipline for Shallow {
    fn build(settings: &QdiscSettings, port: &QdiscParams, _rate: Rate) -> Self {
        let packets_max = settings.shallow.packets as usize;
        Self { classes: DataAndControl::for_params(port), packets_max, refused: 0 }
    }
    fn keeps_order() -> bool {
        true
    }
}

impl Qdisc for Shallow {
    fn enqueue(&mut self, packet: Packet, _now: Instant, _lost: &mut Option<Packet>) -> Verdict {
        let is_full = packet.is_data() && self.classes.queued().data_packets >= self.packets_max;
        let full = DropReason::queue_full(packet.class());
        let queued = if is_full { Err(full) } else { self.classes.push(packet) };
        self.refused += u64::from(queued.is_err());
        queued.map_or_else(Verdict::Dropped, |()| Verdict::Queued)
    }

    fn dequeue(&mut self, _now: Instant, _rng: &mut Rng) -> Option<Dequeued> {
        let packet = self.classes.pop()?;
        Some(Dequeued { packet, marked: false })
    }

    as_its!(classes);
}
