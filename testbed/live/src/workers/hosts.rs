//! The hosts of a run: a worker each, spread over threads that poll.
//!
//! A thread polls its workers in turn. When none had anything to do, it pauses, then yields. With
//! more pollers than cores, a poller that only spins would cost the others 12 ms a turn. All read
//! one clock, which starts when all threads are ready.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use experiments::plan::{Plan, RunError};
use experiments::workload::matrix::MESSAGE_MAX;
use transport::record::Recorder;
use transport::wire::addressing::{Addressing, Groups};
use transport::{Bytes, Config, Duration, HostId, Instant, Rate, Rng, Settings, ShareMax};
use transport_dpdk::{
    AppEnd, AppMemory, Clock, DevicePort, DilatedClock, Eal, EalError, Idle, IdleMode, Keys,
    MemoryConfig, Pool, PortIo, QuietHold, SharedKeys, TimeScale, UdpSums, Worker, WorkerConfig,
    app_ring,
};

use super::lateness::Gaps;
use super::observers::Observers;
use super::secured;
use crate::dpdk_error::unfit;

/// Descriptors in the rings between an application and its worker.
pub(crate) const RING: usize = 256;

/// One host.
pub(crate) type Host = Worker<PortIo, AppMemory, RunClock>;

/// The clock of a run: stands at zero until it is started. `Clone`: all threads read the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunClock(Arc<OnceLock<DilatedClock>>);

impl RunClock {
    /// Lets the clock run; only the first start counts.
    pub(crate) fn start(&self, clock: DilatedClock) {
        // A second start would be a bug, and harmless.
        let _ = self.0.set(clock);
    }

    fn has_started(&self) -> bool {
        self.0.get().is_some()
    }

    /// Now.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.0.get().map_or(Instant::ZERO, DilatedClock::now)
    }
}

impl Clock for RunClock {
    #[inline]
    fn now(&mut self) -> Instant {
        Self::now(self)
    }
}

/// Hosts that are polled, and their threads.
#[derive(Debug)]
pub(crate) struct Pollers {
    threads: Vec<JoinHandle<Result<Polled, EalError>>>,
    stop: Arc<AtomicBool>,
    /// Threads that wait for the clock, or did.
    ready: Arc<AtomicUsize>,
    /// To each thread.
    keys: Vec<Sender<Keys>>,
}

/// The hosts that one thread polls; given back when it ends.
#[derive(Debug)]
pub(crate) struct Polled {
    pub(crate) hosts: Vec<Host>,
    pub(crate) gaps: Gaps,
    /// Behind the hosts, because it lasts until their devices are closed: these are emptied after
    /// the thread has ended.
    pub(crate) hold: Option<QuietHold>,
}

/// All hosts of `plan`, at their `ports`, and the applications' ends of their rings.
pub(crate) fn hosts(
    plan: &Plan,
    ports: Vec<DevicePort>,
    pool: &Arc<Pool>,
    stamp: transport_dpdk::TimestampField,
    setup: &HostSetup<'_>,
) -> Result<(Vec<Host>, Vec<AppEnd>), RunError> {
    let mut hosts = Vec::new();
    let mut rings = Vec::new();
    let needs = needs(plan);
    for (((id, config), port), needs) in (0..).zip(plan.host_configs()?).zip(ports).zip(needs) {
        let name = port.name().to_owned();
        let io = PortIo::of_port(port, Arc::clone(pool), Some(stamp));
        let io = io.ok_or_else(|| RunError::Environment(format!("device {name} has no queue")))?;
        let io = match early(plan) {
            // Slots set the pace.
            Some(early) => io.keeping(early),
            None => io.paced(plan.settings.line_rate, Bytes(u64::from(plan.fabric.mtu))),
        };
        let (app, worker) = app_ring(RING, RING);
        rings.push(app);
        hosts.push(setup.host(HostId(id), &config, io, worker, needs)?);
    }
    Ok((hosts, rings))
}

/// How long before their departure hosts make their packets, where these leave in slots.
fn early(plan: &Plan) -> Option<Duration> {
    let early = plan.settings.sched.slots(&plan.settings.sched_params)?.early;
    // An epoch is given at once.
    Some(early + Duration::from_us(100))
}

/// Bytes of incoming messages that a host's own traffic holds at most.
const BYTES_IN_MAX: u64 = 2 * MESSAGE_MAX as u64;

/// The settings that all hosts of this process share.
pub(crate) struct HostSetup<'a> {
    pub(crate) rng: &'a Rng,
    pub(crate) clock: &'a RunClock,
    pub(crate) addressing: &'a Addressing,
    /// Network time after which a device that takes nothing counts as stuck.
    pub(crate) stuck_after: Duration,
    pub(crate) record: bool,
    pub(crate) observers: &'a Observers,
    /// The hosts' links, and how much slower they run.
    pub(crate) rate: (Rate, TimeScale),
    /// Keys that seal packets.
    pub(crate) keys: Option<&'a SharedKeys>,
}

/// The tables and memory that one host's traffic takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    connections: u32,
    messages_in: u32,
    bytes_in: u64,
}

/// The tables and memory that the traffic of each host takes.
pub(crate) fn needs(plan: &Plan) -> Vec<Needs> {
    let mut needs = vec![Needs::default(); plan.hosts() as usize];
    for flow in &plan.matrix.flows {
        needs[flow.src.0 as usize].connections += 1;
        let receiver = &mut needs[flow.dst.0 as usize];
        let messages = u32::try_from(plan.matrix.messages(flow.size)).unwrap_or(u32::MAX);
        receiver.messages_in = receiver.messages_in.saturating_add(messages);
        receiver.bytes_in = receiver.bytes_in.saturating_add(flow.size.0).min(BYTES_IN_MAX);
    }
    needs
}

/// Flows that hosts outside the matrix may open, beside as many as the matrix has.
const STRANGERS: u32 = 64;

impl Needs {
    /// `config` and these needs with room beside the matrix's own traffic, on a network where any
    /// host can send packets with forged sources. Such packets can take only that room: as many
    /// flows, messages and bytes again. A run without forged packets stays below the bounds from
    /// which on senders prove their address first. There is one exception: when first messages of
    /// more than [`BYTES_IN_MAX`] are under way to this host at once, flows begin a round trip
    /// later.
    pub(crate) fn among_strangers(
        self,
        config: &Config,
        groups: Groups,
    ) -> Result<(Config, Self), RunError> {
        let most = |n: u32| n.min(1 << 20);
        let (flows, msgs) = (config.rx_flows_max, config.msgs_max);
        let rx_flows_max = most(3 * flows + 2 * STRANGERS);
        let unproven_max = (rx_flows_max - flows) / 2;
        let bytes_in = self.bytes_in.max(1);
        // Half without proof, then one message of each unproven flow.
        let msgs_max = most(2 * msgs + unproven_max);
        // Flows without proof count in no share, so no share takes their room.
        let (flows_left, msgs_left) = (rx_flows_max - unproven_max, msgs_max - unproven_max);
        let flows_of = |part: u32| {
            let most = flows_left - (flows_left - flows) / part;
            // In the largest table there may be no place beside the matrix.
            if most < flows_left { most } else { u32::MAX }
        };
        let all_but = |part: u32| ShareMax {
            flows: flows_of(part),
            messages: msgs_left - msgs_left.saturating_sub(msgs) / part,
            bytes: 2 * bytes_in - bytes_in / u64::from(part),
        };
        let config = Config::new(Settings {
            rx_flows_max,
            unproven_max,
            unproven_bytes: bytes_in,
            msgs_max,
            // Any host of the matrix may have all of its flows; no host has the rest.
            peer_max: all_but(2),
            group_max: all_but(4),
            groups,
            ..(**config).clone()
        })?;
        let messages_in = self.messages_in.saturating_add(config.msgs_max);
        Ok((config, Self { messages_in, bytes_in: 2 * bytes_in, ..self }))
    }
}

impl HostSetup<'_> {
    /// One host at its device, and the worker's end of its application's ring.
    pub(crate) fn host(
        &self,
        id: HostId,
        config: &Config,
        io: PortIo,
        ring: transport_dpdk::WorkerEnd,
        needs: Needs,
    ) -> Result<Host, RunError> {
        let config = &secured(config, self.keys)?;
        let flows = config.tx_flows_max.saturating_add(config.rx_flows_max);
        let security = self.keys.map(|keys| keys.security(flows));
        let rng = self.rng.fork("host", u64::from(id.0));
        let core = if self.record { Recorder::on } else { Recorder::off }(config, id, rng);
        let memory = AppMemory::new(
            config,
            &MemoryConfig {
                // Delivered messages are dropped at once, so a host holds no more than is under
                // way.
                bytes_max: needs.bytes_in.max(1),
                messages_max: needs.messages_in.max(1),
                parity_max: MemoryConfig::PARITY_MAX,
            },
        );
        let worker = WorkerConfig {
            addressing: self.addressing.clone(),
            connections_max: needs.connections.max(1),
            msgs_max: config.msgs_max,
            stuck_after: self.stuck_after,
            udp: UdpSums::Software,
            // Every message is verified after the run.
            digest: true,
        };
        let parts = (io, memory, self.clock.clone());
        let mut worker = Worker::new(core, parts, ring, worker).secured(security);
        self.observers.look_at(&mut worker, (id, config.msgs_max), self.rate);
        Ok(worker)
    }
}

impl Pollers {
    /// Spreads `hosts` over `threads` threads of `eal`, each on its core when `cores` names one.
    /// The threads wait for the clock; this call waits for the threads. The first thread has
    /// `hold`, lets the interrupt thread through when its hosts are quiet, and gives the hold back
    /// with the hosts.
    pub(crate) fn start(
        eal: &Eal,
        hosts: Vec<Host>,
        cores: &[Option<usize>],
        mut hold: Option<QuietHold>,
        (clock, base_rtt): (&RunClock, Duration),
    ) -> Result<Self, RunError> {
        let mut shares: Vec<Vec<Host>> = cores.iter().map(|_| Vec::new()).collect();
        let count = shares.len().max(1);
        for (index, host) in hosts.into_iter().enumerate() {
            if let Some(share) = shares.get_mut(index % count) {
                share.push(host);
            }
        }
        let mut pollers = Self {
            threads: Vec::new(),
            stop: Arc::default(),
            ready: Arc::default(),
            keys: Vec::new(),
        };
        for (index, (share, core)) in shares.into_iter().zip(cores).enumerate() {
            let (stop, clock) = (Arc::clone(&pollers.stop), clock.clone());
            let ready = Arc::clone(&pollers.ready);
            let gaps = Gaps::new(base_rtt);
            let hold = hold.take();
            let (give, keys) = channel();
            pollers.keys.push(give);
            let spawned = eal.spawn(&format!("hosts-{index}"), *core, move |_| {
                ready.fetch_add(1, Ordering::AcqRel);
                poll(Polled { hosts: share, gaps, hold }, (&clock, &keys), &stop)
            });
            pollers.threads.push(spawned.map_err(|error| unfit(&error))?);
        }
        while pollers.ready.load(Ordering::Acquire) < count && !pollers.is_broken() {
            thread::yield_now();
        }
        Ok(pollers)
    }

    /// Lets all hosts go on with `keys`; each thread takes them up between two turns.
    pub(crate) fn rotate(&self, keys: &Keys) {
        for thread in &self.keys {
            // A thread that has ended needs none.
            let _ = thread.send(keys.clone());
        }
    }

    /// Whether a thread has ended without having been asked to.
    pub(crate) fn is_broken(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends all threads and returns the hosts that they polled. The first panic of a thread is
    /// passed on once all threads have ended.
    pub(crate) fn stop(mut self) -> Result<Vec<Polled>, RunError> {
        self.stop.store(true, Ordering::Release);
        let mut back = Vec::new();
        let (mut failed, mut panicked) = (None, None);
        // All are joined before a failure is reported: none may outlive the devices.
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(Ok(polled)) => back.push(polled),
                Ok(Err(error)) => failed = Some(error),
                Err(panic) => panicked = panicked.or(Some(panic)),
            }
        }
        if let Some(panic) = panicked {
            std::panic::resume_unwind(panic);
        }
        failed.map_or(Ok(back), |error| Err(unfit(&error)))
    }
}

impl Drop for Pollers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // This runs only after an error, which says more than this thread could.
            drop(thread.join());
        }
    }
}

/// Turns of a thread between two checks for other keys.
const LOOK_EVERY: u32 = 64;

/// The loop of one thread.
fn poll(
    mut polled: Polled,
    (clock, keys): (&RunClock, &Receiver<Keys>),
    stop: &AtomicBool,
) -> Polled {
    while !clock.has_started() && !stop.load(Ordering::Acquire) {
        thread::yield_now();
    }
    let mut idle = Idle::new(IdleMode::Adaptive);
    // From here on by the clock of the run.
    polled.hold.iter_mut().for_each(|hold| hold.restart(clock.now()));
    let mut turn = 0_u32;
    while !stop.load(Ordering::Acquire) {
        let now = clock.now();
        polled.gaps.poll(now);
        turn = turn.wrapping_add(1);
        if turn.is_multiple_of(LOOK_EVERY)
            && let Ok(keys) = keys.try_recv()
        {
            polled.hosts.iter_mut().for_each(|host| host.rotate(&keys));
        }
        let mut busy = false;
        for host in &mut polled.hosts {
            busy |= host.poll_once().busy;
        }
        if let Some(hold) = &mut polled.hold {
            hold.look(polled.hosts.iter().map(|host| host.stats().accepted()).sum(), now);
        }
        idle.turn(busy);
    }
    // A scrape behind the end sees all of it.
    polled.hosts.iter_mut().for_each(Host::publish);
    polled
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn what_strangers_may_take_leaves_room_for_all_that_the_matrix_has() {
        for (rx_flows_max, msgs_max) in
            [(1, 1), (3, 700), (1000, 64), (1 << 19, 1 << 19), (1 << 20, 1 << 20)]
        {
            let settings = Settings { rx_flows_max, msgs_max, ..Settings::default() };
            let config = Config::new(settings).unwrap();
            let own = Needs { connections: 1, messages_in: msgs_max, bytes_in: 5000 };
            let (wider, needs) = own.among_strangers(&config, Groups::Runs(2)).unwrap();
            assert!(wider.unproven_max + rx_flows_max <= wider.rx_flows_max);
            // Fewer flows than this are unproven where none are forged.
            assert!(wider.unproven_max > rx_flows_max || wider.rx_flows_max == 1 << 20);
            assert!(wider.msgs_max > 2 * msgs_max || wider.msgs_max == 1 << 20);
            assert_eq!((wider.unproven_bytes, needs.bytes_in), (5000, 10_000));
            assert_eq!(wider.tx_flows_max, config.tx_flows_max);
            for most in [wider.peer_max, wider.group_max] {
                assert!(most.flows >= rx_flows_max && most.messages >= msgs_max);
                assert!(most.flows < wider.rx_flows_max || rx_flows_max > 1 << 18);
            }
        }
    }

    #[test]
    fn a_panic_of_one_thread_is_passed_on_when_all_have_ended() {
        let (stop, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let stopped = (Arc::clone(&stop), Arc::clone(&ended));
        let fails = thread::spawn(|| -> Result<Polled, EalError> { panic!("a bug") });
        let ends = thread::spawn(move || {
            while !stopped.0.load(Ordering::Acquire) {
                thread::yield_now();
            }
            thread::sleep(std::time::Duration::from_millis(100));
            stopped.1.store(true, Ordering::Release);
            Ok(Polled { hosts: Vec::new(), gaps: Gaps::new(Duration::from_us(1)), hold: None })
        });
        let threads = vec![fails, ends];
        let pollers = Pollers { threads, stop, ready: Arc::default(), keys: Vec::new() };
        assert!(catch_unwind(AssertUnwindSafe(|| pollers.stop())).is_err());
        assert!(ended.load(Ordering::Acquire), "the second thread outlived the panic");
    }
}
