//! The poll-mode worker: one endpoint, one device, its applications, run to completion.
//!
//! One turn ([`Worker::poll_once`]) reads the clock once, takes requests, sends, receives a burst,
//! lets the core decide, places payloads, fires due timers, and tells the applications. It owns all
//! it touches and never blocks. Times are network time.
//!
//! It sends before it receives, so that an application hears of a message before the worker spends
//! time on acknowledging it, and an answer leaves in one burst with the acknowledgement. What the
//! last turn owes, [`Worker::into_io`] sends.
//!
//! Payload that the application has put in a region is attached to frames where the device takes
//! chains, and the application hears of such a message's end only when the device is done with it;
//! all other payload is copied once.
//!
//! Nothing is lost between the application and the core: a request that does not fit a table stays
//! in its ring, in order; what a full completion ring cannot take waits here, and then no request
//! is taken either. Requests wait in line, so an application that needs a closed connection's place
//! should not post the close behind an open. It allocates only where a message begins: its memory
//! and its state.

pub mod config;
mod connections;
pub mod idle;
mod outbox;
mod templates;

use std::collections::VecDeque;
use std::num::NonZeroU32;

use transport::record::Recorder;
use transport::stats::DropReason;
use transport::wire::checksum::Checksum;
use transport::wire::frame::{self, Ecn, Envelope, UdpCheck};
use transport::wire::{Body, Ext, Header};
use transport::{
    BURST, Burst, Duration, Endpoint, Event, FlowId, HostId, Instant, MsgId, MsgNo, Placement,
    RxSegment, Stats, TxSegment,
};

use crate::app::descriptor::{Completion, Failure};
use crate::app::ring::WorkerEnd;
use crate::buffers::ext_buf::ExtBuf;
use crate::clock::poll_clock::{Clock, Stage};
use crate::io::packet_io::{PacketIo, RxCheck};
use crate::io::tap::Tap;
use crate::payload::memory::{Received, add_payload};
use crate::payload::store::PayloadStore;
use crate::telemetry::Meter;
use crate::telemetry::counts::Counts;
use crate::telemetry::meter::Turn;
use crate::worker::config::{UdpSums, WorkerConfig};
use crate::worker::connections::{Connections, Step};
use crate::worker::outbox::Outbox;
use crate::worker::templates::Templates;

/// What a turn has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Something was received, sent, taken, told or timed; else the thread may yield.
    pub busy: bool,
    /// The time of the turn.
    pub now: Instant,
    /// When a timer is due next; a turn before has only packets and requests to look for.
    pub next_timer: Option<Instant>,
}

/// One endpoint at its device. `P` is the store, `C` the clock.
#[derive(Debug)]
pub struct Worker<Io, P, C> {
    core: Recorder,
    io: Io,
    store: P,
    clock: C,
    config: WorkerConfig,
    apps: Box<[Application]>,
    /// Whose turn it is to be served first.
    first: usize,
    /// By index of an outgoing message: whose it is.
    owners: Box<[u16]>,
    /// Messages that are over, but whose memory a device may still read; oldest first. As many as
    /// the endpoint has messages, or one more for each that began while others waited here.
    lingering: VecDeque<(ExtBuf, usize, Completion)>,
    templates: Templates,
    burst: RxBurst,
    tx: Burst<TxSegment>,
    now: Instant,
    /// How far ahead of their departure the device takes frames.
    ahead: Duration,
    /// When the device last took a frame or had none to take.
    took_at: Instant,
    counts: Counts,
    meter: Option<Meter>,
    tap: Option<Tap>,
}

/// One application: its ring, its names, and what waits for it.
#[derive(Debug)]
struct Application {
    end: WorkerEnd,
    connections: Connections,
    outbox: Outbox,
}

/// The segments of one received burst.
#[derive(Debug)]
struct RxBurst {
    /// The first `len` are.
    segments: [RxSegment; BURST],
    /// Of each segment: what its header names.
    exts: [Ext; BURST],
    len: usize,
    /// For each segment: its frame, and where its payload starts there.
    sources: [(usize, usize); BURST],
    places: [Placement; BURST],
    /// Messages that this burst begins, with no memory yet; capacity [`BURST`].
    begun: Vec<(HostId, FlowId, MsgNo, NonZeroU32)>,
    begun_bytes: u64,
    /// Parity in this burst.
    parity: usize,
}

impl<Io, P, C> Worker<Io, P, C>
where
    Io: PacketIo,
    P: PayloadStore<Received = Received>,
    C: Clock,
{
    /// A worker around `core` for one application; nothing is sent or received before the first
    /// poll.
    #[must_use]
    pub fn new(core: Recorder, parts: (Io, P, C), app: WorkerEnd, config: WorkerConfig) -> Self {
        Self::shared(core, parts, vec![app], config)
    }

    /// The same for several applications, one thread each. An incoming message goes to the one that
    /// [`application_of`] its tag, and to the first when there is no such one. Each has connections
    /// of its own.
    ///
    /// # Panics
    /// Without an application, or with more than 65 536.
    #[must_use]
    pub fn shared(
        core: Recorder,
        (io, store, clock): (Io, P, C),
        apps: Vec<WorkerEnd>,
        config: WorkerConfig,
    ) -> Self {
        assert!((1..=1 << 16).contains(&apps.len()), "a worker serves 1 to 65536 applications");
        let application = |end| Application {
            end,
            connections: Connections::new(&config),
            outbox: Outbox::new(config.msgs_max, config.digest),
        };
        Self {
            apps: apps.into_iter().map(application).collect(),
            first: 0,
            owners: (0..config.msgs_max).map(|_| 0).collect(),
            lingering: VecDeque::with_capacity(config.msgs_max as usize),
            templates: Templates::new(),
            burst: RxBurst::new(),
            tx: Burst::with_limit(BURST),
            now: Instant::ZERO,
            ahead: Duration::ZERO,
            took_at: Instant::ZERO,
            counts: Counts::default(),
            meter: None,
            tap: None,
            core,
            io,
            store,
            clock,
            config,
        }
    }

    /// Tells `meter` what happens from now on.
    pub fn observe(&mut self, meter: Meter) {
        self.meter = Some(meter);
    }

    /// Copies what is sent and received from now on into `tap`.
    pub fn capture(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// One turn; call it for ever. Bounded: 32 requests, 32 frames each way, what is due of timers.
    pub fn poll_once(&mut self) -> Progress {
        let now = self.clock.now().max(self.now);
        self.now = now;
        self.counts.polls += 1;
        let taken = self.take_requests(now);
        self.clock.mark(Stage::Ring);
        let sent = self.transmit(now);
        let received = self.receive(now);
        let due = self.core.endpoint().poll_timeout().is_some_and(|at| at <= now);
        if due {
            self.core.handle_timeout(now);
        }
        self.clock.mark(Stage::Core);
        self.collect_events(now);
        self.clock.mark(Stage::Core);
        let busy = due || taken + received + sent > 0;
        self.end_lingering(busy);
        self.io.look_after_clock(now, busy, &mut self.clock);
        let told: usize = self.apps.iter_mut().map(|app| app.outbox.flush(&mut app.end)).sum();
        let is_full = |app: &Application| !app.outbox.is_empty() && app.end.room() == 0;
        self.counts.completions_waited += u64::from(self.apps.iter().any(is_full));
        self.clock.mark(Stage::Ring);
        let busy = busy || told > 0;
        if self.meter.is_some() {
            self.measure_turn(Turn { now, busy, sent, waiting: [false; 3] });
        }
        Progress { busy, now, next_timer: self.core.endpoint().poll_timeout() }
    }

    /// Takes requests while everything they can lead to has room, 32 in all; another application
    /// comes first each time. Says how many.
    fn take_requests(&mut self, now: Instant) -> usize {
        let count = self.apps.len();
        let (mut taken, first) = (0, self.first);
        self.first = if first + 1 < count { first + 1 } else { 0 };
        for at in (first..count).chain(0..first) {
            taken += self.take_from(at, BURST - taken, now);
        }
        taken
    }

    /// Takes at most `most` requests of application `at`. Says how many.
    fn take_from(&mut self, at: usize, most: usize, now: Instant) -> usize {
        let host = self.core.endpoint().host();
        let addressing = &self.config.addressing;
        let reachable = |peer| addressing.pair(host, peer).is_some();
        let Application { end, connections, outbox } = &mut self.apps[at];
        let mut taken = 0;
        while taken < most && outbox.is_empty() {
            let store = &mut self.store;
            match connections.step(end, &mut self.core, store, reachable, now) {
                Some(Step::Posted(msg)) => {
                    if let Some(owner) = self.owners.get_mut(msg.index()) {
                        *owner = u16::try_from(at).unwrap_or(0);
                    }
                    if let Some(meter) = &mut self.meter {
                        meter.posted(msg, now);
                    }
                }
                Some(Step::Failed(completion)) => outbox.push(completion),
                Some(Step::Done) => {}
                None => break,
            }
            taken += 1;
        }
        taken
    }

    /// Receives a burst and does what the core says about it. Says how many frames there were.
    fn receive(&mut self, now: Instant) -> usize {
        let frames = self.io.rx_burst(now);
        self.clock.mark(Stage::Device);
        if frames == 0 {
            return 0;
        }
        self.counts.received += frames as u64;
        if self.tap.is_some() {
            self.capture_burst(frames, now);
        }
        self.burst.clear();
        for index in 0..frames {
            if let Err(reason) = self.admit(index, now) {
                self.core.count_drop(reason);
            }
        }
        self.clock.mark(Stage::Header);
        let RxBurst { segments, len, sources, places, .. } = &mut self.burst;
        let segments = &segments[..*len];
        self.counts.parsed += segments.len() as u64;
        if let Some(meter) = &self.meter {
            meter.received(frames, segments);
        }
        self.core.handle_burst(now, segments, places);
        self.clock.mark(Stage::Core);
        for ((segment, (index, start)), place) in segments.iter().zip(sources).zip(places) {
            if *place == Placement::Release {
                continue;
            }
            let placed = self.io.rx_frame(*index).is_some_and(|frame| {
                put(&mut self.store, place, frame.split(*start, segment.payload_len.into()))
            });
            assert!(placed, "a segment was acknowledged without memory for its bytes");
        }
        while let Some(restore) = self.core.poll_restore() {
            self.counts.unrestored += u64::from(!self.store.restore(&restore));
        }
        self.clock.mark(Stage::Payload);
        self.io.rx_release();
        self.clock.mark(Stage::Device);
        frames
    }

    /// Gives the tap the burst that was received.
    fn capture_burst(&mut self, frames: usize, now: Instant) {
        for index in 0..frames {
            if let (Some(tap), Some(frame)) = (&mut self.tap, self.io.rx_frame(index)) {
                let at = frame.stamp.unwrap_or(now).min(now);
                tap.record(at, false, frame.bytes, frame.tail);
            }
        }
    }

    /// Makes a segment of frame `index`, if it is one, is for us, and has memory.
    fn admit(&mut self, index: usize, now: Instant) -> Result<(), DropReason> {
        let Some(frame) = self.io.rx_frame(index) else {
            self.counts.malformed += 1;
            return Err(DropReason::NotHeadrace);
        };
        let check = match (frame.check, self.config.udp) {
            (RxCheck::Good, _) => UdpCheck::Skip,
            (RxCheck::Unknown | RxCheck::Bad, UdpSums::Software) => UdpCheck::Required,
            (RxCheck::Unknown | RxCheck::Bad, _) => UdpCheck::IfPresent,
        };
        let addressing = &self.config.addressing;
        let stamp = frame.stamp;
        let at = self.burst.len;
        let (segment, ext) = (&mut self.burst.segments[at], &mut self.burst.exts[at]);
        let (bytes, tail) = (frame.bytes, frame.tail);
        let parsed = frame::parse_into(bytes, tail, addressing, check, &mut segment.hdr, ext);
        let Envelope { route, start, payload_len, trimmed } = match parsed {
            Ok(envelope) => envelope,
            Err(error) => {
                self.counts.malformed += 1;
                self.io.rx_stray(index);
                return Err(error.into());
            }
        };
        if route.dst != self.core.endpoint().host() {
            self.counts.foreign += 1;
            return Err(DropReason::WrongHost);
        }
        // A switch may hand a frame over just before its time.
        segment.at = stamp.unwrap_or(now).min(now);
        segment.from = route.src;
        segment.payload_len = if trimmed { 0 } else { payload_len };
        segment.ce = route.ecn == Ecn::Ce;
        segment.trimmed = trimmed;
        let (endpoint, store) = (self.core.endpoint(), &self.store);
        let is_data = matches!(segment.hdr.body, Body::Data(_));
        let kept = !is_data || self.burst.reserve_parity(endpoint, store);
        if is_data && (!kept || !self.burst.reserve(endpoint, store)) {
            self.counts.refused += 1;
            self.counts.parity_refused += u64::from(!kept);
            return Err(DropReason::NoBuffer);
        }
        self.burst.sources[self.burst.len] = (index, start);
        self.burst.len += 1;
        Ok(())
    }

    /// Sends what is kept, then what the core has, until device, pace or burst are full. Says how
    /// many frames the device took.
    fn transmit(&mut self, now: Instant) -> usize {
        let ahead = self.io.send_ahead();
        if ahead != self.ahead {
            self.ahead = ahead;
            self.core.send_ahead(ahead);
        }
        let mut filled = 0;
        // Acknowledgements are small, so the room left is asked for again; each turn fills a frame.
        while filled < BURST {
            let room = self.io.tx_room(now).min(BURST - filled);
            self.clock.mark(Stage::Device);
            if room == 0 {
                break;
            }
            self.tx.reset(room);
            self.core.poll_transmit(now, &mut self.tx);
            self.clock.mark(Stage::Core);
            if self.tx.is_empty() {
                break;
            }
            filled += self.tx.len();
            self.fill_frames(now);
            self.clock.mark(Stage::Header);
        }
        self.counts.parity_recomputed = self.store.parity_recomputed();
        let sent = self.io.tx_burst();
        self.clock.mark(Stage::Device);
        self.counts.handed_over += sent as u64;
        if sent > 0 || self.io.tx_kept() == 0 {
            self.took_at = now;
        } else if now.since(self.took_at) >= self.config.stuck_after {
            let stuck = self.io.tx_discard();
            self.counts.stuck += stuck as u64;
            (0..stuck).for_each(|_| self.core.count_drop(DropReason::DeviceStuck));
            self.took_at = now;
        }
        sent
    }

    fn fill_frames(&mut self, now: Instant) {
        let host = self.core.endpoint().host();
        let by_device = self.config.udp == UdpSums::Software && self.io.sums_udp();
        let summed = self.config.udp != UdpSums::Without && !by_device;
        let is_timed = self.ahead > Duration::ZERO;
        for (index, segment) in self.tx.iter().enumerate() {
            let at = if is_timed { self.tx.departure(index, now) } else { now };
            let (header, payload) = (&segment.hdr, &segment.payload);
            let ends = (host, segment.peer);
            let addressing = &self.config.addressing;
            let Some(template) = self.templates.of(addressing, ends, segment.class()) else {
                self.counts.unsendable += 1;
                continue;
            };
            let headers = template.overhead() + header.emit_len();
            if payload.len >= ATTACH_MIN
                && is_first(header)
                && let Some((memory, range)) = self.store.lend(payload)
                && let Some(bytes) = memory.bytes().get(range.clone())
                && let Some(head) = self.io.tx_attached(headers, memory, range, at)
            {
                let sum = summed.then(|| sum_of(bytes));
                template.emit(header, &Ext::VACANT, payload.len, sum, head);
                if by_device {
                    template.seed(head);
                }
                if let Some(tap) = &mut self.tap {
                    tap.record(now, true, head, bytes);
                }
                if by_device {
                    self.io.tx_sum(template.version());
                }
                self.counts.filled += 1;
                self.counts.attached += 1;
                continue;
            }
            let Some(out) = self.io.tx_frame(headers + payload.len, at) else {
                self.counts.unsendable += 1;
                continue;
            };
            let (head, body) = out.split_at_mut(usize::from(headers));
            // Summed while the bytes are in the cache.
            let mut sum = summed.then(Checksum::new);
            if payload.len > 0 && !self.store.fill(payload, body, sum.as_mut()) {
                self.counts.unsendable += 1;
                self.io.tx_cancel();
                continue;
            }
            template.emit(header, &Ext::VACANT, payload.len, sum, head);
            if by_device {
                template.seed(head);
            }
            if let Some(tap) = &mut self.tap {
                tap.record(now, true, head, body);
            }
            if by_device {
                self.io.tx_sum(template.version());
            }
            self.counts.filled += 1;
        }
    }

    /// Empties the endpoint's queue of events: a message's place may be taken by the next at once,
    /// so what the application has no room for waits in the outbox.
    fn collect_events(&mut self, now: Instant) {
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Sent { msg } => {
                    if let Some(meter) = &self.meter {
                        meter.sent(msg, now);
                    }
                    self.end_message(msg, None, now);
                }
                Event::Failed { msg, reason } => self.end_message(msg, Some(reason.into()), now),
                Event::Delivered { msg, from, tag, .. } => {
                    let memory = self.store.deliver(msg);
                    debug_assert!(memory.is_some(), "a delivered message has bytes");
                    self.tell(
                        application_of(tag),
                        memory.map_or(Completion::Aborted { from, at: now }, |memory| {
                            Completion::Delivered { from, tag, checksum: 0, memory, at: now }
                        }),
                    );
                }
                Event::Aborted { msg, from } => {
                    self.store.abort(msg);
                    // Its tag may never have come: the first application hears of it.
                    self.tell(0, Completion::Aborted { from, at: now });
                }
            }
        }
    }

    /// Tells the application that a message is over, once the device is done with its memory too.
    fn end_message(&mut self, msg: MsgId, failed: Option<Failure>, at: Instant) {
        let lent = self.store.release(msg);
        let lent = lent.and_then(|memory| self.io.tx_over(memory, failed.is_none()));
        let app = self.owners.get(msg.index()).map_or(0, |owner| usize::from(*owner));
        let names = self.apps.get_mut(app).and_then(|app| app.connections.end_message(msg));
        let Some((connection, cookie)) = names else { return };
        let completion = match failed {
            None => Completion::Sent { cookie, connection, at },
            Some(reason) => Completion::Failed { cookie, connection, reason, at },
        };
        match lent {
            // In order also behind those that could be told already.
            Some(memory) if memory.holders() > 1 || !self.lingering.is_empty() => {
                self.lingering.push_back((memory, app, completion));
            }
            Some(_) | None => self.tell(app, completion),
        }
    }

    /// Tells of messages whose memory no device reads any more. When there is nothing else to do,
    /// the device is asked for frames that it has sent and kept.
    fn end_lingering(&mut self, busy: bool) {
        if self.lingering.is_empty() {
            return;
        }
        if !busy {
            self.io.tx_reclaim();
        }
        // Bounded by the messages that wait here; each is taken out once.
        while self.lingering.front().is_some_and(|(memory, ..)| memory.holders() == 1) {
            let Some((_, app, completion)) = self.lingering.pop_front() else { return };
            self.tell(app, completion);
        }
    }

    /// Puts `completion` in line for application `app`, or for the first when there is no such one.
    fn tell(&mut self, app: usize, completion: Completion) {
        let app = if app < self.apps.len() { app } else { 0 };
        self.apps[app].outbox.push(completion);
    }

    /// Tells the meter of a turn, and now and then of everything that is counted.
    fn measure_turn(&mut self, turn: Turn) {
        let application = self.apps.iter().any(|app| !app.outbox.is_empty());
        let waiting = [application, self.io.tx_kept() > 0, !self.lingering.is_empty()];
        let due = self.meter.as_mut().is_some_and(|meter| meter.turned(Turn { waiting, ..turn }));
        if due {
            self.publish();
        }
    }

    /// Shows the meter's readers all that is counted so far; for the end of a run, since a worker
    /// that is not polled shows nothing new.
    pub fn publish(&mut self) {
        if let Some(meter) = &mut self.meter {
            let stats = self.core.endpoint().stats();
            meter.publish(self.now, stats, &self.counts, &self.io.counts());
        }
    }

    /// What the worker has counted.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What the endpoint has counted.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        self.core.endpoint().stats()
    }

    /// The endpoint, to look at.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.core.endpoint()
    }

    /// The recorder, to take what it has recorded.
    pub fn recorder(&mut self) -> &mut Recorder {
        &mut self.core
    }

    /// The device.
    pub fn io(&mut self) -> &mut Io {
        &mut self.io
    }

    /// The device alone, after a last burst of what was to be sent at once: acknowledgements of
    /// what the turn before received. Flows, messages and whatever else waited are gone.
    pub fn into_io(mut self) -> Io {
        let now = self.clock.now().max(self.now);
        self.transmit(now);
        self.io
    }

    /// The store.
    pub fn store(&self) -> &P {
        &self.store
    }

    /// Whether all applications are gone and everything they asked for is over.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        let gone = |app: &Application| app.end.is_abandoned() && app.connections.is_idle();
        self.apps.iter().all(gone) && self.lingering.is_empty()
    }
}

/// Shorter payloads are copied: attaching takes a second mbuf and two changes of a shared count,
/// some 30 ns, in which 512 bytes are copied.
const ATTACH_MIN: u16 = 512;

/// Whether a data segment was never sent before. Others are copied, and so an acknowledgement
/// proves that what was attached has left: [`PacketIo::tx_over`].
#[inline]
fn is_first(header: &Header) -> bool {
    matches!(&header.body, Body::Data(data) if !data.retransmission)
}

/// Does with the payload of a segment what the core says; false when that cannot be.
#[inline]
fn put<P: PayloadStore>(store: &mut P, place: &Placement, (near, far): (&[u8], &[u8])) -> bool {
    match *place {
        Placement::Release => true,
        Placement::Place { msg, offset, msg_len } => {
            let behind = u32::try_from(near.len()).map_or(u32::MAX, |len| offset + len);
            // Most payloads lie in one buffer: the first or, when it was attached, the second.
            (near.is_empty() || store.place(msg, offset, msg_len, near))
                && (far.is_empty() || store.place(msg, behind, msg_len, far))
        }
        Placement::Parity { msg, offset, msg_len, index } => {
            store.keep(msg, offset, msg_len, index, (near, far))
        }
    }
}

fn sum_of(bytes: &[u8]) -> Checksum {
    let mut sum = Checksum::new();
    add_payload(&mut sum, bytes);
    sum
}

/// The number, among those of a worker, of the application that a message with `tag` is for: its
/// upper 16 bits.
#[must_use]
pub fn application_of(tag: u64) -> usize {
    usize::try_from(tag >> 48).unwrap_or(0)
}

impl RxBurst {
    fn new() -> Self {
        Self {
            segments: [RxSegment::VACANT; BURST],
            exts: [Ext::VACANT; BURST],
            len: 0,
            sources: [(0, 0); BURST],
            places: [Placement::Release; BURST],
            begun: Vec::with_capacity(BURST),
            begun_bytes: 0,
            parity: 0,
        }
    }

    fn clear(&mut self) {
        self.len = 0;
        self.begun.clear();
        self.begun_bytes = 0;
        self.parity = 0;
    }

    /// Whether the segment behind the last is no parity that would have to be kept without room for
    /// it, counting the parity of this burst; asked as [`RxBurst::reserve`] is.
    #[inline]
    fn reserve_parity<P: PayloadStore>(&mut self, endpoint: &Endpoint, store: &P) -> bool {
        let segment = &self.segments[self.len];
        let Body::Data(data) = &segment.hdr.body else { return true };
        if data.parity_index().is_none() {
            return true;
        }
        self.parity += 1;
        self.parity <= store.parity_room() || !endpoint.would_keep(segment)
    }

    /// Whether there will be memory for the message of the segment behind the last, counting what
    /// this burst begins; it is asked for before the endpoint sees any segment of the burst.
    #[inline]
    fn reserve<P: PayloadStore>(&mut self, endpoint: &Endpoint, store: &P) -> bool {
        let segment = &self.segments[self.len];
        let Body::Data(data) = &segment.hdr.body else { return true };
        let Some(len) = endpoint.would_open(segment) else { return true };
        // Without an opening part its sender's flow is not named; then memory is counted twice.
        // So it is when a sender contradicts itself about its length.
        let key = data.open.map(|open| (segment.from, open.src_flow, data.msg, len));
        if key.is_some_and(|key| self.begun.contains(&key)) {
            return true;
        }
        let bytes = self.begun_bytes + u64::from(len.get());
        if !store.has_room(self.begun.len() + 1, bytes) {
            return false;
        }
        self.begun.push(key.unwrap_or((segment.from, segment.hdr.dst_flow, data.msg, len)));
        self.begun_bytes = bytes;
        true
    }
}
