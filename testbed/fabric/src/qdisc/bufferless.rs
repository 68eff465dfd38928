//! A port without a buffer: a packet that meets an idle link leaves at once, any other is lost.
//!
//! Source: \[zeropod\] III-A, III-B1. Where a scheduler lets packets leave so that none meet, a
//! loss is a bug; it is counted by its own reason, and a run with one fails its audit. Where clocks
//! of hosts may be off by more than the guard, it is expected and has another reason. A pause of
//! the link holds data back, and so loses it.
//!
//! Some packets yield ([`Packet::yields`]): cells that left without a grant (IV-B3), and answers of
//! a scheduler that does not have the grants of another one. A packet that yields is lost where the
//! link is busy, and is cut off where a packet comes that does not yield. Both are expected and
//! have a reason of their own; the other packet leaves as if it had met an idle link. A control
//! packet that comes in a gap of a train (`train.rs`) leaves in the gap: it *slips*.

use transport::{Bytes, DropReason, HostId, Instant, Rate, Rng};

use super::{
    Dequeued, Discipline, LinkState, Qdisc, QdiscParams, QdiscSettings, Queued, Service, Verdict,
};
use crate::packet::{Flags, Packet};
use crate::train::Train;
use transport::params::params;
use transport::registry::Registered;
use transport::sched::Ranks;

params! {
    /// Settings of [`Bufferless`].
    pub struct BufferlessParams {
        /// Whether packets may meet, because clocks of hosts are off by more than a guard: they are
        /// then lost as clock_collision; on where clocks of a run are off.
        loose: bool = false;
    }
}

/// A port's discipline without a queue.
#[derive(Clone, Debug)]
pub struct Bufferless {
    /// The transmission that began last: its instant, its packet and its rate. Its end is computed
    /// only for the few packets that do not pass at once.
    last: (Instant, Packet, Rate),
    rate: Rate,
    /// Wire bytes of a cell.
    cell: u16,
    /// When the link has sent the last packet that left in a gap.
    slipped_until: Instant,
    /// A packet that leaves as soon as it has come.
    at_work: Option<Packet>,
    /// The packet of the last transmission, where it is one that yields.
    yielding: Option<Packet>,
    paused: bool,
    /// Why a packet is lost that meets another.
    met: DropReason,
}

impl Registered for Bufferless {
    const ABOUT: &'static str = "no queue: a packet that finds its link busy is lost, as Zeropod";
    type Params = BufferlessParams;
}

impl Discipline for Bufferless {
    fn marks() -> bool {
        false
    }

    fn keeps_order() -> bool {
        true
    }

    fn ranks_by() -> Option<Ranks> {
        Some(Ranks::Granted)
    }

    fn build(settings: &QdiscSettings, port: &QdiscParams, rate: Rate) -> Self {
        let loose = settings.bufferless.loose;
        let met = if loose { DropReason::ClockCollision } else { DropReason::Collision };
        let last = (Instant::ZERO, NOTHING, rate);
        let cell = u16::try_from(port.packet_max.0).unwrap_or(u16::MAX).max(1);
        let (at_work, yielding, slipped_until) = (None, None, Instant::ZERO);
        Self { last, rate, cell, slipped_until, at_work, yielding, paused: false, met }
    }
}

/// Before the first packet, and instead of one that was cut off.
const NOTHING: Packet =
    Packet { handle: 0, dst: HostId(0), hash: 0, len: 0, trim_len: 0, flags: Flags::NONE };

impl Bufferless {
    #[inline]
    fn occupy(&mut self, packet: &Packet, start: Instant) {
        self.last = (start, *packet, self.rate);
        self.yielding = packet.yields().then_some(*packet);
    }

    /// When the link has sent all packets that have left.
    fn free_at(&self) -> Instant {
        let (start, packet, rate) = &self.last;
        let alone = || rate.time_for(Bytes(packet.wire_bytes()));
        *start + self.train().map_or_else(alone, |train| train.span())
    }

    /// The transmission that began last, where it is that of a train.
    fn train(&self) -> Option<Train> {
        let (_, packet, rate) = &self.last;
        Train::of(packet, self.cell, |len| rate.time_for(Bytes(len.into())))
    }

    /// Sends a packet in a gap of the train that the link is sending at `now`, if it fits.
    fn slips(&mut self, packet: &Packet, now: Instant) -> bool {
        let time = self.rate.time_for(Bytes(packet.wire_bytes()));
        let fits = |train: Train| train.lets_in(now.since(self.last.0), time);
        let may = !packet.is_data() && !packet.yields() && now >= self.slipped_until;
        let slips = may && self.train().is_some_and(fits);
        if slips {
            self.slipped_until = now + time;
        }
        slips
    }

    fn holds_back(&self, packet: &Packet) -> bool {
        self.paused && packet.is_data()
    }
}

impl Qdisc for Bufferless {
    fn enqueue(&mut self, packet: Packet, now: Instant, lost: &mut Option<Packet>) -> Verdict {
        let is_busy = self.at_work.is_some() || self.free_at() > now;
        if is_busy && self.at_work.is_none() && self.slips(&packet, now) {
            return Verdict::Slips;
        }
        if packet.yields() && (is_busy || self.paused) {
            return Verdict::Dropped(DropReason::Optimistic);
        }
        if self.at_work.is_some() || self.holds_back(&packet) {
            return Verdict::Dropped(self.met);
        }
        if is_busy {
            *lost = self.yielding.take();
            if lost.is_none() {
                return Verdict::Dropped(self.met);
            }
            self.last = (now, NOTHING, self.rate);
        }
        self.at_work = Some(packet);
        if is_busy { Verdict::Cut } else { Verdict::Queued }
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
        let cell = Some(Bytes(self.cell.into()));
        Service { work_conserving: true, passes: Bytes::ZERO, cell }
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
    #![expect(clippy::cast_possible_truncation, reason = "numbers of a small pod")]

    use super::*;
    use crate::port::Port;
    use transport::Duration;
    use transport::wire::class::TrafficClass;

    fn cell(handle: u32) -> Packet {
        let flags = Flags::of(TrafficClass::Data);
        Packet { handle, dst: HostId(0), hash: 0, len: 552, trim_len: 40, flags }
    }

    #[test]
    fn a_packet_that_yields_is_cut_off_by_another_and_never_delays_it() {
        let rate = Rate::from_gbps(100);
        let params = QdiscParams::for_buffer(Bytes(9000), Bytes(900), QdiscParams::MARK);
        let qdisc = Bufferless::build(&QdiscSettings::default(), &params, rate);
        let mut port = Port::new(rate, Duration::from_us(1), qdisc);
        let (at, mut rng) = (Instant::from_ps, Rng::new(1));
        let yields = |handle| cell(handle).ranked_by(u32::MAX);
        assert!(yields(0).yields() && !cell(0).yields());
        let control = Packet { flags: Flags::of(TrafficClass::Control), ..cell(0) };
        assert!(control.yielding().yields() && !control.yields());
        let yielded = Verdict::Dropped(DropReason::Optimistic);

        // Behind a cell with a slot it finds the link busy, and so it does behind its own kind.
        assert!(port.pass(&cell(0), at(0)).is_some());
        assert_eq!(port.enqueue(yields(1), at(44_159), &mut None), yielded);
        assert!(port.pass(&yields(2), at(44_160)).is_some());
        assert_eq!(port.enqueue(yields(3), at(88_319), &mut None), yielded);

        // The cell with a slot leaves at once, a picosecond before the link would be free.
        let mut lost = None;
        assert_eq!(port.pass(&cell(4), at(88_319)), None);
        assert_eq!(port.enqueue(cell(4), at(88_319), &mut lost), Verdict::Cut);
        assert_eq!(lost.map(|packet| packet.handle), Some(2));
        let (departure, arrival) = port.depart(at(88_319), &mut rng).unwrap();
        assert_eq!((departure.packet.handle, arrival), (4, at(88_319 + 44_160 + 1_000_000)));

        // A packet between cells cuts one off, too; two cells with slots still collide.
        assert!(port.pass(&yields(5), at(200_000)).is_some());
        let flags = Flags::of(TrafficClass::Control);
        let answer = Packet { len: 40, flags, ..cell(6) };
        assert_eq!(port.enqueue(answer, at(200_001), &mut None), Verdict::Cut);
        assert!(port.depart(at(200_001), &mut rng).is_some());
        let collision = Verdict::Dropped(DropReason::Collision);
        assert_eq!(port.enqueue(cell(7), at(200_002), &mut None), collision);
    }

    #[test]
    fn one_control_packet_slips_into_a_gap_and_a_second_one_collides() {
        let rate = Rate::from_gbps(100);
        let params = QdiscParams::for_buffer(Bytes(9000), Bytes(552), QdiscParams::MARK);
        let qdisc = Bufferless::build(&QdiscSettings::default(), &params, rate);
        let mut port = Port::new(rate, Duration::from_us(1), qdisc);
        let at = Instant::from_ps;
        let train = Packet { len: 4 * 552, ..cell(0) };
        let train = train.with_gaps(crate::train::Gaps { after: [2, 0], control: 40 });
        // The first of its cells goes on.
        assert_eq!(port.pass(&train, at(0)), Some(at(44_160 + 1_000_000)));
        let answer = Packet { len: 40, flags: Flags::of(TrafficClass::Control), ..cell(1) };
        let collision = Verdict::Dropped(DropReason::Collision);
        let mut give = |packet, ps| port.enqueue(packet, at(ps), &mut None);
        assert_eq!(give(answer, 88_319), collision);
        assert_eq!(give(Packet { len: 41, ..answer }, 88_320), collision);
        let yielded = Verdict::Dropped(DropReason::Optimistic);
        assert_eq!(give(cell(2).ranked_by(u32::MAX), 88_320), yielded);
        assert_eq!(give(answer, 88_320), Verdict::Slips);
        assert_eq!(give(answer, 88_320), collision);
        assert_eq!(give(answer, 88_321), collision);
        assert_eq!(port.busy_until(), at(4 * 44_160 + 3_200));
    }

    #[test]
    fn where_clocks_are_off_packets_that_meet_have_a_reason_of_their_own() {
        let rate = Rate::from_gbps(100);
        let params = QdiscParams::for_buffer(Bytes(9000), Bytes(900), QdiscParams::MARK);
        for (loose, reason) in [(false, DropReason::Collision), (true, DropReason::ClockCollision)]
        {
            let mut settings = QdiscSettings::default();
            settings.bufferless.loose = loose;
            let qdisc = Bufferless::build(&settings, &params, rate);
            let mut port = Port::new(rate, Duration::from_us(1), qdisc);
            assert!(port.pass(&cell(0), Instant::from_ps(0)).is_some());
            let met = port.enqueue(cell(1), Instant::from_ps(44_159), &mut None);
            assert_eq!(met, Verdict::Dropped(reason));
        }
    }

    /// The share of the cells without a grant that arrive in a pod of 256 hosts. Each host sends
    /// one in a slot with chance `load`. Slots are aligned, and a port has one winner.
    fn arriving(load: f64) -> f64 {
        const M: u64 = 16;
        let rate = Rate::from_gbps(100);
        let params = QdiscParams::for_buffer(Bytes(9000), Bytes(900), QdiscParams::MARK);
        let new = || {
            let qdisc = Bufferless::build(&QdiscSettings::default(), &params, rate);
            Port::new(rate, Duration::from_us(1), qdisc)
        };
        // From ToRs up, from aggregation switches down, to hosts.
        let mut ports: Vec<Vec<_>> = (0..3).map(|_| (0..256).map(|_| new()).collect()).collect();
        let (mut rng, mut sent, mut arrived) = (Rng::new(7), 0, 0);
        for slot in 0..400_u64 {
            let mut cells = Vec::new();
            for src in (0..M * M).filter(|_| rng.chance(load)).collect::<Vec<_>>() {
                let dst = (src + 1 + rng.below(M * M - 1)) % (M * M);
                let at = rng.below(cells.len() as u64 + 1) as usize;
                cells.insert(at, (src, dst, rng.below(M)));
            }
            sent += cells.len();
            for (hop, ports) in ports.iter_mut().enumerate() {
                let now = Instant::from_ps(44_160 * slot + 1_044_160 * hop as u64);
                cells.retain(|(src, dst, agg)| {
                    let port = [src / M * M + agg, agg * M + dst / M, *dst][hop];
                    let cell = cell(0).ranked_by(u32::MAX);
                    ports[port as usize].pass(&cell, now).is_some()
                });
            }
            arrived += cells.len();
        }
        f64::from(u32::try_from(arrived).unwrap()) / f64::from(u32::try_from(sent).unwrap())
    }

    #[test]
    fn as_many_cells_without_a_grant_arrive_as_the_reference_says() {
        for (load, share) in [(0.02, 0.972), (0.10, 0.875), (0.174, 0.799), (0.30, 0.694)] {
            let arrived = arriving(load);
            assert!((arrived / share - 1.0).abs() < 0.02, "{load}: {arrived}, not {share}");
        }
    }

    /// Eq. 6: cells leave at any time, and two that overlap at a port destroy each other.
    //= zeropod#IV-B3
    #[test]
    fn unslotted_cells_that_destroy_each_other_arrive_as_equation_6_says() {
        const M: u64 = 16;
        for load in [0.02, 0.10, 0.174, 0.30] {
            let mut rng = Rng::new(11);
            let (cell, span) = (44_160_u64, 44_160 * 500_u64);
            // Each host sends on average `load` cells in the time of one.
            let count = (load * 256.0 * 500.0) as u64;
            let cells: Vec<[u64; 4]> = (0..count)
                .map(|_| [rng.below(span), rng.below(256), rng.below(256), rng.below(M)])
                .collect();
            let mut destroyed = vec![false; cells.len()];
            for hop in 0..3 {
                let mut seen: Vec<(u64, u64, usize)> = cells
                    .iter()
                    .enumerate()
                    .map(|(at, [start, src, dst, agg])| {
                        let port = [src / M * M + agg, agg * M + dst / M, *dst][hop];
                        (port, *start, at)
                    })
                    .collect();
                seen.sort_unstable();
                for pair in seen.windows(2) {
                    if pair[0].0 == pair[1].0 && pair[1].1 - pair[0].1 < cell {
                        (destroyed[pair[0].2], destroyed[pair[1].2]) = (true, true);
                    }
                }
            }
            let arrived = destroyed.iter().filter(|lost| !**lost).count() as f64;
            let (arrived, m) = (arrived / count as f64, M as f64);
            let expected = f64::exp(2.0 * load * (2.0 / m - 3.0));
            assert!((arrived / expected - 1.0).abs() < 0.02, "{load}: {arrived}, not {expected}");
        }
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
