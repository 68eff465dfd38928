//! The `sim` world: the same endpoints and the same switches, driven by virtual time.
//!
//! ```text
//!   conductor --orders--> endpoint --segments--> packet slab + Network --outputs--> endpoint
//!        ^                    |                                                        |
//!        +------ events ------+--------------------------------------------------------+
//! ```
//!
//! Time goes in windows no longer than the lookahead of the network. So whatever reaches a host or
//! a port within a window left its origin before the window began. Each host and each port goes
//! through its own instants by itself, with its memory in the cache, and results do not depend on
//! how time is divided into windows. At an instant of a host things happen in a fixed order:
//! starts, the NIC's departures, arrivals, the timer; then it reports, posts and sends. Where a
//! trigger of the matrix lets one host start a flow of another at once, a window is one instant,
//! and all hosts meet at it.
//!
//! Therefore several threads may run a window, each for a *part* of the hosts and ports. A packet
//! that goes from one part to another arrives after the window, and is handed over when the window
//! ends. Results are the same to the byte on any number of threads.
//!
//! A run ends with the block of time (a lookahead long, counted from zero) in which its last flow
//! ended; so does what it counts.

mod capture;
mod clock;
mod crew;
mod environment;
mod hosts;
mod nics;
mod packets;
mod part;
mod restarts;

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use fabric::{Network, Parts};
use transport::histogram::Spans;
use transport::sched::Ranks;
use transport::{Duration, Instant, Rng};

use crate::conductor::Conductor;
use crate::ideal;
use crate::measure::audit::DriverCount;
use crate::measure::collectives::SpanResult;
use crate::measure::own::{self, OfHosts};
use crate::measure::sampler::{Sampler, Seen};
use crate::measure::{Adapted, Audit, Outcome};
use crate::observe::Observe;
use crate::plan::{Plan, RunError};
use crate::progress::{Progress, RecordFeed, Watch};
use crate::why;
use capture::Recording;
use crew::Crew;
use part::{Part, Span};
use restarts::Restarts;

/// Packets on links, and windows, between two looks at the watch.
const LOOK_EVERY: usize = 1 << 16;

/// Runs `plan` to its end: all flows done or given up, the time limit, or the watch says stop.
///
/// # Errors
/// When the plan does not fit together; see [`RunError`].
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    run_in_windows(plan, Duration::MAX, watch)
}

/// Runs `plan` as [`run`] does, with the capture that `observe` asks for; a simulation has nothing
/// else to observe.
///
/// # Errors
/// As [`run`], and [`RunError::Input`] for a capture that cannot be made.
pub fn run_observed(
    plan: &Plan,
    observe: &Observe,
    watch: &mut dyn Watch,
) -> Result<Outcome, RunError> {
    run_with(plan, Duration::MAX, observe, watch)
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
    run_with(plan, window, &Observe::default(), watch)
}

fn run_with(
    plan: &Plan,
    window: Duration,
    observe: &Observe,
    watch: &mut dyn Watch,
) -> Result<Outcome, RunError> {
    if plan.is_ideal() {
        return ideal::run(plan, observe, watch);
    }
    let capture = observe.capture.as_ref();
    let rng = Rng::new(plan.seed);
    let mut network = Network::new(plan.blueprint(), &rng.fork("network", 0));
    for fault in plan.link_faults()? {
        network.add_fault(&fault.ports, fault.spec)?;
    }
    let mut conductor = Conductor::new(&plan.matrix);
    let restarts = Restarts::new(plan, &rng)?;
    if !restarts.is_empty() {
        conductor.expect_restarts();
    }
    let coupled = is_coupled(&conductor, &network);
    if coupled {
        network.expect_instants();
    }
    let (threads, adapted) = threads(plan, coupled, observe.why);
    let lookahead = network.lookahead();
    let parts = Parts::new(network.blueprint(), &weights(plan), threads);
    let whole = (network, conductor);
    let mut built = part::build(plan, &rng, &parts, whole, coupled, (capture, observe.why))?;
    if let ([whole], true) = (&mut built[..], observe.why) {
        whole.explain(plan);
    }
    let built: Vec<_> = built.into_iter().map(Mutex::new).collect();
    let mut sim = SimWorld {
        lookahead,
        window: if coupled { PICOSECOND } else { window.max(PICOSECOND) },
        sampler: Sampler::new(plan),
        restarts,
        feed: RecordFeed::default(),
        recording: capture.map(|capture| Recording::start(capture, plan)).transpose()?,
        limit: plan.limit.map_or(Instant::FAR_FUTURE, |limit| Instant::ZERO + limit),
        now: Instant::ZERO,
        end: Instant::ZERO,
    };
    let stopped = crew::with_crew(&built, |crew| {
        let stopped = sim.run(crew, watch);
        sim.take_last_samples(crew, watch);
        stopped
    })?;
    let outcome = sim.outcome(plan, &parts, built, stopped);
    Ok(Outcome { adapted, ..outcome })
}

const PICOSECOND: Duration = Duration::from_ps(1);

/// How many threads a run of `plan` uses, which may be fewer than it sets. O(flows + ports).
#[must_use]
pub fn threads_used(plan: &Plan, observe: &Observe) -> usize {
    if plan.is_ideal() {
        return 1;
    }
    let network = Network::new(plan.blueprint(), &Rng::new(plan.seed));
    let coupled = is_coupled(&Conductor::new(&plan.matrix), &network);
    let (threads, _) = threads(plan, coupled, observe.why);
    Parts::new(network.blueprint(), &weights(plan), threads).count()
}

/// Whether hosts have to meet at every instant. A delay below the lookahead may end in the window
/// in which it began, when a host has had its starts.
fn is_coupled(conductor: &Conductor<'_>, network: &Network) -> bool {
    let is_short = |delay: Duration| delay < network.lookahead();
    conductor.couples_hosts() || conductor.delay_min().is_some_and(is_short)
}

/// How many threads run `plan`, and the reason where there are fewer than it sets.
fn threads(plan: &Plan, coupled: bool, explains: bool) -> (usize, Vec<Adapted>) {
    let wanted = plan.draft.threads;
    let (most, why) = if coupled {
        let why = "triggers of the matrix start flows of one host when another is done, at the \
                   same instant";
        (1, why)
    } else if explains {
        (1, "the journal of a run that explains itself is in the order of time")
    } else {
        let params = &plan.settings.sched_params.zeropod;
        let most = match plan.ranks_data() {
            // Answers of a scheduler that takes over go to Cores, too.
            Some(Ranks::Granted) if params.backup > 0 => 1,
            Some(Ranks::Granted) if params.optimistic > 0 => usize::from(params.pods.max(1)),
            _ => usize::MAX,
        };
        (most, "a packet that yields is cut off while it is on a link")
    };
    if wanted <= most {
        return (wanted, Vec::new());
    }
    (most, vec![Adapted::new("sim.threads", most.to_string(), why)])
}

/// For each host: the bytes that it sends and receives.
fn weights(plan: &Plan) -> Vec<u64> {
    let mut weights = vec![0u64; plan.hosts() as usize];
    for flow in &plan.matrix.flows {
        for host in [flow.src, flow.dst] {
            let weight = &mut weights[host.0 as usize];
            *weight = weight.saturating_add(flow.size.0);
        }
    }
    weights
}

/// The state of all parts for a sample that shows these lines of the matrix.
fn seen<'a>(parts: &mut [impl DerefMut<Target = Part<'a>>], lines: &[usize]) -> Seen {
    let seen = parts.iter_mut().map(|part| part.seen(lines));
    seen.reduce(|all, part| all.add(&part)).unwrap_or_default()
}

struct SimWorld {
    lookahead: Duration,
    sampler: Sampler,
    restarts: Restarts,
    feed: RecordFeed,
    recording: Option<Recording>,
    /// The longest window.
    window: Duration,
    /// The instant after which nothing is run.
    limit: Instant,
    /// The end of the last window.
    now: Instant,
    /// The end of the run, which is the same in windows of any length; zero before it. Where
    /// nothing is due any more though flows have not ended, it is the end of the last block in
    /// which something was due.
    end: Instant,
}

impl SimWorld {
    /// The loop. True when it was stopped before its end.
    fn run(&mut self, crew: &Crew<'_, '_>, watch: &mut dyn Watch) -> bool {
        let (mut unseen, mut flights) = (0, 0);
        // The end of the block in which the last flow ended.
        let mut over_at = Instant::FAR_FUTURE;
        let mut block_end = Instant::ZERO;
        let mut parts = crew.meet();
        loop {
            let own = parts.iter().filter_map(|part| part.next_at()).min();
            let sent = parts.iter().map(|part| part.parcel_at()).min();
            let next = own.into_iter().chain(sent).min().unwrap_or(Instant::FAR_FUTURE);
            let next = next.min(self.restarts.next_at());
            if next >= over_at || next == Instant::FAR_FUTURE {
                self.end = block_end.min(self.limit);
                return false;
            }
            if next > self.limit {
                self.end = self.limit;
                return over_at == Instant::FAR_FUTURE;
            }
            block_end = self.block_end(next);
            let span = self.span((next, block_end), &mut parts, watch);
            drop(parts);
            // A window is about as busy as the last one.
            crew.run(span, flights);
            parts = crew.meet();
            part::exchange(&mut parts);
            if let Some(recording) = &mut self.recording {
                recording.take(parts.iter_mut().filter_map(|part| part.hosts.tap()));
            }
            self.now = span.end;
            flights = parts.iter().map(|part| part.flights).sum();
            unseen += 1 + flights;
            let is_over = || parts.iter().all(|part| part.env.conductor.is_over());
            if over_at == Instant::FAR_FUTURE && is_over() {
                over_at = block_end;
                self.end = block_end.min(self.limit);
            }
            if unseen >= LOOK_EVERY {
                unseen = 0;
                self.sampler.show_to(watch);
                self.feed.pass_settled(watch, |line| {
                    parts.iter().find_map(|part| part.env.conductor.settled(line))
                });
                if !watch.goes_on(&self.progress(&parts)) {
                    self.end = self.now.min(self.limit);
                    return true;
                }
            }
        }
    }

    /// The end of the block of time that `at` lies in.
    fn block_end(&self, at: Instant) -> Instant {
        let block = self.lookahead.as_ps();
        Instant::from_ps((at.as_ps() / block).saturating_add(1).saturating_mul(block))
    }

    /// The window that begins with `next`, the first thing due. Samples are taken before it, and
    /// then hosts begin anew: it ends before the next of either, so that all of a run is at that
    /// instant.
    fn span<'a>(
        &mut self,
        (next, block_end): (Instant, Instant),
        parts: &mut [impl DerefMut<Target = Part<'a>>],
        watch: &mut dyn Watch,
    ) -> Span {
        self.sampler.catch_up(next, watch, |lines| seen(parts, lines));
        self.restarts.catch_up(next, parts);
        let longest = (next + self.window).min(self.limit + PICOSECOND);
        let border = self.sampler.next_at().min(self.restarts.next_at());
        Span { next, end: block_end.min(longest).min(border) }
    }

    /// The samples up to the end of the run.
    fn take_last_samples(&mut self, crew: &Crew<'_, '_>, watch: &mut dyn Watch) {
        let mut parts = crew.meet();
        self.sampler.end(self.end, watch, |lines| seen(&mut parts[..], lines));
    }

    fn progress<'a>(&self, parts: &[impl Deref<Target = Part<'a>>]) -> Progress {
        let each = || parts.iter().map(|part| (&part.hosts, &part.env));
        Progress {
            now: self.now.since(Instant::ZERO),
            flows_finished: each().map(|(_, env)| env.conductor.finished() as u64).sum(),
            bytes_delivered: each().map(|(hosts, _)| hosts.placed_bytes()).sum(),
            hops: each().map(|(_, env)| env.network.hops()).sum(),
        }
    }

    fn outcome(
        mut self,
        plan: &Plan,
        parts: &Parts,
        mut built: Vec<Mutex<Part<'_>>>,
        stopped: bool,
    ) -> Outcome {
        let unwritten = self.recording.take().and_then(|recording| {
            let parts = built.iter_mut();
            let parts = parts.map(|part| part.get_mut().unwrap_or_else(PoisonError::into_inner));
            recording.finish(parts.filter_map(|part| part.hosts.tap()), self.now)
        });
        let (mut hosts, mut driver) = (OfHosts::default(), DriverCount::default());
        let (mut networks, mut conductors) = (Vec::new(), Vec::new());
        let (mut log, mut begun) = (None, Vec::new());
        let mut wire_delay = plan.measures_delay().then(Spans::default);
        for part in built {
            let mut part = part.into_inner().unwrap_or_else(PoisonError::into_inner);
            part.receive();
            part.hosts.add_to(&mut hosts);
            if let (Some(all), Some(own)) = (&mut wire_delay, part.hosts.wire_delay()) {
                all.add(own);
            }
            let DriverCount { handed_over, given, .. } = part.hosts.count();
            driver.handed_over += handed_over;
            driver.given += given;
            begun.extend(part.hosts.begun());
            driver.waiting += part.hosts.waiting();
            driver.kept += part.env.packets.live();
            log = log.or_else(|| part.take_log());
            networks.push(part.env.network);
            conductors.push(part.env.conductor);
        }
        let network = Network::join(networks, parts);
        let mut conductor = Conductor::join(conductors);
        begun.into_iter().for_each(|message| conductor.on_begun(message));
        let audit = Audit::of(&conductor, &hosts.stats, &network, driver);
        let mut outcome =
            Outcome::new(plan, &mut conductor, hosts.by_cell(), Some(&network), audit, self.now);
        hosts.show(plan, &network, &mut outcome.summary);
        outcome.summary.wire_delay_us =
            wire_delay.map(|spans| SpanResult::of(&spans, Duration::from_us(1)));
        restarts::count(conductor.repeats(), &mut outcome.summary.counters);
        own::count_unshown(&hosts.stats, &mut outcome.summary.counters);
        let seen = (&conductor, &outcome.records[..]);
        let why = log.map(|log| why::explain(plan, &log, seen, self.end));
        let why = why.unwrap_or_default();
        Outcome { why, series: self.sampler.into_series(), stopped, unwritten, ..outcome }
    }
}
