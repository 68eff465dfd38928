//! From application to application and back: two threads, each an application with its worker.
//!
//! ```text
//!   application - ring - worker - net_ring - worker - ring - application      |  core after core
//!   its frames    -      device - net_ring - device                           |  a floor
//!   one mbuf      -      device - net_ring - device                           |  a floor
//! ```
//!
//! An application and its worker take turns on one thread, as a library that runs to completion;
//! the two ends are on two cores. Three floors are measured beside it. The first has a trip's
//! frames alone, those of the messages and of their acknowledgements. They are taken from the pool,
//! written, read and freed, which shows what their cache lines cost on the way from core to core.
//! The second has no endpoints and no frames: one mbuf goes to and fro between the same devices on
//! the same cores. The third is a cache line that two cores write in turn. All times are
//! nanoseconds.

use std::hint;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use transport::record::Recorder;
use transport::sched::Label;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame::header_overhead;
use transport::wire::{ack, data};
use transport::{Config, Duration, HostId, Rng, Settings};
use transport_dpdk::{
    AppEnd, AppMemory, Completion, DevicePort, DilatedClock, EalError, Link, LinkConfig, MbufBurst,
    MemoryConfig, MessageBytes, Pool, PortIo, Request, TimeScale, UdpSums, Worker, WorkerConfig,
    app_ring, eal,
};

use super::run::{Bench, BenchError, unhindered};
use super::windows::precise;

/// Round trips of one message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTrip {
    /// Half of all trips took no longer.
    pub p50_ns: f64,
    /// 99 of 100 trips took no longer.
    pub p99_ns: f64,
    /// 999 of 1000 trips took no longer.
    pub p999_ns: f64,
    /// The median of one mbuf between the same devices.
    pub device_floor_ns: f64,
    /// The median of a frame as long as the message's: taken from the pool, written, read, freed.
    pub frame_floor_ns: f64,
    /// The median of such a frame with that of an acknowledgement before it.
    pub exchange_floor_ns: f64,
    /// The median of one cache line between the same cores.
    pub line_floor_ns: f64,
    /// How many were measured.
    pub count: u64,
}

const WARM_UP: u64 = 1000;
const RING: usize = 64;
const BUFFERS_ROOM: u16 = 2048;
/// Bytes of a line of cache.
const LINE: usize = 64;

/// One end: a worker, and its application on the same thread.
struct End {
    worker: Worker<PortIo, AppMemory, DilatedClock>,
    app: AppEnd,
    memory: MessageBytes,
    len: NonZeroU32,
}

/// The cache line that the two ends of a measurement share, apart from all other data.
#[repr(align(128))]
#[derive(Debug, Default)]
struct CacheLine(AtomicU64);

/// Ticks of each round trip.
type Trips = Vec<u64>;
type Spawned<T> = JoinHandle<Result<T, EalError>>;

impl Bench {
    /// Round trips of messages of `len` bytes, `count` of them; `None` on a machine of one core.
    ///
    /// # Errors
    /// [`BenchError`].
    pub fn round_trip(&self, len: NonZeroU32, count: u64) -> Result<Option<RoundTrip>, BenchError> {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let [first, second, ..] = cores[..] else { return Ok(None) };
        let cores = [first.id, second.id];
        let line = self.line(cores, count)?;
        let device = self.device(cores, count)?;
        let message = header_overhead(IpVersion::V4)
            + data::LEN
            + data::OPEN_LEN
            + u16::try_from(len.get()).unwrap_or(u16::MAX / 2);
        let frame = self.frames(cores, vec![message], count)?;
        let answer = header_overhead(IpVersion::V4) + ack::LEN;
        let exchange = self.frames(cores, vec![answer, message], count)?;
        let trips = self.messages(cores, len, count)?;
        let ns = |ticks: u64| precise(ticks) * 1e9 / self.hz();
        Ok(Some(RoundTrip {
            p50_ns: ns(quantile(&trips, 500)),
            p99_ns: ns(quantile(&trips, 990)),
            p999_ns: ns(quantile(&trips, 999)),
            device_floor_ns: ns(quantile(&device, 500)),
            frame_floor_ns: ns(quantile(&frame, 500)),
            exchange_floor_ns: ns(quantile(&exchange, 500)),
            line_floor_ns: ns(quantile(&line, 500)),
            count,
        }))
    }

    /// A number that goes back and forth.
    fn line(&self, [near, far]: [usize; 2], count: u64) -> Result<Trips, BenchError> {
        let lines = Arc::new([CacheLine::default(), CacheLine::default()]);
        let shared = Arc::clone(&lines);
        let echo = self.eal().spawn("echo", Some(far), move |_| {
            for turn in 1..=count {
                wait(&shared[0], turn);
                shared[1].0.store(turn, Ordering::Release);
            }
        })?;
        let caller = self.eal().spawn("call", Some(near), move |_| {
            let trip = |turn| {
                let start = eal::tsc();
                lines[0].0.store(turn, Ordering::Release);
                wait(&lines[1], turn);
                eal::tsc().wrapping_sub(start)
            };
            (1..=count).map(trip).collect::<Trips>()
        })?;
        let trips = join(caller)?;
        join(echo)?;
        Ok(sorted(trips))
    }

    /// One mbuf that goes back and forth.
    fn device(&self, [near, far]: [usize; 2], count: u64) -> Result<Trips, BenchError> {
        let (mut one, mut two) = self.ports()?;
        let pool = self.pool(BUFFERS_ROOM)?;
        let mut burst = MbufBurst::new();
        if !pool.alloc_burst(&mut burst, 1) {
            return Ok(Trips::new());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let echo = self.eal().spawn("echo", Some(far), move |_| {
            let mut burst = MbufBurst::new();
            while !stopped.load(Ordering::Relaxed) {
                if two.rx_burst(&mut burst) > 0 {
                    two.tx_burst(&mut burst);
                }
            }
        })?;
        let caller = self.eal().spawn("call", Some(near), move |_| {
            let mut trip = |_| {
                let start = eal::tsc();
                one.tx_burst(&mut burst);
                while one.rx_burst(&mut burst) == 0 {
                    hint::spin_loop();
                }
                eal::tsc().wrapping_sub(start)
            };
            (0..count).map(&mut trip).collect::<Trips>()
        })?;
        let trips = join(caller);
        stop.store(true, Ordering::Relaxed);
        join(echo)?;
        Ok(sorted(trips?))
    }

    /// Frames of `lens` bytes, sent as one burst and answered by as many.
    fn frames(
        &self,
        [near, far]: [usize; 2],
        lens: Vec<u16>,
        count: u64,
    ) -> Result<Trips, BenchError> {
        let (one, two) = self.ports()?;
        // One pool for both, as with messages.
        let pool = self.pool(BUFFERS_ROOM)?;
        let mut one = Frames::new(one, &pool, lens.clone());
        let mut two = Frames::new(two, &pool, lens);
        let echo = self.eal().spawn("echo", Some(far), move |_| {
            for turn in 0..count {
                two.receive();
                two.send(turn);
            }
        })?;
        let caller = self.eal().spawn("call", Some(near), move |_| {
            let trip = |turn| {
                let start = eal::tsc();
                one.send(turn);
                one.receive();
                eal::tsc().wrapping_sub(start)
            };
            (0..count).map(trip).collect::<Trips>()
        })?;
        let trips = join(caller)?;
        join(echo)?;
        Ok(sorted(trips))
    }

    /// A message that is answered by another.
    fn messages(
        &self,
        [near, far]: [usize; 2],
        len: NonZeroU32,
        count: u64,
    ) -> Result<Trips, BenchError> {
        let (one, two) = self.ports()?;
        let clock = self.clock(TimeScale::REAL);
        // One pool serves both, so that a core sends in the buffers that it has just freed, as at a
        // device that gives sent buffers back. With two, every buffer is in another core's cache.
        let pool = self.pool(BUFFERS_ROOM)?;
        let mut one = self.end(one, &pool, (0, 1), clock, len)?;
        let mut two = self.end(two, &pool, (1, 0), clock, len)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let echo = self.eal().spawn("echo", Some(far), move |_| {
            while !stopped.load(Ordering::Relaxed) {
                two.worker.poll_once();
                while let Some(completion) = two.app.poll() {
                    if matches!(completion, Completion::Delivered { .. }) {
                        two.send();
                    }
                }
            }
        })?;
        let caller = self.eal().spawn("call", Some(near), move |_| {
            let trips: Trips = (0..WARM_UP + count).map(|_| one.trip()).collect();
            trips[usize::try_from(WARM_UP).unwrap_or(0)..].to_vec()
        })?;
        let trips = join(caller);
        stop.store(true, Ordering::Relaxed);
        join(echo)?;
        Ok(sorted(trips?))
    }

    /// Two devices, each of which receives the frames that the other sends.
    fn ports(&self) -> Result<(DevicePort, DevicePort), BenchError> {
        let pool = self.pool(BUFFERS_ROOM)?;
        let config = LinkConfig {
            max_frame: 1514,
            depth: 512,
            host_pool: Arc::clone(&pool),
            switch_pool: pool,
        };
        Ok(Link::ring_pair(self.eal(), &config)?)
    }

    fn end(
        &self,
        port: DevicePort,
        pool: &Arc<Pool>,
        (host, peer): (u32, u32),
        clock: DilatedClock,
        len: NonZeroU32,
    ) -> Result<End, BenchError> {
        let config = config()?;
        let Some(io) = PortIo::of_port(port, Arc::clone(pool), None) else {
            return Err(BenchError::LinkDown("net_ring"));
        };
        let store = AppMemory::new(
            &config,
            &MemoryConfig { bytes_max: 1 << 20, messages_max: 1 << 10, parity_max: 0 },
        );
        let (mut app, end) = app_ring(RING, RING);
        let worker = WorkerConfig {
            addressing: Addressing::emulated(IpVersion::V4),
            connections_max: 1,
            msgs_max: config.msgs_max,
            stuck_after: Duration::from_s(1),
            udp: UdpSums::Software,
            digest: false,
        };
        let core = Recorder::off(&config, HostId(host), Rng::new(1).fork("host", host.into()));
        let path = config.default_path();
        let opened = app.submit(Request::Open {
            connection: 0,
            peer: HostId(peer),
            path,
            label: Label::NONE,
        });
        debug_assert!(opened.is_ok(), "the ring is empty");
        let memory = MessageBytes::Owned(vec![7; len.get() as usize].into());
        let mut worker = Worker::new(core, (io, store, clock), end, worker);
        let named = (HostId(host), config.msgs_max);
        self.observers().look_at(&mut worker, named, (config.line_rate, TimeScale::REAL));
        Ok(End { worker, app, memory, len })
    }
}

/// One end of an exchange of frames without content.
struct Frames {
    port: DevicePort,
    burst: MbufBurst,
    pool: Arc<Pool>,
    lens: Vec<u16>,
}

impl Frames {
    fn new(port: DevicePort, pool: &Arc<Pool>, lens: Vec<u16>) -> Self {
        Self { port, burst: MbufBurst::new(), pool: Arc::clone(pool), lens }
    }

    /// Takes frames from the pool, writes every byte, and sends them.
    fn send(&mut self, turn: u64) {
        let taken = self.pool.alloc_burst(&mut self.burst, self.lens.len());
        debug_assert!(taken, "the pool has more than a few");
        let [byte, ..] = turn.to_le_bytes();
        for (mbuf, len) in self.burst.iter_mut().zip(&self.lens) {
            if let Some(room) = mbuf.append(*len) {
                room.fill(byte);
            }
        }
        self.port.tx_burst(&mut self.burst);
    }

    /// Waits for as many, reads a byte of each line and the last, and frees them.
    fn receive(&mut self) {
        let mut missing = self.lens.len();
        while missing > 0 {
            let count = self.port.rx_burst(&mut self.burst);
            self.burst.iter().for_each(transport_dpdk::Mbuf::prefetch_unread);
            for mbuf in self.burst.iter() {
                let bytes = mbuf.data();
                let read = bytes.iter().step_by(LINE).chain(bytes.last());
                hint::black_box(read.fold(0, |sum, byte| sum ^ byte));
            }
            self.burst.clear();
            missing = missing.saturating_sub(count);
        }
    }
}

impl End {
    fn send(&mut self) {
        let (source, len) = (self.memory.clone(), self.len);
        let send = Request::Send { connection: 0, source, len, tag: 0, cookie: 0 };
        let taken = self.app.submit(send);
        debug_assert!(taken.is_ok(), "one message at a time fits");
    }

    /// Sends a message and waits for the answer. Ticks.
    fn trip(&mut self) -> u64 {
        let start = eal::tsc();
        self.send();
        loop {
            self.worker.poll_once();
            while let Some(completion) = self.app.poll() {
                if matches!(completion, Completion::Delivered { .. }) {
                    return eal::tsc().wrapping_sub(start);
                }
            }
        }
    }
}

/// The only delays are those of a scheduler.
fn config() -> Result<Config, BenchError> {
    let settings = Settings { payload_max: 1024, ..unhindered() };
    Config::new(settings).map_err(|error| BenchError::Segment(1024, error))
}

fn wait(line: &CacheLine, turn: u64) {
    while line.0.load(Ordering::Acquire) != turn {
        hint::spin_loop();
    }
}

/// A panic of the thread is passed on.
fn join<T>(thread: Spawned<T>) -> Result<T, BenchError> {
    match thread.join() {
        Ok(result) => Ok(result?),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn sorted(mut trips: Trips) -> Trips {
    trips.sort_unstable();
    trips
}

/// The least of `sorted` that `per_mille` of all do not exceed.
fn quantile(sorted: &[u64], per_mille: usize) -> u64 {
    let at = (sorted.len() * per_mille).div_ceil(1000).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_members_and_bound_their_share() {
        let trips: Trips = (1..=1000).collect();
        assert_eq!((quantile(&trips, 500), quantile(&trips, 999)), (500, 999));
        assert_eq!((quantile(&[7], 999), quantile(&[], 500)), (7, 0));
    }
}
