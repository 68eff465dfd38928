//! A network of ports, switches and links that a driver feeds and runs "until now".
//!
//! Time goes in windows no longer than the lookahead, the least time a packet spends on a link:
//! whatever arrives within a window left its origin before the window began, so within it no port
//! affects another. Each port is handed the arrivals of a window at once, in the order (arrival,
//! origin, departure), and before each it runs the departures due by then; at the end of the window
//! it runs those due by the end. There is no event for a link that becomes free. So a run is a
//! function of what was injected and of the seed, never of the order in which things were handed
//! over nor of how time was cut into windows. How packets move is in `transit`.
//!
//! Nothing is allocated once queues and buffers have reached their largest size. Time is the
//! driver's: this file has no clock.

mod faults;

use transport::{Bytes, DropReason, Duration, HostId, Instant, Rng};

use super::audit::Audit;
use super::blueprint::Blueprint;
use super::buffers::room;
use super::calendar::{Calendar, Flight};
use super::elements::{Node, PortId, PortSpec, SwitchSpec};
use super::frames::{Driver, Frames};
use super::packet::{Output, Packet};
use super::port::Port;
use super::program::pod_scheduler::PodCounters;
use super::program::{AnyProgram, LinkSpec, Program, Programmed, Setup, Surroundings, SwitchRun};
use super::qdisc::{AnyQdisc, QdiscKind, QdiscParams, Queued};
use super::routing::Switch;
use super::stats::{PortStats, QueueStats};
use super::time_window::{Group, TimeWindow};
use super::transit::{Counts, Far, NO_FAULT, PortState, Transit};
use super::wiring::{Wiring, ways_to};

/// A running network. Memory: about 450 bytes a port, 16 bytes a packet queued, 32 a packet on a
/// link and 32 a packet of the window at work, at their peaks.
#[derive(Clone, Debug)]
pub struct Network {
    pub(super) ports: Vec<PortState>,
    pub(super) links: Transit,
    /// The switches that run programs, ascending. Their targets follow those of ports.
    pub(super) programs: Vec<Programmed>,
    /// The links as programs need them; empty without programs.
    pub(super) wiring: Wiring,
    /// The memory of the window at work; empty while it is taken.
    window: TimeWindow,
    /// The longest that a window may be.
    lookahead: Duration,
    /// Everything up to and at this instant has been processed.
    now: Instant,
    blueprint: Blueprint,
    fault_rng: Rng,
}

/// Slots of the calendar in a window: so many that the flights handed to a port are nearly in
/// order.
const SLOTS_A_WINDOW: u64 = 64;

/// The longest slot, picoseconds. Longer ones would leave many flights to sort.
const SLOT_MAX: u64 = 1 << 13;

/// The longest slot where windows are instants: the near level then just spans a link of 600 ns and
/// a switch.
const SLOT_OF_INSTANTS: u64 = 1 << 9;

/// The longest window, whatever the lookahead: the flights of a window should fit the caches.
const WINDOW_MAX: Duration = Duration::from_ps(1 << 22);

impl Network {
    /// An idle network at time zero; `rng` names its chance.
    ///
    /// # Panics
    /// When the blueprint names ports or switches it does not have: a bug of a topology.
    #[must_use]
    pub fn new(blueprint: Blueprint, rng: &Rng) -> Self {
        check(&blueprint);
        let specs = &blueprint.ports;
        let (programs, wiring) = programs(&blueprint, rng);
        let room = room(&blueprint);
        let port = |(number, spec): (u32, &PortSpec)| {
            let params = match spec.owner {
                Node::Switch(switch) if spec.qdisc == QdiscKind::Lossless => {
                    QdiscParams { data_limit: room[switch as usize], ..spec.params }
                }
                _ => spec.params,
            };
            let to = match spec.to {
                Node::Host(host) => Far::Host(host),
                Node::Switch(switch) if blueprint.programs.contains_key(&switch) => {
                    Far::Programmed(wiring.target[wiring.back[number as usize] as usize])
                }
                Node::Switch(switch) if blueprint.explicit => Far::Named(switch),
                Node::Switch(switch) => Far::Plain(switch),
            };
            PortState {
                port: Port::new(
                    spec.rate,
                    spec.delay,
                    AnyQdisc::new(spec.qdisc, &blueprint.qdiscs, &params, spec.rate),
                ),
                number,
                to,
                fault: NO_FAULT,
                measured: number >= blueprint.hosts,
                stamps: spec.stamps,
                wake_at: Instant::FAR_FUTURE,
                stats: PortStats::default(),
                rng: rng.fork("port", u64::from(number)),
            }
        };
        let lookahead = lookahead(&blueprint);
        let mut network = Self {
            ports: (0..).zip(specs).map(port).collect(),
            links: links(&blueprint, &programs, lookahead, rng),
            window: TimeWindow::new(specs.len() + programs.len(), blueprint.hosts),
            programs,
            wiring,
            lookahead,
            now: Instant::ZERO,
            fault_rng: rng.fork("fault", 0),
            blueprint,
        };
        network.wake_programs(|_| true);
        network
    }

    /// Wakes the programs whose target is `own` for their own time, in a calendar that is empty.
    pub(super) fn wake_programs(&mut self, own: impl Fn(u32) -> bool) {
        for program in &mut self.programs {
            if let Some(wake) = program.first_wake().filter(|wake| own(wake.target)) {
                self.links.calendar.push(wake);
            }
        }
    }

    /// The longest that a window may be: the least time that a packet takes over the quickest link,
    /// in whole slots of the calendar, and short enough for the caches.
    #[must_use]
    pub const fn lookahead(&self) -> Duration {
        self.lookahead
    }

    /// Prepares an idle network for windows of one instant: with shorter slots there is less to
    /// look through for each.
    pub fn expect_instants(&mut self) {
        self.links.calendar = Calendar::new(slot(self.lookahead).min(SLOT_OF_INSTANTS).ilog2());
        self.wake_programs(|_| true);
    }

    /// Hands `packet` to the NIC of `host` at `at`; an instant before the one already run to counts
    /// as that one. An immediate result (a drop) is pushed to `out`.
    #[inline]
    pub fn inject(
        &mut self,
        host: HostId,
        packet: Packet,
        at: Instant,
        frames: &mut dyn Frames,
        out: &mut Vec<Output>,
    ) {
        let at = at.max(self.now);
        if !self.programs.is_empty() && self.refuses(host, &packet).is_none() {
            // Pauses until `at` are not known yet: the packet has its turn among them.
            self.links.counts.injected += 1;
            self.links.counts.on_wire += 1;
            self.links.calendar.push(Flight::handed_in(host.0, packet, at));
            return;
        }
        self.send(host, packet, at, frames, out);
        if host.0 < self.blueprint.hosts {
            self.links.wake_for_departure(&mut self.ports[host.0 as usize]);
        }
    }

    /// The instant of the next event: a packet arrives, or a port with a backlog has its turn;
    /// `None` when there is none. O(packets on links within a slot of the calendar).
    #[must_use]
    pub fn next_event_at(&self) -> Option<Instant> {
        self.links.calendar.peek().map(|at| at.max(self.now))
    }

    /// Processes everything up to and at the instant of the next event, and returns that instant;
    /// `None` when there is none.
    pub fn step(&mut self, frames: &mut dyn Frames, out: &mut Vec<Output>) -> Option<Instant> {
        let at = self.next_event_at()?;
        self.run_until(at, frames, out);
        Some(at)
    }

    /// Processes everything up to and at `now`; programs and ports that write telemetry find the
    /// frames of packets in `frames`. The outputs of one host are in the order of time.
    pub fn run_until(&mut self, now: Instant, frames: &mut dyn Frames, out: &mut Vec<Output>) {
        // An event in the far future, beyond the range of time, never happens.
        let due = |at: &Instant| *at <= now && *at < Instant::FAR_FUTURE;
        while let Some(at) = self.next_event_at().filter(due) {
            let end = (at + self.lookahead).min(now + PICOSECOND);
            let window = self.open(end);
            for group in window.hosts() {
                if !self.programs.is_empty() {
                    self.deliver_among_pauses(*group, &window, frames, out);
                } else {
                    self.deliver(*group, &window, out);
                }
                let host = &mut self.ports[group.target as usize];
                self.links.finish(host, before(end), &mut Driver { out, frames: &mut *frames });
            }
            self.run_switches(&window, end, frames, out);
            self.close(window, end);
        }
        self.now = self.now.max(now);
    }

    /// Takes everything due before `end` as a window; it goes back by [`Network::close`]. From the
    /// first event due to `end` the window must be no longer than the lookahead.
    pub fn open(&mut self, end: Instant) -> TimeWindow {
        let mut window = std::mem::take(&mut self.window);
        window.take(&mut self.links.calendar, end);
        window
    }

    /// The window that ends at `end` has been worked through.
    pub fn close(&mut self, window: TimeWindow, end: Instant) {
        self.window = window;
        self.now = self.now.max(before(end));
    }

    /// Runs the switches through a window that ends at `end`.
    pub fn run_switches(
        &mut self,
        window: &TimeWindow,
        end: Instant,
        frames: &mut dyn Frames,
        out: &mut Vec<Output>,
    ) {
        let (groups, programmed) = window.switches(self.ports.len());
        let driver = &mut Driver { out, frames };
        for (index, group) in groups.iter().enumerate() {
            if let Some(soon) = groups.get(index + AHEAD) {
                self.ports[soon.target as usize].touch();
            }
            let state = &mut self.ports[group.target as usize];
            self.links.run(state, window.flights(*group), before(end), driver);
        }
        for group in programmed {
            let program = &mut self.programs[group.target as usize - self.ports.len()];
            let around = Surroundings {
                ports: &mut self.ports,
                transit: &mut self.links,
                wiring: &self.wiring,
                driver: Driver { out: &mut *driver.out, frames: &mut *driver.frames },
            };
            let run = SwitchRun::new(program, around);
            run.run(window.flights(*group), before(end));
        }
    }

    /// Pushes the packets that arrive at a host to `out`.
    fn deliver(&mut self, group: Group, window: &TimeWindow, out: &mut Vec<Output>) {
        let flights = window.flights(group).iter().filter(|flight| !flight.is_wake());
        let host = HostId(group.target);
        let outputs = out.len();
        out.extend(flights.map(|flight| Output::Delivered {
            host,
            packet: flight.packet,
            at: flight.at,
        }));
        self.count_delivered((out.len() - outputs) as u64);
    }

    /// Pushes the packets that arrive at a host to `out`, where switches may pause links: packets
    /// that drivers hand in and pauses have their turns in between.
    fn deliver_among_pauses(
        &mut self,
        group: Group,
        window: &TimeWindow,
        frames: &mut dyn Frames,
        out: &mut Vec<Output>,
    ) {
        let host = HostId(group.target);
        for flight in window.flights(group).iter().filter(|flight| !flight.is_wake()) {
            let Flight { at, packet, .. } = *flight;
            if let Some(paused) = flight.pause() {
                self.pause_nic(host, paused, at, frames, out);
            } else if flight.is_handed_in() {
                self.links.counts.on_wire -= 1;
                let driver = &mut Driver { out, frames: &mut *frames };
                self.links.arrive(&mut self.ports[host.0 as usize], packet, at, driver);
            } else {
                self.count_delivered(1);
                out.push(Output::Delivered { host, packet, at });
            }
        }
    }

    /// Handles a pause or resume frame of the switch at the NIC of `host`.
    #[cold]
    pub fn pause_nic(
        &mut self,
        host: HostId,
        paused: bool,
        at: Instant,
        frames: &mut dyn Frames,
        out: &mut Vec<Output>,
    ) {
        self.run_nic(host, at, frames, out);
        self.links.obey(&mut self.ports[host.0 as usize], paused, at);
        self.run_nic(host, at, frames, out);
    }

    /// Whether the NIC of `host` may send no data.
    #[inline]
    pub fn nic_is_paused(&self, host: HostId) -> bool {
        self.ports[host.0 as usize].port.is_paused()
    }

    /// Notes that `count` packets were given to their host.
    #[inline]
    pub fn count_delivered(&mut self, count: u64) {
        self.links.counts.delivered += count;
        self.links.counts.on_wire -= count;
    }

    /// The window that ends at `end` is over for `host`; its next turn is in that of `at`, unless
    /// something arrives earlier.
    #[inline]
    pub fn wake_host(&mut self, host: HostId, end: Instant, at: Instant) {
        let state = &mut self.ports[host.0 as usize];
        state.wakes_used_up(before(end));
        self.links.wake(state, at);
    }

    /// When the NIC of `host` has its next turn: a packet that waits starts to be sent, or the rate
    /// of the link changes.
    #[inline]
    pub fn nic_turn(&self, host: HostId) -> Option<Instant> {
        self.links.next_turn(&self.ports[host.0 as usize])
    }

    /// Packets that wait at the NIC of `host`.
    #[inline]
    pub fn nic_waiting(&self, host: HostId) -> usize {
        self.ports[host.0 as usize].port.waiting()
    }

    /// When the NIC of `host` starts to send data that comes to it at `now`, behind what waits
    /// there: for a NIC that sends in order and is not paused.
    #[must_use]
    pub fn nic_start(&self, host: HostId, now: Instant) -> Instant {
        let port = &self.ports[host.0 as usize].port;
        let Queued { data_bytes, control_bytes, .. } = port.queued();
        port.busy_until().max(now) + port.rate().time_for(Bytes(data_bytes + control_bytes))
    }

    /// Runs the departures of the NIC of `host` that are due by `at`.
    #[inline]
    pub fn run_nic(
        &mut self,
        host: HostId,
        at: Instant,
        frames: &mut dyn Frames,
        out: &mut Vec<Output>,
    ) {
        let driver = &mut Driver { out, frames };
        self.links.depart_until(&mut self.ports[host.0 as usize], at, driver);
    }

    /// [`Network::inject`] by a driver that itself gives the host its turns.
    #[inline]
    pub fn send(
        &mut self,
        host: HostId,
        packet: Packet,
        at: Instant,
        frames: &mut dyn Frames,
        out: &mut Vec<Output>,
    ) {
        self.links.counts.injected += 1;
        let driver = &mut Driver { out, frames };
        match self.refuses(host, &packet) {
            Some(reason) => self.links.drop_packet(packet, reason, at, driver),
            None => self.links.arrive(&mut self.ports[host.0 as usize], packet, at, driver),
        }
    }

    /// The reason why a packet cannot come in.
    #[inline]
    fn refuses(&self, host: HostId, packet: &Packet) -> Option<DropReason> {
        let hosts = self.blueprint.hosts;
        if host.0 >= hosts || !self.links.has_end(packet.dst) {
            Some(DropReason::NoRoute)
        } else if packet.len == 0 {
            Some(DropReason::Malformed)
        } else {
            None
        }
    }

    /// Everything before this instant and at it has been processed.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The number of hosts.
    #[must_use]
    pub const fn hosts(&self) -> u32 {
        self.blueprint.hosts
    }

    /// The blueprint that the network was built from.
    #[must_use]
    pub const fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// The queue of the NIC of `host`, without the packet being sent; empty for a host that does
    /// not exist.
    #[must_use]
    pub fn nic_queued(&self, host: HostId) -> Queued {
        if host.0 < self.blueprint.hosts { self.queued(PortId(host.0)) } else { Queued::default() }
    }

    /// The queue of `port`; empty for a port that does not exist.
    #[must_use]
    pub fn queued(&self, port: PortId) -> Queued {
        self.ports.get(port.0 as usize).map(|state| state.port.queued()).unwrap_or_default()
    }

    /// The queues of switches: of each of their ports, and of each program that holds packets.
    pub fn switch_queues(&self) -> impl Iterator<Item = Queued> + '_ {
        let ports = &self.ports[self.blueprint.hosts as usize..];
        let held = self.programs.iter().map(|program| program.program.held());
        ports.iter().map(|state| state.port.queued()).chain(held)
    }

    /// The programs of switches, in the order of the switches.
    pub fn programs(&self) -> impl Iterator<Item = &AnyProgram> + '_ {
        self.programs.iter().map(|one| &one.program)
    }

    /// The counts of the schedulers of pods; `None` without any.
    #[must_use]
    pub fn pods(&self) -> Option<PodCounters> {
        let pods = self.programs().filter_map(|program| match program {
            AnyProgram::PodScheduler(pod) => Some(pod.counters()),
            _ => None,
        });
        pods.reduce(|all, pod| all.with(&pod))
    }

    /// The counters of each port, in the order of the blueprint.
    pub fn port_stats(&self) -> impl Iterator<Item = PortStats> + '_ {
        self.ports.iter().map(|state| {
            let (hops, bytes) = state.port.sent();
            PortStats { hops, bytes, ..state.stats }
        })
    }

    /// The counters of all ports together; the peak is the highest of switch ports and programs.
    #[must_use]
    pub fn totals(&self) -> PortStats {
        let mut totals = PortStats::default();
        self.port_stats().for_each(|port| totals.merge(&port));
        let held = self.programs.iter().map(|program| program.held_peak);
        totals.data_peak = held.fold(totals.data_peak, u64::max);
        totals.dropped = self.links.counts.dropped.total();
        totals
    }

    /// Hops so far: packets put on links. O(1).
    #[must_use]
    pub const fn hops(&self) -> u64 {
        self.links.counts.hops
    }

    /// How long the data queues of switch ports were.
    #[must_use]
    pub const fn queue_stats(&self) -> &QueueStats {
        &self.links.queue_stats
    }

    /// The counts of packets by where they are now. O(ports).
    #[must_use]
    pub fn audit(&self) -> Audit {
        Audit {
            injected: self.links.counts.injected,
            duplicated: self.links.counts.duplicated,
            originated: self.links.counts.originated,
            consumed: self.links.counts.consumed,
            delivered: self.links.counts.delivered,
            dropped: self.links.counts.dropped,
            in_queues: self.ports.iter().map(|state| state.port.waiting() as u64).sum(),
            held: self.programs.iter().map(|one| one.program.held().packets() as u64).sum(),
            on_wire: self.links.counts.on_wire,
        }
    }
}

/// Checks that `blueprint` names only ports and switches that it has.
fn check(blueprint: &Blueprint) {
    let Blueprint { hosts, ports, switches, programs, .. } = blueprint;
    assert!(ports.len() >= *hosts as usize, "each host has a NIC");
    assert!(u32::try_from(ports.len()).is_ok_and(|ports| ports < NO_FAULT));
    let exists = |switch: u32| (switch as usize) < switches.len();
    assert!(ports.iter().all(|port| match port.to {
        Node::Host(host) => host < *hosts,
        Node::Switch(switch) => exists(switch),
    }));
    assert!(programs.keys().all(|switch| exists(*switch)));
    assert!(switches.iter().all(|spec| spec.child_hosts > 0 && spec.bundle > 0));
}

/// The programs of the switches of `blueprint`, and the links as programs need them.
fn programs(blueprint: &Blueprint, rng: &Rng) -> (Vec<Programmed>, Wiring) {
    if blueprint.programs.is_empty() {
        return (Vec::new(), Wiring::default());
    }
    let specs = &blueprint.ports;
    let programmed: Vec<u32> = blueprint.programs.keys().copied().collect();
    let wiring = Wiring::new(specs, &programmed);
    let made = (specs.len()..).zip(&blueprint.programs).map(|(target, (switch, kind))| {
        let ports = blueprint.switches[*switch as usize].ports();
        let link = |number: u32| LinkSpec {
            port: specs[number as usize],
            back: specs[wiring.back[number as usize] as usize],
        };
        let others = blueprint.switches_with(*kind).filter(|other| other != switch);
        let setup = Setup {
            address: blueprint.address_of(*switch),
            peers: &others.map(|other| blueprint.address_of(other)).collect::<Vec<_>>(),
            first_port: PortId(ports.start),
            links: &ports.clone().map(link).collect::<Vec<_>>(),
            switches: &blueprint.switches,
            sched: &blueprint.sched,
            rng: &rng.fork("program", u64::from(*switch)),
        };
        let target = u32::try_from(target).unwrap_or(u32::MAX);
        let program = AnyProgram::new(*kind, &blueprint.program_settings, &setup);
        Programmed::new(*switch, target, program)
    });
    let made = made.collect();
    (made, wiring)
}

/// The links of `blueprint` with nothing on them.
fn links(
    blueprint: &Blueprint,
    programs: &[Programmed],
    lookahead: Duration,
    rng: &Rng,
) -> Transit {
    let Blueprint { hosts, ports, switches, detection_delay, .. } = blueprint;
    let switch = |(index, spec): (u64, &SwitchSpec)| {
        Switch::new(*spec, rng.fork("switch", index).next_u32())
    };
    let mut ways = vec![None; switches.len()];
    for end in programs.iter().filter(|programmed| programmed.program.is_end()) {
        ways[end.switch as usize] = Some(ways_to(ports, switches.len(), end.switch));
    }
    let paused_since = if programs.is_empty() { 0 } else { ports.len() };
    Transit {
        calendar: Calendar::new(slot(lookahead).ilog2()),
        border: None,
        switches: (0..).zip(switches).map(switch).collect(),
        hosts: *hosts,
        ways,
        paused_since: vec![Instant::ZERO; paused_since],
        faults: Vec::new(),
        fault_of: vec![NO_FAULT; ports.len()],
        detection: *detection_delay,
        counts: Counts::default(),
        queue_stats: QueueStats::new(),
    }
}

/// The least time that a packet takes over the quickest link: a byte, and the delay.
fn lookahead(blueprint: &Blueprint) -> Duration {
    let shortest = |spec: &PortSpec| spec.rate.time_for(Bytes(1)) + spec.delay;
    let least = blueprint.ports.iter().map(shortest).min().unwrap_or(WINDOW_MAX);
    let least = least.min(WINDOW_MAX);
    let slot = slot(least);
    Duration::from_ps(least.as_ps() / slot * slot)
}

/// The slot of a calendar for windows of `lookahead`, a power of two picoseconds.
fn slot(lookahead: Duration) -> u64 {
    let slot = (lookahead.as_ps() / SLOTS_A_WINDOW).clamp(1, SLOT_MAX);
    1 << slot.ilog2()
}

/// The last instant before `end`.
fn before(end: Instant) -> Instant {
    Instant::from_ps(end.as_ps().saturating_sub(1))
}

const PICOSECOND: Duration = Duration::from_ps(1);

/// How many ports ahead one is touched.
const AHEAD: usize = 2;
