//! The scheduler without its device: frames in, frames out, and lines about what happens.
//!
//! ```text
//!   JOIN ---> gathered, after a start only: until all hosts of a former scheduler must have come
//!                |
//!                v
//!   RTS ----> PodServer of the run, in a later term than any host of it has named ----> SCHD
//! ```

use std::collections::VecDeque;

use experiments::hosts_file::HostEntry;
use experiments::input::InputError;
use fabric::{PodCounters, PodServer};
use transport::sched::zeropod::next_term;
use transport::wire::checksum::Checksum;
use transport::wire::frame::{self, FrameSpec, UdpCheck};
use transport::wire::pod::Join;
use transport::wire::{Body, Ext, Header, Note};
use transport::{Duration, EntropyValue, FlowId, HostId, Instant, Rng};
use transport_dpdk::Enquiry;

use super::{SchedulerSetup, Served};
use crate::switching::LearntAddresses;

/// Between two lines about the pod, and between two of one kind about introductions that are
/// refused.
const SAY_EVERY: Duration = Duration::from_s(10);
/// Lines that wait at most.
const NEWS_MAX: usize = 16;
/// Silence of all hosts after which hosts of another run may introduce theirs, and after which a
/// pod is over.
const QUIET: Duration = Duration::from_ms(200);
const OVER: Duration = Duration::from_s(2);
/// Beyond the patience of hosts: until the introduction of each has come, which it repeats every
/// 10 ms.
const COMING: Duration = Duration::from_ms(20);
/// A scheduler that has been started waits for no longer, whatever patience hosts introduce.
const GATHER_MAX: Duration = Duration::from_s(10);
/// Bursts of answers before the next look at what comes in: answers of windows that were missed
/// come in several turns.
const BURSTS_A_TURN: u32 = 8;

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
    /// Damaged frames, and such of no host of the file.
    strange: u64,
    /// Pods that were served.
    pods: u64,
}

/// The introductions to a scheduler that has just been started.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    /// The host that introduced itself last, and what it said.
    host: u16,
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

/// The scheduler of one pod after the other.
pub(crate) struct Office<'a> {
    setup: &'a SchedulerSetup,
    addresses: LearntAddresses,
    own: HostId,
    /// What was read last.
    header: Header,
    ext: Ext,
    rng: Rng,
    /// When this process began to listen.
    opened_at: Instant,
    pod: Option<PodServer>,
    gathering: Option<Gathering>,
    /// The last term that was begun; 0 before the first.
    term: u32,
    /// When the last request came that counts.
    asked_at: Instant,
    /// The counts of former pods.
    past: PodCounters,
    counts: Counts,
    /// Lines that have not been shown.
    news: VecDeque<String>,
    say_at: Instant,
    /// For each reason: when it may be said again.
    refuse_at: [Instant; NoPod::COUNT],
}

impl<'a> Office<'a> {
    /// The scheduler of `setup` at the device with `mac` that listens from `now` on.
    pub(crate) fn new(
        setup: &'a SchedulerSetup,
        (entry, mac): (&HostEntry, [u8; 6]),
        (seed, now): (u64, Instant),
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
            header: Header::VACANT,
            ext: Ext::VACANT,
            rng: Rng::new(seed),
            opened_at: now,
            pod: None,
            gathering: None,
            term: 0,
            asked_at: Instant::ZERO,
            past: PodCounters::default(),
            counts: Counts::default(),
            news: VecDeque::new(),
            say_at: Instant::ZERO,
            refuse_at: [Instant::ZERO; NoPod::COUNT],
        })
    }

    /// Frames from hosts of the file so far.
    pub(crate) const fn received(&self) -> u64 {
        self.counts.received
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
        let before = self.counts.sent;
        for _ in 0..BURSTS_A_TURN {
            let mut put = 0;
            while enquiry.room() > 0
                && let Some((host, note)) = self.next_answer(now)
            {
                let is_put = enquiry.put(|out| self.write(host, &note, out));
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
    fn take(&mut self, octets: &[u8], now: Instant) -> bool {
        let Self { header, ext, addresses, own, .. } = self;
        let check = UdpCheck::Required;
        let read = frame::parse_into(octets, &[], addresses.addressing(), check, header, ext);
        let from = match (&read, &header.body) {
            (Ok(read), Body::Note(_)) if read.route.dst == *own => read.route.src,
            _ => *own,
        };
        let Body::Note(note) = header.body else { return self.is_strange() };
        if from == *own {
            return self.is_strange();
        }
        self.counts.received += 1;
        self.addresses.learn(from, octets);
        let host = u16::try_from(from.0).unwrap_or(u16::MAX);
        match (Join::of(&note), &mut self.pod) {
            (Some(join), _) => self.on_join(host, &join, now),
            (None, Some(pod)) => {
                // One that does not count is of a host that is there, all the same.
                pod.handle(host, &note, now);
                self.asked_at = now;
            }
            (None, None) => self.counts.unserved += 1,
        }
        true
    }

    /// A frame is for another, or is none of a host of the file.
    const fn is_strange(&mut self) -> bool {
        self.counts.strange += 1;
        false
    }

    /// Host number `host` introduces itself.
    fn on_join(&mut self, host: u16, join: &Join, now: Instant) {
        self.counts.joins += 1;
        if usize::from(join.hosts) != self.setup.hosts.hosts.len() {
            return self.refuse((host, join), NoPod::OtherFile, now);
        }
        if let Some(pod) = &self.pod {
            let is_of = pod.is_of(join);
            if is_of && pod.term() >= join.term.into() {
                return;
            }
            if !is_of && now < self.asked_at + QUIET {
                return self.refuse((host, join), NoPod::OtherRun, now);
            }
        }
        if self.term > 0 {
            self.begin((host, join), self.term.max(join.term.into()), now);
            return;
        }
        let first = Gathering { host, join: *join, joined_at: now, term: 0 };
        let gathering = self.gathering.get_or_insert(first);
        gathering.term = gathering.term.max(join.term);
        let is_of = Join { term: 0, ..gathering.join } == Join { term: 0, ..*join };
        if is_of || now >= gathering.joined_at + QUIET {
            (gathering.host, gathering.join, gathering.joined_at) = (host, *join, now);
        } else {
            self.refuse((host, join), NoPod::OtherRun, now);
        }
    }

    /// An introduction makes no pod now, which is said now and then.
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
        let (run, timing) = (join.run, join.terms());
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
            self.begin((gathering.host, &gathering.join), gathering.term.into(), now);
        }
        if self.pod.is_some() && now > self.asked_at + OVER {
            self.end("its hosts are silent");
        }
    }

    /// When all hosts that a former scheduler served have introduced themselves: it ended before
    /// this process began, and each has had no answer since.
    fn gathers_until(&self, join: &Join) -> Instant {
        self.opened_at + join.patience().min(GATHER_MAX) + COMING
    }

    /// Serves the pod that is introduced, in a term behind `term`.
    fn begin(&mut self, (host, join): (u16, &Join), term: u32, now: Instant) {
        let term = next_term(term, false);
        let seed = self.rng.fork("pod", self.counts.pods).next_u64();
        let Some(pod) = PodServer::new(join, &self.setup.params, (term, now), seed) else {
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
    }

    /// Serves the present pod no more.
    fn end(&mut self, why: &str) {
        if let Some(pod) = self.pod.take() {
            let counters = pod.counters();
            self.say(format!("run {} is over: {why}; {}", pod.run(), shown(&counters)));
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

    /// What has happened since the last look, a line.
    pub(super) fn news(&mut self, now: Instant) -> Option<String> {
        if let Some(line) = self.news.pop_front() {
            return Some(line);
        }
        let pod = self.pod.as_ref().filter(|_| now >= self.say_at)?;
        self.say_at = now + SAY_EVERY;
        Some(format!("run {}: {}", pod.run(), shown(&pod.counters())))
    }

    /// The books of the process.
    pub(crate) fn served(&self) -> Served {
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

#[cfg(test)]
mod tests {
    use experiments::hosts_file::HostsFile;
    use transport::sched::zeropod::ZeropodParams;
    use transport::wire::addressing::UDP_PORT;

    use super::*;

    const MS: fn(u64) -> Instant = |ms| Instant::ZERO + Duration::from_ms(ms);

    fn setup() -> SchedulerSetup {
        let host = |number: u8, role: &str| {
            format!(
                "[[host]]\nname = \"h{number}\"\naddress = \"10.0.0.{number}/24\"\n\
                 mac = \"02:00:00:00:00:0{number}\"\ndevice = \"eth0\"\n\
                 control = \"10.1.0.1:4798\"\n{role}"
            )
        };
        let text = [host(1, ""), host(2, ""), host(3, "role = \"scheduler\"\n")].concat();
        let hosts = HostsFile::read(text.as_bytes(), "hosts.toml").unwrap();
        SchedulerSetup { hosts, device: None, params: ZeropodParams::default(), udp_port: UDP_PORT }
    }

    fn office(setup: &SchedulerSetup) -> Office<'_> {
        let entry = setup.hosts.scheduler.as_ref().unwrap();
        Office::new(setup, (entry, [2, 0, 0, 0, 0, 3]), (1, MS(0))).unwrap()
    }

    /// Epochs of some 0.2 ms: its hosts are patient for the least time, 50 ms.
    fn join(run: u16, term: u16) -> Join {
        Join {
            run,
            term,
            hosts: 2,
            cells: 16,
            payload: 1024,
            cell: 1104,
            control: 92,
            kbps: 1_000_000,
            hop_ns: 20_000,
            guard_ns: 50_000,
            delay_ns: 300_000,
            early_ns: 50_000,
        }
    }

    /// Host `host` introduces itself in a frame.
    fn say(office: &mut Office<'_>, host: u32, join: &Join, now: Instant) {
        let addrs = office.addresses.addressing().pair(HostId(host), office.own).unwrap();
        let note = join.note();
        let header = Header::new(EntropyValue(0), FlowId::UNKNOWN, Body::Note(note));
        let spec = FrameSpec { addrs, ecn: note.class.ecn(), class: note.class };
        let mut out = [0; 256];
        let length = frame::emit(&spec, &header, &Ext::VACANT, 0, &mut out);
        frame::finish_udp_checksum(&mut out[..length], Checksum::new());
        assert!(office.take(&out[..length], now));
    }

    /// The term that is served at `now`, and of which run.
    fn served(office: &mut Office<'_>, now: Instant) -> Option<(u16, u32)> {
        office.poll(now);
        office.pod.as_ref().map(|pod| (pod.run(), pod.term()))
    }

    #[test]
    fn a_scheduler_that_has_been_started_gathers_the_terms_of_all_hosts() {
        let setup = setup();
        let mut office = office(&setup);
        say(&mut office, 0, &join(1, 0), MS(1));
        assert_eq!(served(&mut office, MS(49)), None);
        // The other host had an answer until this process began, and was patient.
        say(&mut office, 1, &join(1, 5), MS(60));
        say(&mut office, 0, &join(1, 0), MS(61));
        assert_eq!(served(&mut office, MS(69)), None);
        assert_eq!(served(&mut office, MS(70)), Some((1, 7)));
    }

    #[test]
    fn a_scheduler_that_has_listened_for_long_begins_at_once() {
        let setup = setup();
        let mut office = office(&setup);
        say(&mut office, 0, &join(1, 0), MS(1000));
        assert_eq!(served(&mut office, MS(1000)), Some((1, 1)));
        // A host that could not reach it is in a later term of another scheduler.
        say(&mut office, 1, &join(1, 8), MS(1001));
        assert_eq!(served(&mut office, MS(1001)), Some((1, 9)));
        let news: Vec<String> = core::iter::from_fn(|| office.news(MS(1001))).collect();
        assert!(news[1].contains("a host was in a later term"), "{news:?}");
    }

    #[test]
    fn introductions_of_another_run_wait_until_the_first_one_is_silent() {
        let setup = setup();
        let mut office = office(&setup);
        // Whose hosts are patient for longer, and of a later term.
        let other = Join { kbps: 100_000, ..join(2, 4) };
        assert!(other.patience() > join(1, 0).patience());
        say(&mut office, 0, &join(1, 0), MS(1));
        say(&mut office, 1, &other, MS(2));
        assert_eq!(served(&mut office, MS(70)), Some((1, 5)));
        assert_eq!(office.counts.other_run, 1);
        say(&mut office, 1, &other, MS(71));
        assert_eq!(served(&mut office, MS(71)), Some((1, 5)));
        say(&mut office, 1, &other, MS(270));
        assert_eq!(served(&mut office, MS(270)), Some((2, 7)));
        let mut office = self::office(&setup);
        say(&mut office, 0, &join(1, 0), MS(1));
        say(&mut office, 1, &other, MS(201));
        assert_eq!(served(&mut office, MS(1000)), Some((2, 5)), "the first one has gone");
    }

    #[test]
    fn no_host_makes_a_scheduler_gather_for_ever() {
        let setup = setup();
        let mut office = office(&setup);
        let slow = Join { kbps: 1, ..join(1, 0) };
        assert!(slow.patience() > Duration::from_s(3600));
        say(&mut office, 0, &slow, MS(1));
        assert_eq!(served(&mut office, MS(10_019)), None);
        office.poll(MS(10_020));
        assert!(office.gathering.is_none());
    }

    #[test]
    fn refused_introductions_are_said_now_and_then() {
        let setup = setup();
        let mut office = office(&setup);
        let wrong = Join { hosts: 3, ..join(1, 0) };
        for ms in (0..9_990).step_by(10) {
            say(&mut office, 1, &wrong, MS(ms));
        }
        let line = office.news(MS(9_990)).unwrap();
        for words in ["host `h2` of run 1", "has 3 hosts", "hosts.toml has 2", "same file"] {
            assert!(line.contains(words), "{words}: {line}");
        }
        assert_eq!(office.news(MS(9_990)), None);
        say(&mut office, 1, &wrong, MS(10_000));
        assert!(office.news(MS(10_000)).is_some());
        // Decisions that take seconds in epochs of microseconds.
        let slow = Join { delay_ns: u32::MAX, kbps: 100_000_000, guard_ns: 0, ..join(1, 0) };
        say(&mut office, 0, &slow, MS(11_000));
        office.poll(MS(11_000));
        let line = office.news(MS(11_000)).unwrap();
        assert!(line.contains("host `h1`") && line.contains("no pod has 16 cells"), "{line}");
        assert_eq!(office.counts.no_pod, 1001);
    }
}
