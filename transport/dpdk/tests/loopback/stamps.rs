//! Times of arrival by a device's clock. No device here has one, so a wire between two rings stamps
//! frames as a card would, by a clock that drifts, in a world whose time is the test's. net_pcap
//! shows that the field which drivers fill is the one that is read.
//!
//! Times are picoseconds of the test's world.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use transport::cc::CcKind;
use transport::record::Recorder;
use transport::sched::Label;
use transport::sched::dcsim::DcSim;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::class::TrafficClass;
use transport::{Config, Duration, HostId, Instant, Rate, Rng, Settings};
use transport_dpdk::telemetry::HistogramName;
use transport_dpdk::{
    AppEnd, AppMemory, Clock, Completion, DeviceClock, DeviceName, Eal, IoCounts, Link, LinkConfig,
    LinkEnd, Mbuf, MbufBurst, MemoryConfig, MessageBytes, Pattern, Pool, PortConfig, PortIo,
    Request, RxTimes, Telemetry, TimestampField, UdpSums, Upkeep, Worker, WorkerConfig, app_ring,
};

use crate::Outcome::{self, Passed};
use crate::traffic;
use crate::workers::{of_dcsim, wide_pool};

pub(crate) const CHECKS: &[crate::Check] = &[
    ("round_trips_are_right_by_stamps_and_50_us_too_long_without_where_polls_are_late", late_polls),
    ("a_clock_that_stops_is_given_up_and_frames_arrive_when_they_are_found", stopped),
    ("a_stamp_that_cannot_be_true_is_refused_and_counted", absurd),
    ("paced_frames_leave_at_their_time_however_late_the_polls_are", timed),
    ("a_data_of_dcsim_leaves_rtt_max_behind_its_sim_by_the_clock_of_the_device", probed),
    ("net_pcap_fills_the_field_of_devices_and_its_clock_is_not_taken_for_one", pcap),
];

const US: u64 = 1_000_000;

/// One way from wire to wire.
const DELAY: u64 = 5 * US;

/// The world's time. Reading a device's clock takes a microsecond of it.
#[derive(Clone, Debug, Default)]
struct World(Arc<AtomicU64>);

impl World {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn pass(&self, ps: u64) {
        self.0.fetch_add(ps, Ordering::Relaxed);
    }
}

impl Clock for World {
    fn now(&mut self) -> Instant {
        Instant::from_ps(World::now(self))
    }
}

/// A card's clock: 156.25 MHz, off by some ppm, and close to its wrap at the start.
#[derive(Clone, Copy, Debug)]
struct Card {
    ppm: i64,
    /// The instant from which on the clock stands still.
    stops_at: u64,
}

impl Card {
    fn ticks(self, at_ps: u64) -> u64 {
        let at = i128::from(at_ps.min(self.stops_at));
        let ticks = at * 15_625 * i128::from(1_000_000 + self.ppm) / 100_000_000_000_000;
        (u64::MAX - 1_000_000).wrapping_add(u64::try_from(ticks).unwrap())
    }

    /// When the clock shows `ticks`, which it does around `near_ps`.
    fn time(self, ticks: u64, near_ps: u64) -> u64 {
        let ahead = ticks.wrapping_sub(self.ticks(near_ps)).cast_signed();
        let ps = i128::from(ahead) * 6_400_000_000 / i128::from(1_000_000 + self.ppm);
        near_ps.checked_add_signed(i64::try_from(ps).unwrap()).unwrap()
    }

    /// The clock as a worker reads it: in the middle of a microsecond, or not quite.
    fn clock(self, field: TimestampField, world: &World) -> DeviceClock {
        let (world, mut odd) = (world.clone(), false);
        let ticks = move || {
            odd = !odd;
            let early = if odd { US / 4 } else { US * 3 / 4 };
            world.pass(early);
            let ticks = self.ticks(world.now());
            world.pass(US - early);
            Some(ticks)
        };
        DeviceClock::new(field, Box::new(ticks))
    }
}

struct Host {
    worker: Worker<PortIo, AppMemory, World>,
    app: AppEnd,
    wire: LinkEnd,
    /// The link for frames that carry their departure.
    timed_wire: LinkEnd,
    /// On the way to it, with the time of arrival.
    coming: BTreeMap<(u64, u64), Mbuf>,
}

/// A frame that left host 0, by what an ECMP switch and a queue see of it.
#[derive(Clone, Copy, Debug)]
struct Departure {
    at: u64,
    /// The device was given its departure.
    timed: bool,
    port: u16,
    class: TrafficClass,
    /// Length, bytes.
    len: u32,
}

impl Departure {
    /// Reads what leaves host 0: an IPv6 frame, whole in `mbuf`.
    fn of(mbuf: &Mbuf, at: u64, timed: bool) -> Self {
        let (frame, len) = (mbuf.data(), mbuf.pkt_len());
        let dscp = (u16::from_be_bytes([frame[14], frame[15]]) >> 6) & 0x3f;
        let is_it = |class: &&TrafficClass| u16::from(class.dscp()) == dscp;
        let class = *TrafficClass::ALL.iter().find(is_it).unwrap();
        Self { at, timed, port: u16::from_be_bytes([frame[54], frame[55]]), class, len }
    }
}

/// Two hosts and what is between them.
struct Rig {
    world: World,
    hosts: [Host; 2],
    field: TimestampField,
    departures: TimestampField,
    cards: [Card; 2],
    /// For each frame that host 0's device was given: when it was handed over, when it leaves.
    leaving: Vec<(u64, u64)>,
    /// All that host 0 has sent.
    departed: Vec<Departure>,
    /// The error of stamps.
    off_ticks: i64,
    /// Carried so far.
    frames: u64,
    telemetry: Telemetry,
    pools: [Arc<Pool>; 2],
}

fn config() -> Config {
    let settings = Settings {
        line_rate: Rate::from_gbps(10),
        base_rtt: Duration::from_us(10),
        tx_flows_max: 4,
        rx_flows_max: 4,
        msgs_max: 16,
        ..Settings::default()
    };
    Config::new(settings).unwrap()
}

fn message() -> Request {
    let source = MessageBytes::Pattern(Pattern { seed: 1, tag: 1 });
    let len = NonZeroU32::new(1_000_000).unwrap();
    Request::Send { connection: 0, source, len, tag: 1, cookie: 1 }
}

impl Rig {
    /// Host 0 always has a message for host 1; `clocked`: devices say when frames arrived.
    fn new(eal: &Eal, cards: [Card; 2], clocked: bool) -> Self {
        Self::of(eal, cards, (clocked, false), &config())
    }

    /// `ahead`: devices send at a time.
    fn of(eal: &Eal, cards: [Card; 2], (clocked, ahead): (bool, bool), config: &Config) -> Self {
        let departures = TimestampField::of_departures(eal).unwrap();
        let field = TimestampField::of_devices(eal).unwrap();
        assert_eq!(TimestampField::of_devices(eal), Ok(field), "as drivers find it");
        let world = World::default();
        let telemetry = Telemetry::default();
        let pools = [wide_pool(eal, 4608), wide_pool(eal, 4608)];
        let host = |i: usize| {
            let (host_pool, switch_pool) = (Arc::clone(&pools[i]), Arc::clone(&pools[i]));
            let link = LinkConfig { max_frame: 4300, depth: 512, host_pool, switch_pool };
            let (port, mut wires) = Link::ring_queues(eal, &link, 2).unwrap();
            let mut queues = port.into_queues();
            let (timed, own) = (queues.pop().unwrap(), queues.pop().unwrap());
            let io = PortIo::new(own, Arc::clone(&pools[i]), None);
            let io = if clocked { io.clocked(cards[i].clock(field, &world)) } else { io };
            let io = if ahead { io.timed(timed, departures, HORIZON) } else { io };
            let (timed_wire, wire) = (wires.pop().unwrap(), wires.pop().unwrap());
            let (app, end) = app_ring(64, 64);
            let id = HostId(u32::try_from(i).unwrap());
            let memory =
                MemoryConfig { bytes_max: 1 << 26, messages_max: 100, parity_max: 1 << 20 };
            let parts = (io, AppMemory::new(config, &memory), world.clone());
            let worker_config = WorkerConfig {
                addressing: Addressing::emulated(IpVersion::V6),
                connections_max: 4,
                msgs_max: config.msgs_max,
                stuck_after: Duration::from_s(10),
                udp: UdpSums::Software,
                digest: true,
            };
            let core = Recorder::off(config, id, Rng::new(1).fork("host", u64::from(id.0)));
            let mut worker = Worker::new(core, parts, end, worker_config);
            worker.observe(telemetry.meter(id, config.msgs_max, Duration::from_us(100)));
            Host { worker, app, wire, timed_wire, coming: BTreeMap::new() }
        };
        let mut hosts = [host(0), host(1)];
        let path = config.default_path();
        let app = &mut hosts[0].app;
        app.submit(Request::Open { connection: 0, peer: HostId(1), path, label: Label::NONE })
            .unwrap();
        (0..4).for_each(|_| app.submit(message()).unwrap());
        let (leaving, departed) = (Vec::new(), Vec::new());
        let (off_ticks, frames) = (0, 0);
        Self {
            world,
            hosts,
            field,
            departures,
            cards,
            leaving,
            departed,
            off_ticks,
            frames,
            telemetry,
            pools,
        }
    }

    /// Both workers turn, and `gap` passes.
    fn step(&mut self, gap: u64) {
        for at in 0..2 {
            self.arrive(at);
            self.hosts[at].worker.poll_once();
            self.leave(at);
            while let Some(completion) = self.hosts[at].app.poll() {
                match completion {
                    Completion::Sent { .. } => self.hosts[at].app.submit(message()).unwrap(),
                    Completion::Delivered { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        self.world.pass(gap);
    }

    /// Moves frames that have reached host `at` by now into its queue, stamped with their arrival.
    fn arrive(&mut self, at: usize) {
        let (now, card, off) = (self.world.now(), self.cards[at], self.off_ticks);
        let host = &mut self.hosts[at];
        let mut burst = MbufBurst::new();
        while let Some(entry) = host.coming.first_entry().filter(|entry| entry.key().0 <= now) {
            let due = entry.key().0;
            let mut mbuf = entry.remove();
            self.field.set(&mut mbuf, card.ticks(due).wrapping_add_signed(off));
            burst.push(mbuf).unwrap();
            if burst.room() == 0 {
                host.wire.tx_burst(&mut burst);
            }
        }
        host.wire.tx_burst(&mut burst);
        assert!(burst.is_empty(), "the queue is long enough");
    }

    /// Puts the frames that host `at` has sent on the wire.
    fn leave(&mut self, at: usize) {
        let now = self.world.now();
        let mut burst = MbufBurst::new();
        while self.hosts[at].wire.rx_burst(&mut burst) > 0 {
            for mbuf in burst.drain() {
                assert_eq!(self.departures.get(&mbuf), None, "it leaves at once");
                if at == 0 {
                    self.departed.push(Departure::of(&mbuf, now, false));
                }
                self.carry(at, now, mbuf);
            }
        }
        while self.hosts[at].timed_wire.rx_burst(&mut burst) > 0 {
            for mbuf in burst.drain() {
                let ticks = self.departures.get(&mbuf).expect("it has a departure");
                let leaves = self.cards[at].time(ticks, now);
                if at == 0 {
                    self.leaving.push((now, leaves));
                    self.departed.push(Departure::of(&mbuf, leaves, true));
                }
                self.carry(at, leaves.max(now), mbuf);
            }
        }
    }

    /// A frame of host `at` leaves at `leaves`.
    fn carry(&mut self, at: usize, leaves: u64, mbuf: Mbuf) {
        self.frames += 1;
        self.hosts[1 - at].coming.insert((leaves + DELAY, self.frames), mbuf);
    }

    fn counts(&mut self, at: usize) -> IoCounts {
        self.hosts[at].worker.io().counts()
    }

    /// Round trips of host 0 so far: how many, and their sum in nanoseconds.
    fn round_trips(&self) -> (u64, u64) {
        let picture = self.telemetry.worker(0).unwrap().histogram(HistogramName::Rtt).picture();
        (picture.count(), picture.sum)
    }

    /// The mean round trip of the next `turns` turns, nanoseconds.
    fn mean_rtt(&mut self, turns: u32, gap: u64) -> u64 {
        let (count, sum) = self.round_trips();
        (0..turns).for_each(|_| self.step(gap));
        let (count_after, sum_after) = self.round_trips();
        assert!(count_after > count + 100, "{count_after}");
        (sum_after - sum) / (count_after - count)
    }

    fn end(self) {
        let Self { hosts, pools, .. } = self;
        drop(hosts);
        assert_eq!((pools[0].in_use(), pools[1].in_use()), (0, 0));
    }
}

fn cards(stops_at: u64) -> [Card; 2] {
    [Card { ppm: 80, stops_at }, Card { ppm: -95, stops_at }]
}

fn late_polls(eal: &Eal) -> Outcome {
    // A poll is 25 us late after 5 us on the way, at either end.
    let gap = 30 * US;
    let mut blind = Rig::new(eal, cards(u64::MAX), false);
    (0..1000).for_each(|_| blind.step(gap));
    let without = blind.mean_rtt(2000, gap);
    assert!((59_000..61_000).contains(&without), "{without} ns");
    assert_eq!(blind.counts(0).stamped, 0);
    blind.end();
    let mut rig = Rig::new(eal, cards(u64::MAX), true);
    // Learnt within 5 ms, and right to a few brackets; then to one.
    (0..200).for_each(|_| rig.step(gap));
    let young = rig.mean_rtt(1000, gap);
    assert!(young.abs_diff(10_000) < 3000, "{young} ns");
    (0..33_000).for_each(|_| rig.step(gap));
    // The card's clock has wrapped around in between.
    let with = rig.mean_rtt(2000, gap);
    assert!(with.abs_diff(10_000) < 1000, "{with} ns");
    let received = rig.hosts[0].worker.counts().received;
    let counts = rig.counts(0);
    let unknown = received - counts.stamped;
    assert!((1..600).contains(&unknown), "those of the first 6 ms: {unknown}");
    assert_eq!((counts.stamps_refused, counts.clock_jumps, counts.clock_lost), (0, 0, 0));
    // Often at first, then each 10 ms late, for the worker is never idle: 1.1 s.
    assert!((60..160).contains(&counts.clock_readings), "{counts:?}");
    rig.end();
    Passed
}

fn stopped(eal: &Eal) -> Outcome {
    let gap = 30 * US;
    let mut rig = Rig::new(eal, cards(200_000 * US), true);
    (0..5000).for_each(|_| rig.step(gap));
    assert!(rig.mean_rtt(1000, gap).abs_diff(10_000) < 1500);
    (0..6000).for_each(|_| rig.step(gap));
    let counts = rig.counts(0);
    assert_eq!(counts.clock_lost, 1, "{counts:?}");
    let after = rig.mean_rtt(1000, gap);
    assert!((59_000..61_000).contains(&after), "{after} ns");
    assert_eq!(rig.counts(0).stamped, counts.stamped);
    assert_eq!(rig.counts(0).clock_readings, counts.clock_readings, "it is read no more");
    rig.end();
    Passed
}

fn absurd(eal: &Eal) -> Outcome {
    // Polls are so frequent that most find nothing.
    let gap = 2 * US;
    let mut rig = Rig::new(eal, cards(u64::MAX), true);
    (0..20_000).for_each(|_| rig.step(gap));
    let before = rig.counts(0);
    assert_eq!(before.stamps_refused, 0);
    let mut refused = 0;
    // 20 ms ago, when the queue was empty since, and in 20 ms.
    for off in [-3_125_000, 3_125_000] {
        rig.off_ticks = off;
        let (stamped, received) = (rig.counts(0).stamped, rig.hosts[0].worker.counts().received);
        (0..1000).for_each(|_| rig.step(gap));
        refused += rig.hosts[0].worker.counts().received - received;
        assert_eq!(rig.counts(0).stamped, stamped);
        assert_eq!(rig.counts(0).stamps_refused, refused);
    }
    assert!(refused > 100, "{refused}");
    rig.off_ticks = 0;
    assert!(rig.mean_rtt(2000, gap).abs_diff(10_000) < 3000);
    assert_eq!(rig.counts(0).stamps_refused, refused);
    rig.end();
    Passed
}

/// Longer than polls are late here.
const HORIZON: Duration = Duration::from_us(20);

fn timed(eal: &Eal) -> Outcome {
    // A window in a base RTT, which is far longer than the network's: the pace decides.
    let settings = Settings {
        line_rate: Rate::from_gbps(10),
        base_rtt: Duration::from_us(400),
        cc: CcKind::UnoCc,
        tx_flows_max: 4,
        rx_flows_max: 4,
        msgs_max: 16,
        ..Settings::default()
    };
    let config = Config::new(settings).unwrap();
    let gap = 12 * US;
    let mut rig = Rig::of(eal, cards(u64::MAX), (true, true), &config);
    (0..40_000).for_each(|_| rig.step(gap));
    rig.leaving.clear();
    let (before, trips) = (rig.counts(0), rig.round_trips());
    let sent = rig.hosts[0].worker.counts().handed_over;
    (0..2000).for_each(|_| rig.step(gap));
    let sent = rig.hosts[0].worker.counts().handed_over - sent;
    let leaving = rig.counts(0).timed - before.timed;
    assert_eq!(leaving, rig.leaving.len() as u64);
    assert!(leaving > 1000 && leaving * 10 > sent * 9, "{leaving} of {sent}");
    // In order, ahead by no more than the horizon and what the clock is out by, at the pace.
    let mut close = 0;
    for pair in rig.leaving.windows(2) {
        let [(_, first), (now, leaves)] = [pair[0], pair[1]];
        assert!(leaves > first, "{leaves} behind {first}");
        assert!(leaves < now + HORIZON.as_ps() + US, "{leaves} at {now}");
        close += u64::from(leaves - first < 3 * US);
    }
    assert!(close * 50 < leaving, "{close} of {leaving} at once: 4 KB take 3.3 us of the line");
    let (count, sum) = rig.round_trips();
    let mean = (sum - trips.1) / (count - trips.0);
    assert!(mean.abs_diff(10_000) < 1000, "{mean} ns");
    rig.end();
    Passed
}

fn probed(eal: &Eal) -> Outcome {
    let settings = Settings {
        line_rate: Rate::from_gbps(10),
        base_rtt: Duration::from_us(20),
        tx_flows_max: 4,
        rx_flows_max: 4,
        msgs_max: 16,
        ..Settings::default()
    };
    let config = Config::new(of_dcsim(settings)).unwrap();
    let sched = DcSim::new(&config.sched_setup(HostId(0), Rng::new(0)));
    // A poll is late by more than three packets take.
    let gap = 12 * US;
    let mut rig = Rig::of(eal, cards(u64::MAX), (true, true), &config);
    (0..20_000).for_each(|_| rig.step(gap));
    rig.departed.clear();
    (0..5000).for_each(|_| rig.step(gap));
    let mut departed = std::mem::take(&mut rig.departed);
    departed.sort_by_key(|left| left.at);
    // A clock that ticks each 6.4 ns gives two instants to a tick each.
    let (rtt_max, ticks, byte) = (sched.rtt_max().as_ps(), 13_000, 800);
    // Of each port the last SIM.
    let mut sims = BTreeMap::new();
    let (mut data, mut behind, mut exact) = (0_u64, 0_u64, 0_u64);
    let (mut free_at, mut most) = (0, 0);
    for left in departed {
        if left.class == TrafficClass::Probe && left.timed {
            sims.insert(left.port, left.at);
        }
        if left.class == TrafficClass::Data {
            data += 1;
            let sim: Option<u64> = sims.remove(&left.port);
            if let Some(due) = sim.filter(|_| left.timed).map(|at| at + rtt_max) {
                behind += 1;
                exact += u64::from(left.at.abs_diff(due) <= ticks);
                // When it is due, or when the line has sent the packet before it.
                let start = due.max(free_at);
                most = most.max(start - due);
                assert!(left.at.abs_diff(start) <= ticks, "{left:?}: due at {due}, {free_at}");
            }
        }
        free_at = left.at + u64::from(left.len) * byte;
    }
    assert!(most < sched.slot().as_ps(), "{most} ps on a line that is never behind");
    assert!(data > 10_000 && behind * 100 > data * 98, "{behind} of {data} at their time");
    assert!(exact * 3 > behind, "{exact} of {behind} exactly RTT_max behind");
    rig.end();
    Passed
}

/// A capture file with a frame for each time, microseconds.
fn capture(times: &[u64]) -> Vec<u8> {
    let u32s = |words: &[u64]| -> Vec<u8> {
        let word = |word: &u64| u32::try_from(*word).unwrap().to_le_bytes();
        words.iter().flat_map(word).collect()
    };
    // Magic, version 2.4, no zone, no accuracy, snap length, Ethernet.
    let mut file = u32s(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1]);
    for (number, us) in (0..).zip(times) {
        let frame = traffic::frame(number, 60);
        file.extend(u32s(&[us / 1_000_000, us % 1_000_000, 60, 60]));
        file.extend(frame);
    }
    file
}

fn pcap(eal: &Eal) -> Outcome {
    let times = [1_700_000_000_123_456, 1_700_000_000_123_457, 1_800_000_000_999_999];
    let path = std::env::temp_dir().join(format!("headrace-stamps-{}.pcap", std::process::id()));
    std::fs::write(&path, capture(&times)).unwrap();
    let name = format!("net_pcap_stamps,rx_pcap={}", path.display());
    let device: DeviceName = name.parse().unwrap();
    let pool = traffic::pool(eal, 1023);
    let opened = device.open(eal, &PortConfig::default(), Arc::clone(&pool));
    let mut port = match opened {
        Ok(port) => port,
        Err(error) => return Outcome::Skipped(format!("no net_pcap: {error}")),
    };
    // The meaning of its stamps cannot be found out: they are wall-clock time, of when a file was
    // written.
    assert_eq!(port.caps().rx_times, RxTimes::Poll);
    let field = TimestampField::of_devices(eal).unwrap();
    let mut burst = MbufBurst::new();
    while burst.len() < times.len() {
        assert!(port.rx_burst(&mut burst) > 0, "{} frames", burst.len());
    }
    let stamps: Vec<Option<u64>> = burst.iter().map(|mbuf| field.get(mbuf)).collect();
    assert_eq!(stamps, times.map(Some));
    assert_eq!(field.get(&pool.alloc().unwrap()), None, "a fresh mbuf has none");
    let own = TimestampField::register(eal).unwrap();
    assert!(burst.iter().all(|mbuf| own.get(mbuf).is_none()), "ours is another field");
    // A worker at such a device goes by its polls.
    drop(burst);
    let io = PortIo::of_port(port, Arc::clone(&pool), None).unwrap();
    assert!(io.device_clock().is_none());
    drop(io);
    assert_eq!(pool.in_use(), 0);
    std::fs::remove_file(&path).unwrap();
    Passed
}
