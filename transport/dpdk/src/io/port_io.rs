//! A DPDK queue as the worker's device: bursts of mbufs, paced to the emulated link.
//!
//! Frames with copied payload come from one pool, one segment each, so its buffers must hold a full
//! frame; frames with attached payload are two small buffers of another, headers and a pointer.
//! Buffers not used stay here for the next poll. A stamp travels in the dynamic field of mbufs, in
//! both directions: a host stamps what it sends, the soft switch what it delivers. A device that
//! stamps by a clock of its own does so in another field (`DeviceClock`). Lengths are bytes
//! without FCS.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use transport::wire::addressing::IpVersion;
use transport::wire::frame::ETHERNET_LEN;
use transport::{BURST, Duration, Instant, Rate};

use crate::buffers::burst::MbufBurst;
use crate::buffers::ext_buf::ExtBuf;
use crate::buffers::mbuf::Mbuf;
use crate::buffers::pool::Pool;
use crate::buffers::stamp_field::TimestampField;
use crate::clock::device_clock::DeviceClock;
use crate::clock::poll_clock::Clock;
use crate::device::port::{Port, PortQueue};
use crate::io::enquiry::Enquiry;
use crate::io::hand_over::{HandOver, HandOverCounts};
use crate::io::pacer::LinkPacer;
use crate::io::packet_io::{IoCounts, PacketIo, RxCheck, RxFrame};
use crate::io::timed::{HORIZON, Timed};
use crate::neighbour::Station;

/// One queue, its pace and its frames.
///
/// Field order: mbufs are freed before the pools that they return to.
pub struct PortIo {
    /// Of a device that says by it when frames arrived; it holds the device, as the queue does.
    clock: Option<Box<DeviceClock>>,
    queue: PortQueue,
    stamps: Option<TimestampField>,
    pacer: Option<LinkPacer>,
    hand_over: Option<HandOver>,
    /// Answers what others ask of its addresses.
    station: Option<Station>,
    answers: u64,
    /// Polls in which the pool had too few buffers to send.
    starved: u64,
    /// Bursts that the device did not take as a whole.
    full: u64,
    rx: MbufBurst,
    /// Filled, or kept.
    tx: MbufBurst,
    /// Of a device that sends at a time.
    timed: Option<Box<Timed>>,
    /// The time of the turn, where frames may be given ahead of it.
    now: Instant,
    /// The frame given last is ahead of its time.
    is_ahead: bool,
    spare: MbufBurst,
    pool: Arc<Pool>,
    /// For frames whose payload is attached.
    attaching: Option<Attaching>,
    /// Where chains are gathered.
    gathered: Box<[u8]>,
    rx_checked: bool,
    tx_sums: bool,
}

/// Small buffers: one for the headers of a frame, one to point at its payload.
struct Attaching {
    heads: MbufBurst,
    pieces: MbufBurst,
    pool: Arc<Pool>,
}

/// An IPv6 advertisement: 14 + 40 + 32, in answer to a solicitation that may leave out its sender.
const ANSWER_MIN: usize = 86;

/// How long the rate of a device's clock is learnt: brackets of 2 us then make 40 ppm, and a
/// reading comes within 10 ms.
const ACQUAINTANCE: Duration = Duration::from_ms(50);

/// Frames of a burst that comes from a peer who waits for an answer, not from one who streams.
const FEW: usize = 4;

/// The longest frame of ours: 9 KB jumbo with room for all headers.
const FRAME_MAX: usize = 9216;

impl PortIo {
    /// Sends at the device's own pace, with frames from `pool`. Without `stamps`, frames arrived
    /// when the device says, if it does, and else when they are found.
    #[must_use]
    pub fn new(queue: PortQueue, pool: Arc<Pool>, stamps: Option<TimestampField>) -> Self {
        let rx_checked = queue.caps().rx_checksums;
        let tx_sums = queue.caps().tx_checksums;
        let clock = queue.times().filter(|_| stamps.is_none());
        let clock = clock.map(|field| Box::new(DeviceClock::new(field, queue.ticks())));
        let timed = queue.timed().filter(|_| clock.is_some());
        let timed = timed.map(|(queue, field)| Box::new(Timed::new(queue, field, HORIZON)));
        Self {
            queue,
            pool,
            stamps,
            timed,
            now: Instant::ZERO,
            is_ahead: false,
            clock,
            pacer: None,
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
    pub fn of_port(port: Port, pool: Arc<Pool>, stamps: Option<TimestampField>) -> Option<Self> {
        let queue = port.into_queues().into_iter().next()?;
        Some(Self::new(queue, pool, stamps))
    }

    /// Paces it to an emulated link of `rate` for packets of at most `packet` bytes.
    #[must_use]
    pub fn paced(mut self, rate: Rate, packet: transport::Bytes) -> Self {
        self.pacer = Some(LinkPacer::new(rate, packet));
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

    /// Frames arrived when their stamps say, by `clock`: for a device that is emulated.
    #[must_use]
    pub fn clocked(mut self, clock: DeviceClock) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Frames leave at their time by `queue`, told in `field`, and may be given `horizon` ahead of
    /// it, while the device's clock is known: for a device that is emulated.
    #[must_use]
    pub fn timed(mut self, queue: PortQueue, field: TimestampField, horizon: Duration) -> Self {
        self.timed = Some(Box::new(Timed::new(queue, field, horizon)));
        self
    }

    /// Learns the rate of the device's clock, if it has one that stamps frames: 50 ms, in which the
    /// thread sleeps. Without, the first 5 ms of a worker's frames arrive when they are found.
    #[must_use]
    pub fn acquainted<C: Clock>(mut self, clock: &mut C) -> Self {
        if let Some(device) = &mut self.clock {
            device.learn_rate(clock, ACQUAINTANCE);
        }
        self
    }

    /// The device's clock, where it says when frames arrived.
    #[must_use]
    pub fn device_clock(&self) -> Option<&DeviceClock> {
        self.clock.as_deref()
    }

    /// Answers what others ask of `station`: its MAC, and echoes.
    #[must_use]
    pub const fn answering(mut self, station: Station) -> Self {
        self.station = Some(station);
        self
    }

    /// The device for asking others, on behalf of the station; not while a worker has it.
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

    /// Answers frame `index` if it asks for something. What the device has no room for is dropped:
    /// whoever asked asks again.
    #[cold]
    fn answer(&mut self, index: usize) -> Option<()> {
        let station = self.station?;
        let mbuf = self.rx.get(index)?;
        let length = usize::try_from(mbuf.pkt_len()).ok()?;
        let frame = if mbuf.nb_segs() == 1 {
            mbuf.data()
        } else {
            let room = self.gathered.get_mut(..length)?;
            mbuf.copy_out(0, room).then_some(&*room)?
        };
        let mut reply = self.pool.alloc()?;
        // An answer is as long as the question, or as the longest that the question may leave out.
        let room = u16::try_from(length.max(ANSWER_MIN)).ok()?;
        let out = reply.append(room)?;
        let length = station.answer(frame, out)?;
        let rest = room - u16::try_from(length).ok()?;
        let mut burst = MbufBurst::new();
        if reply.trim(rest) {
            burst.push(reply).ok()?;
        }
        self.answers += self.queue.tx_burst(&mut burst) as u64;
        Some(())
    }

    /// What was handed over between workers; nothing where a worker has the device alone.
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

    /// The frames that the next [`PacketIo::tx_burst`] hands over, for a device that looks on.
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

    /// Takes a frame that leaves at `at`, and lends its bytes. Apart, so that devices that send at
    /// once have a short way.
    #[inline(never)]
    fn keep(&mut self, frame: Mbuf, at: Instant) -> Option<&mut [u8]> {
        let plain = match self.timed.as_mut().filter(|_| at > self.now) {
            Some(timed) => timed.keep(frame, at, self.clock.as_deref()),
            None => Err(frame),
        };
        self.is_ahead = plain.is_ok();
        if let Err(frame) = plain {
            self.tx.push(frame).ok()?;
        }
        let burst = self.burst_of_last();
        let last = burst.len().checked_sub(1)?;
        burst.get_mut(last)?.data_mut()
    }

    /// Where the frame given last is.
    #[inline]
    fn burst_of_last(&mut self) -> &mut MbufBurst {
        match &mut self.timed {
            Some(timed) if self.is_ahead => timed.frames_mut(),
            _ => &mut self.tx,
        }
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

impl PacketIo for PortIo {
    #[inline]
    fn rx_burst(&mut self, now: Instant) -> usize {
        self.rx.clear();
        if let Some(hand_over) = &mut self.hand_over {
            hand_over.take(&mut self.rx);
            let taken = self.rx.len();
            if self.queue.rx_burst(&mut self.rx) > 0 {
                hand_over.give(&mut self.rx, taken);
            }
        } else {
            self.queue.rx_burst(&mut self.rx);
        }
        // A burst's headers are read one after the other right behind: by then they are there. Of a
        // few frames each line would be waited for, after the header that says where it is.
        if self.rx.len() <= FEW {
            self.rx.iter().for_each(Mbuf::prefetch_unread);
        } else {
            self.rx.iter().for_each(Mbuf::prefetch);
        }
        if let Some(clock) = &mut self.clock {
            clock.stamp(&self.rx, now);
        }
        self.rx.len()
    }

    #[inline]
    fn rx_frame(&mut self, index: usize) -> Option<RxFrame<'_>> {
        let mbuf = self.rx.get(index)?;
        let stamp = match &self.clock {
            None => self.stamps.and_then(|field| field.get(mbuf)).map(Instant::from_ps),
            Some(clock) => clock.arrival(index),
        };
        let check = if mbuf.checksum_bad() {
            RxCheck::Bad
        } else if self.rx_checked && mbuf.checksum_good() {
            RxCheck::Good
        } else {
            RxCheck::Unknown
        };
        let (bytes, tail) = match mbuf.nb_segs() {
            1 => (mbuf.data(), &[][..]),
            2 => (mbuf.data(), mbuf.segments().nth(1)?),
            _ => {
                let length = usize::try_from(mbuf.pkt_len()).ok()?;
                let room = self.gathered.get_mut(..length)?;
                (mbuf.copy_out(0, room).then_some(&*room)?, &[][..])
            }
        };
        Some(RxFrame { bytes, tail, stamp, check })
    }

    fn rx_stray(&mut self, index: usize) {
        // Most strays ask for nothing.
        let _ = self.answer(index);
    }

    #[inline]
    fn rx_release(&mut self) {
        self.rx.clear();
    }

    #[inline]
    fn look_after_clock<C: Clock>(&mut self, now: Instant, busy: bool, clock: &mut C) {
        if let Some(device) = &mut self.clock
            && device.is_due(now, busy)
        {
            device.read(clock);
        }
    }

    #[inline]
    fn tx_room(&mut self, now: Instant) -> usize {
        let pace = self.pacer.as_mut().map_or(BURST, |pacer| pacer.room(now));
        let mut wanted = pace.min(self.tx.room());
        if let Some(timed) = &self.timed {
            wanted = wanted.min(timed.frames().room());
            self.now = now;
        }
        if self.spare.len() < wanted {
            refill(&self.pool, &mut self.spare, wanted);
            self.starved += u64::from(self.spare.is_empty());
        }
        if let Some(small) = &mut self.attaching {
            small.refill(wanted);
        }
        wanted.min(self.spare.len())
    }

    #[inline]
    fn send_ahead(&self) -> Duration {
        let horizon = |timed: &Timed| timed.horizon(self.clock.as_deref());
        self.timed.as_deref().map_or(Duration::ZERO, horizon)
    }

    // In line also where it is called from two places: its checks are few and its answer is long.
    #[inline(always)]
    fn tx_frame(&mut self, len: u16, at: Instant) -> Option<&mut [u8]> {
        let mut mbuf = self.spare.pop()?;
        mbuf.append(len)?;
        if let Some(field) = self.stamps {
            field.set(&mut mbuf, at.as_ps());
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.sent(u64::from(len));
        }
        if self.timed.is_some() {
            return self.keep(mbuf, at);
        }
        let last = self.tx.len();
        self.tx.push(mbuf).ok()?;
        self.tx.get_mut(last)?.data_mut()
    }

    #[inline(always)]
    fn tx_attached(
        &mut self,
        head: u16,
        memory: &ExtBuf,
        range: Range<usize>,
        at: Instant,
    ) -> Option<&mut [u8]> {
        let last = self.tx.len();
        if self.tx.room() == 0 || !self.queue.reads(memory, &range) {
            return None;
        }
        let length = u64::from(head) + range.len() as u64;
        let mut frame = self.attaching.as_mut()?.frame(head, memory, range)?;
        if let Some(field) = self.stamps {
            field.set(&mut frame, at.as_ps());
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.sent(length);
        }
        if self.timed.is_some() {
            return self.keep(frame, at);
        }
        self.tx.push(frame).ok()?;
        self.tx.get_mut(last)?.data_mut()
    }

    fn tx_over(&mut self, memory: ExtBuf, acknowledged: bool) -> Option<ExtBuf> {
        self.queue.message_over(memory, acknowledged)
    }

    #[inline]
    fn sums_udp(&self) -> bool {
        self.tx_sums
    }

    #[inline]
    fn tx_sum(&mut self, ip: IpVersion) {
        let burst = self.burst_of_last();
        let last = burst.len().saturating_sub(1);
        if let Some(mbuf) = burst.get_mut(last) {
            mbuf.request_udp_checksum(ETHERNET_LEN, ip);
        }
    }

    fn tx_reclaim(&mut self) {
        self.queue.reclaim();
        if let Some(timed) = &mut self.timed {
            timed.reclaim();
        }
    }

    fn tx_cancel(&mut self) {
        drop(self.burst_of_last().pop());
    }

    #[inline]
    fn tx_burst(&mut self) -> usize {
        let ahead = self.timed.as_mut().map_or(0, |timed| timed.burst());
        if self.tx.is_empty() {
            return ahead;
        }
        let sent = self.queue.tx_burst(&mut self.tx);
        self.full += u64::from(!self.tx.is_empty());
        sent + ahead
    }

    #[inline]
    fn tx_kept(&self) -> usize {
        self.tx.len() + self.timed.as_ref().map_or(0, |timed| timed.frames().len())
    }

    fn tx_discard(&mut self) -> usize {
        let discarded = self.tx_kept();
        self.tx.clear();
        if let Some(timed) = &mut self.timed {
            timed.discard();
        }
        discarded
    }

    fn counts(&self) -> IoCounts {
        let HandOverCounts { given, taken, ring_full } = self.hand_over();
        let timed = self.timed.as_deref();
        let (starved, answers) = (self.starved, self.answers);
        let refused = self.queue.refused() + timed.map_or(0, Timed::refused);
        let clock = self.device_clock().map(DeviceClock::counts).unwrap_or_default();
        IoCounts {
            starved,
            refused,
            timed: timed.map_or(0, Timed::sent),
            answers,
            stamped: clock.stamped,
            stamps_refused: clock.refused,
            clock_readings: clock.readings,
            clock_jumps: clock.jumps,
            clock_lost: clock.lost,
            given,
            taken,
            ring_full,
        }
    }
}

/// Fills `spare` up to `wanted`, or as far as `pool` goes: it gives all that a call asks for or
/// none.
#[inline]
fn refill(pool: &Pool, spare: &mut MbufBurst, wanted: usize) {
    let mut missing = wanted - spare.len();
    while missing > 0 && !pool.alloc_burst(spare, missing) {
        missing /= 2;
    }
}

impl Attaching {
    /// Has `wanted` of each ready, if the pool has them.
    #[inline]
    fn refill(&mut self, wanted: usize) {
        for spare in [&mut self.heads, &mut self.pieces] {
            if spare.len() < wanted {
                refill(&self.pool, spare, wanted);
            }
        }
    }

    /// A frame of `head` bytes to be written and `range` of `memory`; `None` when buffers are
    /// missing, or the memory has too many holders.
    #[inline]
    fn frame(&mut self, head: u16, memory: &ExtBuf, range: Range<usize>) -> Option<Mbuf> {
        if self.heads.is_empty() || self.pieces.is_empty() {
            return None;
        }
        let (piece, frame) = (self.pieces.pop()?, self.heads.pop()?);
        match Mbuf::frame(frame, head, piece, memory, range) {
            Ok(frame) => Some(frame),
            Err((frame, piece)) => {
                // There was room for them before.
                let kept = (self.heads.push(frame), self.pieces.push(piece));
                debug_assert!(kept.0.is_ok() && kept.1.is_ok(), "a burst grew while it was used");
                None
            }
        }
    }
}

impl fmt::Debug for PortIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PortIo({:?}, {} mbufs held)", self.queue, self.held())
    }
}
