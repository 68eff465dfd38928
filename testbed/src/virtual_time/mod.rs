//! The `sim` world: the same endpoints and the same switches, driven by virtual time.
//!
//! ```text
//!   conductor --orders--> endpoint --segments--> packet slab + Network --outputs--> endpoint
//!        ^                    |                                                        |
//!        +------ events ------+--------------------------------------------------------+
//! ```
//!
//! Time goes in windows no longer than the lookahead of the network, so whatever reaches a host or
//! a port within a window left before it began: each goes through its own instants by itself, with
//! its memory at hand, and results do not depend on how time is cut. At an instant of a host things
//! happen in a fixed order: starts, the NIC's departures, arrivals, the timer; then it reports,
//! posts and sends. Where a trigger of the matrix lets one host start a flow of another at once, a
//! window is one instant, and all hosts meet at it.
//!
//! A run ends with the block of time (a lookahead long, counted from zero) in which its last flow
//! ended; so does what it counts.

mod hosts;
mod packets;

use transport::{Duration, Instant, Rng};

use crate::conductor::Conductor;
use crate::fabric::{Network, Output};
use crate::measure::audit::DriverCount;
use crate::measure::sampler::Sampler;
use crate::measure::{Audit, Outcome};
use crate::plan::{Plan, RunError};
use crate::progress::{Progress, Watch};
use hosts::{Around, Hosts};
use packets::PacketSlab;

/// Packets on links, and windows, between two looks at the watch.
const LOOK_EVERY: usize = 1 << 16;

/// Runs `plan` to its end: all flows done or given up, the time limit, or the watch says stop.
///
/// # Errors
/// When the plan does not fit together; see [`RunError`].
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    run_in_windows(plan, Duration::MAX, watch)
}

/// [`run`] in windows of at most `window`, however long they might be. The results are the same.
///
/// # Errors
/// As [`run`].
pub fn run_in_windows(
    plan: &Plan,
    window: Duration,
    watch: &mut dyn Watch,
) -> Result<Outcome, RunError> {
    let rng = Rng::new(plan.seed);
    let mut network = Network::new(plan.blueprint(), &rng.fork("network", 0));
    for fault in plan.link_faults()? {
        network.add_fault(&fault.ports, fault.spec)?;
    }
    let conductor = Conductor::new(&plan.matrix);
    let coupled = conductor.couples_hosts();
    if coupled {
        network.expect_instants();
    }
    let mut sim = Sim {
        hosts: Hosts::new(plan, &rng)?,
        window: if coupled { PICOSECOND } else { window.max(PICOSECOND) },
        around: Around { network, conductor, packets: PacketSlab::default(), out: Vec::new() },
        sampler: Sampler::new(plan),
        limit: plan.limit.map_or(Instant::FAR_FUTURE, |limit| Instant::ZERO + limit),
        now: Instant::ZERO,
        coupled,
    };
    let stopped = sim.run(watch);
    Ok(sim.outcome(plan, stopped))
}

const PICOSECOND: Duration = Duration::from_ps(1);

struct Sim<'a> {
    hosts: Hosts<'a>,
    around: Around<'a>,
    sampler: Sampler,
    /// The longest window.
    window: Duration,
    /// Hosts have to meet at every instant.
    coupled: bool,
    /// Nothing is done after this.
    limit: Instant,
    /// The end of the last window.
    now: Instant,
}

impl Sim<'_> {
    /// The loop. True when it was stopped before its end.
    fn run(&mut self, watch: &mut dyn Watch) -> bool {
        let mut unseen = 0;
        // The end of the block in which the last flow ended.
        let mut over_at = Instant::FAR_FUTURE;
        loop {
            let start = self.around.conductor.next_start();
            let event = self.around.network.next_event_at();
            let Some(next) = start.into_iter().chain(event).min() else { return false };
            if next >= over_at || next == Instant::FAR_FUTURE {
                return false;
            }
            if next > self.limit {
                return over_at == Instant::FAR_FUTURE;
            }
            let block_end = self.block_end(next);
            unseen += 1 + self.run_window(next, block_end);
            if over_at == Instant::FAR_FUTURE && self.around.conductor.is_over() {
                over_at = block_end;
            }
            if unseen >= LOOK_EVERY {
                unseen = 0;
                if !watch.goes_on(&self.progress()) {
                    return true;
                }
            }
        }
    }

    /// The end of the block of time that `at` lies in.
    fn block_end(&self, at: Instant) -> Instant {
        let block = self.around.network.lookahead().as_ps();
        Instant::from_ps((at.as_ps() / block).saturating_add(1).saturating_mul(block))
    }

    /// Runs everything from `next`, the first thing due, to the end of its window; how much there
    /// was.
    fn run_window(&mut self, next: Instant, block_end: Instant) -> usize {
        let (hosts, around) = (&mut self.hosts, &mut self.around);
        let conductor = &around.conductor;
        let cwnd = |flow: usize| {
            hosts.cwnd(conductor.matrix().flows[flow].src, conductor.connection(flow))
        };
        self.sampler.catch_up(next, &around.network, conductor, cwnd);
        let longest = (next + self.window).min(self.limit + PICOSECOND);
        let end = block_end.min(longest).min(self.sampler.next_at());
        while let Some((start, flow)) = around.conductor.take_timed(|start| start < end) {
            hosts.start_at(flow, start, &mut around.network);
        }
        let window = around.network.open(end);
        if self.coupled {
            hosts.run_together(&window, next, end, around);
        } else {
            hosts.run_apart(&window, end, around);
        }
        around.network.run_switches(&window, end, &mut around.out);
        for output in around.out.drain(..) {
            match output {
                Output::Dropped { packet, .. } => around.packets.end(packet.handle),
                Output::Duplicated { packet, .. } => around.packets.duplicate(packet.handle),
                Output::Delivered { .. } => {}
            }
        }
        let flights = window.len();
        around.network.close(window, end);
        self.now = end;
        flights
    }

    fn progress(&self) -> Progress {
        Progress {
            now: self.now.since(Instant::ZERO),
            flows_finished: self.around.conductor.finished() as u64,
            bytes_delivered: self.hosts.placed_bytes(),
            hops: self.around.network.hops(),
        }
    }

    fn outcome(self, plan: &Plan, stopped: bool) -> Outcome {
        let stats = self.hosts.stats();
        let Around { network, conductor, packets, .. } = &self.around;
        let driver = DriverCount { kept: packets.live(), ..self.hosts.count() };
        let audit = Audit::of(conductor, &stats, network, driver);
        let outcome = Outcome::new(plan, conductor, stats, network, audit, self.now);
        Outcome { series: self.sampler.into_series(), stopped, ..outcome }
    }
}
