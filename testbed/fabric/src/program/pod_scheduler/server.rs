//! A pod's scheduler without a switch: for a process on a real network, which gives it the notes of
//! hosts and sends its answers.
//!
//! Source: that of the switch program, whose code it runs; introductions of hosts are ours. The
//! scheduler has no record of the network between it and the hosts, neither of its switches nor of
//! the paths of packets. So the pod counts as one switch with as many paths through it as hosts,
//! or as switches with enough paths between them, and no path is suspected of losses.

use transport::sched::zeropod::ZeropodParams;
use transport::sched::zeropod::timing::Timing;
use transport::wire::pod::{Join, hosts_a_switch};
use transport::wire::{Note, NoteView};
use transport::{Duration, Instant};

use super::members::Members;
use super::terms::Terms;
use super::{Pod, PodCounters, settings};
use crate::pod::Shape;
use crate::pod::scheduler::Settings;

/// The scheduler of one run's pod.
#[derive(Clone, Debug)]
pub struct PodServer {
    pod: Pod,
    /// The introduction that the pod is made of, without a term.
    join: Join,
}

/// Epochs by which requests may come later than in an emulated pod, or sooner. Hosts are polled
/// late, and report arrivals of each epoch by the request of another one. A host whose clock is
/// ahead must be informed by how much.
const SLACK: u64 = 8;

/// The greatest term.
const TERM_MAX: u32 = (1 << 16) - 1;

impl PodServer {
    /// The scheduler of the pod that is introduced, which decides by `params` and begins `term`,
    /// above 0, at `now`. `None` where the numbers of `join` make no pod, or the term is 0.
    #[must_use]
    pub fn new(
        join: &Join,
        params: &ZeropodParams,
        (term, now): (u32, Instant),
        seed: u64,
    ) -> Option<Self> {
        let each = usize::from(hosts_a_switch(join.hosts));
        let members = Members::first_ones(Shape::new(join.hosts.into(), each, each).ok()?);
        let params = ZeropodParams {
            cell: join.payload,
            cells: join.cells.into(),
            follow: true,
            backup: 0,
            ..*params
        };
        let timing = Timing::new(&join.timing_inputs()).asking_every(params.ask_every);
        let terms = Terms::alone(&timing);
        let settings = settings::settings(&params, &timing)?;
        // Cells that are late or lost say nothing about ways that are not known.
        let settings = Settings { misses: 0, ..settings };
        let mut pod = Pod::of(members, (timing, terms), settings, (&params, seed))?;
        let epoch = timing.epoch_at(now);
        if !(1..=TERM_MAX).contains(&term) {
            return None;
        }
        pod.slack = SLACK;
        // This also writes the matrices once, so that no decision waits for memory of the system.
        pod.begin_term(term, epoch);
        pod.answer_always(pod.window_of(epoch + 1));
        Some(Self { pod, join: Join { term: 0, ..*join } })
    }

    /// Whether an introduction is of this pod.
    #[must_use]
    pub fn is_of(&self, join: &Join) -> bool {
        self.join == Join { term: 0, ..*join }
    }

    /// The number of the run.
    #[must_use]
    pub const fn run(&self) -> u16 {
        self.join.run
    }

    /// Hosts of the pod.
    #[must_use]
    pub const fn hosts(&self) -> usize {
        self.pod.members.hosts()
    }

    /// The term.
    #[must_use]
    pub const fn term(&self) -> u32 {
        self.pod.scheduler.term()
    }

    /// An epoch of the pod.
    #[inline]
    #[must_use]
    pub const fn epoch(&self) -> Duration {
        self.pod.timing.epoch
    }

    /// The time at the end of an epoch in which nothing is sent.
    #[must_use]
    pub fn guard(&self) -> Duration {
        self.join.timing_inputs().guard
    }

    /// Takes a note of host number `host` that has come at `now`; whether it is a request that
    /// counts. Afterwards ask [`PodServer::poll_at`].
    #[inline]
    pub fn handle(&mut self, host: u16, note: NoteView<'_>, now: Instant) -> bool {
        let taken = self.pod.take(host, |asked| asked.rts.read(note), now);
        if let Err(why) = taken {
            self.pod.scheduler.refuse(why);
        }
        taken.is_ok()
    }

    /// When [`PodServer::poll_answer`] has something to do.
    #[inline]
    #[must_use]
    pub fn poll_at(&self) -> Instant {
        self.pod.poll_at()
    }

    /// Makes the decisions that are due by `now`, up to the next answer: its host and its note.
    /// Call it until there is none.
    #[inline]
    pub fn poll_answer(&mut self, now: Instant) -> Option<(u16, &Note)> {
        self.pod.next_answer(now).map(|answer| (answer.member, &answer.note))
    }

    /// What the scheduler has counted.
    #[must_use]
    pub fn counters(&self) -> PodCounters {
        self.pod.counters()
    }
}

#[cfg(test)]
mod tests {
    use transport::wire::pod::{ClockState, DemandEnd, Grant, Rts, Schd, Stamp};

    use super::*;

    fn join() -> Join {
        Join {
            run: 9,
            term: 0,
            hosts: 3,
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

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    fn server(term: u32, now: Instant) -> PodServer {
        PodServer::new(&join(), &ZeropodParams::default(), (term, now), 1).unwrap()
    }

    fn request(server: &PodServer, now: Instant, update: Option<(DemandEnd, u32)>) -> Rts {
        let epoch = u32::try_from(server.pod.timing.epoch_at(now)).unwrap();
        Rts { epoch, update, ..Rts::VACANT }
    }

    /// All answers until `until`, polled each microsecond.
    fn answers(server: &mut PodServer, from: Instant, until: Instant) -> Vec<(Instant, u16, Schd)> {
        let (mut all, mut now) = (Vec::new(), from);
        while now < until {
            while let Some((host, note)) = server.poll_answer(now) {
                all.push((now, host, Schd::of(note).unwrap()));
            }
            now += Duration::from_us(1);
        }
        all
    }

    #[test]
    fn every_host_is_answered_in_every_epoch_from_the_beginning_on() {
        // Long after the process began: no epoch before that is made up for.
        let now = at(3_000_000);
        let mut server = server(5, now);
        let epochs = 20;
        let until = now + server.epoch() * epochs;
        let all = answers(&mut server, now, until);
        for host in 0..3 {
            let of_host = all.iter().filter(|(_, to, _)| *to == host).count() as u64;
            assert!((epochs - 3..=epochs).contains(&of_host), "{of_host}");
        }
        assert!(all.iter().all(|(.., schd)| schd.term == 5 && schd.stamp.is_some()));
    }

    #[test]
    fn what_a_host_asks_for_is_granted_behind_the_fence_and_no_two_send_to_one() {
        let now = at(1_000_000);
        let mut server = server(1, now);
        for host in [0, 1] {
            let rts = request(&server, now, Some((DemandEnd::Host(2), 64 * 1024)));
            assert!(server.handle(host, rts.note().view(), now));
        }
        let until = now + server.epoch() * 40;
        let grants: Vec<_> = answers(&mut server, now, until)
            .into_iter()
            .filter_map(|(_, host, schd)| schd.grant.map(|grant| (host, grant)))
            .collect();
        for host in [0, 1] {
            let of_host = grants.iter().filter(|(to, _)| *to == host);
            let cells: u32 = of_host.map(|(_, grant)| u32::from(grant.cells)).sum();
            assert_eq!(cells, 64, "{grants:?}");
        }
        let mut epochs: Vec<u32> = grants.iter().map(|(_, grant)| grant.epoch).collect();
        epochs.sort_unstable();
        assert!(epochs.windows(2).all(|pair| pair[0] < pair[1]), "one sender an epoch: {epochs:?}");
    }

    /// More hosts than a switch has: every one sends in every epoch behind the fence.
    #[test]
    fn all_hosts_of_a_large_pod_are_granted_what_a_permutation_asks_for() {
        let hosts = 256_u16;
        let join = Join { hosts, ..join() };
        let now = at(1_000_000);
        let mut server = PodServer::new(&join, &ZeropodParams::default(), (1, now), 1).unwrap();
        for host in 0..hosts {
            let to = DemandEnd::Host((host + 37) % hosts);
            let rts = request(&server, now, Some((to, 4 * 16 * 1024)));
            assert!(server.handle(host, rts.note().view(), now));
        }
        let until = now + server.epoch() * 40;
        let mut granted = std::collections::BTreeMap::<u32, u32>::new();
        for (_, _, schd) in answers(&mut server, now, until) {
            if let Some(grant) = schd.grant {
                assert_eq!(grant.cells, 16);
                *granted.entry(grant.epoch).or_default() += 1;
            }
        }
        assert_eq!(granted.len(), 4, "{granted:?}");
        assert!(granted.values().all(|senders| *senders == u32::from(hosts)), "{granted:?}");
    }

    /// A host whose clock is ahead by more than a request takes would never be corrected
    /// otherwise.
    #[test]
    fn a_host_whose_clock_is_ahead_gets_the_size_of_its_lead() {
        let now = at(1_000_000);
        let mut server = server(1, now);
        let ahead = server.epoch() * 2;
        let clock = Some(ClockState { behind_gap: false, settled: false });
        let rts = Rts { clock, ..request(&server, now + ahead, None) };
        assert!(server.handle(0, rts.note().view(), now));
        let far = Rts { clock, ..request(&server, now + ahead * 5, None) };
        assert!(!server.handle(0, far.note().view(), now));
        let until = now + server.epoch() * 8;
        let late = answers(&mut server, now, until).into_iter().find_map(|(_, host, schd)| {
            let stamp = schd.stamp.filter(|_| host == 0)?;
            stamp.late.map(i64::from)
        });
        let unit = Stamp::unit(server.epoch()).as_ps().cast_signed();
        let ahead = ahead.as_ps().cast_signed();
        let late = late.unwrap() * unit;
        assert!((-2 * ahead..-ahead / 2).contains(&late), "{late} of {ahead}");
    }

    #[test]
    fn a_scheduler_that_restarts_has_forgotten_requests_and_their_lateness() {
        let now = at(1_000_000);
        let mut server = server(1, now);
        let clock = Some(ClockState { behind_gap: false, settled: true });
        let rts = Rts { clock, ..request(&server, now, None) };
        assert!(server.handle(1, rts.note().view(), now));
        let until = now + server.epoch() * 8;
        answers(&mut server, now, until);
        let pod = &mut server.pod;
        let is_forgotten = |pod: &Pod| {
            let lateness = pod.lateness.as_ref().unwrap();
            lateness.is_empty() && pod.asked_for.iter().all(|epoch| *epoch == 0)
        };
        assert!(!is_forgotten(pod));
        let later = now + Duration::from_s(1);
        pod.terms = Terms::new(false, false, &[(later, later)], 1);
        pod.pass_outages(later);
        assert!(is_forgotten(pod));
    }

    /// The decision about the request is due before the next window opens, until which nothing else
    /// was to be done.
    #[test]
    fn a_request_between_two_answers_of_a_window_is_decided_in_its_turn() {
        let now = at(1_000_000);
        let mut server = server(1, now);
        let behind_fence = now + server.epoch() * 20;
        answers(&mut server, now, behind_fence);
        let mut now = behind_fence;
        while server.poll_answer(now).is_none() {
            now += Duration::from_us(1);
        }
        let pod = &server.pod;
        assert!(pod.answers.next_at() < pod.busy_at, "other answers of the window are left");
        assert!(pod.busy_at < pod.decision_at(), "there is nothing to decide");
        let rts = request(&server, now, Some((DemandEnd::Host(2), 16 * 1024)));
        assert!(server.handle(0, rts.note().view(), now));
        let until = now + server.epoch() * 20;
        let all = answers(&mut server, now, until);
        let granted = all.iter().filter_map(|(_, host, schd)| schd.grant.map(|it| (*host, it.to)));
        assert_eq!(granted.collect::<Vec<_>>(), [(0, DemandEnd::Host(2))]);
    }

    #[test]
    fn notes_that_are_no_requests_are_counted() {
        let mut server = server(1, at(0));
        assert!(!server.handle(0, join().note().view(), at(10)));
        let rts = request(&server, at(10), None);
        assert!(!server.handle(3, rts.note().view(), at(10)), "there are three hosts");
        let refused: u64 = server.counters().refusals().map(|(_, count)| count).sum();
        assert_eq!(refused, 2);
    }

    #[test]
    fn numbers_that_are_no_pods_are_refused() {
        let params = ZeropodParams::default();
        let made = |join: &Join, term| PodServer::new(join, &params, (term, at(0)), 1).is_some();
        assert!(made(&join(), 1) && made(&join(), TERM_MAX));
        assert!(!made(&join(), 0) && !made(&join(), TERM_MAX + 1));
        // Decisions that take seconds in epochs of microseconds.
        let slow = Join { delay_ns: u32::MAX, kbps: 400_000_000, guard_ns: 0, ..join() };
        assert!(!made(&slow, 1));
        assert!(server(1, at(0)).is_of(&Join { term: 7, ..join() }));
        assert!(!server(1, at(0)).is_of(&Join { run: 8, ..join() }));
    }

    /// Requests in turns of eight epochs, from which a host's clock follows.
    #[test]
    fn where_hosts_ask_on_change_a_request_has_one_answer_and_silent_hosts_get_one_in_turns() {
        let now = at(1_000_000);
        let params = ZeropodParams { ask_every: 8, ..ZeropodParams::default() };
        let mut server = PodServer::new(&join(), &params, (1, now), 1).unwrap();
        let (epoch, fence) = (server.epoch(), 16);
        let clock = Some(ClockState { behind_gap: false, settled: true });
        let mut all = Vec::new();
        for turn in 0..80 {
            let now = now + epoch * turn;
            if turn % 8 == 5 {
                let rts = Rts { term: 1, clock, ..request(&server, now, None) };
                assert!(server.handle(0, rts.note().view(), now));
            }
            all.extend(answers(&mut server, now, now + epoch));
        }
        let behind = all.iter().filter(|(at, ..)| *at > now + epoch * fence);
        let stamps: Vec<_> = behind.map(|(_, host, schd)| (*host, schd.stamp.unwrap())).collect();
        let of = |host: u16| stamps.iter().filter(move |(to, _)| *to == host);
        assert!(of(0).all(|(_, stamp)| stamp.late.is_some()), "{stamps:?}");
        for host in 0..3 {
            assert!((7..=9).contains(&of(host).count()), "{host}: {stamps:?}");
        }
    }

    /// No answer can say how late such requests were.
    #[test]
    fn a_host_whose_requests_all_come_later_than_their_window_is_answered_in_turns() {
        let now = at(1_000_000);
        let params = ZeropodParams { ask_every: 8, ..ZeropodParams::default() };
        let mut server = PodServer::new(&join(), &params, (1, now), 1).unwrap();
        let epoch = server.epoch();
        let clock = Some(ClockState { behind_gap: false, settled: true });
        let mut all = Vec::new();
        for turn in 0..80 {
            let now = now + epoch * turn;
            if turn % 8 == 5 {
                let left = now.before(epoch * 4);
                let rts = Rts { term: 1, clock, ..request(&server, left, None) };
                assert!(server.handle(0, rts.note().view(), now));
            }
            all.extend(answers(&mut server, now, now + epoch));
        }
        let behind = all.iter().filter(|(at, to, _)| *at > now + epoch * 16 && *to == 0);
        let stamps: Vec<_> = behind.map(|(.., schd)| schd.stamp.unwrap()).collect();
        assert!((7..=9).contains(&stamps.len()), "{stamps:?}");
        assert!(stamps.iter().all(|stamp| stamp.late.is_none()));
    }

    #[test]
    fn a_request_reports_several_epochs_and_one_answer_passes_them_on() {
        let now = at(1_000_000);
        let params = ZeropodParams { ask_every: 4, superepoch: 4, ..ZeropodParams::default() };
        let mut server = PodServer::new(&join(), &params, (1, now), 1).unwrap();
        let (last, grants) = granted_eight(&mut server, now);
        assert!(grants.iter().any(|grant| grant.epochs == 4), "{grants:?}");
        assert_eq!(reported(&mut server, last, 0x8007), [(last, 0xffff, 0b11)]);
        // Nothing was granted 15 epochs before.
        let refused: u64 = server.counters().refusals().map(|(_, count)| count).sum();
        assert_eq!(refused, 1);
    }

    /// A scheduler has settings of its own, and no host names them.
    #[test]
    fn a_scheduler_that_does_not_ask_on_change_passes_all_epochs_of_a_request_on() {
        let now = at(1_000_000);
        let mut server = server(1, now);
        let (last, _) = granted_eight(&mut server, now);
        assert_eq!(reported(&mut server, last, 0xff), [(last, 0xffff, 0x7f)]);
    }

    /// Host 0 is granted eight epochs for host 2: the last of them, and the grants.
    fn granted_eight(server: &mut PodServer, now: Instant) -> (u64, Vec<Grant>) {
        let rts = request(server, now, Some((DemandEnd::Host(2), 8 * 16 * 1024)));
        assert!(server.handle(0, rts.note().view(), now));
        let until = now + server.epoch() * 30;
        let all = answers(server, now, until);
        let grants: Vec<_> = all.iter().filter_map(|(.., schd)| schd.grant).collect();
        assert_eq!(grants.iter().map(|grant| u32::from(grant.epochs)).sum::<u32>(), 8);
        let last = grants.last().unwrap();
        (u64::from(last.epoch) + u64::from(last.epochs) - 1, grants)
    }

    /// The receipts that host 0 gets when host 2 reports all cells of `last` and of epochs before
    /// it by one request: epoch, cells and epochs before it.
    fn reported(server: &mut PodServer, last: u64, arrived_in: u16) -> Vec<(u64, u32, u16)> {
        let now = server.pod.timing.start(last + server.pod.timing.to_receipt);
        answers(server, now.before(server.epoch()), now);
        let rts = Rts { arrived: 0xffff, arrived_in, ..request(server, now, None) };
        assert!(server.handle(2, rts.note().view(), now));
        let until = now + server.epoch() * 12;
        let all = answers(server, now, until);
        let receipts = all.iter().filter_map(|(_, host, schd)| Some((host, schd.receipt?, schd)));
        let of = |(host, (sent_in, arrived), schd): (&u16, (u16, u32), &Schd)| {
            assert_eq!(*host, 0);
            assert_eq!(u64::from(sent_in), last & 0xffff);
            (last, arrived, schd.also)
        };
        receipts.map(of).collect()
    }
}
