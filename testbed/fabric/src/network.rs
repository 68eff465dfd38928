//! A network of ports, switches and links that a driver feeds and runs "until now".
//!
//! Time goes in windows no longer than the lookahead, the least time a packet spends on a link.
//! Whatever arrives within a window left its origin before the window began. So within a window no
//! port affects another. Each port is handed the arrivals of a window at once, in the order
//! (arrival, origin, departure). Before each arrival it runs the departures due by then. At the end
//! of the window it runs those due by the end. There is no event for a link that becomes free. So a
//! run is a function of the injected packets and of the seed. It depends neither on the order in
//! which packets were handed over nor on how time was divided into windows. `transit` has how
//! packets move.
//!
//! Nothing is allocated once queues and buffers have reached their largest size. Time is the
//! driver's: this file has no clock.

mod build;
mod faults;
mod nics;
mod queues;

use transport::{DropReason, Duration, HostId, Instant, Rng};

use super::audit::PacketBalance;
use super::blueprint::Blueprint;
use super::calendar::Flight;
use super::elements::PortId;
use super::frames::{Driver, Frames};
use super::packet::{Output, Packet};
use super::program::{AnyProgram, Programmed, Surroundings};
use super::qdisc::Queued;
use super::stats::{Pause, PortStats, QueueStats};
use super::time_window::{Group, TimeWindow};
use super::transit::{Far, PortState, Transit};
use super::wiring::Wiring;
pub use queues::SwitchQueues;

use build::{calendar_of_instants, check, links, lookahead, ports, programs};

/// A running network. Memory: about 450 bytes a port, 16 bytes a packet queued, 32 a packet on a
/// link and 32 a packet of the window at work, at their peaks.
#[derive(Clone, Debug)]
pub struct Network {
    pub(super) ports: Vec<PortState>,
    pub(super) links: Transit,
    /// The switches that run programs, ascending. Their targets follow those of ports.
    pub(super) programs: Vec<Programmed>,
    /// The links in the form that programs need; empty without programs.
    pub(super) wiring: Wiring,
    /// The memory of the window at work; empty while it is taken.
    window: TimeWindow,
    /// What a driver has handed in behind links, until the network is run.
    handed_in: Vec<Flight>,
    /// For each port, and behind them each program: its peak before the last look at the queues;
    /// empty before the first.
    earlier_peaks: Vec<u64>,
    /// The longest that a window may be.
    lookahead: Duration,
    /// All events up to and at this instant have been processed.
    now: Instant,
    blueprint: Blueprint,
    fault_rng: Rng,
}

impl Network {
    /// An idle network at time zero; `rng` names its chance.
    ///
    /// # Panics
    /// When the blueprint names ports or switches it does not have: a bug of a topology.
    #[must_use]
    pub fn new(blueprint: Blueprint, rng: &Rng) -> Self {
        check(&blueprint);
        let (programs, wiring) = programs(&blueprint, rng);
        let lookahead = lookahead(&blueprint);
        let mut network = Self {
            ports: ports(&blueprint, &wiring, rng),
            links: links(&blueprint, &programs, lookahead, rng),
            window: TimeWindow::new(blueprint.ports.len() + programs.len(), blueprint.hosts),
            programs,
            wiring,
            handed_in: Vec::new(),
            earlier_peaks: Vec::new(),
            lookahead,
            now: Instant::ZERO,
            fault_rng: rng.fork("fault", 0),
            blueprint,
        };
        network.wake_programs(|_| true);
        network
    }

    /// Files, in an empty calendar, the wake-ups of the programs whose target is `own` for their
    /// own time, and their crashes.
    pub(super) fn wake_programs(&mut self, own: impl Fn(u32) -> bool) {
        for program in &mut self.programs {
            if own(program.target()) {
                program.first_flights().for_each(|flight| self.links.calendar.push(flight));
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
        self.links.calendar = calendar_of_instants(self.lookahead);
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

    /// Hands in `packet` as if it came out of the link of `transmitter`, at the instant to which
    /// the network is run next, behind all that is due by then. It is counted then, and dropped if
    /// it cannot come in. This is for a driver whose frames come from devices, and have no link
    /// left on their way to the switch.
    ///
    /// # Panics
    /// When the link of `transmitter` leads to no switch with a program: a bug of the driver.
    #[inline]
    pub fn inject_behind(&mut self, transmitter: PortId, packet: Packet) {
        let Far::Programmed(target) = self.ports[transmitter.0 as usize].to else {
            panic!("port {} leads to no switch with a program", transmitter.0);
        };
        self.handed_in.push(Flight { at: self.now, origin: transmitter.0, target, packet });
    }

    /// Hands the switches what was handed in behind their links, at `now`.
    fn take_in(&mut self, now: Instant, frames: &mut dyn Frames, out: &mut Vec<Output>) {
        let mut flights = std::mem::take(&mut self.handed_in);
        let handed_in = flights.len() as u64;
        flights.retain_mut(|flight| {
            flight.at = now;
            let refused = self.refuses(HostId(0), &flight.packet);
            if let Some(reason) = refused {
                let driver = &mut Driver { out, frames: &mut *frames };
                self.links.drop_packet(flight.packet, reason, now, driver);
            }
            refused.is_none()
        });
        self.links.counts.injected += handed_in;
        self.links.counts.on_wire += flights.len() as u64;
        for of_one in flights.chunk_by(|one, next| one.target == next.target) {
            self.run_program(of_one[0].target, of_one, now, &mut Driver { out, frames });
        }
        flights.clear();
        self.handed_in = flights;
    }

    /// Runs the switch that is the target `target` through a span that ends just after `last`.
    #[inline(never)]
    fn run_program(
        &mut self,
        target: u32,
        flights: &[Flight],
        last: Instant,
        driver: &mut Driver<'_>,
    ) {
        let program = &mut self.programs[target as usize - self.ports.len()];
        let around = Surroundings {
            ports: &mut self.ports,
            transit: &mut self.links,
            wiring: &self.wiring,
            driver: Driver { out: &mut *driver.out, frames: &mut *driver.frames },
        };
        program.run(around, flights, last);
    }

    /// Notifies the driver from now on when packets leave ports, [`Frames::note`], and keeps when
    /// the data of each port was paused, for [`Network::take_pauses`].
    pub fn keep_journal(&mut self) {
        self.links.notes_steps = true;
        self.links.pauses = Some(Vec::new());
    }

    /// The pauses so far, those that are over first; empty unless they are kept.
    pub fn take_pauses(&mut self) -> Vec<Pause> {
        let Some(mut pauses) = self.links.pauses.take() else { return Vec::new() };
        let on = self.ports.iter().filter(|state| state.port.is_paused());
        pauses.extend(on.map(|state| {
            let from = self.links.paused_since[state.number as usize];
            Pause { port: state.number, from, until: self.now.max(from) }
        }));
        pauses
    }

    /// The instant of the next event: a packet arrives, or a port with a backlog has its turn;
    /// `None` when there is none. O(packets on links within a slot of the calendar).
    #[must_use]
    pub fn next_event_at(&self) -> Option<Instant> {
        self.links.calendar.peek().map(|at| at.max(self.now))
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
        if !self.handed_in.is_empty() {
            self.take_in(now, frames, out);
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
            self.run_program(group.target, window.flights(*group), before(end), driver);
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

    /// Notes that `count` packets were given to their host.
    #[inline]
    pub fn count_delivered(&mut self, count: u64) {
        self.links.counts.delivered += count;
        self.links.counts.on_wire -= count;
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
            None => self.links.arrive(&mut self.ports[host.0 as usize], &packet, at, driver),
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

    /// The queue of `port`; empty for a port that does not exist.
    #[must_use]
    pub fn queued(&self, port: PortId) -> Queued {
        self.ports.get(port.0 as usize).map(|state| state.port.queued()).unwrap_or_default()
    }

    /// The programs of switches, in the order of the switches.
    pub fn programs(&self) -> impl Iterator<Item = &AnyProgram> + '_ {
        self.programs.iter().map(|one| &one.program)
    }

    /// The programs of switches, to be changed, in the order of the switches.
    pub fn programs_mut(&mut self) -> impl Iterator<Item = &mut AnyProgram> + '_ {
        self.programs.iter_mut().map(|one| &mut one.program)
    }

    /// Calls `each` with every counter that a discipline or a program keeps of its own: the name of
    /// the policy, that of the counter, and the value.
    pub fn own_counters(&self, mut each: impl FnMut(&'static str, &'static str, u64)) {
        for state in &self.ports {
            let qdisc = state.port.qdisc();
            let policy = qdisc.kind().name();
            qdisc.own_counters(&mut |name, count| each(policy, name, count));
        }
        for program in self.programs() {
            let policy = program.kind().name();
            program.own_counters(&mut |name, count| each(policy, name, count));
        }
    }

    /// The counters of each port, in the order of the blueprint.
    pub fn port_stats(&self) -> impl Iterator<Item = PortStats> + '_ {
        self.ports.iter().enumerate().map(|(place, state)| {
            let (hops, bytes) = state.port.sent();
            let data_peak = state.stats.data_peak.max(self.earlier_peak(place));
            PortStats { hops, bytes, data_peak, ..state.stats }
        })
    }

    /// The counters of all ports together; the peak is the highest of switch ports and programs.
    #[must_use]
    pub fn totals(&self) -> PortStats {
        let mut totals = PortStats::default();
        self.port_stats().for_each(|port| totals.merge(&port));
        let places = self.ports.len()..;
        let held = self.programs.iter().zip(places);
        let held = held.map(|(program, place)| program.held_peak.max(self.earlier_peak(place)));
        totals.data_peak = held.fold(totals.data_peak, u64::max);
        totals.dropped = self.links.counts.dropped.total();
        totals
    }

    /// Hops so far: packets put on links, a train as one. O(1).
    #[must_use]
    pub const fn hops(&self) -> u64 {
        self.links.counts.hops
    }

    /// How long the data queues of switch ports were. O(ports).
    #[must_use]
    pub fn queue_stats(&self) -> QueueStats {
        let mut stats = self.links.queue_stats.clone();
        let measured = self.ports.iter().filter(|state| state.measured);
        // The other cells of a train leave as little behind as the first: nothing.
        stats.sample_times(0, measured.map(|state| state.port.joined()).sum());
        stats
    }

    /// The counts of packets by where they are now. O(ports).
    #[must_use]
    pub fn audit(&self) -> PacketBalance {
        PacketBalance {
            injected: self.links.counts.injected,
            duplicated: self.links.counts.duplicated,
            originated: self.links.counts.originated,
            consumed: self.links.counts.consumed,
            delivered: self.links.counts.delivered,
            dropped: self.links.counts.dropped,
            in_queues: self.ports.iter().map(|state| state.port.waiting() as u64).sum(),
            held: self.programs.iter().map(|one| one.program_holds().packets() as u64).sum(),
            on_wire: self.links.counts.on_wire,
        }
    }
}

/// The last instant before `end`.
fn before(end: Instant) -> Instant {
    Instant::from_ps(end.as_ps().saturating_sub(1))
}

const PICOSECOND: Duration = Duration::from_ps(1);

/// How many ports ahead one is touched.
const AHEAD: usize = 2;
