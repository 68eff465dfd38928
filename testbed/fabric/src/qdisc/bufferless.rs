//! A port without a buffer: a packet that meets an idle link leaves at once, any other is lost.
//!
//! Source: \[zeropod\] III-A, III-B1. Where a scheduler lets packets leave so that none meet, a
//! loss is a bug; it is counted by its own reason, and a run with one fails its audit. A pause of
//! the link holds data back, and so loses it.

use transport::{Bytes, DropReason, Instant, Rate, Rng};

use super::{
    Dequeued, Discipline, LinkState, Qdisc, QdiscParams, QdiscSettings, Queued, Service, Verdict,
};
use crate::packet::Packet;
use transport::params::NoParams;
use transport::registry::Registered;

/// A port's discipline without a queue.
#[derive(Clone, Debug)]
pub struct Bufferless {
    /// When the link has sent all packets that have left.
    free_at: Instant,
    rate: Rate,
    /// A packet that leaves as soon as it has come.
    at_work: Option<Packet>,
    paused: bool,
}

impl Registered for Bufferless {
    const ABOUT: &'static str = "no queue: a packet that finds its link busy is lost, as Zeropod";
    type Params = NoParams;
}

impl Discipline for Bufferless {
    fn build(_settings: &QdiscSettings, _port: &QdiscParams, rate: Rate) -> Self {
        Self { free_at: Instant::ZERO, rate, at_work: None, paused: false }
    }
}

impl Bufferless {
    fn occupy(&mut self, packet: &Packet, start: Instant) {
        self.free_at = start + self.rate.time_for(Bytes(packet.wire_bytes()));
    }

    fn holds_back(&self, packet: &Packet) -> bool {
        self.paused && packet.is_data()
    }
}

impl Qdisc for Bufferless {
    fn enqueue(&mut self, packet: Packet, now: Instant, _lost: &mut Option<Packet>) -> Verdict {
        if self.at_work.is_some() || self.free_at > now || self.holds_back(&packet) {
            return Verdict::Dropped(DropReason::Collision);
        }
        self.at_work = Some(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, _rng: &mut Rng) -> Option<Dequeued> {
        let packet = self.at_work.take()?;
        self.occupy(&packet, now);
        Some(Dequeued { packet, marked: false })
    }

    fn ready_at(&self) -> Instant {
        let leaves = self.at_work.is_some_and(|packet| !self.holds_back(&packet));
        if leaves { Instant::ZERO } else { Instant::FAR_FUTURE }
    }

    fn service(&self) -> Service {
        // The port is asked for each packet, because each occupies it.
        Service { work_conserving: true, ..Service::default() }
    }

    fn set_link(&mut self, LinkState { rate, paused }: LinkState, _now: Instant) {
        (self.rate, self.paused) = (rate, paused);
    }

    fn queued(&self) -> Queued {
        let mut queued = Queued::default();
        self.at_work.iter().for_each(|packet| queued.add(packet));
        queued
    }

    #[inline]
    fn passes(&mut self, packet: &Packet, now: Instant) -> bool {
        let passes = !self.holds_back(packet);
        if passes {
            self.occupy(packet, now);
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Flags;
    use crate::port::Port;
    use transport::wire::class::TrafficClass;
    use transport::{Duration, HostId};

    fn cell(handle: u32) -> Packet {
        let flags = Flags::of(TrafficClass::Data);
        Packet { handle, dst: HostId(0), hash: 0, len: 552, trim_len: 40, flags }
    }

    #[test]
    fn packets_back_to_back_pass_and_one_that_is_a_picosecond_early_is_lost() {
        let rate = Rate::from_gbps(100);
        let params = QdiscParams::for_buffer(Bytes(9000), Bytes(900), QdiscParams::MARK);
        let qdisc = Bufferless::build(&QdiscSettings::default(), &params, rate);
        let mut port = Port::new(rate, Duration::from_us(1), qdisc);
        let at = Instant::from_ps;
        assert!(port.pass(&cell(0), at(0)).is_some());
        assert_eq!(port.pass(&cell(1), at(44_159)), None);
        let lost = Verdict::Dropped(DropReason::Collision);
        assert_eq!(port.enqueue(cell(1), at(44_159), &mut None), lost);
        assert!(port.pass(&cell(2), at(44_160)).is_some());
        assert_eq!((port.waiting(), port.queued().packets()), (0, 0));
    }
}
