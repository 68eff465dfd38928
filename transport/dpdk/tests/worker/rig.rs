//! Two workers on an in-memory link with weather, a virtual clock, and applications that check.
//!
//! Frames are real bytes. The link takes [`DELAY`] each way and loses, duplicates, delays and
//! damages by a seed. Everything runs in one thread; a step is half a microsecond of network time.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::rc::Rc;

use transport::record::Recorder;
use transport::sched::Label;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame;
use transport::{BURST, Config, Duration, HostId, Instant, LossSettings, Rng, Settings};
use transport_dpdk::{
    AppEnd, AppMemory, Clock, Completion, Failure, HandedOver, InPlace, Keys, MemoryConfig,
    MessageBytes, PacketIo, Pattern, Payloads, Request, RxCheck, RxFrame, Security, TxFrame,
    UdpSums, Upkeep, WallClock, Worker, WorkerConfig, app_ring,
};

use crate::hostile::lie;

pub(crate) const DELAY: Duration = Duration::from_us(5);
const STEP: Duration = Duration::from_ps(500_000);
const FRAME_ROOM: usize = 9216;
const FLOWS: u32 = 32;
const WALL: WallClock = WallClock::Network(1_800_000_000_000_000_000);

pub(crate) type TestWorker = Worker<MemIo, AppMemory, TestClock>;

/// The faults of the link for each frame, as probabilities.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    pub(crate) reorder: f64,
    pub(crate) corrupt: f64,
    /// The frame says something else, with a right checksum.
    pub(crate) lies: f64,
    /// A switch trims the frame, if it is data.
    pub(crate) trim: f64,
}

/// What a host on the path sends beside a frame that it sees.
pub(crate) type Meddler = Box<dyn FnMut(&[u8]) -> Vec<Vec<u8>>>;

#[derive(Clone, Debug)]
pub(crate) struct TestClock(pub(crate) Rc<Cell<Instant>>);

impl Clock for TestClock {
    fn now(&mut self) -> Instant {
        self.0.get()
    }
}

/// A device of vectors. Frames are reused, so a warm one allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct MemIo {
    /// Arrived, with the time of arrival.
    pub(crate) inbox: VecDeque<(Instant, Vec<u8>)>,
    /// Taken by the device.
    pub(crate) outbox: Vec<Vec<u8>>,
    pub(crate) spare: Vec<Vec<u8>>,
    rx: Vec<(Instant, Vec<u8>)>,
    tx: Vec<Vec<u8>>,
    /// The device takes nothing.
    pub(crate) jammed: bool,
}

impl MemIo {
    pub(crate) fn warm() -> Self {
        Self {
            inbox: VecDeque::with_capacity(4096),
            outbox: Vec::with_capacity(4096),
            spare: (0..4096).map(|_| Vec::with_capacity(FRAME_ROOM)).collect(),
            rx: Vec::with_capacity(BURST),
            tx: Vec::with_capacity(BURST),
            jammed: false,
        }
    }
}

impl PacketIo for MemIo {
    fn rx_burst(&mut self, _now: Instant) -> usize {
        assert!(self.rx.is_empty(), "a burst is released before the next");
        let count = self.inbox.len().min(BURST);
        self.rx.extend(self.inbox.drain(..count));
        count
    }

    fn rx_frame(&mut self, index: usize) -> Option<RxFrame<'_>> {
        let (at, bytes) = self.rx.get(index)?;
        Some(RxFrame { bytes, tail: &[], stamp: Some(*at), check: RxCheck::Unknown })
    }

    fn rx_release(&mut self) {
        self.rx.clear();
    }

    fn tx_room(&mut self, _now: Instant) -> usize {
        BURST - self.tx.len()
    }

    fn tx_frame(&mut self, asked: TxFrame<'_>) -> Option<&mut [u8]> {
        let TxFrame { len, attached: None, .. } = asked else { return None };
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.clear();
        frame.resize(usize::from(len), 0xAA);
        self.tx.push(frame);
        self.tx.last_mut().map(Vec::as_mut_slice)
    }

    fn tx_cancel(&mut self) {
        self.spare.extend(self.tx.pop());
    }

    fn tx_burst(&mut self) -> HandedOver {
        let taken = if self.jammed { 0 } else { self.tx.len() };
        self.outbox.extend(self.tx.drain(..taken));
        HandedOver { taken, kept: self.tx.len() }
    }
}

impl InPlace for MemIo {
    fn rx_edit(&mut self, index: usize) -> Option<&mut [u8]> {
        self.rx.get_mut(index).map(|(_, bytes)| bytes.as_mut_slice())
    }
}

impl Upkeep for MemIo {
    fn tx_discard(&mut self) -> usize {
        let count = self.tx.len();
        self.spare.append(&mut self.tx);
        count
    }
}

/// One end: the worker, its application, and what was reported to it.
pub(crate) struct Host {
    pub(crate) worker: TestWorker,
    pub(crate) app: AppEnd,
    /// Requests not yet in the ring.
    pub(crate) wanted: VecDeque<Request>,
    pub(crate) completions: Vec<Completion>,
    /// Frames that were damaged on their way here.
    pub(crate) damaged: u64,
}

impl Host {
    fn new(i: u32, sizes: &Sizes, clock: &Rc<Cell<Instant>>, rng: &Rng) -> Self {
        let (app, end) = app_ring(sizes.requests, sizes.completions);
        let stream = rng.fork("host", u64::from(i));
        let start = if sizes.record { Recorder::on } else { Recorder::off };
        let core = start(&sizes.config, HostId(i), stream);
        let msgs_max = sizes.config.msgs_max;
        let memory =
            MemoryConfig { bytes_max: sizes.memory, messages_max: 1000, parity_max: sizes.parity };
        let config = WorkerConfig {
            addressing: Addressing::emulated(IpVersion::V4),
            connections_max: 32,
            msgs_max,
            stuck_after: Duration::from_us(100),
            udp: UdpSums::Software,
            digest: true,
        };
        let parts =
            (MemIo::warm(), AppMemory::new(&sizes.config, &memory), TestClock(Rc::clone(clock)));
        let security = sizes.keys[i as usize].as_ref().map(|(keys, payloads)| {
            Box::new(Security::new(keys, *payloads, FLOWS, (WALL, clock.get())))
        });
        let worker = Worker::new(core, parts, end, config).secured(security);
        Self { worker, app, wanted: VecDeque::new(), completions: Vec::new(), damaged: 0 }
    }
}

pub(crate) struct Rig {
    pub(crate) hosts: [Host; 2],
    pub(crate) clock: Rc<Cell<Instant>>,
    wire: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    count: u64,
    rng: Rng,
    weather: Weather,
    pub(crate) meddler: Option<Meddler>,
}

/// The sizes of a rig.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    pub(crate) requests: usize,
    pub(crate) completions: usize,
    pub(crate) memory: u64,
    /// Bytes of kept parity.
    pub(crate) parity: u64,
    pub(crate) record: bool,
    pub(crate) config: Config,
    /// The keys of each host, where they have some.
    pub(crate) keys: [Option<(Keys, Payloads)>; 2],
}

pub(crate) fn config(change: impl FnOnce(&mut Settings)) -> Config {
    let loss = LossSettings { retries_max: 64, ..LossSettings::default() };
    let mut settings = Settings {
        tx_flows_max: 16,
        rx_flows_max: 16,
        msgs_max: 64,
        psn_window: 1024,
        loss,
        ..Settings::default()
    };
    change(&mut settings);
    Config::new(settings).unwrap()
}

impl Sizes {
    pub(crate) fn ample() -> Self {
        let config = config(|_| ());
        let (memory, parity) = (1 << 30, MemoryConfig::PARITY_MAX);
        Self {
            requests: 256,
            completions: 256,
            memory,
            parity,
            record: false,
            config,
            keys: [None, None],
        }
    }
}

impl Rig {
    pub(crate) fn new(sizes: &Sizes, seed: u64, weather: Weather) -> Self {
        let clock = Rc::new(Cell::new(Instant::ZERO));
        let rng = Rng::new(seed);
        let hosts = [0, 1].map(|host| Host::new(host, sizes, &clock, &rng));
        Self { hosts, clock, wire: BTreeMap::new(), count: 0, rng, weather, meddler: None }
    }

    /// Another process takes the place of a host; what its application was notified of stays.
    pub(crate) fn restart(&mut self, host: usize, sizes: &Sizes, incarnation: u16) {
        let config = Settings { incarnation, ..(*sizes.config).clone() };
        let sizes = Sizes { config: Config::new(config).unwrap(), ..sizes.clone() };
        let rng = self.rng.fork("restart", incarnation.into());
        let next = Host::new(u32::try_from(host).unwrap(), &sizes, &self.clock, &rng);
        let before = std::mem::replace(&mut self.hosts[host], next);
        self.hosts[host].completions = before.completions;
    }

    /// Loses all frames that are on their way to `host`.
    pub(crate) fn lose_in_flight(&mut self, host: usize) {
        self.wire.retain(|_, (to, _)| *to != host);
    }

    pub(crate) fn open(&mut self, from: usize, connection: u32, sizes: &Sizes) {
        let peer = HostId(u32::try_from(1 - from).unwrap());
        let path = sizes.config.default_path();
        self.hosts[from].wanted.push_back(Request::Open {
            connection,
            peer,
            path,
            label: Label::NONE,
        });
    }

    pub(crate) fn send(&mut self, from: usize, connection: u32, len: u32, tag: u64) {
        let request = message(connection, len, tag);
        self.hosts[from].wanted.push_back(request);
    }

    /// How often both hosts allocate in so many turns.
    pub(crate) fn allocated_in_turns(&mut self, turns: u32) -> u64 {
        let mut allocated = 0;
        for _ in 0..turns {
            for host in &mut self.hosts {
                let turn = || {
                    host.worker.poll_once();
                };
                allocated += allocation_counter::measure(turn).count_total;
            }
            // Both have turned; this turn finds little to do, and moves the frames.
            self.step(64);
        }
        allocated
    }

    /// Half a microsecond: applications ask, workers turn, frames travel. Applications listen to at
    /// most `listen` completions each.
    pub(crate) fn step(&mut self, listen: usize) {
        for i in 0..2 {
            let host = &mut self.hosts[i];
            while let Some(request) = host.wanted.pop_front() {
                if let Err(back) = host.app.submit(request) {
                    host.wanted.push_front(back);
                    break;
                }
            }
            host.worker.poll_once();
            for _ in 0..listen {
                host.completions.extend(host.app.poll());
            }
            self.carry(i);
        }
        let now = self.clock.get() + STEP;
        self.clock.set(now);
        while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= now) {
            let at = entry.key().0;
            let (to, frame) = entry.remove();
            self.hosts[to].worker.io().inbox.push_back((at, frame));
        }
    }

    /// Takes what worker `from` has sent through the weather.
    pub(crate) fn carry(&mut self, from: usize) {
        let to = 1 - from;
        let frames: Vec<Vec<u8>> = self.hosts[from].worker.io().outbox.drain(..).collect();
        for sent in frames {
            let lost = self.rng.chance(self.weather.loss);
            let twice = self.rng.chance(self.weather.duplicate);
            for _ in 0..if lost { 0 } else { 1 + u32::from(twice) } {
                let mut frame = sent.clone();
                if self.rng.chance(self.weather.corrupt) {
                    // Behind the Ethernet header: its damage is for the FCS to find.
                    let at = 14 + self.rng.below(frame.len() as u64 - 14);
                    frame[usize::try_from(at).unwrap()] ^= 1 << self.rng.below(8);
                    self.hosts[to].damaged += 1;
                }
                if self.rng.chance(self.weather.trim) {
                    let len = frame::trim(&mut frame);
                    frame.truncate(len);
                }
                if self.rng.chance(self.weather.lies) {
                    frame = lie(&frame, &mut self.rng);
                }
                let late = if self.rng.chance(self.weather.reorder) { 40_000 } else { 0 };
                let at = self.clock.get() + DELAY + Duration::from_ns(self.rng.below(late));
                self.count += 1;
                self.wire.insert((at, self.count), (to, frame));
            }
            for made in self.meddler.iter_mut().flat_map(|meddler| meddler(&sent)) {
                // It comes first, where that is worse.
                self.count += 1;
                self.wire.insert((self.clock.get() + DELAY / 2, self.count), (to, made.clone()));
                self.count += 1;
                self.wire.insert((self.clock.get() + DELAY * 2, self.count), (to, made));
            }
            self.hosts[from].worker.io().spare.push(sent);
        }
    }

    /// The frames that the link carries now, the next to arrive first.
    pub(crate) fn on_the_way(&self) -> impl Iterator<Item = &[u8]> {
        self.wire.values().map(|(_, frame)| frame.as_slice())
    }

    /// Steps until `done`; panics when that takes longer than `limit` of network time.
    pub(crate) fn run(&mut self, limit: Duration, listen: usize, done: impl Fn(&Self) -> bool) {
        let end = self.clock.get() + limit;
        while !done(self) {
            let [a, b] = &self.hosts;
            assert!(self.clock.get() < end, "{:?} {:?}", a.worker.stats(), b.worker.stats());
            self.step(listen);
        }
    }

    /// Messages delivered at `host` so far, all of which must be what their tags say.
    pub(crate) fn check_delivered(&self, host: usize) -> Vec<u64> {
        let mut tags = Vec::new();
        for completion in &self.hosts[host].completions {
            let Completion::Delivered { tag, checksum, memory, from, .. } = completion else {
                continue;
            };
            let len = u32::try_from(memory.len()).unwrap();
            let mut expected = vec![0; memory.len()];
            pattern(*tag).read(0, &mut expected);
            assert!(**memory == expected, "message {tag} of {len} bytes is damaged");
            assert_eq!(*checksum, pattern(*tag).checksum(len));
            assert_eq!(*from, HostId(u32::try_from(1 - host).unwrap()));
            tags.push(*tag);
        }
        tags
    }

    /// How many messages that were delivered at `host` have other bytes than their tags say.
    pub(crate) fn damaged(&self, host: usize) -> usize {
        let is_damaged = |completion: &&Completion| match completion {
            Completion::Delivered { tag, memory, .. } => {
                let mut expected = vec![0; memory.len()];
                pattern(*tag).read(0, &mut expected);
                **memory != expected
            }
            _ => false,
        };
        self.hosts[host].completions.iter().filter(is_damaged).count()
    }

    /// Why messages of `host` failed, in order.
    pub(crate) fn failed(&self, host: usize) -> Vec<Failure> {
        let failed = |completion: &Completion| match completion {
            Completion::Failed { reason, .. } => Some(*reason),
            _ => None,
        };
        self.hosts[host].completions.iter().filter_map(failed).collect()
    }

    /// Cookies of the messages that were reported to `host` as sent, in order.
    pub(crate) fn sent(&self, host: usize) -> Vec<u64> {
        let sent = |completion: &Completion| match completion {
            Completion::Sent { cookie, .. } => Some(*cookie),
            _ => None,
        };
        self.hosts[host].completions.iter().filter_map(sent).collect()
    }
}

/// The bytes of the message with `tag`.
pub(crate) fn pattern(tag: u64) -> Pattern {
    Pattern { seed: 11, tag }
}

/// A message whose cookie is its tag: memory for even tags, a pattern for odd ones.
pub(crate) fn message(connection: u32, len: u32, tag: u64) -> Request {
    let source = if tag.is_multiple_of(2) {
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        pattern(tag).read(0, &mut bytes);
        MessageBytes::Owned(bytes.into())
    } else {
        MessageBytes::Pattern(pattern(tag))
    };
    Request::Send { connection, source, len: NonZeroU32::new(len).unwrap(), tag, cookie: tag }
}
