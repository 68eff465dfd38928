//! The scheduler without its device: frames in, frames out, and lines about what happens.
//!
//! ```text
//!   JOIN ---> INVITE under its key, to the address that it is from
//!   JOIN under the proof of that ---> gathered, after a start only: until all hosts of a former
//!                |                    scheduler must have come
//!                v
//!   RTS ----> PodServer of the run, in a later term than any host of it has named ----> SCHD
//!   under the proof                                                           under the proof
//! ```
//!
//! A host that only forges the address of one of the file never gets an INVITE, so it neither
//! begins nor ends what is served, asks for nothing and keeps no pod. A proof is a keyed hash of
//! its host, the run and the time in periods: it costs no memory, and is good for one or two
//! periods. It stays the key between the host and the pod until the host introduces itself under
//! another one.

mod addresses;
mod frame_templates;

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};

use experiments::hosts_file::HostEntry;
use experiments::input::InputError;
use fabric::{PodCounters, PodServer};
use transport::sched::zeropod::{is_later, next_term};
use transport::wire::frame::{self, UdpCheck};
use transport::wire::pod::{Invite, Join};
use transport::wire::{Body, Ext, Header, Note};
use transport::{BURST, Duration, HostId, Instant, Key, Rng};
use transport_dpdk::Enquiry;
use transport_dpdk::neighbour::Station;

use super::{PodsServed, SchedulerSetup};
use addresses::Addresses;
use frame_templates::FrameTemplates;

/// Time between two lines about the pod, and between two lines of one kind about introductions that
/// are refused.
const SAY_EVERY: Duration = Duration::from_s(10);
/// Lines that wait at most.
const NEWS_MAX: usize = 16;
/// Silence of all hosts after which hosts of another run may introduce theirs, and after which a
/// pod is over.
const QUIET: Duration = Duration::from_ms(200);
const OVER: Duration = Duration::from_s(2);
/// Added to the patience of hosts: the time until the introduction of each has come, which it
/// repeats every 10 ms, and again with its proof.
const COMING: Duration = Duration::from_ms(40);
/// The longest wait of a scheduler that has just been started, whatever patience hosts introduce.
const GATHER_MAX: Duration = Duration::from_s(10);
/// Epochs without a request in time after which a pod is answered no more, beyond [`QUIET`].
const SILENT_EPOCHS: u64 = 16;
/// The term that follows the last one that a note can say.
const BEHIND_THE_LAST: u16 = 3;
/// Proofs of this period and of the one before are good.
const PROOF_PERIOD: Duration = Duration::from_s(10);
/// Bursts of answers before received frames are handled again: answers of windows that were missed
/// leave in several turns.
const BURSTS_A_TURN: u32 = 8;

/// Invitations that wait at most: more than come in in a turn.
const INVITED_MAX: usize = 4 * BURST;

/// Frames and notes.
#[derive(Clone, Copy, Debug, Default)]
struct EndpointCounts {
    /// Frames from hosts of the file to this scheduler.
    received: u64,
    sent: u64,
    /// Answers that the device did not take.
    unsent: u64,
    joins: u64,
    /// Introductions without the proof, each of which is answered by an invitation, and requests
    /// without the key of a host of the pod.
    unproven: u64,
    /// Introductions of hosts of another run while one is served.
    other_run: u64,
    /// Introductions that make no pod of this file.
    no_pod: u64,
    /// Requests while no pod is served.
    unserved: u64,
    /// Damaged frames, and such of no host of the file.
    strange: u64,
    /// Pods that were served.
    pods: u64,
}

/// The introductions to a scheduler that has just been started.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    /// The host that introduced itself last, its proof, and its introduction.
    host: (u16, Key),
    join: Join,
    /// When the last introduction of that pod came.
    joined_at: Instant,
    /// The highest term of a host.
    term: u16,
}

/// Why an introduction makes no pod that is served now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NoPod {
    /// Another run is served.
    OtherRun,
    /// The host reads a file with more or fewer hosts.
    OtherFile,
    /// The numbers are no pod's.
    Numbers,
}

impl NoPod {
    const COUNT: usize = 3;
}

/// An invitation that is to be sent.
#[derive(Clone, Copy, Debug)]
struct Invited {
    host: u16,
    run: u16,
    /// The key of the introduction.
    key: Key,
}

/// A note that is to be sent, where it lies.
struct NoteToSend<'o> {
    host: u16,
    note: &'o Note,
    key: Key,
    own: HostId,
    templates: &'o mut FrameTemplates,
    addresses: &'o Addresses,
}

impl NoteToSend<'_> {
    /// Writes its frame; its length.
    #[inline]
    fn write(self, out: &mut [u8]) -> Option<usize> {
        self.templates.write((self.own, self.host), (self.note, self.key), self.addresses, out)
    }
}

/// The scheduler of one pod after the other.
pub(crate) struct SchedulerEndpoint<'a> {
    setup: &'a SchedulerSetup,
    addresses: Addresses,
    own: HostId,
    /// What was read last.
    header: Header,
    ext: Ext,
    rng: Rng,
    /// What proofs are made of.
    secret: RandomState,
    /// At most [`INVITED_MAX`].
    invited: VecDeque<Invited>,
    /// For each host: the key of its requests and of their answers, once it has introduced itself
    /// to the present pod. The pod answers no others.
    keys: Vec<Option<Key>>,
    templates: FrameTemplates,
    /// When this process began to listen.
    opened_at: Instant,
    pod: Option<PodServer>,
    gathering: Option<Gathering>,
    /// The last term that was begun; 0 before the first.
    term: u16,
    /// When the last request came in time, or the last introduction to the present pod.
    asked_at: Instant,
    /// The counts of former pods.
    past: PodCounters,
    counts: EndpointCounts,
    /// Lines that have not been shown.
    news: VecDeque<String>,
    say_at: Instant,
    /// For each reason: when it may be reported again.
    refuse_at: [Instant; NoPod::COUNT],
}

impl<'a> SchedulerEndpoint<'a> {
    /// The scheduler of `setup` at the device with `mac` that listens from `now` on.
    pub(crate) fn new(
        setup: &'a SchedulerSetup,
        (entry, mac): (&HostEntry, [u8; 6]),
        (seed, now): (u64, Instant),
    ) -> Result<Self, InputError> {
        let hosts = &setup.hosts;
        let own = HostId(u32::try_from(hosts.hosts.len()).unwrap_or(u32::MAX));
        let all: Vec<_> = hosts.hosts.iter().map(|host| (host.ip, host.mac)).collect();
        let (ip, prefix, gateway) = (entry.ip, entry.prefix, entry.gateway);
        let station = Station { mac: entry.mac.unwrap_or(mac), ip, prefix, gateway };
        let addresses = Addresses::new(&all, station, setup.udp_port).map_err(|error| {
            InputError::new(error.to_string(), "addresses of machines").at(&hosts.file, 0, 0)
        })?;
        Ok(Self {
            setup,
            addresses,
            own,
            header: Header::VACANT,
            ext: Ext::VACANT,
            rng: Rng::new(seed),
            secret: RandomState::new(),
            invited: VecDeque::with_capacity(INVITED_MAX),
            keys: vec![None; hosts.hosts.len()],
            templates: FrameTemplates::new(hosts.hosts.len()),
            opened_at: now,
            pod: None,
            gathering: None,
            term: 0,
            asked_at: Instant::ZERO,
            past: PodCounters::default(),
            counts: EndpointCounts::default(),
            news: VecDeque::new(),
            say_at: Instant::ZERO,
            refuse_at: [Instant::ZERO; NoPod::COUNT],
        })
    }

    /// Whether a pod is served.
    pub(crate) const fn serves(&self) -> bool {
        self.pod.is_some()
    }

    /// Takes in a burst of frames that have come by `now`; whether there were any for this
    /// scheduler.
    pub(crate) fn receive(&mut self, enquiry: &mut Enquiry<'_>, now: Instant) -> bool {
        let before = self.counts.received;
        enquiry.serve(|frame| self.take(frame, now));
        self.counts.received > before
    }

    /// Does what is due by `now`, and sends the answers that are due; whether there were any.
    pub(crate) fn answer(&mut self, enquiry: &mut Enquiry<'_>, now: Instant) -> bool {
        self.poll(now);
        if self.addresses.asks(now) {
            while enquiry.send(|out| self.addresses.poll_transmit(now, out)) {}
        }
        let before = self.counts.sent;
        for _ in 0..BURSTS_A_TURN {
            let mut put = 0;
            while enquiry.room() > 0
                && let Some(is_put) =
                    self.next_answer(now, |answer| enquiry.put(|out| answer.write(out)))
            {
                self.counts.unsent += u64::from(!is_put);
                put += u64::from(is_put);
            }
            if put == 0 {
                break;
            }
            let lost = enquiry.flush() as u64;
            self.counts.unsent += lost;
            self.counts.sent += put - lost;
        }
        self.counts.sent > before
    }

    /// Takes a frame that has come at `now`; whether it is for this scheduler.
    #[inline]
    fn take(&mut self, octets: &[u8], now: Instant) -> bool {
        if let Some(pod) = &mut self.pod
            && let Some((host, note)) = self.templates.read(octets, &self.addresses)
        {
            self.counts.received += 1;
            if pod.handle(host, note, now) {
                self.asked_at = now;
            }
            return true;
        }
        self.read_in_full(octets, now)
    }

    /// Reads a frame in full.
    fn read_in_full(&mut self, octets: &[u8], now: Instant) -> bool {
        let Self { header, ext, addresses, own, .. } = self;
        let check = UdpCheck::Required;
        let read = frame::parse_into(octets, &[], addresses.addressing(), check, header, ext);
        let from = match (&read, &header.body) {
            (Ok(read), Body::Note(_)) if read.route.dst == *own => read.route.src,
            _ => *own,
        };
        if read.is_err() && addresses.handle_frame(octets) {
            return true;
        }
        let Body::Note(note) = header.body else { return self.is_strange() };
        if from == *own {
            return self.is_strange();
        }
        self.counts.received += 1;
        let host = u16::try_from(from.0).unwrap_or(u16::MAX);
        match (Join::of(&note), &mut self.pod) {
            (Some(join), _) => self.on_claim((host, self.header.key), &join, octets, now),
            (None, Some(pod)) => {
                // Others are of another run, or of a host that forges the address.
                let key = self.keys.get(usize::from(host)).copied().flatten();
                if key != Some(self.header.key) {
                    self.counts.unproven += 1;
                    return true;
                }
                self.addresses.learn(from, octets);
                self.templates.note(host, octets, &self.header);
                if pod.handle(host, note.view(), now) {
                    self.asked_at = now;
                }
            }
            (None, None) => self.counts.unserved += 1,
        }
        true
    }

    /// A frame is for another process, or is from no host of the file.
    const fn is_strange(&mut self) -> bool {
        self.counts.strange += 1;
        false
    }

    /// A frame from the address of host number `host`, which begins with `head`, introduces it
    /// under `key`.
    fn on_claim(&mut self, (host, key): (u16, Key), join: &Join, head: &[u8], now: Instant) {
        self.counts.joins += 1;
        let period = now.as_ps() / PROOF_PERIOD.as_ps();
        let periods = [period, period.saturating_sub(1)];
        let run = join.run;
        if periods.iter().any(|period| self.proof_of((host, run), *period) == key) {
            self.addresses.learn(HostId(host.into()), head);
            return self.on_join((host, key), join, now);
        }
        self.counts.unproven += 1;
        // The way to a host that is served is known, and no frame without its key changes it.
        let is_served = self.pod.is_some() && now < self.asked_at + QUIET;
        let is_served = is_served && self.keys.get(usize::from(host)).is_some_and(Option::is_some);
        let reaches = is_served || self.addresses.reaches(host, head);
        if reaches && self.invited.len() < INVITED_MAX {
            self.invited.push_back(Invited { host, run, key });
        }
    }

    /// The proof, in a period, that a host of a run receives packets at the address which its
    /// frames name.
    fn proof_of(&self, (host, run): (u16, u16), period: u64) -> Key {
        Key(self.secret.hash_one((host, run, period)).max(1))
    }

    /// Host number `host` introduces itself under its proof.
    fn on_join(&mut self, (host, key): (u16, Key), join: &Join, now: Instant) {
        if usize::from(join.hosts) != self.setup.hosts.hosts.len() {
            return self.refuse((host, join), NoPod::OtherFile, now);
        }
        if let Some(pod) = &self.pod {
            let is_of = pod.is_of(join);
            if is_of && !is_later(join.term, self.term) {
                self.asked_at = now;
                self.take_in(host, key);
                return;
            }
            if !is_of && now < self.asked_at + QUIET {
                return self.refuse((host, join), NoPod::OtherRun, now);
            }
        }
        if self.term > 0 {
            self.begin((host, key), join, (later(self.term, join.term), now));
            return;
        }
        let first = Gathering { host: (host, key), join: *join, joined_at: now, term: 0 };
        let gathering = self.gathering.get_or_insert(first);
        gathering.term = later(gathering.term, join.term);
        let is_of = Join { term: 0, ..gathering.join } == Join { term: 0, ..*join };
        if is_of || now >= gathering.joined_at + QUIET {
            let Gathering { host: of, join: introduced, joined_at, .. } = gathering;
            (*of, *introduced, *joined_at) = ((host, key), *join, now);
        } else {
            self.refuse((host, join), NoPod::OtherRun, now);
        }
    }

    /// An introduction makes no pod now; this is reported from time to time.
    fn refuse(&mut self, (host, join): (u16, &Join), why: NoPod, now: Instant) {
        match why {
            NoPod::OtherRun => self.counts.other_run += 1,
            NoPod::OtherFile | NoPod::Numbers => self.counts.no_pod += 1,
        }
        let at = &mut self.refuse_at[why as usize];
        if now < *at {
            return;
        }
        *at = now + SAY_EVERY;
        let hosts = &self.setup.hosts;
        let name = hosts.hosts.get(usize::from(host)).map_or("?", |host| &host.name);
        let (run, timing) = (join.run, join.timing_inputs());
        let why = match why {
            NoPod::OtherRun => {
                format!("it waits until the hosts of another run have been silent for {QUIET}")
            }
            NoPod::OtherFile => format!(
                "its hosts file has {} hosts and {} has {}: start all with the same file",
                join.hosts,
                hosts.file,
                hosts.hosts.len()
            ),
            NoPod::Numbers => format!(
                "no pod has {} cells of {} bytes at {} kbit/s, a guard of {} and decisions of {}: \
                 look at --set sched.zeropod.* there",
                join.cells, join.cell, join.kbps, timing.guard, timing.delay
            ),
        };
        self.say(format!("host `{name}` of run {run} is not served: {why}"));
    }

    fn say(&mut self, line: String) {
        if self.news.len() < NEWS_MAX {
            self.news.push_back(line);
        }
    }

    /// Does what is due, beside answers.
    fn poll(&mut self, now: Instant) {
        let is_due = |gathering: &Gathering| self.gathers_until(&gathering.join) <= now;
        if let Some(gathering) = self.gathering.filter(is_due) {
            self.gathering = None;
            self.begin(gathering.host, &gathering.join, (gathering.term, now));
        }
        if self.pod.is_some() && now > self.asked_at + OVER {
            self.end("its hosts are silent");
        }
    }

    /// The instant by which all hosts that a former scheduler served have introduced themselves: it
    /// ended before this process began, and each of them has had no answer since.
    fn gathers_until(&self, join: &Join) -> Instant {
        self.opened_at + join.patience().min(GATHER_MAX) + COMING
    }

    /// Serves the pod that is introduced, in a term behind `term`.
    fn begin(&mut self, (host, key): (u16, Key), join: &Join, (term, now): (u16, Instant)) {
        // The first term has no fence, so none that follows another one begins again there.
        let term = u16::try_from(next_term(term.into(), false)).unwrap_or(BEHIND_THE_LAST);
        let seed = self.rng.fork("pod", self.counts.pods).next_u64();
        let Some(pod) = PodServer::new(join, &self.setup.params, (term.into(), now), seed) else {
            return self.refuse((host, join), NoPod::Numbers, now);
        };
        let is_same = self.pod.as_ref().is_some_and(|pod| pod.is_of(join));
        self.end(if is_same { "a host was in a later term" } else { "other hosts have come" });
        self.say(format!(
            "run {}: {} hosts, epochs of {}, guard {}, term {term}",
            pod.run(),
            pod.hosts(),
            pod.epoch(),
            pod.guard(),
        ));
        (self.term, self.asked_at, self.say_at) = (term, now, now + SAY_EVERY);
        self.counts.pods += 1;
        self.pod = Some(pod);
        self.keys.fill(None);
        self.templates.forget_all();
        self.take_in(host, key);
    }

    /// Serves the present pod no more.
    fn end(&mut self, why: &str) {
        if let Some(pod) = self.pod.take() {
            let counters = pod.counters();
            self.say(format!("run {} is over: {why}; {}", pod.run(), shown(&counters)));
            self.past = self.past.with(&counters);
        }
    }

    /// Hands the next answer or invitation that is due by `now` to `send`; returns the result of
    /// `send`, or `None` where nothing is due.
    #[inline]
    fn next_answer<R>(
        &mut self,
        now: Instant,
        send: impl FnOnce(NoteToSend<'_>) -> R,
    ) -> Option<R> {
        let invited = self.invited.pop_front();
        let invite = invited.map(|Invited { host, run, .. }| {
            let proof = self.proof_of((host, run), now.as_ps() / PROOF_PERIOD.as_ps());
            Invite { proof }.note()
        });
        let Self { own, templates, addresses, .. } = self;
        if let (Some(Invited { host, key, .. }), Some(note)) = (invited, &invite) {
            return Some(send(NoteToSend { host, note, key, own: *own, templates, addresses }));
        }
        // One whose hosts are silent may be of a run that is over, and they of the next one.
        let pod = self.pod.as_mut()?;
        let is_silent = now >= self.asked_at + QUIET.max(pod.epoch() * SILENT_EPOCHS);
        // Bounded by the answers that are due.
        loop {
            let (host, note) = pod.poll_answer(now)?;
            let key = self.keys.get(usize::from(host)).copied().flatten();
            if let Some(key) = key.filter(|_| !is_silent) {
                return Some(send(NoteToSend { host, note, key, own: *own, templates, addresses }));
            }
        }
    }

    /// Host number `host` is in the present pod under `key`.
    fn take_in(&mut self, host: u16, key: Key) {
        if let Some(known) = self.keys.get_mut(usize::from(host))
            && *known != Some(key)
        {
            *known = Some(key);
            self.templates.forget(host);
        }
    }

    /// What has happened since the last call, as one line.
    pub(super) fn news(&mut self, now: Instant) -> Option<String> {
        if let Some(line) = self.news.pop_front() {
            return Some(line);
        }
        let pod = self.pod.as_ref().filter(|_| now >= self.say_at)?;
        self.say_at = now + SAY_EVERY;
        Some(format!("run {}: {}", pod.run(), shown(&pod.counters())))
    }

    /// The books of the process.
    pub(crate) fn served(&self) -> PodsServed {
        let counts = &self.counts;
        let named = [
            ("received", counts.received),
            ("sent", counts.sent),
            ("unsent", counts.unsent),
            ("joins", counts.joins),
            ("unproven", counts.unproven),
            ("other_run", counts.other_run),
            ("no_pod", counts.no_pod),
            ("unserved", counts.unserved),
            ("strange", counts.strange),
            ("pods", counts.pods),
        ];
        let counters = named.into_iter().filter(|(_, count)| *count > 0);
        let counters = counters.map(|(name, count)| (name.to_owned(), count)).collect();
        let present = self.pod.as_ref().map(PodServer::counters).unwrap_or_default();
        PodsServed { counters, pods: self.past.with(&present) }
    }
}

/// The later one of two terms; 0 is none.
const fn later(a: u16, b: u16) -> u16 {
    if is_later(b, a) { b } else { a }
}

/// A pod's counters in words.
fn shown(counters: &PodCounters) -> String {
    let refused = counters.refusals().filter(|(_, count)| *count > 0);
    let refused: String = refused.map(|(why, count)| format!(", {why} {count}")).collect();
    let (term, epochs, grants) = (counters.term, counters.epochs, counters.grants);
    format!("term {term}, {epochs} decisions, {grants} grants{refused}")
}

#[cfg(test)]
mod tests;
