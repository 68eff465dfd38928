//! The poll-mode worker: one endpoint, one device, its applications, run to completion.
//!
//! One turn ([`Worker::poll_once`]) reads the clock once, takes requests (`requests.rs`), sends
//! (`send.rs`), receives a burst and places its payloads (`receive.rs`), fires due timers, and
//! reports to the applications (`report.rs`). A worker owns all it touches and never blocks. Times
//! are network time.
//!
//! A turn sends before it receives. So an application is notified of a message before the worker
//! spends time on acknowledging it, and an answer leaves in one burst with the acknowledgement.
//! [`Worker::into_io`] sends the answers of the last turn.
//!
//! Payload in a region is attached to frames where the device takes chains. A message with attached
//! payload is reported as over only when the device is done with its memory. All other payload is
//! copied once.
//!
//! Nothing is lost between the application and the core. A message that does not fit into its table
//! stays in its ring, in order. A completion for which its ring has no room waits here, and no
//! request is taken meanwhile. A connection that does not fit the table of flows is refused by
//! name. Memory is allocated only where a message begins.

pub mod config;
mod connections;
mod filling;
pub mod idle;
mod outbox;
mod receive;
mod report;
mod requests;
mod rx_burst;
mod sealing;
mod send;
mod templates;

use std::collections::VecDeque;

use transport::record::Recorder;
use transport::{BURST, Burst, Duration, Endpoint, Instant, Stats, TxSegment};

use crate::app::descriptor::Completion;
use crate::app::ring::WorkerEnd;
use crate::buffers::ext_buf::ExtBuf;
use crate::clock::poll_clock::{Clock, Stage};
use crate::io::in_place::InPlace;
use crate::io::packet_io::PacketIo;
use crate::io::tap::Tap;
use crate::io::upkeep::Upkeep;
use crate::payload::memory::Received;
use crate::payload::store::{IncomingBytes, OutgoingBytes};
use crate::security::{Keys, Security};
use crate::telemetry::Meter;
use crate::telemetry::counts::WorkerCounts;
use crate::telemetry::meter::TurnReport;
use crate::worker::config::WorkerConfig;
use crate::worker::connections::Connections;
use crate::worker::outbox::Outbox;
use crate::worker::rx_burst::RxBurst;
use crate::worker::templates::Templates;

pub use report::application_of;

/// The work of one turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnWork {
    /// True when something was sent, taken, reported or timed, or was received and not dropped
    /// without an answer, or when a full burst was received; else the thread may yield.
    pub busy: bool,
    /// The time of the turn.
    pub now: Instant,
    /// When a timer is due next; until then a turn only has to check for packets and requests.
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
    /// The application whose requests are taken first in the next turn.
    first: usize,
    /// The application that posted each outgoing message, by the message's index.
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
    /// Frames that the device has not taken.
    kept: usize,
    /// When the device last took a frame or had none to take.
    took_at: Instant,
    counts: WorkerCounts,
    meter: Option<Meter>,
    tap: Option<Tap>,
    /// Seals and opens frames, where hosts share keys.
    security: Option<Box<Security>>,
}

/// One application: its ring, its names, and the completions that wait for it.
#[derive(Debug)]
struct Application {
    end: WorkerEnd,
    connections: Connections,
    outbox: Outbox,
}

impl<Io, P, C> Worker<Io, P, C>
where
    Io: PacketIo + Upkeep + InPlace,
    P: OutgoingBytes + IncomingBytes<Received = Received>,
    C: Clock,
{
    /// A worker around `core` for one application; nothing is sent or received before the first
    /// poll.
    #[must_use]
    pub fn new(core: Recorder, parts: (Io, P, C), app: WorkerEnd, config: WorkerConfig) -> Self {
        Self::shared(core, parts, vec![app], config)
    }

    /// A worker for several applications, one thread each. An incoming message goes to the
    /// application that its tag names ([`application_of`]), and to the first when there is no such
    /// one. Each application has connections of its own.
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
            kept: 0,
            took_at: Instant::ZERO,
            counts: WorkerCounts::default(),
            meter: None,
            tap: None,
            security: None,
            core,
            io,
            store,
            clock,
            config,
        }
    }

    /// Reports to `meter` from now on.
    pub fn observe(&mut self, meter: Meter) {
        self.meter = Some(meter);
    }

    /// Seals every frame from now on, and takes none that does not open. `security` is of this
    /// host alone.
    #[must_use]
    pub fn secured(mut self, security: Option<Box<Security>>) -> Self {
        self.security = security;
        self
    }

    /// Uses `keys` from now on, where frames are sealed: seals by the first, opens by all.
    pub fn rotate(&mut self, keys: &Keys) {
        if let Some(security) = &mut self.security {
            security.rotate(keys);
        }
    }

    /// Copies frames sent and received from now on into `tap`: sealed frames without their seal,
    /// and frames that do not open as they came.
    pub fn capture(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// Runs one turn; call it for ever. Bounded: 32 requests, 32 frames each way, and a bounded
    /// number of timers.
    pub fn poll_once(&mut self) -> TurnWork {
        let now = self.clock.now().max(self.now);
        self.now = now;
        self.counts.polls += 1;
        let taken = self.take_requests(now);
        self.clock.mark(Stage::Ring);
        let sent = self.transmit(now);
        let (received, useful) = self.receive(now);
        let due = self.core.endpoint().poll_timeout().is_some_and(|at| at <= now);
        if due {
            self.core.handle_timeout(now);
        }
        self.clock.mark(Stage::Core);
        self.collect_events(now);
        self.clock.mark(Stage::Core);
        // A flood of packets that are dropped keeps this thread from yielding only while it is
        // behind.
        let busy = due || useful || taken + sent > 0;
        self.end_lingering(busy);
        self.io.look_after(now, busy, &mut self.clock);
        let reported = self.report_waiting();
        let is_full = |app: &Application| !app.outbox.is_empty() && app.end.room() == 0;
        self.counts.completions_waited += u64::from(self.apps.iter().any(is_full));
        self.clock.mark(Stage::Ring);
        let busy = busy || reported > 0;
        if self.meter.is_some() {
            self.measure_turn(TurnReport {
                now,
                busy: busy || received > 0,
                sent,
                waiting: [false; 3],
            });
        }
        TurnWork { busy, now, next_timer: self.core.endpoint().poll_timeout() }
    }

    /// Passes completions that wait on to the applications that have room for them, and returns
    /// how many were passed or summed. [`Worker::poll_once`] does so; apart, this is for the end
    /// of a run.
    pub fn report_waiting(&mut self) -> usize {
        self.apps.iter_mut().map(|app| app.outbox.flush(&mut app.end)).sum()
    }

    /// Shows the meter's readers all that is counted so far; for the end of a run, since a worker
    /// that is not polled shows nothing new.
    pub fn publish(&mut self) {
        if let Some(meter) = &mut self.meter {
            let stats = self.core.endpoint().stats();
            meter.publish(self.now, stats, &self.counts, &self.io.counts());
        }
    }

    /// The worker's counters.
    #[must_use]
    pub fn counts(&self) -> &WorkerCounts {
        &self.counts
    }

    /// The endpoint's counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        self.core.endpoint().stats()
    }

    /// The endpoint, to look at.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.core.endpoint()
    }

    /// The recorder, from which the recording is taken.
    pub fn recorder(&mut self) -> &mut Recorder {
        &mut self.core
    }

    /// The device.
    pub fn io(&mut self) -> &mut Io {
        &mut self.io
    }

    /// Ends the worker and returns its device, after a last burst of frames that were to be sent at
    /// once, such as acknowledgements of segments received in the turn before. Flows, messages and
    /// everything else that waited are dropped.
    pub fn into_io(self) -> Io {
        self.into_parts().0
    }

    /// [`Worker::into_io`], and what sealed and opened frames, for the next worker of this host:
    /// one that starts afresh accepts no key that its peers have used before.
    pub fn into_parts(mut self) -> (Io, Option<Box<Security>>) {
        let now = self.clock.now().max(self.now);
        self.transmit(now);
        (self.io, self.security)
    }

    /// The store.
    pub fn store(&self) -> &P {
        &self.store
    }

    /// Whether all applications have ended and all their requests are over.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        let gone = |app: &Application| app.end.is_abandoned() && app.connections.is_idle();
        self.apps.iter().all(gone) && self.lingering.is_empty()
    }
}
