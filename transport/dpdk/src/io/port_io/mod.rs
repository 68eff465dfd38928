//! A DPDK queue as the worker's device: bursts of mbufs, paced to the emulated link.
//!
//! Frames with copied payload come from one pool, one segment each, so its buffers must hold a full
//! frame; frames with attached payload are two small buffers of another, headers and a pointer.
//! Buffers not used stay here for the next poll. A stamp travels in the dynamic field of mbufs, in
//! both directions: a host stamps what it sends, the soft switch what it delivers. A device that
//! stamps by a clock of its own does so in another field (`DeviceClock`). Lengths are bytes
//! without FCS.

mod attaching;
mod packets;
mod upkeep;

use std::fmt;
use std::sync::Arc;

use transport::{Duration, Instant, Rate};

use crate::buffers::burst::MbufBurst;
use crate::buffers::mbuf::Mbuf;
use crate::buffers::pool::Pool;
use crate::buffers::stamp_field::TimestampField;
use crate::clock::device_clock::DeviceClock;
use crate::clock::poll_clock::Clock;
use crate::device::port::{DevicePort, PortQueue};
use crate::io::enquiry::Enquiry;
use crate::io::hand_over::{HandOver, HandOverCounts};
use crate::io::pacer::LinkPacer;
use crate::io::ring_watch::RingWatch;
use crate::io::timed::{HORIZON, Timed};

use crate::neighbour::Station;

use attaching::Attaching;

/// One queue, its pace and its frames.
///
/// Field order: mbufs are freed before the pools that they return to.
pub struct PortIo {
    /// The clock of a device that stamps arrivals; it holds the device, as the queue does.
    clock: Option<Box<DeviceClock>>,
    queue: PortQueue,
    stamps: Option<TimestampField>,
    pacer: Option<LinkPacer>,
    /// Where the kernel sends out of a ring: whether frames wait there.
    watch: Option<RingWatch>,
    /// How far ahead of their departure frames are taken, with stamps.
    keeps: Duration,
    hand_over: Option<HandOver>,
    /// Answers requests for its addresses.
    station: Option<Station>,
    answers: u64,
    /// Polls in which the pool had too few buffers to send.
    starved: u64,
    /// Bursts that the device did not take as a whole.
    full: u64,
    rx: MbufBurst,
    /// Filled, or kept.
    tx: MbufBurst,
    /// The second queue of a device that sends at a time.
    timed: Option<Box<Timed>>,
    /// The time of the turn, where frames may be given ahead of it.
    now: Instant,
    /// The frame given last is ahead of its time.
    is_ahead: bool,
    spare: MbufBurst,
    pool: Arc<Pool>,
    /// State for frames whose payload is attached.
    attaching: Option<Attaching>,
    /// Buffer in which chains are gathered.
    gathered: Box<[u8]>,
    rx_checked: bool,
    tx_sums: bool,
}

/// How long the rate of a device's clock is measured: brackets of 2 us then make 40 ppm, and a
/// reading comes within 10 ms.
const ACQUAINTANCE: Duration = Duration::from_ms(50);

/// The longest frame of ours: 9 KB jumbo with room for all headers.
const FRAME_MAX: usize = 9216;

impl PortIo {
    /// Sends at the device's own pace, with frames from `pool`. Without `stamps` the arrival of a
    /// frame is the device's report, if it has one, else the time of the poll.
    #[must_use]
    pub fn new(queue: PortQueue, pool: Arc<Pool>, stamps: Option<TimestampField>) -> Self {
        let rx_checked = queue.caps().rx_checksums;
        let tx_sums = queue.caps().tx_checksums;
        let clock = queue.times().filter(|_| stamps.is_none());
        let clock = clock.map(|field| Box::new(DeviceClock::new(field, queue.ticks())));
        let timed = queue.timed().filter(|_| clock.is_some());
        let timed = timed.map(|(queue, field)| Box::new(Timed::new(queue, field, HORIZON)));
        Self {
            watch: queue.has_ring().then(RingWatch::default),
            queue,
            pool,
            stamps,
            timed,
            now: Instant::ZERO,
            is_ahead: false,
            clock,
            pacer: None,
            keeps: Duration::ZERO,
            hand_over: None,
            station: None,
            answers: 0,
            starved: 0,
            full: 0,
            rx: MbufBurst::new(),
            tx: MbufBurst::new(),
            spare: MbufBurst::new(),
            attaching: None,
            gathered: vec![0; FRAME_MAX].into_boxed_slice(),
            rx_checked,
            tx_sums,
        }
    }

    /// The first queue of `port`; the others, if any, are closed with it.
    #[must_use]
    pub fn of_port(
        port: DevicePort,
        pool: Arc<Pool>,
        stamps: Option<TimestampField>,
    ) -> Option<Self> {
        let queue = port.into_queues().into_iter().next()?;
        Some(Self::new(queue, pool, stamps))
    }

    /// Paces it to an emulated link of `rate` for packets of at most `packet` bytes.
    #[must_use]
    pub fn paced(mut self, rate: Rate, packet: transport::Bytes) -> Self {
        self.pacer = Some(LinkPacer::new(rate, packet));
        self
    }

    /// Takes frames `horizon` ahead of their departure, which is stamped on them: for an emulated
    /// link whose far end keeps them until then.
    #[must_use]
    pub const fn keeping(mut self, horizon: Duration) -> Self {
        self.keeps = horizon;
        self
    }

    /// Shares the device with other workers, each at a queue of its own.
    #[must_use]
    pub fn steered(mut self, hand_over: HandOver) -> Self {
        if let Some(clock) = &mut self.clock {
            clock.share();
        }
        self.hand_over = Some(hand_over);
        self
    }

    /// Takes arrivals from the stamps of frames, converted by `clock`: for a device that is
    /// emulated.
    #[must_use]
    pub fn clocked(mut self, clock: DeviceClock) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Sends frames by `queue` at the time in their `field`; they may be given `horizon` ahead of
    /// it, while the device's clock is known. For a device that is emulated.
    #[must_use]
    pub fn timed(mut self, queue: PortQueue, field: TimestampField, horizon: Duration) -> Self {
        self.timed = Some(Box::new(Timed::new(queue, field, horizon)));
        self
    }

    /// Measures the rate of the device's clock, if it has one that stamps frames: the thread sleeps
    /// for 50 ms. Without this, frames of a worker's first 5 ms have the time of the poll.
    #[must_use]
    pub fn acquainted<C: Clock>(mut self, clock: &mut C) -> Self {
        if let Some(device) = &mut self.clock {
            device.learn_rate(clock, ACQUAINTANCE);
        }
        self
    }

    /// The device's clock, where it reports when frames arrived.
    #[must_use]
    pub fn device_clock(&self) -> Option<&DeviceClock> {
        self.clock.as_deref()
    }

    /// Answers requests for the MAC of `station`, and echoes to it.
    #[must_use]
    pub const fn answering(mut self, station: Station) -> Self {
        self.station = Some(station);
        self
    }

    /// The device, for requests to other hosts on behalf of the station; not while a worker has it.
    #[must_use]
    pub fn enquire(&mut self) -> Option<Enquiry<'_>> {
        let station = self.station?;
        Some(Enquiry::new(&mut self.queue, &self.pool, station))
    }

    /// Answers sent for the station; they are not among the frames of the worker.
    #[must_use]
    pub const fn answers(&self) -> u64 {
        self.answers
    }

    /// Counters of frames handed over between workers; zero where a worker has the device alone.
    #[must_use]
    pub fn hand_over(&self) -> HandOverCounts {
        self.hand_over.as_ref().map(HandOver::counts).unwrap_or_default()
    }

    /// Polls that could not send because the pool was empty. Nothing is lost: segments wait in the
    /// endpoint until buffers come back.
    #[must_use]
    pub const fn starved(&self) -> u64 {
        self.starved
    }

    /// Bursts that the device did not take as a whole: its queue was full. The rest is kept.
    #[must_use]
    pub const fn full(&self) -> u64 {
        self.full
    }

    /// Attaches payload instead of copying it, where the device sends chains and reads memory of
    /// applications. Two buffers of `pool` go with each such frame; they hold headers only. Cards
    /// keep those of their last frames: as many as a transmit queue has descriptors.
    #[must_use]
    pub fn attaching(mut self, pool: Arc<Pool>) -> Self {
        if self.queue.caps().attaches {
            let (heads, pieces) = (MbufBurst::new(), MbufBurst::new());
            self.attaching = Some(Attaching { pool, heads, pieces });
        }
        self
    }

    /// Whether payload is attached.
    #[must_use]
    pub const fn attaches(&self) -> bool {
        self.attaching.is_some()
    }

    /// The queue, for its counters.
    #[must_use]
    pub fn queue(&self) -> &PortQueue {
        &self.queue
    }

    /// The frames that the next [`PacketIo::tx_burst`](crate::PacketIo::tx_burst) hands
    /// over, for a device that looks on.
    pub fn pending(&self) -> impl Iterator<Item = &Mbuf> {
        self.tx.iter()
    }

    /// Moves the mbufs of `burst`, as many as fit, behind those received: an emulated device's.
    pub fn deliver(&mut self, burst: &mut MbufBurst) {
        let mut kept = MbufBurst::new();
        for mbuf in burst.drain() {
            if let Err(mbuf) = self.rx.push(mbuf) {
                let kept = kept.push(mbuf);
                debug_assert!(kept.is_ok(), "a burst grew while it was moved");
            }
        }
        *burst = kept;
    }

    /// Frames kept for the next burst, because the device has not taken them.
    #[inline]
    #[must_use]
    pub fn kept(&self) -> usize {
        self.tx.len() + self.timed.as_ref().map_or(0, |timed| timed.frames().len())
    }

    /// Mbufs in its hands: received, kept and spare. All return to their pools when it is dropped.
    #[must_use]
    pub fn held(&self) -> usize {
        let small = |small: &Attaching| small.heads.len() + small.pieces.len();
        let small = self.attaching.as_ref().map_or(0, small);
        let timed = self.timed.as_ref().map_or(0, |timed| timed.frames().len());
        self.rx.len() + self.tx.len() + self.spare.len() + small + timed
    }
}

impl fmt::Debug for PortIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PortIo({:?}, {} mbufs held)", self.queue, self.held())
    }
}
