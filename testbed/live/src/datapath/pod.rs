//! What an epoch costs the scheduler of Zeropod's pod at a device, and how long requests wait for
//! their answers there.
//!
//! ```text
//!   PodHosts --RTS--> device --> SchedulerEndpoint: PodServer, as `headrace scheduler` runs it
//!            <-SCHD--        <--
//! ```
//!
//! - *Cost*: hosts and scheduler take turns on one thread, and an epoch of the pod passes in each
//!   turn. The time of the hosts is not counted, so this is the shortest epoch that one core can
//!   sustain.
//! - *Waiting*: hosts are on a thread of their own and send each request in its slot by the clock,
//!   in epochs of a given length. The figure is the time from a request to an answer: the one with
//!   the grant of the decision that takes the request into account.
//!
//! Every host asks in every epoch, for an epoch's cells to one of its receivers, and reports that
//! all cells of an earlier epoch have arrived. Or flows of web search come, as `load.rs` says.

mod hosts;
mod load;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use experiments::hosts_file::{HostEntry, HostsFile};
use experiments::input::InputError;
use experiments::measure::Counters;
use transport::sched::zeropod::ZeropodParams;
use transport::sched::zeropod::timing::Timing;
use transport::wire::addressing::UDP_PORT;
use transport::wire::pod::{Join, hosts_a_switch};
use transport::{Duration, Instant};
use transport_dpdk::neighbour::Station;
use transport_dpdk::{DevicePort, Enquiry, Link, LinkConfig, Pool, TimeScale, eal};

use super::DeviceKind;
use super::run::{Bench, BenchError, UP_MS, link_of};
use super::windows::{TurnGroup, fastest_quarter, middle_half, precise};
use crate::nic::scheduler::{SchedulerEndpoint, SchedulerSetup};
use hosts::PodHosts;

/// The case of a scheduler at a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodCase {
    /// The scheduler's device; not [`DeviceKind::Null`], which has no far end.
    pub device: DeviceKind,
    /// Hosts of the pod, 2 to 1024.
    pub hosts: u16,
    /// Receivers of each host, from one to all other hosts.
    pub receivers: u16,
    /// The percentage of the epochs that flows of web search take up; `None` where every host asks
    /// for the cells of an epoch in every epoch.
    pub load: Option<u8>,
    /// How the scheduler decides, and how often hosts ask.
    pub params: ZeropodParams,
    /// Epochs to measure.
    pub epochs: u64,
    /// The seed of demands and ties.
    pub seed: u64,
}

/// What a scheduler costs.
#[derive(Clone, Debug, PartialEq)]
pub struct PodCost {
    /// Nanoseconds of an epoch.
    pub epoch_ns: f64,
    /// The part of taking in frames and reading their requests.
    pub receive_ns: f64,
    /// The part of the decision, and of writing and sending answers.
    pub answer_ns: f64,
    /// The share of hosts that were granted cells in an epoch.
    pub matched: f64,
    /// Requests and answers, for each host and epoch.
    pub frames: f64,
    /// Epochs whose arrivals no host reported.
    pub unreported: u64,
    /// The scheduler's counters.
    pub counters: Counters,
}

/// How long requests waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodWaiting {
    /// The length of an epoch.
    pub epoch: Duration,
    /// Epochs from a request to its answer: half of them waited for no longer.
    pub p50_epochs: f64,
    /// 99 in 100 waited for no longer, in the fastest quarter of the windows.
    pub p99_epochs: f64,
    /// 99 in 100 of all waited for no longer, including those that waited while another program had
    /// the core.
    pub p99_all_epochs: f64,
    /// Requests that were answered with a grant.
    pub answered: u64,
}

/// Requests of a window, where there are many.
const WINDOW: u64 = 4096;
/// Windows of a short measurement, so that its fastest quarter is one.
const WINDOWS_LEAST: u64 = 8;
/// Share of a run that only warms up: one in so many epochs.
const WARM_UP: u64 = 10;
/// Payload bytes of a cell, and bytes of it and of a request on the wire.
//= zeropod#V-A
const CELL: (u16, u16) = (512, 552);
const CONTROL: u16 = 112;
/// The longest frame.
const FRAME_MAX: u16 = 256;
/// Frames that the device holds in each direction: those of two epochs of the largest pod.
const DEPTH: u16 = 2048;
/// The length of an epoch where epochs pass as fast as the scheduler is.
const SHORT: Duration = Duration::from_us(1);
/// Real time after which hosts give up a scheduler that has not answered.
const PATIENCE: Duration = Duration::from_s(5);

/// Parts of a turn.
const RECEIVE: usize = 0;
const ANSWER: usize = 1;
const PARTS: usize = 2;

/// The pod, its scheduler's device, and its hosts at the far end.
struct Rig {
    setup: SchedulerSetup,
    hosts: PodHosts,
    port: DevicePort,
    /// The buffers of the scheduler's frames.
    pool: Arc<Pool>,
}

/// The pod of `hosts` hosts with epochs of about `epoch`, a decision of one epoch, and links that
/// take no time.
fn join(hosts: u16, epoch: Duration) -> Join {
    let cells = (hosts_a_switch(hosts) - 1).max(16);
    let (payload, cell) = CELL;
    // Two control cells, a guard as long, and the room beside an answer.
    let gaps = CONTROL * 4 + (cell - 2 * CONTROL) / 2;
    let bits = (u64::from(cells) * u64::from(cell) + u64::from(gaps)) * 8;
    let kbps = u128::from(bits) * 1_000_000_000 / u128::from(epoch.as_ps().max(1));
    let kbps = u32::try_from(kbps).unwrap_or(u32::MAX);
    let nanoseconds = |bits: u64| {
        let ns = bits * 1_000_000 / u64::from(kbps.max(1));
        u32::try_from(ns).unwrap_or(u32::MAX)
    };
    Join {
        run: 1,
        term: 0,
        hosts,
        cells: u8::try_from(cells).unwrap_or(u8::MAX),
        payload,
        cell,
        control: CONTROL,
        kbps,
        hop_ns: 0,
        // So a request is there before its epoch ends.
        guard_ns: nanoseconds(u64::from(CONTROL) * 8 * 2),
        delay_ns: nanoseconds(bits),
        early_ns: 0,
    }
}

impl Rig {
    fn new(bench: &Bench, case: &PodCase, join: Join) -> Result<Self, BenchError> {
        let (pool, far) = (bench.pool(FRAME_MAX)?, bench.pool(FRAME_MAX)?);
        let link = LinkConfig {
            max_frame: u32::from(FRAME_MAX),
            depth: DEPTH,
            host_pool: Arc::clone(&pool),
            switch_pool: Arc::clone(&far),
        };
        let link = link_of(case.device, bench.eal(), &link)?;
        if !link.wait_up(UP_MS) {
            return Err(BenchError::LinkDown(case.device.name()));
        }
        let Link { switch_side, host: port } = link;
        let hosts = HostsFile::read(hosts::file(case.hosts).as_bytes(), "hosts.toml")?;
        let setup = SchedulerSetup { hosts, device: None, params: case.params, udp_port: UDP_PORT };
        let hosts = PodHosts::new(case, join, (switch_side, far));
        let hosts = hosts.ok_or_else(no_pod)?;
        Ok(Self { setup, hosts, port, pool })
    }

    /// The scheduler, which listens from `now` on, and its station.
    fn endpoint<'a>(
        setup: &'a SchedulerSetup,
        (seed, now): (u64, Instant),
    ) -> Result<(SchedulerEndpoint<'a>, Station), BenchError> {
        let entry: &HostEntry = setup.hosts.scheduler.as_ref().ok_or_else(no_pod)?;
        let mac = entry.mac.unwrap_or_default();
        let endpoint = SchedulerEndpoint::new(setup, (entry, mac), (seed, now))?;
        Ok((endpoint, Station { mac, ip: entry.ip, prefix: entry.prefix, gateway: None }))
    }
}

/// Requests of a window among so many.
fn window_of(requests: u64) -> u64 {
    WINDOW.min(requests / WINDOWS_LEAST).max(1)
}

/// Ends the scheduler's loop when the thread of the hosts ends, by a panic, too.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn no_pod() -> InputError {
    InputError::new("hosts that make no pod", "2 to 1024 of them")
}

impl Bench {
    /// Measures what an epoch costs.
    ///
    /// # Errors
    /// [`BenchError`].
    pub fn pod(&self, case: &PodCase) -> Result<PodCost, BenchError> {
        let join = join(case.hosts, SHORT);
        let timing = Timing::new(&join.timing_inputs());
        let Rig { setup, mut hosts, mut port, pool } = Rig::new(self, case, join)?;
        let (mut endpoint, station) = Rig::endpoint(&setup, (case.seed, Instant::ZERO))?;
        let queue = port.queue(0).ok_or(BenchError::LinkDown(case.device.name()))?;
        let from = timing.epoch_at(Instant::ZERO + join.patience() * 2);
        let (mut windows, mut window) = (Vec::new(), TurnGroup::new(PARTS));
        let warm = from + case.epochs / WARM_UP;
        let measured = from + case.epochs - warm;
        let requests = window_of(measured * u64::from(case.hosts));
        let (mut granted, mut frames) = (0, 0);
        for epoch in from..from + case.epochs {
            // All requests of the epoch have come, and the next one has not begun.
            let now = timing.start(epoch + 1).before(Duration::from_ps(1));
            if epoch == warm {
                (granted, frames) = (hosts.granted(), hosts.frames());
                window = TurnGroup::new(PARTS);
            }
            if !hosts.is_served() {
                hosts.join_all();
            }
            hosts.ask_all(epoch, now);
            loop {
                let mut enquiry = Enquiry::new(queue, &pool, station);
                let start = eal::tsc();
                let received = endpoint.receive(&mut enquiry, now);
                let taken = eal::tsc();
                let answered = endpoint.answer(&mut enquiry, now);
                let sent = eal::tsc();
                window.parts[RECEIVE] += taken.wrapping_sub(start);
                window.parts[ANSWER] += sent.wrapping_sub(taken);
                hosts.take(now);
                if !received && !answered {
                    break;
                }
            }
            window.segments += u64::from(case.hosts);
            if epoch >= warm && window.segments >= requests {
                windows.push(std::mem::replace(&mut window, TurnGroup::new(PARTS)));
            }
        }
        if windows.is_empty() {
            windows.push(window);
        }
        let hosts_f = f64::from(case.hosts);
        // A window with fewer flows is faster, too.
        let ticks = match case.load {
            Some(_) => middle_half(windows, PARTS),
            None => fastest_quarter(windows, PARTS),
        };
        let ns = |part: usize| ticks.get(part).copied().unwrap_or(0.0) * hosts_f * 1e9 / self.hz();
        let epochs = precise(measured);
        Ok(PodCost {
            epoch_ns: ns(RECEIVE) + ns(ANSWER),
            receive_ns: ns(RECEIVE),
            answer_ns: ns(ANSWER),
            matched: precise(hosts.granted() - granted) / epochs.max(1.0) / hosts_f,
            frames: precise(hosts.frames() - frames) / epochs.max(1.0) / hosts_f,
            unreported: hosts.unreported(),
            counters: endpoint.served().counters,
        })
    }

    /// Measures how long requests wait in epochs of about `epoch`; `None` where no answer came.
    /// Takes two cores.
    ///
    /// # Errors
    /// [`BenchError`].
    pub fn pod_waiting(
        &self,
        case: &PodCase,
        epoch: Duration,
    ) -> Result<Option<PodWaiting>, BenchError> {
        let join = join(case.hosts, epoch);
        let timing = Timing::new(&join.timing_inputs());
        let clock = self.clock(TimeScale::REAL);
        let Rig { setup, mut hosts, mut port, pool } = Rig::new(self, case, join)?;
        let (mut endpoint, station) = Rig::endpoint(&setup, (case.seed, clock.now()))?;
        let queue = port.queue(0).ok_or(BenchError::LinkDown(case.device.name()))?;
        let over = AtomicBool::new(false);
        let eal = self.eal().clone();
        let waited = thread::scope(|scope| {
            let (over, epochs) = (&over, case.epochs);
            let hosts = scope.spawn(move || {
                let _ending = Ending(over);
                let lcore = eal.register_thread().ok();
                let served = hosts.run(epochs, clock, PATIENCE);
                drop(lcore);
                (served, hosts)
            });
            while !over.load(Ordering::Acquire) {
                let mut enquiry = Enquiry::new(queue, &pool, station);
                endpoint.receive(&mut enquiry, clock.now());
                endpoint.answer(&mut enquiry, clock.now());
            }
            hosts.join()
        });
        let (served, mut hosts) = waited.unwrap_or_else(|panic| resume_unwind(panic));
        // Buffers that a device without a far end still holds never return to their pools.
        let now = clock.now();
        while endpoint.receive(&mut Enquiry::new(queue, &pool, station), now) {}
        while hosts.take(now) {}
        let waited = served.then(|| hosts.waited());
        let said = waited.and_then(|waited| waiting(waited, timing.epoch));
        if said.is_none() {
            let (device, hosts) = (case.device.name(), case.hosts);
            let why = unanswered(endpoint.served().pods.refusals());
            tracing::warn!(
                "{device}, {hosts} hosts: no request was answered in epochs of {}, as {why}; \
                 how long requests wait is left out. The two threads need two idle cores: end \
                 other programs, or measure in longer epochs, as with --epoch-us 1000",
                timing.epoch
            );
        }
        Ok(said)
    }
}

/// Why no request was answered, by the reasons for which the scheduler refused requests.
fn unanswered<'a>(refusals: impl Iterator<Item = (&'a str, u64)>) -> String {
    let refused = refusals.filter(|(_, count)| *count > 0);
    let refused: Vec<_> = refused.map(|(why, count)| format!("{count} as {why}")).collect();
    match refused.is_empty() {
        true => "no request came within its epoch".to_owned(),
        false => format!("they were refused: {}", refused.join(", ")),
    }
}

/// The figures of the epochs that requests waited, in thousandths; `None` without any.
fn waiting(waited: Vec<u32>, epoch: Duration) -> Option<PodWaiting> {
    let size = usize::try_from(window_of(waited.len() as u64)).unwrap_or(usize::MAX);
    let p99 = |sorted: &[u32]| sorted[(sorted.len() * 99).div_ceil(100) - 1];
    let mut windows: Vec<u32> = waited
        .chunks(size)
        .filter(|window| window.len() == size)
        .map(|window| {
            let mut window = window.to_vec();
            window.sort_unstable();
            p99(&window)
        })
        .collect();
    windows.sort_unstable();
    let quarter = windows.get(..windows.len().div_ceil(4)).filter(|quarter| !quarter.is_empty())?;
    let mean =
        precise(quarter.iter().copied().map(u64::from).sum()) / precise(quarter.len() as u64);
    let mut all = waited;
    all.sort_unstable();
    let epochs = |thousandths: f64| thousandths / 1000.0;
    Some(PodWaiting {
        epoch,
        p50_epochs: epochs(f64::from(all[all.len() / 2])),
        p99_epochs: epochs(mean),
        p99_all_epochs: epochs(f64::from(p99(&all))),
        answered: all.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_without_an_answer_have_a_reason() {
        let refused = [("malformed", 0), ("past_epoch", 10_158), ("future_epoch", 2)];
        let said = unanswered(refused.into_iter());
        assert_eq!(said, "they were refused: 10158 as past_epoch, 2 as future_epoch");
        assert_eq!(unanswered(refused[..1].iter().copied()), "no request came within its epoch");
    }

    /// A request is there within its epoch, and a decision takes one epoch: both measurements of
    /// this file rest on that.
    #[test]
    fn pods_of_all_sizes_decide_in_the_next_epoch_and_answer_in_the_one_behind_it() {
        for hosts in [2, 16, 33, 256, 1024] {
            for us in [1, 3, 30, 500] {
                let join = join(hosts, Duration::from_us(us));
                assert_eq!(Join::of(&join.note()), Some(join));
                let timing = Timing::new(&join.timing_inputs());
                assert_eq!((timing.to_decision, timing.to_answers), (1, 1), "{join:?}");
                let ratio = timing.epoch.as_us_f64() / Duration::from_us(us).as_us_f64();
                assert!((0.99..1.01).contains(&ratio), "{hosts} {us}: {ratio}");
            }
        }
    }

    #[test]
    fn the_fastest_quarter_of_the_windows_says_how_long_requests_wait() {
        let size = usize::try_from(WINDOW).unwrap();
        let mut waited = vec![2000; 8 * size];
        // One window is fast, others are held up for one in fifty.
        waited[..size].fill(1500);
        waited[size..].iter_mut().step_by(50).for_each(|waited| *waited = 90_000);
        let said = waiting(waited, Duration::from_us(1)).unwrap();
        assert!((said.p50_epochs - 2.0).abs() < 1e-9 && (said.p99_all_epochs - 90.0).abs() < 1e-9);
        assert!((said.p99_epochs - (1.5 + 90.0) / 2.0).abs() < 1e-9, "{said:?}");
        assert_eq!(waiting(Vec::new(), Duration::from_us(1)), None);
        // So it is where there are few requests.
        let mut few = vec![2000; 800];
        few[..100].fill(1500);
        few[100..].iter_mut().step_by(50).for_each(|waited| *waited = 90_000);
        let said = waiting(few, Duration::from_us(1)).unwrap();
        assert!((said.p99_epochs - (1.5 + 90.0) / 2.0).abs() < 1e-9, "{said:?}");
        assert_eq!(waiting(vec![1000], Duration::from_us(1)).unwrap().answered, 1);
    }
}
