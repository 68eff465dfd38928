//! The `sim` world: the same endpoints and the same switches, driven by virtual time.
//!
//! ```text
//!   conductor --orders--> endpoint --segments--> packet slab + Network --outputs--> endpoint
//!        ^                    |                                                        |
//!        +------ events ------+--------------------------------------------------------+
//! ```
//!
//! One thread, one clock that jumps to the next thing due: a start, a network event or an
//! endpoint's timer. What happens at one instant happens in a fixed order (starts, network, timers,
//! then each touched host in the order it was touched), so a run is a function of plan and seed.

mod hosts;
mod packets;

use transport::timer::Wheel;
use transport::{Duration, HostId, Instant, Rng};

use crate::conductor::Conductor;
use crate::fabric::{Network, Output};
use crate::measure::audit::DriverCount;
use crate::measure::sampler::Sampler;
use crate::measure::{Audit, Outcome};
use crate::plan::{Plan, RunError};
use crate::progress::{Progress, Watch};
use hosts::Hosts;
use packets::PacketSlab;

/// Instants between two looks at the watch.
const LOOK_EVERY: u64 = 1 << 14;

/// Resolution of the hosts' timer wheel; the endpoints' own wheels are exact.
const TIMER_TICK: Duration = Duration::from_ps(1 << 16);

/// Runs `plan` to its end: all flows done or given up, the time limit, or the watch says stop.
///
/// # Errors
/// When the plan does not fit together; see [`RunError`].
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    let rng = Rng::new(plan.seed);
    let mut network = Network::new(plan.blueprint(), &rng.fork("network", 0));
    for fault in plan.link_faults()? {
        network.add_fault(&fault.ports, fault.spec)?;
    }
    let mut sim = Sim {
        hosts: Hosts::new(plan, &rng)?,
        conductor: Conductor::new(&plan.matrix),
        packets: PacketSlab::default(),
        timers: Wheel::new(TIMER_TICK, plan.matrix.nodes as usize),
        out: Vec::new(),
        sampler: Sampler::new(plan),
        now: Instant::ZERO,
        network,
    };
    let stopped = sim.run(plan, watch);
    Ok(sim.outcome(plan, stopped))
}

struct Sim<'a> {
    network: Network,
    hosts: Hosts<'a>,
    conductor: Conductor<'a>,
    packets: PacketSlab,
    /// Which host's endpoint wants to be called when; at most one entry a host.
    timers: Wheel<HostId>,
    out: Vec<Output>,
    sampler: Sampler,
    now: Instant,
}

impl Sim<'_> {
    /// The loop. True when it was stopped before its end.
    fn run(&mut self, plan: &Plan, watch: &mut dyn Watch) -> bool {
        let limit = plan.limit.map_or(Instant::FAR_FUTURE, |limit| Instant::ZERO + limit);
        let mut turns = 0u64;
        while !self.conductor.is_over() {
            let due = [self.conductor.next_start(), self.timers.poll_at()];
            let due = due.into_iter().flatten().fold(self.sampler.next_at(), Instant::min);
            // Most of what happens is packets going from switch to switch, which concerns no host.
            if let Some(at) = self.network.run_to_output(due.min(limit), &mut self.out) {
                self.now = at;
                self.take_outputs();
                self.settle();
            } else if due > limit || due == Instant::FAR_FUTURE {
                return due > limit;
            } else {
                self.now = due.max(self.now);
                self.instant();
            }
            turns += 1;
            if turns.is_multiple_of(LOOK_EVERY) && !watch.goes_on(&self.progress()) {
                return true;
            }
        }
        false
    }

    /// Everything that happens at an instant at which more than the network may be due.
    fn instant(&mut self) {
        let now = self.now;
        let (hosts, conductor) = (&self.hosts, &self.conductor);
        let cwnd = |flow: usize| {
            hosts.cwnd(conductor.matrix().flows[flow].src, conductor.connection(flow))
        };
        self.sampler.catch_up(now, &self.network, conductor, cwnd);
        while let Some(order) = self.conductor.next_order(now) {
            self.hosts.post(&order, &mut self.conductor, now);
        }
        if self.network.next_event_at() == Some(now) {
            self.network.step(&mut self.out);
        }
        self.take_outputs();
        while let Some((_, host)) = self.timers.expire(now) {
            self.hosts.timer_fired(host, now);
        }
        self.settle();
    }

    /// Lets every touched host act. Handing packets over makes outputs at once (a NIC that starts
    /// to send), which touch hosts again.
    fn settle(&mut self) {
        while self.hosts.settle(self.now, &mut self.conductor) {
            self.hosts.transmit(
                self.now,
                &mut self.network,
                &mut self.packets,
                &mut self.timers,
                &mut self.out,
            );
            self.take_outputs();
        }
    }

    fn take_outputs(&mut self) {
        let mut out = std::mem::take(&mut self.out);
        for output in out.drain(..) {
            match output {
                Output::Delivered { host, packet, at } => {
                    let segment = self.packets.take(packet.handle);
                    self.hosts.deliver(host, &packet, &segment, at);
                }
                Output::NicRoom { host, .. } => self.hosts.touch(host),
                Output::Dropped { packet, .. } => {
                    self.packets.take(packet.handle);
                }
                Output::Duplicated { packet, .. } => self.packets.duplicate(packet.handle),
            }
        }
        self.out = out;
    }

    fn progress(&self) -> Progress {
        Progress {
            now: self.now.since(Instant::ZERO),
            flows_finished: self.conductor.finished() as u64,
            bytes_delivered: self.hosts.placed_bytes(),
            hops: self.network.hops(),
        }
    }

    fn outcome(self, plan: &Plan, stopped: bool) -> Outcome {
        let stats = self.hosts.stats();
        let driver = DriverCount { kept: self.packets.live(), ..self.hosts.count() };
        let audit = Audit::of(&self.conductor, &stats, &self.network, driver);
        let outcome = Outcome::new(plan, &self.conductor, stats, &self.network, audit, self.now);
        Outcome { series: self.sampler.into_series(), stopped, ..outcome }
    }
}
