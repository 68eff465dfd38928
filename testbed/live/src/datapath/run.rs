//! One measurement: sets a worker up at a device, lets it send, and counts ticks.

use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;

use experiments::input::InputError;
use experiments::observe::Observe;
use experiments::plan::RunError;
use experiments::plan::{Draft, Origin};
use thiserror::Error;
use transport::ec::{BlockShape, EcKind};
use transport::record::Recorder;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::{Config, ConfigError, Duration, HostId, LossSettings, Rate, Rng, Settings};
use transport_dpdk::CALIBRATION_MIN;
use transport_dpdk::{
    AppEnd, AppMemory, Calibration, Completion, DilatedClock, Eal, EalOptions, Link, LinkConfig,
    LinkEnd, Memory, MemoryConfig, MessageBytes, Pool, PoolConfig, PortError, PortIo, Region,
    RegisteredThread, Request, Stage, Telemetry, TimeScale, UdpSums, Worker, WorkerConfig,
    app_ring, eal,
};

use super::DeviceKind;
use super::link::{FarEnd, MeasuredIo};
use super::peer::{HEAD_MAX, Peer};
use super::policies::{PolicyCosts, policies};
use super::stage_clock::{StageClock, StageTicks};
use super::windows::{TurnGroup, fastest_quarter, precise};
use crate::border::BorderError;
use crate::dpdk_error::DpdkError;
use crate::workers::observers::Observers;

/// The case that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The device.
    pub device: DeviceKind,
    /// Payload bytes of a segment.
    pub segment_bytes: u16,
    /// Bytes of a message: [`MESSAGE`] to measure segments, few to measure messages.
    pub message_bytes: NonZeroU32,
    /// Segments to send.
    pub segments: u64,
    /// Whether payload is attached, and not summed, where the device takes chains; else it is
    /// copied and summed.
    pub attach: bool,
    /// `Settings::ack_every`: segments that one acknowledgement answers at most. 1 is what SMaRTT's
    /// paper has.
    pub ack_every: u16,
    /// The erasure code of the messages.
    pub code: Option<BlockShape>,
    /// The transport whose parts both ends have, by name; SMaRTT's without one.
    pub transport: Option<&'static str>,
}

/// The cost of a segment for the sending core, nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The whole cost.
    pub ns_per_segment: f64,
    /// The whole cost while the worker's counters and histograms are kept for readers.
    pub observed_ns: f64,
    /// The cost by part of a poll, without the cost of reading the counter. It adds up to
    /// `ns_per_segment`, except for the difference between two runs.
    pub stages: Vec<(&'static str, f64)>,
    /// Posting messages and taking their completions, a part of `ns_per_segment`: the application's
    /// own side of its ring.
    pub application_ns: f64,
    /// The time of the peer for a segment; not part of the costs above.
    pub peer_ns: f64,
    /// Segments that were sent.
    pub segments: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// Parity packets that were sent beside them; their cost is part of the segments' cost.
    pub parity: u64,
    /// Whether their payload was attached.
    pub attached: bool,
}

/// Why nothing was measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The machine is not fit.
    #[error(transparent)]
    Dpdk(DpdkError),
    /// A segment size that no endpoint takes.
    #[error("segment size {0}: expected 64..=8960 bytes of payload")]
    Segment(u16, #[source] ConfigError),
    /// A size of payload of which no sealed frame is made.
    #[error("--segment {0} makes no sealed frame; expected 64..=8960 bytes of payload")]
    Sealed(u16),
    /// The link did not come up.
    #[error("the link of {0} did not come up within {UP_MS} ms; measure other devices")]
    LinkDown(&'static str),
    /// A pod cannot have these hosts.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The counters cannot be shown where they should.
    #[error(transparent)]
    Observe(#[from] RunError),
    /// The border switch cannot be set up.
    #[error(transparent)]
    Border(BorderError),
    /// Nothing was acknowledged for too long.
    #[error("{device}: after {sent} segments nothing was acknowledged for a second; measure again")]
    Stalled {
        /// The device.
        device: &'static str,
        /// Segments sent until then.
        sent: u64,
    },
}

impl<E: Into<DpdkError>> From<E> for BenchError {
    fn from(error: E) -> Self {
        Self::Dpdk(error.into())
    }
}

/// DPDK, started, and a clock.
#[derive(Debug)]
pub struct Bench {
    rate: Calibration,
    observers: Observers,
    #[allow(dead_code, reason = "held, not read")]
    lcore: Option<RegisteredThread>,
    eal: Eal,
}

pub(super) const UP_MS: u32 = 10_000;
/// Bytes of a message as of a collective's chunk.
pub const MESSAGE: NonZeroU32 = match NonZeroU32::new(128 << 10) {
    Some(bytes) => bytes,
    None => NonZeroU32::MIN,
};
/// Bytes of all messages under way together: more than a core's second cache.
const UNDER_WAY: u32 = 4 << 20;
/// The most messages under way.
const MESSAGES_MAX: u32 = 64;
/// Segments of a window.
const WINDOW: u64 = 4096;
/// Share of a run that only warms up: one in so many segments.
const WARM_UP: u64 = 10;
const DEPTH: u16 = 512;
const BUFFERS: u32 = 4095;
const CACHE: u32 = 256;
/// Memory for pools of 9 KB frames at both ends and devices that copy.
const MEMORY_MB: u32 = 320;

/// Parts of a turn: those that make up the cost come first.
const WORKER: usize = 0;
const FREEING: usize = 1;
const APPLICATION: usize = 2;
const PEER: usize = 3;
const STAGES: usize = 4;
const MARKS: usize = STAGES + Stage::ALL.len();
const PARTS: usize = MARKS + 1;
const COUNTED: usize = 3;

type MeasuredWorker = Worker<MeasuredIo, AppMemory, StageClock>;

/// How a case is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Plain,
    /// A run with a meter at the worker.
    Observed,
    /// A run with a clock that is read after each stage.
    Staged,
}

/// The segments that a run has sent.
struct Sent {
    segments: u64,
    again: u64,
    parity: u64,
    attached: bool,
}

struct Rig {
    worker: MeasuredWorker,
    app: AppEnd,
    far: FarEnd,
    peer: Peer,
    memory: Vec<MessageBytes>,
    message: NonZeroU32,
    ticks: Rc<StageTicks>,
    /// The last field, since it must outlive everything that holds its mbufs.
    #[allow(dead_code, reason = "held, not read")]
    pools: [Arc<Pool>; 3],
}

impl Bench {
    /// Starts DPDK, with hugepages where there are any.
    ///
    /// # Errors
    /// [`BenchError`].
    pub fn start() -> Result<Self, BenchError> {
        Self::start_observed(&Observe::default())
    }

    /// Starts DPDK, showing the measured workers as `observe` asks.
    ///
    /// # Errors
    /// [`BenchError`].
    pub fn start_observed(observe: &Observe) -> Result<Self, BenchError> {
        let observers = Observers::start(observe, 2)?;
        let rate = Calibration::measure(CALIBRATION_MIN)?;
        let telemetry = observers.wants_socket();
        let options = EalOptions { memory_mb: MEMORY_MB, telemetry, ..EalOptions::default() };
        let eal = Eal::start(&options)?;
        observers.show(&eal)?;
        // An application's thread may be an lcore already.
        let lcore = eal.register_thread().ok();
        Ok(Self { rate, observers, lcore, eal })
    }

    /// Whether buffers are in hugepages.
    #[must_use]
    pub fn has_hugepages(&self) -> bool {
        self.eal.memory() == Memory::Hugepages
    }

    /// Bytes of a full frame of `case`.
    ///
    /// # Errors
    /// [`BenchError::Segment`].
    pub fn frame_bytes(case: &Case) -> Result<u64, BenchError> {
        config(case).map(|config| config.mtu().0)
    }

    pub(super) const fn eal(&self) -> &Eal {
        &self.eal
    }

    pub(super) const fn observers(&self) -> &Observers {
        &self.observers
    }

    /// Ticks a second.
    pub(super) fn hz(&self) -> f64 {
        precise(self.rate.hz())
    }

    pub(super) fn clock(&self, scale: TimeScale) -> DilatedClock {
        self.rate.clock(scale)
    }

    /// The cost of controller and balancer.
    #[must_use]
    pub fn policies(&self) -> PolicyCosts {
        policies(self.rate)
    }

    /// Measures `case` three times: as a whole, the same observed, and by stage.
    ///
    /// # Errors
    /// [`BenchError`].
    pub fn measure(&self, case: &Case) -> Result<Cost, BenchError> {
        let (whole, sent) = self.run(case, Method::Plain)?;
        let (observed, ..) = self.run(case, Method::Observed)?;
        let (staged, ..) = self.run(case, Method::Staged)?;
        let ns = |ticks: f64| ticks * 1e9 / self.hz();
        let part = |parts: &[f64], part: usize| ns(parts.get(part).copied().unwrap_or(0.0));
        // A mark falls into the stage that it ends; all stages have about as many.
        let marks = part(&staged, MARKS);
        let mut stages: Vec<(&'static str, f64)> = (STAGES..)
            .zip(Stage::ALL)
            .map(|(at, stage)| (stage.name(), part(&staged, at)))
            .collect();
        let sum: f64 = stages.iter().map(|(_, ns)| ns).sum();
        for (name, ns) in &mut stages {
            *ns -= marks * *ns / sum.max(f64::MIN_POSITIVE);
            match *name {
                "ring" => *ns += part(&staged, APPLICATION),
                "device" => *ns += part(&staged, FREEING),
                _ => (),
            }
        }
        Ok(Cost {
            ns_per_segment: (0..COUNTED).map(|at| part(&whole, at)).sum(),
            observed_ns: (0..COUNTED).map(|at| part(&observed, at)).sum(),
            stages,
            application_ns: part(&whole, APPLICATION),
            peer_ns: part(&whole, PEER),
            segments: sent.segments,
            retransmitted: sent.again,
            parity: sent.parity,
            attached: sent.attached,
        })
    }

    /// Ticks a segment by part, and the segments sent.
    fn run(&self, case: &Case, way: Method) -> Result<(Vec<f64>, Sent), BenchError> {
        let mut rig = self.rig(case, way)?;
        rig.post_all();
        let warm = case.segments / WARM_UP;
        let mut windows = Vec::new();
        let mut window = TurnGroup::new(PARTS);
        let mut last = rig.snapshot();
        let mut silent = 0;
        while last.0 < case.segments {
            rig.turn(&mut window.parts);
            let sent = rig.worker.stats().data_new;
            window.segments = sent - last.0;
            silent = if window.segments > 0 { 0 } else { silent + 1 };
            if silent > TURNS_SILENT {
                return Err(BenchError::Stalled { device: case.device.name(), sent });
            }
            if window.segments >= WINDOW {
                let now = rig.snapshot();
                rig.close_window(&mut window, &last, &now);
                if sent > warm {
                    windows.push(window);
                }
                window = TurnGroup::new(PARTS);
                last = rig.snapshot();
            }
        }
        let mark = precise(StageClock::mark_ticks());
        let mut costs = fastest_quarter(windows, COUNTED);
        if let Some(marks) = costs.get_mut(MARKS) {
            *marks *= mark;
        }
        debug_assert_eq!(rig.peer.strange(), 0, "every frame was a segment");
        let (again, parity) = (rig.worker.stats().retransmitted, rig.worker.stats().parity_new);
        let attached = rig.worker.counts().attached > 0;
        Ok((costs, Sent { segments: last.0, again, parity, attached }))
    }

    fn rig(&self, case: &Case, way: Method) -> Result<Rig, BenchError> {
        let config = config(case)?;
        let frame = case.segment_bytes + u16::try_from(HEAD_MAX).unwrap_or(u16::MAX);
        let [own, far, received] = [self.pool(frame)?, self.pool(frame)?, self.pool(2048)?];
        let pools = [&own, &far, &received].map(Arc::clone);
        let link = LinkConfig {
            max_frame: u32::from(frame),
            depth: DEPTH,
            host_pool: Arc::clone(&received),
            switch_pool: Arc::clone(&far),
        };
        let Link { switch_side, host } = link_of(case.device, &self.eal, &link)?;
        let up = match &switch_side {
            LinkEnd::Port(port) => port.wait_link(UP_MS) && host.wait_link(UP_MS),
            LinkEnd::Rings { .. } | LinkEnd::None => true,
        };
        let down = BenchError::LinkDown(case.device.name());
        let Some(io) = PortIo::of_port(host, own, None).filter(|_| up) else { return Err(down) };
        let io = if case.attach { io.attaching(self.small_pool()?) } else { io };
        let attaches = io.attaches();
        let (io, far_end) = match switch_side {
            LinkEnd::None => (MeasuredIo::mirrored(io), FarEnd::Mirror),
            end => (MeasuredIo::plain(io), FarEnd::Link { end, burst: Box::default() }),
        };
        let addressing = Addressing::emulated(IpVersion::V4);
        let ends = [HostId(1), HostId(0)];
        let peer = Peer::new(&config, ends, addressing.clone(), !attaches, far);
        let Some(peer) = peer else { return Err(down) };
        let ticks = Rc::new(StageTicks::default());
        let clock = self.rate.clock(TimeScale::REAL);
        let clock = if way == Method::Staged {
            StageClock::staged(clock, Rc::clone(&ticks))
        } else {
            StageClock::plain(clock)
        };
        let msgs_max = config.msgs_max;
        let store = AppMemory::new(&config, &NOTHING);
        let (app, end) = app_ring(RING, RING);
        let worker = WorkerConfig {
            addressing,
            connections_max: 1,
            msgs_max,
            stuck_after: Duration::from_s(1),
            udp: if attaches { UdpSums::Without } else { UdpSums::Software },
            digest: false,
        };
        let core = Recorder::off(&config, HostId(0), Rng::new(1).fork("host", 0));
        let mut worker = Worker::new(core, (io, store, clock), end, worker);
        self.look_at(&mut worker, &config, way);
        let mut rig = Rig {
            worker,
            app,
            far: far_end,
            peer,
            memory: self.memory(case, attaches)?,
            message: case.message_bytes,
            ticks,
            pools,
        };
        rig.submit(Request::open(0, HostId(1), config.default_path()));
        Ok(rig)
    }

    /// Attaches to `worker` the observers that were asked for, and a meter when the case is to be
    /// observed.
    fn look_at(&self, worker: &mut MeasuredWorker, config: &Config, way: Method) {
        let named = (HostId(0), config.msgs_max);
        self.observers.look_at(worker, named, (config.line_rate, TimeScale::REAL));
        if way == Method::Observed {
            let shown_every = Duration::from_ms(5);
            worker.observe(Telemetry::default().meter(HostId(0), config.msgs_max, shown_every));
        }
    }

    pub(super) fn pool(&self, room: u16) -> Result<Arc<Pool>, BenchError> {
        let room = room.next_multiple_of(64).max(2048);
        let config = PoolConfig { count: BUFFERS, room, cache: CACHE, socket: -1 };
        Ok(Arc::new(Pool::new(&self.eal, config)?))
    }

    /// A pool for headers, and for mbufs that only point at payload.
    fn small_pool(&self) -> Result<Arc<Pool>, BenchError> {
        let room = u16::try_from(HEAD_MAX).unwrap_or(u16::MAX);
        let config = PoolConfig { count: BUFFERS, room, cache: CACHE, socket: -1 };
        Ok(Arc::new(Pool::new(&self.eal, config)?))
    }

    /// The messages' bytes.
    fn memory(&self, case: &Case, in_regions: bool) -> Result<Vec<MessageBytes>, BenchError> {
        let mut sources = Vec::new();
        let length = case.message_bytes.get();
        for index in 0..(UNDER_WAY / length).clamp(1, MESSAGES_MAX) {
            let fill = u8::try_from(index % 251).unwrap_or(0);
            let bytes = vec![fill; length as usize];
            sources.push(if in_regions {
                let region = Arc::new(Region::new(&self.eal, bytes.into_boxed_slice())?);
                MessageBytes::Region { region, offset: 0 }
            } else {
                MessageBytes::Owned(bytes.into())
            });
        }
        Ok(sources)
    }
}

/// Turns without a segment before a run is given up: a second at least.
const TURNS_SILENT: u32 = 20_000_000;

const RING: usize = 256;

/// The sender receives no messages.
const NOTHING: MemoryConfig = MemoryConfig { bytes_max: 0, messages_max: 0, parity_max: 0 };

/// A link of the kind `device`.
///
/// # Errors
/// [`PortError`].
pub(super) fn link_of(device: DeviceKind, eal: &Eal, link: &LinkConfig) -> Result<Link, PortError> {
    match device {
        DeviceKind::Null => Link::null(eal, link),
        DeviceKind::Ring => Link::ring(eal, link),
        DeviceKind::Memif => Link::memif(eal, link),
    }
}

/// A network that loses nothing and a window that never limits, so that the path alone is measured.
pub(super) fn unhindered() -> Settings {
    Settings {
        line_rate: Rate::from_gbps(400),
        base_rtt: Duration::from_us(200),
        msgs_max: 256,
        tx_flows_max: 16,
        rx_flows_max: 16,
        loss: LossSettings { rto_min: Duration::from_ms(100), ..LossSettings::default() },
        ..Settings::default()
    }
}

/// The parts of a transport over a line that is faster than any core and so never limits. Round
/// trips are so short that no more segments wait than messages are under way. But they are longer
/// than the time in which two ends on one core answer each other, since a probe that is answered
/// late is sent again.
fn paced_by_itself(transport: &str) -> Settings {
    let mut draft = Draft::default();
    // An unknown name leaves the parts of SMaRTT: commands look it up first.
    let _ = draft.set_transport(transport, Origin::Set);
    let Settings { msgs_max, tx_flows_max, rx_flows_max, loss, .. } = unhindered();
    Settings {
        loss: LossSettings { rto_min: loss.rto_min, ..draft.settings.loss },
        line_rate: Rate::from_gbps(3200),
        base_rtt: Duration::from_us(100),
        msgs_max,
        tx_flows_max,
        rx_flows_max,
        ..draft.settings
    }
}

fn config(case: &Case) -> Result<Config, BenchError> {
    let parts = match case.transport {
        Some(name) => paced_by_itself(name),
        None => unhindered(),
    };
    let settings = Settings {
        ec: if case.code.is_some() { EcKind::Mds } else { EcKind::Uncoded },
        ec_shape: case.code.unwrap_or_default(),
        payload_max: case.segment_bytes,
        ack_every: case.ack_every,
        ..parts
    };
    Config::new(settings).map_err(|error| BenchError::Segment(case.segment_bytes, error))
}

/// Counters at one instant: segments sent, mirror, stages, marks.
type Snapshot = (u64, u64, [u64; Stage::ALL.len()], u64);

impl Rig {
    fn post_all(&mut self) {
        (0..self.memory.len() as u64).for_each(|cookie| self.post(cookie));
    }

    fn post(&mut self, cookie: u64) {
        let len = self.message;
        let source = usize::try_from(cookie).ok().and_then(|at| self.memory.get(at).cloned());
        let Some(source) = source else { return };
        self.submit(Request::Send { connection: 0, source, len, tag: 0, cookie });
    }

    fn submit(&mut self, request: Request) {
        let taken = self.app.submit(request);
        debug_assert!(taken.is_ok(), "the ring holds more than all messages");
    }

    /// Worker, application, peer.
    fn turn(&mut self, parts: &mut [u64]) {
        let start = eal::tsc();
        let now = self.worker.poll_once().now;
        let polled = eal::tsc();
        while let Some(completion) = self.app.poll() {
            if let Completion::Sent { cookie, .. } = completion {
                self.post(cookie);
            }
        }
        let posted = eal::tsc();
        let far = self.far.turn(self.worker.io(), &mut self.peer, now);
        parts[WORKER] += polled.wrapping_sub(start);
        parts[APPLICATION] += posted.wrapping_sub(polled);
        parts[FREEING] += far.freeing;
        parts[PEER] += far.peer;
    }

    fn snapshot(&mut self) -> Snapshot {
        let (stages, marks) = self.ticks.read();
        let sent = self.worker.stats().data_new;
        (sent, self.worker.io().mirror_ticks(), stages, marks)
    }

    /// Adds the counters to `window` and takes the mirror out.
    fn close_window(&self, window: &mut TurnGroup, last: &Snapshot, now: &Snapshot) {
        let mirror = now.1 - last.1;
        window.parts[WORKER] -= mirror;
        for (stage, which) in Stage::ALL.into_iter().enumerate() {
            window.parts[STAGES + stage] = now.2[stage] - last.2[stage];
            if which == Stage::Device && now.3 > 0 {
                window.parts[STAGES + stage] -= mirror;
            }
        }
        window.parts[MARKS] = now.3 - last.3;
    }
}
