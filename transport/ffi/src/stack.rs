//! DPDK and the thread that polls workers, for the life of a [`Stack`].
//!
//! A process has one stack, because DPDK starts once. The stack's thread takes in workers as
//! applications attach, polls all of them in turn, drops those whose application is gone, and
//! shares its core when there is nothing to do. While it polls a device that joins two processes
//! (memif), it holds DPDK's interrupt thread, which would take the shared memory away when the
//! other process ends. Such a device stays open for a while after its application has gone, so that
//! the other process reads its last frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use transport::record::Recorder;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame::HEADERS_MAX;
use transport::wire::seal;
use transport::{
    Config, ConfigError, Duration, HostId, Instant, LossSettings, Path, Rate, Rng, Settings,
    ShareMax,
};
use transport_dpdk::CALIBRATION_MIN;
use transport_dpdk::{
    AppEnd, AppMemory, Calibration, DeviceName, DevicePort, DilatedClock, Eal, EalError,
    EalOptions, Idle, IdleMode, Link, LinkConfig, MemoryConfig, MemoryMode, Pool, PoolConfig,
    PortIo, QuietHold, Region, SharedKeys, TimeScale, UdpSums, Worker, WorkerConfig, app_ring,
    clock, keyed, sealed,
};

type PortWorker = Worker<PortIo, AppMemory, DilatedClock>;

/// How a stack is set up.
#[derive(Clone, Debug)]
pub(crate) struct StackSetup {
    /// Cards that will be opened: DPDK probes them when it starts.
    pub(crate) cards: Vec<DeviceName>,
    pub(crate) line_rate: Rate,
    pub(crate) base_rtt: Duration,
    pub(crate) rto_min: Duration,
    pub(crate) payload_max: u16,
    pub(crate) connections_max: u32,
    pub(crate) messages_max: u32,
    /// Bytes of incoming messages that an application may hold.
    pub(crate) memory_max: u64,
    /// Descriptors between an application and its worker.
    pub(crate) ring: u32,
    pub(crate) dpdk_mb: u32,
    pub(crate) hugepages: Option<bool>,
    /// Keys that seal the frames of every application.
    pub(crate) keys: Option<SharedKeys>,
}

/// Flows whose sender has not proven its address get one of so many parts of tables and memory.
const UNPROVEN_PART: u32 = 4;

impl StackSetup {
    /// The settings of every application's endpoint.
    fn settings(&self) -> Settings {
        Settings {
            payload_max: self.payload_max,
            line_rate: self.line_rate,
            base_rtt: self.base_rtt,
            // A connection that was closed keeps its flow until the peer has forgotten it, which
            // forgets it only after a long silence.
            tx_flows_max: self.flows_max(),
            rx_flows_max: self.flows_max(),
            // Packets with forged sources cost no more than a quarter of tables and memory.
            unproven_max: self.flows_max() / UNPROVEN_PART,
            unproven_bytes: self.memory_max / u64::from(UNPROVEN_PART),
            // One host may have half of them, and the hosts of one address prefix five eighths.
            peer_max: self.all_but(4),
            group_max: self.all_but(8),
            msgs_max: self.messages_max,
            incarnation: clock::incarnation(),
            ..Settings::default()
        }
    }

    /// Flows of an application in each direction.
    const fn flows_max(&self) -> u32 {
        self.connections_max + CLOSED_MAX
    }

    /// The most that one host, or one prefix of addresses, may hold of an application's tables and
    /// memory. It is all but two parts: the part of flows without proof, which count in no share,
    /// and one of so many parts.
    fn all_but(&self, parts: u32) -> ShareMax {
        let (memory, parts_u64) = (self.memory_max, u64::from(parts));
        let all_but = |all: u32| all - all / UNPROVEN_PART - all / parts;
        ShareMax {
            flows: all_but(self.flows_max()),
            messages: all_but(self.messages_max),
            bytes: memory - memory / u64::from(UNPROVEN_PART) - memory / parts_u64,
        }
    }
}

/// A running stack.
#[derive(Debug)]
pub(crate) struct Stack {
    setup: StackSetup,
    config: Config,
    clock: DilatedClock,
    hosts: u32,
    give: Sender<Given>,
    /// Whether a device is being opened, or waits for its link: both may need DPDK's interrupt
    /// thread.
    pub(crate) opening: Arc<AtomicBool>,
    /// Whether a device of an application that is gone stays open for its last frames.
    closing: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), EalError>>>,
    /// The last field, because everything above holds memory of it.
    eal: Eal,
}

/// A worker for the stack's thread.
#[derive(Debug)]
struct Given {
    worker: PortWorker,
    /// Whether the worker's device joins this process to another one.
    meets: bool,
}

impl Given {
    /// Packets that the worker has received.
    fn received(&self) -> u64 {
        self.worker.counts().received
    }
}

/// The application's side of a worker.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) ring: AppEnd,
    pub(crate) host: HostId,
    pub(crate) path: Path,
}

/// A connection survives so long a silence, however many timeouts it has: its peer may stand still,
/// or a link may restart.
const GIVE_UP: Duration = Duration::from_s(50);

/// Flows of connections that were closed a while ago, at each end: forty a second for as long as a
/// receiver keeps them.
const CLOSED_MAX: u32 = 4096;

pub(crate) const BUFFERS: u32 = 4095;
pub(crate) const CACHE: u32 = 128;
pub(crate) const DEPTH: u16 = 512;

impl Stack {
    /// Starts DPDK and the thread.
    pub(crate) fn start(setup: StackSetup) -> Result<Self, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let settings = setup.settings();
        let config = survivor(settings, setup.rto_min).map_err(|error| text(&error))?;
        let mut config = keyed(&config).map_err(|error| text(&error))?;
        if setup.keys.is_some() {
            config = sealed(&config).map_err(|error| text(&error))?;
        }
        let rate = Calibration::measure(CALIBRATION_MIN).map_err(|error| text(&error))?;
        let memory = match setup.hugepages {
            None => MemoryMode::Auto,
            Some(true) => MemoryMode::Hugepages,
            Some(false) => MemoryMode::NoHuge,
        };
        let options = EalOptions { memory, memory_mb: setup.dpdk_mb, ..EalOptions::default() };
        let options = setup.cards.iter().fold(options, |options, card| card.allowed_in(options));
        let eal = Eal::start(&options).map_err(|error| text(&error))?;
        let clock = rate.clock(TimeScale::REAL);
        let (give, take) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let opening = Arc::new(AtomicBool::new(false));
        let closing = Arc::new(AtomicBool::new(false));
        let poller = Poller {
            workers: Vec::new(),
            leaving: Vec::new(),
            closing: Arc::clone(&closing),
            hold: None,
            keys: setup.keys.clone(),
            opening: Arc::clone(&opening),
            clock,
            eal: eal.clone(),
        };
        let stopped = Arc::clone(&stop);
        let thread = eal.spawn("headrace", None, move |_| poller.poll(&take, &stopped));
        let thread = Some(thread.map_err(|error| text(&error))?);
        Ok(Self { setup, config, clock, hosts: 0, give, opening, closing, stop, thread, eal })
    }

    /// Connections and messages that an application may have.
    pub(crate) const fn limits(&self) -> (u32, u32) {
        (self.setup.connections_max, self.setup.messages_max)
    }

    pub(crate) const fn eal(&self) -> &Eal {
        &self.eal
    }

    /// Waits until the devices that stay open for their last frames are closed, since one of them
    /// may be opened again. Does not wait for a thread that has ended.
    pub(crate) fn wait_for_closed_devices(&self) {
        let polls = || self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        while self.closing.load(Ordering::Acquire) && polls() {
            thread::sleep(core::time::Duration::from_millis(1));
        }
    }

    pub(crate) fn clock_now(&self) -> Instant {
        self.clock.now()
    }

    /// Octets of the longest frame.
    pub(crate) fn frame_max(&self) -> u16 {
        self.setup.payload_max + self.around_payload()
    }

    /// Octets of a frame around its payload, at most.
    pub(crate) fn around_payload(&self) -> u16 {
        self.config.headers_max() + if self.config.sealed { seal::LEN } else { 0 }
    }

    /// Makes two hosts, each of which receives the frames that the other sends, and an application
    /// at each.
    pub(crate) fn attach_pair(&mut self) -> Result<[Attached; 2], String> {
        let room = self.frame_max().next_multiple_of(64).max(2048);
        let config = PoolConfig { count: BUFFERS, room, cache: CACHE, socket: -1 };
        let pool = Pool::new(&self.eal, config).map_err(|error| error.to_string())?;
        let pool = Arc::new(pool);
        let link = LinkConfig {
            max_frame: self.frame_max().into(),
            depth: DEPTH,
            host_pool: Arc::clone(&pool),
            switch_pool: Arc::clone(&pool),
        };
        let ports = Link::ring_pair(&self.eal, &link).map_err(|error| error.to_string())?;
        let small = self.small_pool()?;
        let [one, two] = [ports.0, ports.1].map(|port| {
            let host = HostId(self.hosts);
            self.hosts += 1;
            let io = io_of(port, &pool)?.attaching(Arc::clone(&small));
            self.attach(io, (host, Addressing::emulated(IpVersion::V4)), false)
        });
        Ok([one?, two?])
    }

    /// Memory of an application, zeroed, at an address that devices can read.
    pub(crate) fn region(&self, len: usize) -> Result<Region, String> {
        let mut bytes = Vec::new();
        let refused = |_| format!("the machine has no {len} bytes of memory for a region");
        bytes.try_reserve_exact(len).map_err(refused)?;
        bytes.resize(len, 0);
        Region::new(&self.eal, bytes.into()).map_err(|error| error.to_string())
    }

    /// A pool of buffers for frames whose payload lies in a region: for their headers, and for what
    /// points to the payload.
    pub(crate) fn small_pool(&self) -> Result<Arc<Pool>, String> {
        let config = PoolConfig { count: BUFFERS, room: HEADERS_MAX, cache: CACHE, socket: -1 };
        Pool::new(&self.eal, config).map(Arc::new).map_err(|error| error.to_string())
    }

    /// Makes a worker for host `host` at `io`, and returns the application's end of its rings.
    pub(crate) fn attach(
        &mut self,
        io: PortIo,
        (host, addressing): (HostId, Addressing),
        meets: bool,
    ) -> Result<Attached, String> {
        let setup = &self.setup;
        let store = AppMemory::new(
            &self.config,
            &MemoryConfig {
                bytes_max: setup.memory_max,
                messages_max: setup.messages_max,
                parity_max: MemoryConfig::PARITY_MAX,
            },
        );
        let ring = usize::try_from(setup.ring).unwrap_or(usize::MAX);
        let (app, end) = app_ring(ring, ring);
        let worker = WorkerConfig {
            addressing,
            connections_max: setup.connections_max,
            msgs_max: setup.messages_max,
            stuck_after: Duration::from_s(1),
            udp: UdpSums::Software,
            digest: false,
        };
        let rng = Rng::new(1).fork("host", u64::from(host.0));
        let groups = worker.addressing.groups();
        let config = Config::new(Settings { groups, ..(*self.config).clone() });
        let config = config.map_err(|error| error.to_string())?;
        let core = Recorder::off(&config, host, rng);
        let flows = self.config.tx_flows_max.saturating_add(self.config.rx_flows_max);
        let security = setup.keys.as_ref().map(|keys| keys.security(flows));
        let worker = Worker::new(core, (io, store, self.clock), end, worker).secured(security);
        let given = self.give.send(Given { worker, meets });
        given.map_err(|_| "the stack's thread has ended".to_owned())?;
        Ok(Attached { ring: app, host, path: self.config.default_path() })
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// The first queue of `port`, whose frames are made in `pool`.
pub(crate) fn io_of(port: DevicePort, pool: &Arc<Pool>) -> Result<PortIo, String> {
    let name = port.name().to_owned();
    PortIo::of_port(port, Arc::clone(pool), None)
        .ok_or_else(|| format!("device {name} has no queue"))
}

/// The state of the stack's thread.
struct Poller {
    workers: Vec<Given>,
    /// Devices that lead to another process and whose application is gone, and until when they stay
    /// open.
    leaving: Vec<(Instant, PortIo)>,
    hold: Option<QuietHold>,
    /// The keys, which change with their file while the stack runs.
    keys: Option<SharedKeys>,
    opening: Arc<AtomicBool>,
    /// Whether a device is in `leaving`.
    closing: Arc<AtomicBool>,
    clock: DilatedClock,
    eal: Eal,
}

/// How long a device that leads to another process stays open after its last frames were sent: they
/// are gone once it is closed, and the other process has to read them before.
const LAST_FRAMES_MS: u64 = 100;

impl Poller {
    fn poll(mut self, take: &Receiver<Given>, stop: &AtomicBool) {
        let mut idle = Idle::new(IdleMode::Adaptive);
        while !stop.load(Ordering::Acquire) {
            for mut given in take.try_iter() {
                if let Some(keys) = &self.keys {
                    // They may have changed since the stack started.
                    given.worker.rotate(keys.keys());
                }
                self.workers.push(given);
            }
            self.rotate();
            self.hold_interrupts();
            let (mut busy, now) = (false, self.clock.now());
            for given in &mut self.workers {
                busy |= given.worker.poll_once().busy;
            }
            if !busy {
                self.dismiss(now);
            }
            self.close_left(now);
            if let Some(hold) = &mut self.hold {
                hold.look(self.workers.iter().map(Given::received).sum(), now);
            }
            idle.turn(busy);
        }
        let meets = self.workers.iter().any(|given| given.meets);
        // Messages that were delivered in the last turn are still acknowledged here.
        let devices: Vec<PortIo> =
            self.workers.into_iter().map(|given| given.worker.into_io()).collect();
        if meets || !self.leaving.is_empty() {
            thread::sleep(core::time::Duration::from_millis(LAST_FRAMES_MS));
        }
        self.hold = None;
        drop((devices, self.leaving));
    }

    /// Ends the workers whose application is gone, once they have given their last frames to their
    /// devices.
    fn dismiss(&mut self, now: Instant) {
        while let Some(at) = self.workers.iter().position(|given| given.worker.is_abandoned()) {
            let Given { worker, meets } = self.workers.remove(at);
            let device = worker.into_io();
            if meets {
                self.leaving.push((now + Duration::from_ms(LAST_FRAMES_MS), device));
                self.closing.store(true, Ordering::Release);
            }
        }
    }

    /// Closes the devices whose time has come.
    fn close_left(&mut self, now: Instant) {
        if self.leaving.is_empty() {
            return;
        }
        self.leaving.retain(|(until, _)| now < *until);
        self.closing.store(!self.leaving.is_empty(), Ordering::Release);
    }

    /// Takes up keys that have changed. The keys stay as they are where the file cannot be read.
    fn rotate(&mut self) {
        let Some(keys) = &mut self.keys else { return };
        if let Some(Ok(changed)) = keys.changed(self.clock.now()) {
            self.workers.iter_mut().for_each(|given| given.worker.rotate(changed));
        }
    }

    /// Holds DPDK's interrupt thread before devices are polled whose memory another process shares,
    /// and releases it once there are none, or a device is being opened.
    fn hold_interrupts(&mut self) {
        let wanted = self.workers.iter().any(|given| given.meets);
        if !wanted || self.opening.load(Ordering::Acquire) {
            self.hold = None;
        } else if self.hold.is_none() {
            self.hold = Some(QuietHold::new(&self.eal, self.clock.now()));
        }
    }
}

/// The configuration of these settings whose flows survive [`GIVE_UP`], go on soon after, and keep
/// the link busy over the base RTT.
fn survivor(mut settings: Settings, rto_min: Duration) -> Result<Config, ConfigError> {
    settings.loss = LossSettings { rto_min, give_up: GIVE_UP, ..LossSettings::default() };
    let config = Config::new(settings.clone())?;
    settings.loss.backoff_max = config.doublings_in_outages();
    settings.psn_window = settings.psn_window_for(config.mtu(), u64::MAX);
    Config::new(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_a_host_has_closed_leave_room_for_as_many_as_it_may_have() {
        for connections_max in [1, 64, 1 << 16] {
            let setup = StackSetup {
                payload_max: 4096,
                line_rate: Rate::from_gbps(100),
                base_rtt: Duration::from_us(200),
                rto_min: Duration::from_ms(100),
                cards: Vec::new(),
                connections_max,
                messages_max: 256,
                memory_max: 1 << 28,
                ring: 64,
                dpdk_mb: 64,
                hugepages: None,
                keys: None,
            };
            let settings = setup.settings();
            assert!(settings.tx_flows_max >= connections_max + CLOSED_MAX);
            // Flows of one host that the receiver keeps.
            let share = settings.peer_max.flows;
            assert!(share >= connections_max / 2 + CLOSED_MAX / 2, "{connections_max}: {share}");
            assert!(Config::new(settings).is_ok());
        }
    }

    #[test]
    fn a_peer_is_given_up_when_the_documents_say() {
        let given_up = |rto_min| {
            let config = survivor(Settings::default(), rto_min).unwrap();
            config.give_up_after(&config.default_path())
        };
        // That of `headrace_config_init`.
        let usual = given_up(Duration::from_ms(100));
        assert!((50..=52).contains(&(usual.as_ps() / 1_000_000_000_000)), "{usual}");
        // Thirteen timeouts of 5 s take 65 s.
        assert!(given_up(Duration::from_s(5)) >= Duration::from_s(65));
    }
}
