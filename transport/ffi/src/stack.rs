//! DPDK and the thread that polls workers, for the life of a [`Stack`].
//!
//! One stack a process: DPDK starts once. Its thread takes in workers as applications attach, polls
//! all of them in turn, lets go of those whose application is gone, and shares its core when there
//! is nothing to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use transport::record::Recorder;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::{Config, Duration, HostId, LossSettings, Path, Rate, Rng, Settings};
use transport_dpdk::clock::CALIBRATION_MIN;
use transport_dpdk::{
    AppEnd, AppMemory, Calibration, DilatedClock, Eal, EalError, EalOptions, Idle, IdleMode, Link,
    LinkConfig, MemoryConfig, MemoryMode, Pool, PoolConfig, Port, PortIo, TimeScale, UdpSums,
    Worker, WorkerConfig, app_ring,
};

type PortWorker = Worker<PortIo, AppMemory, DilatedClock>;

/// How a stack is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
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
}

/// A running stack.
#[derive(Debug)]
pub(crate) struct Stack {
    setup: Setup,
    config: Config,
    clock: DilatedClock,
    hosts: u32,
    give: Sender<PortWorker>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), EalError>>>,
    /// Last: everything above holds memory of it.
    eal: Eal,
}

/// What an application gets of a worker.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) ring: AppEnd,
    pub(crate) host: HostId,
    pub(crate) path: Path,
}

/// Headers of a frame are shorter.
const HEADERS_MAX: u16 = 128;
const BUFFERS: u32 = 4095;
const CACHE: u32 = 128;
const DEPTH: u16 = 512;

impl Stack {
    /// Starts DPDK and the thread.
    pub(crate) fn start(setup: Setup) -> Result<Self, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let loss = LossSettings { rto_min: setup.rto_min, ..LossSettings::default() };
        let settings = Settings {
            payload_max: setup.payload_max,
            line_rate: setup.line_rate,
            base_rtt: setup.base_rtt,
            tx_flows_max: setup.connections_max,
            rx_flows_max: setup.connections_max,
            msgs_max: setup.messages_max,
            loss,
            ..Settings::default()
        };
        let config = Config::new(settings).map_err(|error| text(&error))?;
        let rate = Calibration::measure(CALIBRATION_MIN).map_err(|error| text(&error))?;
        let memory = match setup.hugepages {
            None => MemoryMode::Auto,
            Some(true) => MemoryMode::Hugepages,
            Some(false) => MemoryMode::NoHuge,
        };
        let options = EalOptions { memory, memory_mb: setup.dpdk_mb, ..EalOptions::default() };
        let eal = Eal::start(&options).map_err(|error| text(&error))?;
        let (give, take) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = eal.spawn("headrace", None, move |_| poll(&take, &stopped));
        let thread = Some(thread.map_err(|error| text(&error))?);
        let clock = rate.clock(TimeScale::REAL);
        Ok(Self { setup, config, clock, hosts: 0, give, stop, thread, eal })
    }

    /// Connections and messages that an application may have.
    pub(crate) const fn limits(&self) -> (u32, u32) {
        (self.setup.connections_max, self.setup.messages_max)
    }

    /// Two hosts, each of which receives what the other sends, and an application at each.
    pub(crate) fn attach_pair(&mut self) -> Result<[Attached; 2], String> {
        let room = (self.setup.payload_max + HEADERS_MAX).next_multiple_of(64).max(2048);
        let config = PoolConfig { count: BUFFERS, room, cache: CACHE, socket: -1 };
        let pool = Pool::new(&self.eal, config).map_err(|error| error.to_string())?;
        let pool = Arc::new(pool);
        let link = LinkConfig {
            max_frame: u32::from(self.setup.payload_max + HEADERS_MAX),
            depth: DEPTH,
            host_pool: Arc::clone(&pool),
            switch_pool: Arc::clone(&pool),
        };
        let ports = Link::ring_pair(&self.eal, &link).map_err(|error| error.to_string())?;
        let first = self.attach(ports.0, &pool)?;
        Ok([first, self.attach(ports.1, &pool)?])
    }

    fn attach(&mut self, port: Port, pool: &Arc<Pool>) -> Result<Attached, String> {
        let host = HostId(self.hosts);
        let name = port.name().to_owned();
        let io = PortIo::of_port(port, Arc::clone(pool), None);
        let io = io.ok_or_else(|| format!("device {name} has no queue"))?;
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
            addressing: Addressing::Emulated(IpVersion::V4),
            connections_max: setup.connections_max,
            msgs_max: setup.messages_max,
            stuck_after: Duration::from_s(1),
            udp: UdpSums::Software,
            digest: false,
        };
        let rng = Rng::new(1).fork("host", u64::from(host.0));
        let core = Recorder::off(&self.config, host, rng);
        let worker = Worker::new(core, (io, store, self.clock), end, worker);
        self.give.send(worker).map_err(|_| "the stack's thread has ended".to_owned())?;
        self.hosts += 1;
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

/// The loop of the stack's thread.
fn poll(take: &Receiver<PortWorker>, stop: &AtomicBool) {
    let mut workers: Vec<PortWorker> = Vec::new();
    let mut idle = Idle::new(IdleMode::Adaptive);
    while !stop.load(Ordering::Acquire) {
        workers.extend(take.try_iter());
        let mut busy = false;
        for worker in &mut workers {
            busy |= worker.poll_once().busy;
        }
        if !busy {
            workers.retain(|worker| !worker.is_abandoned());
        }
        idle.turn(busy);
    }
    // What was delivered in the last turn is acknowledged still.
    workers.into_iter().for_each(|worker| drop(worker.into_io()));
}
