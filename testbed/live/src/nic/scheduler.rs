//! The scheduler of Zeropod's pod as a process: `fabric::PodServer` between real devices.
//!
//! ```text
//!   device --frames--> JOIN: the timing of a run's pod --> PodServer, in a later term than any
//!          --frames--> RTS of every host and epoch ------>    |
//!          <--frames-- SCHD of every host and epoch <---------+
//! ```
//!
//! Hosts have measured the network, and send the timing of their pod when they introduce
//! themselves. So this process needs no settings of theirs, and can be started again in the middle
//! of a run. A process that has been started waits for [`Join::patience`], after which hosts
//! introduce themselves again. By then all of them have named the term that they were in, and it
//! begins a later one. One thread polls the device. Times are of this process's clock, which is the
//! pod's.

use experiments::hosts_file::{HostEntry, HostsFile};
use experiments::input::InputError;
use experiments::measure::Counters;
use experiments::plan::RunError;
use fabric::{PodCounters, PodServer};
use transport::sched::zeropod::{ZeropodParams, next_term};
use transport::wire::checksum::Checksum;
use transport::wire::frame::{self, FrameSpec, UdpCheck};
use transport::wire::pod::Join;
use transport::wire::{Body, Ext, Header, Note};
use transport::{Duration, EntropyValue, FlowId, HostId, Instant, Rng};
use transport_dpdk::{
    CALIBRATION_MIN, Calibration, DeviceName, DilatedClock, Idle, IdleMode, RegisteredThread,
    TimeScale, random,
};

use super::warm_up::{Desk, device_of};
use crate::dpdk_error::unfit;
use crate::switching::LearntAddresses;
use crate::workers::quiet::Quiet;

/// The set-up of a scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerSetup {
    /// All hosts, and the scheduler among them.
    pub hosts: HostsFile,
    /// The scheduler's device, in the place of the file's.
    pub device: Option<DeviceName>,
    /// How it decides; what hosts introduce is not looked at here.
    pub params: ZeropodParams,
    /// The UDP port of the traffic.
    pub udp_port: u16,
}

/// Takes the events of a scheduler, and may end it.
pub trait SchedulerMonitor {
    /// Whether to end as soon as may be.
    fn wants_end(&mut self) -> bool;
    /// Something has happened that the text describes in one line.
    fn on_event(&mut self, text: &str);
}

/// The work of a scheduler.
#[derive(Clone, Debug)]
pub struct Served {
    /// Frames and notes by name.
    pub counters: Counters,
    /// The decisions of all pods.
    pub pods: PodCounters,
}

/// Between two looks at the user's wishes.
const LOOK_EVERY: Duration = Duration::from_ms(20);
/// Between two lines about the pod.
const SAY_EVERY: Duration = Duration::from_s(10);
/// Silence of all hosts after which hosts of another run may introduce theirs, and after which a
/// pod is over.
const QUIET: Duration = Duration::from_ms(200);
const OVER: Duration = Duration::from_s(2);

/// Serves pods until the monitor ends it.
///
/// # Errors
/// [`RunError::Input`] where the file names no scheduler, [`RunError::Environment`] what this
/// machine lacks; nothing that a host does is one.
pub fn run(setup: &SchedulerSetup, monitor: &mut dyn SchedulerMonitor) -> Result<Served, RunError> {
    let entry = entry(&setup.hosts)?;
    let device = match &setup.device {
        Some(device) => device.clone(),
        None => device_of(&setup.hosts, entry)?,
    };
    let frame = device.frame_max();
    let rate = Calibration::measure(CALIBRATION_MIN).map_err(|error| unfit(&error))?;
    let clock = rate.clock(TimeScale::REAL);
    let mut desk = {
        let mut meanwhile = || going_on(monitor);
        Desk::open(frame, entry, (device, false), clock, &mut meanwhile)?
    };
    let _lcore: Option<RegisteredThread> = desk.eal().register_thread().ok();
    if let Some(core) = entry.core {
        desk.eal().pin(core).map_err(|error| unfit(&error))?;
    }
    desk.wait_up(&mut || going_on(monitor))?;
    let caps = desk.port().caps().to_string();
    monitor.on_event(&format!("{} at {}: {caps}", desk.port().name(), entry.ip));
    let seed = random().map_err(|error| RunError::Environment(error.to_string()))?;
    let mut office = Office::new(setup, (entry, desk.mac()), seed)?;
    monitor.on_event(&format!(
        "waits for hosts of {}: {} of them; any switches may lie between",
        setup.hosts.file,
        setup.hosts.hosts.len()
    ));
    serve(&mut desk, &mut office, clock, monitor)?;
    Ok(office.served())
}

fn going_on(monitor: &mut dyn SchedulerMonitor) -> Result<(), RunError> {
    if monitor.wants_end() { Err(RunError::Interrupted) } else { Ok(()) }
}

/// The scheduler of the file.
fn entry(hosts: &HostsFile) -> Result<&HostEntry, InputError> {
    hosts.scheduler.as_ref().ok_or_else(|| {
        let found = format!("{} hosts and no scheduler", hosts.hosts.len());
        let error = InputError::new(found, "one more [[host]], with role = \"scheduler\"");
        error.at(&hosts.file, 0, 0).help("the hosts of the run read the same file")
    })
}

/// Answers that are sent before the next look at what comes in, and at the user's wishes.
const ANSWERS_A_TURN: u32 = 256;

/// Moves frames until the monitor ends it.
fn serve(
    desk: &mut Desk,
    office: &mut Office<'_>,
    clock: DilatedClock,
    monitor: &mut dyn SchedulerMonitor,
) -> Result<(), RunError> {
    let mut hold = desk.hold();
    let mut idle = Idle::new(IdleMode::Shared);
    let (mut look_at, mut quiet) = (Instant::ZERO, Quiet::new(clock.now()));
    loop {
        let busy = desk.enquire(|enquiry| {
            let before = office.counts.received;
            enquiry.serve(|frame| office.take(frame, clock.now()));
            let mut busy = office.counts.received > before;
            let now = clock.now();
            office.poll(now);
            // Answers of windows that were missed come in several turns.
            for _ in 0..ANSWERS_A_TURN {
                let Some((host, note)) = office.next_answer(now) else { break };
                busy = true;
                let sent = enquiry.send(|out| office.write(host, &note, out));
                office.counts.unsent += u64::from(!sent);
                office.counts.sent += u64::from(sent);
            }
            Ok(busy)
        })?;
        let now = clock.now();
        if now >= look_at {
            look_at = now + LOOK_EVERY;
            if monitor.wants_end() {
                return Ok(());
            }
            if let Some(text) = office.news(now) {
                monitor.on_event(&text);
            }
            let is_quiet = quiet.is_due(office.counts.received, now);
            if let Some(hold) = hold.as_mut().filter(|_| is_quiet) {
                hold.let_through();
            }
        }
        idle.turn(busy);
    }
}

/// Frames and notes.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Frames from hosts of the file to this scheduler.
    received: u64,
    sent: u64,
    /// Answers that the device did not take.
    unsent: u64,
    joins: u64,
    /// Introductions of hosts of another run while one is served.
    other_run: u64,
    /// Introductions that make no pod of this file.
    no_pod: u64,
    /// Requests while no pod is served.
    unserved: u64,
    /// Damaged frames, and frames of no host of the file.
    strange: u64,
    /// Pods that were served.
    pods: u64,
}

/// The introductions to a scheduler that has just been started.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    join: Join,
    /// The highest term of a host.
    term: u16,
    until: Instant,
}

/// The scheduler without its device: frames in, notes out.
struct Office<'a> {
    setup: &'a SchedulerSetup,
    addresses: LearntAddresses,
    own: HostId,
    rng: Rng,
    pod: Option<PodServer>,
    gathering: Option<Gathering>,
    /// The last term that was begun; 0 before the first.
    term: u32,
    /// When the last request came that counts.
    asked_at: Instant,
    /// The counts of former pods.
    past: PodCounters,
    counts: Counts,
    /// A line that has not been shown.
    news: Option<String>,
    say_at: Instant,
}

impl<'a> Office<'a> {
    fn new(
        setup: &'a SchedulerSetup,
        (entry, mac): (&HostEntry, [u8; 6]),
        seed: u64,
    ) -> Result<Self, InputError> {
        let hosts = &setup.hosts;
        let own = HostId(u32::try_from(hosts.hosts.len()).unwrap_or(u32::MAX));
        let all = hosts.hosts.iter().map(|host| (host.ip, host.mac));
        let all = all.chain([(entry.ip, entry.mac.or(Some(mac)))]);
        let addresses = LearntAddresses::new(all, setup.udp_port).map_err(|error| {
            InputError::new(error.to_string(), "addresses of machines").at(&hosts.file, 0, 0)
        })?;
        Ok(Self {
            setup,
            addresses,
            own,
            rng: Rng::new(seed),
            pod: None,
            gathering: None,
            term: 0,
            asked_at: Instant::ZERO,
            past: PodCounters::default(),
            counts: Counts::default(),
            news: None,
            say_at: Instant::ZERO,
        })
    }

    /// Takes a frame that has come at `now`; whether it is for this scheduler.
    fn take(&mut self, octets: &[u8], now: Instant) -> bool {
        let parsed = match frame::parse(octets, self.addresses.addressing(), UdpCheck::Required) {
            Ok(parsed) if parsed.dst == self.own && parsed.src != self.own => parsed,
            _ => {
                self.counts.strange += 1;
                return false;
            }
        };
        let Body::Note(note) = parsed.header.body else {
            self.counts.strange += 1;
            return false;
        };
        self.counts.received += 1;
        self.addresses.learn(parsed.src, octets);
        let host = u16::try_from(parsed.src.0).unwrap_or(u16::MAX);
        match (Join::of(&note), &mut self.pod) {
            (Some(join), _) => self.on_join(&join, now),
            (None, Some(pod)) => {
                // A request that does not count also shows that its host is there.
                pod.handle(host, &note, now);
                self.asked_at = now;
            }
            (None, None) => self.counts.unserved += 1,
        }
        true
    }

    /// A host introduces itself.
    fn on_join(&mut self, join: &Join, now: Instant) {
        self.counts.joins += 1;
        if usize::from(join.hosts) != self.setup.hosts.hosts.len() {
            self.counts.no_pod += 1;
            return;
        }
        let is_served = |pod: &PodServer| pod.is_of(join) && pod.term() >= join.term.into();
        if let Some(pod) = &self.pod {
            if is_served(pod) {
                return;
            }
            if !pod.is_of(join) && now < self.asked_at + QUIET {
                self.counts.other_run += 1;
                return;
            }
        }
        if self.term > 0 {
            self.begin(join, self.term.max(join.term.into()), now);
            return;
        }
        let until = now + join.patience() + LOOK_EVERY;
        let first = Gathering { join: *join, term: 0, until };
        let gathering = self.gathering.get_or_insert(first);
        gathering.term = gathering.term.max(join.term);
        gathering.join = *join;
    }

    /// Does what is due, beside answers.
    fn poll(&mut self, now: Instant) {
        if let Some(gathering) = self.gathering.filter(|gathering| gathering.until <= now) {
            self.gathering = None;
            self.begin(&gathering.join, gathering.term.into(), now);
        }
        if self.pod.is_some() && now > self.asked_at + OVER {
            self.end("its hosts are silent");
        }
    }

    /// Serves the pod that is introduced, in a term behind `term`.
    fn begin(&mut self, join: &Join, term: u32, now: Instant) {
        let term = next_term(term, false);
        let seed = self.rng.fork("pod", self.counts.pods).next_u64();
        let Some(pod) = PodServer::new(join, &self.setup.params, (term, now), seed) else {
            self.counts.no_pod += 1;
            return;
        };
        self.end("other hosts have come");
        let ended = self.news.take().map_or_else(String::new, |text| text + "; ");
        self.news = Some(format!(
            "{ended}run {}: {} hosts, epochs of {}, guard {}, term {term}",
            pod.run(),
            pod.hosts(),
            pod.epoch(),
            pod.guard(),
        ));
        (self.term, self.asked_at, self.say_at) = (term, now, now + SAY_EVERY);
        self.counts.pods += 1;
        self.pod = Some(pod);
    }

    /// Serves the present pod no more.
    fn end(&mut self, why: &str) {
        if let Some(pod) = self.pod.take() {
            let counters = pod.counters();
            self.news = Some(format!("run {} is over: {why}; {}", pod.run(), shown(&counters)));
            self.past = self.past.with(&counters);
        }
    }

    /// The next answer that is due by `now`, and its host.
    fn next_answer(&mut self, now: Instant) -> Option<(u16, Note)> {
        self.pod.as_mut()?.poll_answer(now)
    }

    /// Writes the frame of an answer; its length.
    fn write(&self, host: u16, note: &Note, out: &mut [u8]) -> Option<usize> {
        let addrs = self.addresses.addressing().pair(self.own, HostId(host.into()))?;
        let header = Header::new(EntropyValue(host), FlowId::UNKNOWN, Body::Note(*note));
        let spec = FrameSpec { addrs, ecn: note.class.ecn(), class: note.class };
        let length = frame::emit(&spec, &header, &Ext::VACANT, 0, out);
        frame::finish_udp_checksum(&mut out[..length], Checksum::new());
        Some(length)
    }

    /// What has happened since the last look, in a line.
    fn news(&mut self, now: Instant) -> Option<String> {
        if self.news.is_some() {
            return self.news.take();
        }
        let pod = self.pod.as_ref().filter(|_| now >= self.say_at)?;
        self.say_at = now + SAY_EVERY;
        Some(format!("run {}: {}", pod.run(), shown(&pod.counters())))
    }

    /// The counts of the process.
    fn served(&self) -> Served {
        let counts = &self.counts;
        let named = [
            ("received", counts.received),
            ("sent", counts.sent),
            ("unsent", counts.unsent),
            ("joins", counts.joins),
            ("other_run", counts.other_run),
            ("no_pod", counts.no_pod),
            ("unserved", counts.unserved),
            ("strange", counts.strange),
            ("pods", counts.pods),
        ];
        let counters = named.into_iter().filter(|(_, count)| *count > 0);
        let counters = counters.map(|(name, count)| (name.to_owned(), count)).collect();
        let present = self.pod.as_ref().map(PodServer::counters).unwrap_or_default();
        Served { counters, pods: self.past.with(&present) }
    }
}

/// A pod's counters in words.
fn shown(counters: &PodCounters) -> String {
    let refused = counters.refusals().filter(|(_, count)| *count > 0);
    let refused: String = refused.map(|(why, count)| format!(", {why} {count}")).collect();
    let (term, epochs, grants) = (counters.term, counters.epochs, counters.grants);
    format!("term {term}, {epochs} decisions, {grants} grants{refused}")
}
