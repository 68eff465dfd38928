//! One process: EAL, a device, a worker, and its application's ring, all on the calling thread.
//!
//! The worker can be built anew for another session; the device stays. While it polls, DPDK's
//! interrupt thread stands still, so that a peer that is killed cannot take the device's memory
//! away in the middle of a burst. The thread runs when nothing has come in for a while.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use experiments::measure::{Counters, join};
use transport::record::Recorder;
use transport::sched::Label;
use transport::stats::DropReason;
use transport::wire::addressing::HostAddr;
use transport::wire::frame::{HEADERS_MAX, PLAIN_HEADERS_MAX};
use transport::wire::seal;
use transport::{Bytes, Config, Duration, HostId, Instant, Path, Rng};
use transport_dpdk::CALIBRATION_MIN;
use transport_dpdk::neighbour::{Resolution, Station};
use transport_dpdk::telemetry::{Board, HistogramName, Picture};
use transport_dpdk::{
    AppEnd, AppMemory, Calibration, Completion, DevicePort, DilatedClock, Eal, MemoryConfig,
    MessageBytes, Pool, PoolConfig, PortConfig, PortIo, QuietHold, RegisteredThread, Request,
    Security, SharedKeys, Telemetry, TimeScale, UdpSums, Worker, WorkerConfig, app_ring, clock,
};

use super::error::PeerError;
use super::protocol::{Kind, Memo, Tag};
use super::setup::ProcessSetup;
use super::stream::short;
use super::terms::{LOBBY_PAYLOAD, SessionTerms};
use super::{SessionEvent, SessionMonitor};
use crate::workers::{counters, random, secured};

/// The line that a process without keys prints.
const UNSEALED: &str = "packets are not sealed (--security psk:FILE seals them)";

/// Descriptors in the rings between application and worker.
const RING: usize = 256;
/// Buffers that a thread keeps in its cache.
const CACHE: u32 = 64;
/// The device has taken nothing for so long: frames are dropped and sent again.
const STUCK_AFTER: Duration = Duration::from_s(1);
const LOOK_EVERY: Duration = Duration::from_ms(10);
/// An end that stops a session early waits for so long until the other end has acknowledged that.
pub(super) const FAREWELL: Duration = Duration::from_ms(500);

type DeviceWorker = Worker<PortIo, AppMemory, DilatedClock>;
type WorkerParts = (PortIo, Option<Box<Security>>);

/// One end of a link between processes. Fields in the order in which they must go.
pub(super) struct PeerHost {
    /// The worker; `None` only while it is built anew.
    worker: Option<DeviceWorker>,
    /// Where the worker counts round trips, if it does.
    board: Option<Arc<Board>>,
    hold: QuietHold,
    app: AppEnd,
    /// Completions of former workers that have not been read, at most [`RING`]: senders of messages
    /// among them have their acknowledgements and send these no more.
    unread: VecDeque<Completion>,
    /// Requests that found the ring full.
    pub(super) waiting: VecDeque<Request>,
    /// How often one did.
    ring_full: u64,
    clock: DilatedClock,
    rate: Calibration,
    setup: ProcessSetup,
    payload_max: u16,
    incarnation: u16,
    path: Path,
    flow_lasts: Duration,
    /// The host that memos go to, once there is a connection.
    pub(super) peer: Option<HostId>,
    /// Messages that wait for room.
    memos: u32,
    /// Counters of former workers.
    former: Counters,
    look_at: Instant,
    is_up: bool,
    /// The monitor was notified that a host sends to another UDP port.
    reported_port: bool,
    link_downs: u64,
    #[allow(dead_code, reason = "held, not read")]
    lcore: RegisteredThread,
    eal: Eal,
}

impl Drop for PeerHost {
    /// Acknowledges the last memo to the peer.
    fn drop(&mut self) {
        drop(self.take_parts());
    }
}

/// The observations of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostPolled {
    pub(super) now: Instant,
    pub(super) busy: bool,
}

impl PeerHost {
    /// Opens the device. Where this needs the other side, it waits for it. Sends nothing before
    /// [`PeerHost::meet`].
    pub(super) fn open(
        mut setup: ProcessSetup,
        wait: Duration,
        monitor: &mut dyn SessionMonitor,
    ) -> Result<Self, PeerError> {
        let (frame, room) = (setup.device.frame_max(), setup.device.buffer_room());
        let eal = Eal::start(&setup.eal_options(room))?;
        let lcore = eal.register_thread()?;
        if let Some(core) = setup.core {
            eal.pin(core)?;
        }
        let rate = Calibration::measure(CALIBRATION_MIN)?;
        let (io, payload_max) = open_io(&eal, &mut setup, (frame, room), wait, monitor)?;
        let clock = rate.clock(TimeScale::REAL);
        let incarnation = clock::incarnation();
        let config = SessionTerms::lobby().config(incarnation, &setup.addressing)?;
        let config = secured(&config, setup.keys.as_ref())?;
        let security = setup.keys.as_ref().map(|keys| keys.security(CONNECTIONS));
        let path = config.default_path();
        let (app, end) = app_ring(RING, RING);
        let hold = match setup.device.meets() {
            true => QuietHold::new(&eal, clock.now()),
            false => QuietHold::of_none(clock.now()),
        };
        let parts = (io, store(&config, &SessionTerms::lobby()), clock);
        let worker = Worker::new(
            Recorder::off(&config, setup.host, rng()?),
            parts,
            end,
            worker_config(&config, &setup, &SessionTerms::lobby()),
        )
        .secured(security);
        Ok(Self {
            worker: Some(worker),
            board: None,
            hold,
            app,
            unread: VecDeque::new(),
            waiting: VecDeque::new(),
            ring_full: 0,
            clock,
            rate,
            payload_max: payload_max.clamp(LOBBY_PAYLOAD, PAYLOAD_MAX),
            setup,
            incarnation,
            path,
            flow_lasts: flow_lasts(&config),
            peer: None,
            memos: 0,
            former: Counters::new(),
            look_at: Instant::ZERO,
            is_up: false,
            reported_port: false,
            link_downs: 0,
            lcore,
            eal,
        })
    }

    /// Builds the worker anew for `terms`, or for no session; the state of the former one is
    /// dropped, but for its completions.
    pub(super) fn build(&mut self, terms: &SessionTerms) -> Result<(), PeerError> {
        let Some(parts) = self.take_parts() else { return Ok(()) };
        self.put(parts, terms)
    }

    /// Ends the worker and keeps its device, and its state for sealing and opening.
    fn take_parts(&mut self) -> Option<WorkerParts> {
        let former = self.worker.take()?;
        join(&mut self.former, &counters::of_worker(&former));
        Some(former.into_parts())
    }

    /// The configuration of a worker for `terms`.
    pub(super) fn config(&self, terms: &SessionTerms) -> Result<Config, PeerError> {
        let config = terms.config(self.incarnation, &self.setup.addressing)?;
        Ok(secured(&config, self.setup.keys.as_ref())?)
    }

    /// Makes a worker of `parts` for `terms`.
    fn put(&mut self, (io, security): WorkerParts, terms: &SessionTerms) -> Result<(), PeerError> {
        // Peers distinguish one worker of this process from the next as they do processes.
        self.incarnation = self.incarnation % INCARNATIONS + 1;
        let config = self.config(terms)?;
        let (app, end) = app_ring(RING, RING);
        let mut worker = Worker::new(
            Recorder::off(&config, self.setup.host, rng()?),
            (io, store(&config, terms), self.clock),
            end,
            worker_config(&config, &self.setup, terms),
        )
        .secured(security);
        self.board = (terms.interval_ms > 0).then(|| {
            let telemetry = Telemetry::default();
            let msgs_max = config.msgs_max;
            worker.observe(telemetry.meter(self.setup.host, msgs_max, Duration::from_s(1)));
            telemetry.workers().swap_remove(0)
        });
        self.path = config.default_path();
        self.flow_lasts = flow_lasts(&config);
        self.worker = Some(worker);
        let unread = std::iter::from_fn(|| self.app.poll());
        self.unread.extend(unread.take(RING.saturating_sub(self.unread.len())));
        self.app = app;
        self.waiting.clear();
        self.peer = None;
        self.hold.restart(self.clock.now());
        Ok(())
    }

    /// Whether the MAC of `peer` is known.
    pub(super) fn can_address(&self, peer: HostId) -> bool {
        !self.setup.unresolved.contains(&peer)
    }

    /// Whether packets can be sent to `peer`. A MAC that is not known yet is asked for, for at most
    /// `patience`; that ends all work that the worker had under way.
    pub(super) fn find(
        &mut self,
        peer: HostId,
        patience: Duration,
        monitor: &mut dyn SessionMonitor,
    ) -> Result<bool, PeerError> {
        if self.can_address(peer) {
            return Ok(true);
        }
        let Some((mut io, security)) = self.take_parts() else { return Ok(false) };
        let address = self.setup.addressing.addr(peer).map(|address| (address.ip, None));
        let (clock, hold) = (self.clock, &mut self.hold);
        hold.restart(clock.now());
        let meanwhile = |received, polled| {
            hold.look(received, polled);
            if monitor.wants_end() { Err(PeerError::Interrupted) } else { Ok(()) }
        };
        let found = match (io.enquire(), address) {
            (Some(mut enquiry), Some(address)) => {
                enquiry.resolve(&[address], patience, || clock.now(), meanwhile)?
            }
            _ => Vec::new(),
        };
        let mac = match found.first() {
            Some(Resolution::Known(mac)) => Some(*mac),
            _ => None,
        };
        if let Some(mac) = mac {
            self.setup.note_mac(peer, mac)?;
        }
        self.put((io, security), &SessionTerms::lobby())?;
        Ok(mac.is_some())
    }

    /// Opens connection 0, for memos, and one for each of `flows` to `peer`.
    pub(super) fn meet(&mut self, peer: HostId, flows: u16) {
        let path = self.path;
        for connection in 0..=u32::from(flows) {
            self.waiting.push_back(Request::Open { connection, peer, path, label: Label::NONE });
        }
        self.peer = Some(peer);
    }

    /// Sends `memo` to the peer that was met; returns the cookie of the message.
    pub(super) fn send_memo(&mut self, session: u64, memo: &Memo) -> u64 {
        self.send_memo_over(0, session, memo)
    }

    fn send_memo_over(&mut self, connection: u32, session: u64, memo: &Memo) -> u64 {
        let bytes = memo.bytes();
        let len = u32::try_from(bytes.len()).ok().and_then(NonZeroU32::new);
        let len = len.unwrap_or(NonZeroU32::MIN);
        let tag = Tag { kind: Kind::Memo, session: short(session), number: self.memos };
        self.memos = self.memos.wrapping_add(1);
        let (tag, source) = (tag.pack(), MessageBytes::Owned(bytes.into()));
        self.waiting.push_back(Request::Send { connection, source, len, tag, cookie: tag });
        tag
    }

    /// Sends `memo` to another host than the peer, over a connection that lasts for this memo;
    /// returns the cookie of the message.
    pub(super) fn send_memo_once(&mut self, stranger: HostId, session: u64, memo: &Memo) -> u64 {
        let (connection, path) = (STRANGER, self.path);
        self.waiting.push_back(Request::Open {
            connection,
            peer: stranger,
            path,
            label: Label::NONE,
        });
        let cookie = self.send_memo_over(connection, session, memo);
        self.waiting.push_back(Request::Close { connection });
        cookie
    }

    /// Runs one turn of the worker, with the application's waiting requests.
    pub(super) fn turn(&mut self, monitor: &mut dyn SessionMonitor) -> HostPolled {
        while let Some(request) = self.waiting.pop_front() {
            if let Err(request) = self.app.submit(request) {
                self.waiting.push_front(request);
                self.ring_full += 1;
                break;
            }
        }
        let Some(worker) = &mut self.worker else {
            return HostPolled { now: self.clock.now(), busy: false };
        };
        if let Some(keys) = &mut self.setup.keys
            && let Some(changed) = keys.changed(self.clock.now())
        {
            let failed = changed.map(|keys| worker.rotate(keys)).err();
            let failed = failed.map(|error| error.to_string());
            monitor.on_event(&SessionEvent::Keys(failed.as_deref()));
        }
        let progress = worker.poll_once();
        // Packets of other peers' flows and of the scheduler's protocol count, too.
        let (now, received) = (progress.now, worker.stats().accepted());
        if now >= self.look_at {
            self.check_device((received, now), monitor);
        }
        HostPolled { now, busy: progress.busy }
    }

    /// Work that is done now and then: interrupts, the link. So many packets have been received.
    fn check_device(&mut self, (received, now): (u64, Instant), monitor: &mut dyn SessionMonitor) {
        self.look_at = now + LOOK_EVERY;
        if !self.reported_port && self.other_port() > 0 {
            self.reported_port = true;
            monitor.on_event(&SessionEvent::OtherPort(self.setup.addressing.udp_port()));
        }
        if !self.hold.look(received, now) {
            return;
        }
        let was_up = self.is_up;
        let is_up = self.is_link_up();
        if is_up != was_up {
            self.is_up = is_up;
            self.link_downs += u64::from(!is_up);
            monitor.on_event(&SessionEvent::Link(is_up));
        }
    }

    /// Whether the device has a link, by driver and kernel.
    pub(super) fn is_link_up(&mut self) -> bool {
        let by_driver = self.worker.as_mut().is_some_and(|worker| worker.io().queue().is_up());
        let is_up = by_driver && self.setup.device.is_interface_up();
        self.is_up |= is_up;
        is_up
    }

    /// Waits until the last message to the peer, which has this cookie, is acknowledged or has
    /// failed, no longer than `within`. Drops everything else that comes in.
    pub(super) fn wait_for_end_of(
        &mut self,
        message: u64,
        within: Duration,
        monitor: &mut dyn SessionMonitor,
    ) {
        let until = self.now() + within;
        while self.turn(monitor).now < until {
            while let Some(completion) = self.poll() {
                if let Completion::Sent { cookie, .. } | Completion::Failed { cookie, .. } =
                    completion
                    && cookie == message
                {
                    return;
                }
            }
            std::thread::yield_now();
        }
    }

    /// The next completion of the worker, or of one before it.
    pub(super) fn poll(&mut self) -> Option<Completion> {
        self.unread.pop_front().or_else(|| self.app.poll())
    }

    /// Requests that may be put in line without waiting there.
    pub(super) fn room(&self) -> usize {
        self.app.room().saturating_sub(self.waiting.len())
    }

    /// How long a flow that was closed keeps its place, at most.
    pub(super) const fn flow_lasts(&self) -> Duration {
        self.flow_lasts
    }

    /// A number that changes when `peer` acknowledges what it was sent.
    pub(super) fn acknowledged_by(&self, peer: HostId) -> u64 {
        self.worker.as_ref().map_or(0, |worker| worker.endpoint().acknowledged_by(peer))
    }

    /// When a packet of one of `peer`'s flows to this host was received last.
    pub(super) fn received_from(&self, peer: HostId) -> Option<Instant> {
        self.worker.as_ref()?.endpoint().received_from(peer)
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Ticks of the time-stamp counter a second.
    pub(super) fn hz(&self) -> u64 {
        self.rate.hz()
    }

    pub(super) const fn eal(&self) -> &Eal {
        &self.eal
    }

    pub(super) const fn setup(&self) -> &ProcessSetup {
        &self.setup
    }

    /// Makes this process host `host` from the next worker on.
    #[cfg(test)]
    pub(super) const fn pose_as(&mut self, host: HostId) {
        self.setup.host = host;
    }

    /// The longest payload of a segment that the device carries.
    pub(super) const fn payload_max(&self) -> u16 {
        self.payload_max
    }

    /// Segments of data that this worker has sent for the first time, and again.
    pub(super) fn segments(&self) -> [u64; 2] {
        let stats = self.worker.as_ref().map(Worker::stats);
        stats.map_or([0; 2], |stats| [stats.data_new, stats.retransmitted])
    }

    /// The sum of the windows of the flows that have something under way, bytes, and their count.
    pub(super) fn windows(&self) -> (u64, u64) {
        let windows = self.worker.iter().flat_map(|worker| worker.endpoint().windows());
        let busy = windows.filter(|(_, in_flight)| *in_flight > Bytes::ZERO);
        busy.fold((0, 0), |(sum, count), (window, _)| (sum + window.cwnd.0, count + 1))
    }

    /// Round trips of this worker's segments, nanoseconds; `None` where they are not measured.
    pub(super) fn round_trips(&self) -> Option<Picture> {
        let board = self.board.as_ref()?;
        Some(board.histogram(HistogramName::Rtt).picture())
    }

    /// UDP packets to another port than ours that this worker has received.
    fn other_port(&self) -> u64 {
        let drops = self.worker.as_ref().map(|worker| worker.stats().drops);
        drops.map_or(0, |drops| drops.of(DropReason::OtherPort))
    }

    /// A number that no other session has, and that no other host can guess.
    pub(super) fn session_number() -> Result<u64, PeerError> {
        Ok(random()?)
    }

    /// Everything counted so far, by this worker and those before it.
    pub(super) fn counters(&mut self) -> Counters {
        let mut all = self.former.clone();
        if let Some(worker) = &mut self.worker {
            join(&mut all, &counters::of_worker(worker));
            join(&mut all, &counters::of_device(worker.io()));
        }
        let own = [("request_ring_full", self.ring_full), ("link_downs", self.link_downs)];
        let own = own.into_iter().filter(|(_, count)| *count > 0);
        all.extend(own.map(|(name, count)| (name.to_owned(), count)));
        all
    }
}

/// The endpoint's limit.
const PAYLOAD_MAX: u16 = 8960;
/// Generations of flow identifiers.
const INCARNATIONS: u16 = 4095;
/// The connection for memos to others than the peer: behind those of any session.
pub(super) const STRANGER: u32 = CONNECTIONS - 1;
const CONNECTIONS: u32 = 512;

/// The device with its buffers, and the longest payload that it carries in a segment.
fn open_io(
    eal: &Eal,
    setup: &mut ProcessSetup,
    (frame, room): (u16, u16),
    wait: Duration,
    monitor: &mut dyn SessionMonitor,
) -> Result<(PortIo, u16), PeerError> {
    let pool = |count, room| {
        let cache = CACHE.min(count / 2);
        Pool::new(eal, PoolConfig { count, room, cache, socket: -1 }).map(Arc::new)
    };
    let received = pool(setup.buffers + setup.device.buffers_kept(), room)?;
    let own = pool(setup.buffers, room)?;
    let small = pool(2 * setup.buffers, HEADERS_MAX)?;
    let config = PortConfig {
        rx_descriptors: setup.depth,
        tx_descriptors: setup.depth,
        // Frames are as long as buffers are, where those are given by the device.
        max_frame: u32::from(frame.min(room)),
        keep_mtu: setup.device.interface().is_some(),
        ..PortConfig::default()
    };
    let port = open_device(eal, setup, &config, &received, wait, monitor)?;
    let security = setup.keys.as_ref().map_or_else(|| UNSEALED.to_owned(), SharedKeys::described);
    let opened = format!("{}: {}; {security}", setup.device, port.caps());
    monitor.on_event(&SessionEvent::Opened(&opened));
    let frame = port.caps().max_frame.bytes();
    let around = PLAIN_HEADERS_MAX + setup.keys.as_ref().map_or(0, |_| seal::LEN);
    let payload_max = u16::try_from(frame).unwrap_or(u16::MAX).saturating_sub(around);
    let device = port.name().to_owned();
    if setup.unresolved.contains(&setup.host) {
        setup.note_mac(setup.host, port.mac())?;
    }
    let io = PortIo::of_port(port, own, None);
    let io = io.ok_or(PeerError::LinkDown { device, seconds: 0 })?;
    let io = match setup.addressing.addr(setup.host) {
        // This host assumes that all hosts are on one link.
        Some(HostAddr { mac, ip }) => io.answering(Station { mac, ip, prefix: 0, gateway: None }),
        None => io,
    };
    Ok((io.attaching(small), payload_max))
}

/// Opens the device, again and again where it connects to a process that is not there yet.
fn open_device(
    eal: &Eal,
    setup: &ProcessSetup,
    config: &PortConfig,
    pool: &Arc<Pool>,
    wait: Duration,
    monitor: &mut dyn SessionMonitor,
) -> Result<DevicePort, PeerError> {
    let end = |ends| if ends { Err(PeerError::Interrupted) } else { Ok(()) };
    let (device, side) = (setup.device.clone(), (setup.side, wait));
    let port = device.open_with_patience(eal, config, pool, side, || end(monitor.wants_end()))?;
    let seconds = wait.as_ps() / 1_000_000_000_000;
    port.ok_or_else(|| PeerError::LinkDown { device: setup.device.to_string(), seconds })
}

/// How long a flow that was closed keeps its place: until its receiver has forgotten it, twice.
fn flow_lasts(config: &Config) -> Duration {
    config.give_up_after(&config.default_path()) * 4
}

/// Random numbers for a worker, so that the paths of its segments cannot be guessed.
fn rng() -> Result<Rng, PeerError> {
    Ok(Rng::new(random()?).fork("host", 0))
}

fn store(config: &Config, terms: &SessionTerms) -> AppMemory {
    let limits = MemoryConfig {
        bytes_max: terms.receive_bytes(),
        messages_max: config.msgs_max,
        parity_max: MemoryConfig::PARITY_MAX,
    };
    AppMemory::new(config, &limits)
}

fn worker_config(config: &Config, setup: &ProcessSetup, terms: &SessionTerms) -> WorkerConfig {
    let udp = match (terms.is_lobby(), terms.udp_sums) {
        (true, _) => UdpSums::Offered,
        (false, true) => UdpSums::Software,
        (false, false) => UdpSums::Without,
    };
    WorkerConfig {
        addressing: setup.addressing.clone(),
        connections_max: CONNECTIONS,
        msgs_max: config.msgs_max,
        stuck_after: STUCK_AFTER,
        udp,
        digest: terms.verify,
    }
}
