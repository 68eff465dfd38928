//! A discipline for tests whose head waits although the link is free. Data leaves at half the
//! link's rate and, from an empty queue, only at whole slots; control leaves at once.
//!
//! The discipline stands for token buckets and slotted senders in the tests of ports and networks.

use transport::params::NoParams;
use transport::registry::Registered;
use transport::{Bytes, Duration, Instant, Rate, Rng};

use super::{
    DataAndControl, Dequeued, Discipline, LinkState, Qdisc, QdiscKind, QdiscParams, QdiscSettings,
    Queued, Verdict,
};
use crate::packet::Packet;

/// Data at half the rate, in slots.
#[derive(Clone, Debug)]
pub struct Paced {
    classes: DataAndControl,
    rate: Rate,
    /// When the next data packet may leave.
    next_at: Instant,
}

/// Data that meets an empty queue leaves at a multiple of it.
const SLOT_PS: u64 = 50_000;

/// Every registered discipline, and this one.
pub fn and_registered() -> impl Iterator<Item = QdiscKind> {
    QdiscKind::ALL.iter().copied().chain([QdiscKind::Paced])
}

impl Registered for Paced {
    const ABOUT: &'static str = "data at half the rate of the link, for tests";
    type Params = NoParams;
}

impl Discipline for Paced {
    fn marks() -> bool {
        false
    }

    fn build(_settings: &QdiscSettings, port: &QdiscParams, _rate: Rate) -> Self {
        let classes = DataAndControl::for_params(port);
        Self { classes, rate: Rate::from_bps(1), next_at: Instant::ZERO }
    }
}

fn slot_from(now: Instant) -> Instant {
    Instant::from_ps(now.as_ps().div_ceil(SLOT_PS) * SLOT_PS)
}

impl Qdisc for Paced {
    fn enqueue(&mut self, packet: Packet, now: Instant, _lost: &mut Option<Packet>) -> Verdict {
        if packet.is_data() && self.classes.data_bytes() == 0 {
            self.next_at = self.next_at.max(slot_from(now));
        }
        self.classes.push(packet).map_or_else(Verdict::Dropped, |()| Verdict::Queued)
    }

    fn dequeue(&mut self, now: Instant, _rng: &mut Rng) -> Option<Dequeued> {
        let packet = self.classes.pop()?;
        if packet.is_data() {
            self.next_at = now + self.rate.time_for(Bytes(packet.wire_bytes())) * 2;
        }
        Some(Dequeued { packet, marked: false })
    }

    fn ready_at(&self) -> Instant {
        match self.classes.ready_at() {
            Instant::ZERO if self.classes.queued().control_packets == 0 => self.next_at,
            at => at,
        }
    }

    /// The rest of the gap to the next data packet takes the longer the lower the rate is.
    fn set_link(&mut self, LinkState { rate, paused }: LinkState, now: Instant) {
        self.classes.pause(paused);
        let left = u128::from(self.next_at.since(now).as_ps());
        let scaled = left * u128::from(self.rate.as_bps()) / u128::from(rate.as_bps());
        let scaled = u64::try_from(scaled).unwrap_or(u64::MAX).min(1 << 50);
        if left > 0 {
            self.next_at = now + Duration::from_ps(scaled);
        }
        self.rate = rate;
    }

    fn queued(&self) -> Queued {
        self.classes.queued()
    }
}
