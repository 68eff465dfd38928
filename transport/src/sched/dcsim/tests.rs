//! Rules of DCsim's hosts, one host at a time: what it sends when, and what it does about packets
//! that are not what they should be.

mod ports;
mod wasted;

use alloc::vec::Vec;

use super::*;
use crate::config::{Config, Settings};
use crate::histogram::Spans;
use crate::path::NetworkFacts;
use crate::rng::Rng;
use crate::sched::SchedKind;
use crate::segment::BURST;
use crate::time::Rate;
use crate::wire::{AccountedSizes, Data};

const PEER: HostId = HostId(1);

fn us(us: f64) -> Duration {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a test")]
    Duration::from_ps((us * 1e6) as u64)
}

fn config(change: impl FnOnce(&mut DcSimParams)) -> Config {
    let mut settings = Settings {
        payload_max: 8936,
        line_rate: Rate::from_gbps(800),
        base_rtt: us(8.0),
        accounted: AccountedSizes { data_overhead: Some(64), control: Some(64), data_min: 0 },
        sched: SchedKind::DcSim,
        tx_flows_max: 8,
        ..Settings::default()
    };
    settings.sched_params.dcsim.rtt_p = Some(Duration::from_ns(7800));
    change(&mut settings.sched_params.dcsim);
    Config::new(settings).unwrap()
}

/// A host whose line is polled whenever it wants to be.
struct Host {
    sched: DcSim,
    now: Instant,
    /// SIMs that left: when, from which port, what they say.
    sims: Vec<(Instant, EntropyValue, Sim)>,
    /// Turns of DATA: when, which flow, which port.
    turns: Vec<(Instant, FlowId, EntropyValue)>,
    /// Which segment each turn names.
    nth: Vec<Option<u16>>,
    /// Turns that copy: when, which flow.
    copies: Vec<(Instant, FlowId)>,
    /// SIM-ACKs that left.
    answers: Vec<(Instant, HostId, EntropyValue, Sim)>,
    /// Segments were acknowledged, or released by second SIMs, while SIMs for them were on their
    /// way: equation 3 holds again when those have ended.
    acknowledged: bool,
    /// SIMs that a flow may have for each segment.
    per_segment: u32,
}

fn flow(index: u32) -> FlowId {
    FlowId::new(index, 1)
}

fn backlog(segments: u64) -> Backlog {
    Backlog { sendable: Bytes(9000), segments, ..Backlog::default() }
}

/// A DATA of 9000 bytes.
fn full() -> TxSegment {
    let data = Data::VACANT;
    let hdr = Header::new(EntropyValue(0), FlowId::UNKNOWN, Body::Data(data));
    TxSegment { hdr, payload: PayloadRef { len: 8936, ..PayloadRef::NONE }, peer: PEER }
}

impl Host {
    fn new(change: impl FnOnce(&mut DcSimParams)) -> Self {
        let config = config(change);
        let sched = DcSim::new(&config.sched_setup(HostId(0), Rng::new(3)));
        Self {
            sched,
            now: Instant::ZERO,
            sims: Vec::new(),
            turns: Vec::new(),
            nth: Vec::new(),
            copies: Vec::new(),
            answers: Vec::new(),
            acknowledged: false,
            per_segment: 1,
        }
    }

    fn open(&mut self, index: u32, collective: u32, segments: u64) {
        let path = config(|_| ()).default_path();
        let label = Label { collective, ..Label::NONE };
        self.sched.on_open(flow(index), PEER, &path, label);
        self.sched.on_backlog(flow(index), &backlog(segments), self.now);
    }

    fn poll(&mut self) {
        self.sched.handle_timeout(self.now);
        // A driver whose device sends ahead asks until there is nothing more.
        while self.take() && self.sched.ahead > Duration::ZERO {}
        self.sched.sender.check();
        for index in 0..8 {
            let (sims, data) = self.sched.sender.counts(flow(index));
            let most = data * self.per_segment;
            assert!(sims <= most || self.acknowledged, "equation 3: {sims} SIMs for {data}");
        }
    }

    /// Takes what may leave now, with its departure. False when there was nothing.
    fn take(&mut self) -> bool {
        let (now, until) = (self.now, self.now + self.sched.ahead);
        let mut burst = Burst::with_limit(BURST);
        self.sched.poll_control(now, until, &mut burst);
        for (index, segment) in burst.iter().enumerate() {
            let Body::Note(note) = segment.hdr.body else { unreachable!() };
            let (sim, at) = (Sim::of(&note).unwrap(), burst.departure(index, now));
            match note.class {
                TrafficClass::Probe => self.sims.push((at, segment.hdr.ev, sim)),
                _ => self.answers.push((at, segment.peer, segment.hdr.ev, sim)),
            }
        }
        let mut taken = burst.len();
        while let Some(turn) = self.sched.next_turn(now, until) {
            let choice = turn.choice.unwrap();
            let at = choice.at.unwrap_or(now);
            assert!(at <= until);
            if choice.copy {
                self.copies.push((at, turn.flow));
            } else {
                self.turns.push((at, turn.flow, choice.ev.unwrap()));
                self.nth.push(choice.nth);
            }
            self.sched.on_sent(turn.flow, &mut full(), Backlog::default, now);
            taken += 1;
        }
        taken > 0
    }

    /// Goes on to `end`.
    fn run(&mut self, end: Instant) {
        self.poll();
        while let Some(at) = self.sched.poll_timeout().filter(|at| *at <= end) {
            assert!(at > self.now, "later than the last call");
            self.now = at;
            self.poll();
        }
        self.now = end;
    }

    fn receive(&mut self, from: HostId, ev: EntropyValue, note: Note) -> bool {
        let hdr = Header::new(ev, FlowId::UNKNOWN, Body::Note(note));
        self.sched.on_host_control(from, &hdr, &note, self.now).is_ok()
    }
}

fn at(us_: f64) -> Instant {
    Instant::ZERO + us(us_)
}

#[test]
fn the_tight_bound_is_taken_where_buckets_are_known_and_packets_wait_for_no_poll() {
    let of = |bucket, devices| {
        let host = Host::new(|params| {
            (params.rtt_max, params.bucket) = (RttMax::Auto, bucket);
            if devices {
                params.resolve(&NetworkFacts::of_devices());
            }
        });
        host.sched.rtt_max().as_ps() / 1000
    };
    assert_eq!([0, 1, 2, 12].map(|bucket| of(bucket, false)), [22_041, 22_041, 14_370, 14_370]);
    assert_eq!(of(2, true), 22_041);
}

#[test]
fn a_sim_leaves_for_each_segment_two_at_once_and_then_one_a_slot() {
    let mut host = Host::new(|_| ());
    host.open(0, 0, 5);
    host.run(at(10.0));
    let left: Vec<u64> = host.sims.iter().map(|(at, ..)| at.as_ps()).collect();
    let slot = host.sched.constants.slot.as_ps();
    // At the first instant two tokens are there; the line takes 640 ps for each SIM.
    assert_eq!(left, [0, 640, slot, 2 * slot, 3 * slot]);
    let mut ports: Vec<_> = host.sims.iter().map(|(_, ev, _)| *ev).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 5, "no two SIMs of one port");
    assert_eq!(host.sched.rtt_max().as_ps() / 1000, 22_041);
}

#[test]
fn a_data_leaves_rtt_max_behind_its_sim_on_its_path_and_lost_sims_are_sent_again() {
    let mut host = Host::new(|_| ());
    host.open(0, 0, 3);
    host.run(at(9.0));
    let sent = host.sims.clone();
    // The second SIM is lost.
    for (_, ev, sim) in [sent[0], sent[2]] {
        assert!(host.receive(PEER, ev, sim.answer()));
    }
    host.run(at(40.0));
    let rtt_max = host.sched.rtt_max();
    let expected = [sent[0], sent[2]].map(|(at, ev, _)| (at + rtt_max, flow(0), ev));
    // The SIM for the third segment leaves when that of the second is given up: 640 ps later than
    // the first DATA, which its line is busy with.
    assert_eq!(host.turns[0], expected[0]);
    assert_eq!((host.turns[1].1, host.turns[1].2), (expected[1].1, expected[1].2));
    let free = expected[0].0 + Rate::from_gbps(800).time_for(Bytes(9000));
    assert!(host.turns[1].0 <= free.max(expected[1].0) + Duration::from_ns(2));
    assert_eq!(host.sims.len(), 4);
    let lost_at = sent[1].0 + rtt_max;
    assert!(host.sims[3].0 >= lost_at && host.sims[3].0 <= free + Duration::from_ns(2));
    let sims = &host.sched.figures().sims;
    assert_eq!((sims.sent, sims.acked, sims.timed_out, sims.wasted), (4, 2, 1, 0));
}

#[test]
fn late_repeated_and_forged_answers_send_nothing() {
    let mut host = Host::new(|_| ());
    host.open(0, 0, 2);
    host.run(at(9.0));
    let [(_, ev, sim), (_, other, _)] = host.sims[..] else { panic!("{:?}", host.sims) };
    for (from, port, forged) in [
        (HostId(2), ev, sim),
        (PEER, other, sim),
        (PEER, ev, Sim { nonce: sim.nonce ^ 1, ..sim }),
        (PEER, ev, Sim { number: sim.number + 7, ..sim }),
        (PEER, ev, Sim { src_flow: flow(3), ..sim }),
        (PEER, ev, Sim { src_flow: FlowId(u32::MAX), ..sim }),
    ] {
        assert!(!host.receive(from, port, forged.answer()), "{forged:?}");
    }
    assert!(host.receive(PEER, ev, sim.answer()));
    assert!(host.receive(PEER, ev, sim.answer()), "known, and of no use");
    host.run(at(30.0));
    let (_, ev, sim) = host.sims[1];
    assert!(host.receive(PEER, ev, sim.answer()), "late");
    let sims = host.sched.figures().sims;
    assert_eq!((sims.forged, sims.late, sims.acked), (6, 2, 1));
    assert_eq!((sims.timed_out, host.turns.len()), (1, 1));
    assert!(!host.receive(PEER, ev, Note::new(3, &[0; 12]).unwrap()), "another protocol's");
}

#[test]
fn a_million_sims_of_strangers_leave_nothing_behind_and_get_no_more_answers_than_they_are() {
    let mut host = Host::new(|_| ());
    let mut rng = Rng::new(5);
    let capacity = host.sched.answers.capacity();
    for number in 0..1_000_000 {
        let sim = Sim { number, nonce: rng.next_u32(), src_flow: FlowId(rng.next_u32()) };
        let from = HostId(rng.next_u32());
        assert!(host.receive(from, EntropyValue(1), sim.probe()));
        if number % 100 == 0 {
            host.now += Duration::from_ps(640);
            host.poll();
            host.answers.truncate(1);
        }
    }
    assert_eq!(host.sched.answers.capacity(), capacity);
    let sims = &host.sched.figures().sims;
    assert_eq!(sims.answered + sims.unanswered, 1_000_000 - host.sched.answers.len() as u64);
    assert!(sims.answered <= 10_000 * 12, "B for each time that the line was free");
    assert_eq!(host.sched.sender.ports_in_use(), (0, 0));
}

#[test]
fn a_sim_goes_before_an_answer_and_an_answer_repeats_what_it_answers() {
    let mut host = Host::new(|_| ());
    let asked = Sim { number: 7, nonce: 8, src_flow: flow(5) };
    assert!(host.receive(HostId(4), EntropyValue(9), asked.probe()));
    host.open(0, 0, 1);
    host.run(at(1.0));
    assert_eq!(host.sims[0].0, Instant::ZERO);
    let later = Instant::from_ps(640);
    assert_eq!(host.answers, [(later, HostId(4), EntropyValue(9), asked)]);
}

#[test]
fn acknowledgements_wait_for_the_line_and_go_before_data() {
    let mut host = Host::new(|_| ());
    host.run(at(9.0));
    host.open(0, 0, 1);
    host.poll();
    assert!(!host.sched.may_acknowledge(78, host.now), "a SIM has the line");
    let free = host.now + Duration::from_ps(640);
    assert_eq!(host.sched.poll_timeout(), Some(free));
    host.now = free;
    host.poll();
    assert!(host.sched.may_acknowledge(78, free));
    assert!(!host.sched.may_acknowledge(78, free), "the line is busy");
    assert_eq!(host.sched.poll_timeout(), Some(free + Duration::from_ps(780)));
    let delay = Duration::from_ns(3 * 7800);
    assert_eq!(host.sched.ack_mode(), AckMode::Paced { segments: 16, delay });
    assert_eq!(host.sched.rto_min(), host.sched.rtt_max() * 4);
}

#[test]
fn collectives_get_sims_in_turn() {
    let mut host = Host::new(|_| ());
    for (index, collective) in [(0, 1), (1, 1), (2, 2)] {
        host.open(index, collective, 4);
    }
    host.run(at(5.0));
    let order: Vec<_> = host.sims.iter().map(|(_, _, sim)| sim.src_flow.index()).collect();
    assert_eq!(order, [0, 2, 1, 2, 0, 2, 1, 2, 0, 1, 0, 1]);
}

#[test]
fn a_fraction_lets_data_leave_sooner_and_never_before_its_answer() {
    let mut host = Host::new(|params| params.fraction = 0.5);
    host.open(0, 0, 2);
    host.run(at(5.0));
    let sent = host.sims.clone();
    assert!(host.receive(PEER, sent[0].1, sent[0].2.answer()));
    host.run(at(15.0));
    let half = host.sched.constants.delay;
    assert_eq!(host.turns[0].0, sent[0].0 + half);
    assert!(host.receive(PEER, sent[1].1, sent[1].2.answer()));
    host.run(at(16.0));
    assert_eq!(host.turns[1], (at(15.0), flow(0), sent[1].1), "at once");
    let mut host = Host::new(|params| params.fraction = 0.0);
    host.open(0, 0, 1);
    host.run(at(5.0));
    let (_, ev, sim) = host.sims[0];
    assert!(host.receive(PEER, ev, sim.answer()));
    host.run(at(6.0));
    assert_eq!(host.turns[0].0, at(5.0));
}

#[test]
fn a_sim_for_two_lets_two_go_on_its_port() {
    let mut host = Host::new(|params| params.per_sim = 2);
    host.open(0, 0, 3);
    host.run(at(5.0));
    let sent = host.sims.clone();
    assert_eq!(sent.len(), 2, "two SIMs for three segments");
    for (_, ev, sim) in &sent {
        assert!(host.receive(PEER, *ev, sim.answer()));
    }
    host.run(at(40.0));
    let ports: Vec<_> = host.turns.iter().map(|(_, _, ev)| *ev).collect();
    assert_eq!(ports, [sent[0].1, sent[0].1, sent[1].1]);
    assert_eq!(host.sched.sender.ports_in_use(), (0, 0));
}

#[test]
fn one_sim_ack_of_eight_stays_unused_while_segments_meet_long_queues() {
    use LongQueues::{Auto, Datas};
    // An idle path has 8 us; a line takes 90 ns for a DATA.
    let of = |drain, rtt, segments| {
        let mut host = Host::new(|params| params.drain = drain);
        for index in 0..8 {
            host.open(index, 0, segments);
            let long = Backlog { rtt: us(rtt), ..backlog(segments) };
            host.sched.on_backlog(flow(index), &long, host.now);
        }
        host.run(at(7.8));
        let mut sims = host.sims.clone().into_iter();
        assert!(sims.all(|(_, ev, sim)| host.receive(PEER, ev, sim.answer())));
        host.sched.figures().sims.unused
    };
    let long = [of(Datas(2), 8.19, 100), of(Auto, 12.0, 100)];
    assert!(long.iter().all(|unused| (5..20).contains(unused)), "{long:?} of 86");
    let short = [of(Datas(2), 8.17, 100), of(Auto, 11.9, 100), of(Datas(0), 90.0, 100)];
    assert_eq!((short, of(Auto, 12.0, 8)), ([0; 3], 0), "and near the end of a flow");
}

#[test]
fn a_host_that_is_polled_late_sends_as_many_packets_as_a_punctual_one() {
    let run = |step: Option<Duration>| {
        let mut host = Host::new(|_| ());
        host.open(0, 0, 5000);
        let end = at(60.0);
        let mut answered = 0;
        host.poll();
        while host.now < end {
            let next = host.sched.poll_timeout().unwrap_or(end);
            host.now = step.map_or(next, |step| host.now + step).min(end);
            host.poll();
            // Each SIM is answered at once.
            for (_, ev, sim) in host.sims.split_off(answered) {
                assert!(host.receive(PEER, ev, sim.answer()));
                host.sims.push((host.now, ev, sim));
                answered += 1;
            }
        }
        let figures = host.sched.figures();
        let most = [&figures.departure_error, &figures.departure_lateness].map(Spans::max);
        (answered, host.turns.len(), most)
    };
    let punctual = run(None);
    assert!(punctual.0 > 600 && punctual.1 > 400, "{punctual:?}");
    // Two SIMs leave together, and then the second DATA waits for the line, which is no lateness.
    let wait = Rate::from_gbps(800).time_for(Bytes(8500));
    assert!(punctual.2[0] > wait && punctual.2[1] == Duration::ZERO, "{punctual:?}");
    let late = run(Some(Duration::from_ns(700)));
    assert!(late.2[1] > Duration::from_ns(500), "{late:?}");
    assert!(late.0.abs_diff(punctual.0) <= 8, "{late:?} against {punctual:?}");
    assert!(late.1.abs_diff(punctual.1) <= 16, "{late:?} against {punctual:?}");
}

#[test]
fn packets_that_a_device_sends_ahead_leave_when_a_punctual_host_sends_them() {
    // Polled at each instant of its own, or in steps by a device that takes packets ahead.
    let run = |step: Option<Duration>| {
        let mut host = Host::new(|_| ());
        host.sched.send_ahead(step.map_or(Duration::ZERO, |_| us(20.0)));
        host.open(0, 0, 5000);
        let (end, back, mut answered) = (at(80.0), us(9.0), 0);
        host.poll();
        while host.now < end {
            let next = host.sched.poll_timeout().unwrap_or(end);
            host.now = step.map_or(next, |step| host.now + step);
            while let Some(&(left, ev, sim)) =
                host.sims.get(answered).filter(|(left, ..)| *left + back <= host.now)
            {
                assert!(left + back <= host.now);
                // One SIM of five is lost.
                assert!(answered % 5 == 0 || host.receive(PEER, ev, sim.answer()));
                answered += 1;
            }
            host.poll();
        }
        host
    };
    let punctual = run(None);
    assert!(punctual.sims.len() > 800 && punctual.turns.len() > 400);
    for step in [50, 300, 1300] {
        let ahead = run(Some(Duration::from_ns(step)));
        assert_eq!(ahead.sched.ahead, ahead.sched.rtt_max() / 16);
        assert_eq!(ahead.sims[..800], punctual.sims[..800], "every {step} ns");
        assert_eq!(ahead.turns[..400], punctual.turns[..400], "every {step} ns");
    }
    // Polls further apart than packets are given ahead: some are late, none is early or lost.
    let late = run(Some(Duration::from_ns(2500)));
    assert!(late.turns.len().abs_diff(punctual.turns.len()) <= 50, "{}", late.turns.len());
    assert!(late.turns.windows(2).all(|pair| pair[0].0 <= pair[1].0));
}

#[test]
fn a_device_that_sends_ahead_no_more_lets_no_data_leave_early() {
    let sent_ahead = |horizon: Duration| {
        // The DATA may leave long before its SIM counts as lost: no other timer is due then.
        let mut host = Host::new(|params| params.fraction = 0.5);
        host.sched.send_ahead(us(20.0));
        host.open(0, 0, 1);
        host.run(at(9.0));
        let (left, ev, sim) = host.sims[0];
        assert!(host.receive(PEER, ev, sim.answer()));
        let due = left + host.sched.constants.delay;
        // The DATA is released, and its device gives its clock up before it has taken it.
        host.now = due.before(host.sched.ahead);
        host.sched.handle_timeout(host.now);
        assert_eq!(host.sched.sender.data_since(), Some(due));
        host.sched.send_ahead(horizon);
        host.run(due + us(1.0));
        (host.turns, (due, flow(0), ev))
    };
    for horizon in [Duration::ZERO, us(0.2), us(20.0)] {
        let (turns, expected) = sent_ahead(horizon);
        assert_eq!(turns, [expected], "{horizon} ahead");
    }
}

#[test]
fn a_host_that_is_polled_late_answers_what_a_punctual_one_would_have_answered() {
    let mut host = Host::new(|_| ());
    host.run(at(9.0));
    host.poll();
    let sims = |host: &mut Host, apart: u64, count: u32| {
        let first = host.now;
        for number in 0..count {
            host.now = first + Duration::from_ns(u64::from(number) * apart);
            let sim = Sim { number, nonce: 8, src_flow: flow(5) };
            assert!(host.receive(HostId(4), EntropyValue(9), sim.probe()));
        }
    };
    // SIMs that came a nanosecond apart, read at once.
    sims(&mut host, 1, 32);
    host.now = at(9.05);
    host.poll();
    assert_eq!((host.answers.len(), host.sched.figures().sims.unanswered), (32, 0));
    // As many as came at one instant: B have room.
    sims(&mut host, 0, 20);
    assert_eq!(host.sched.figures().sims.unanswered, 8);
    host.now = at(9.07);
    host.poll();
    // Acknowledgements that became due meanwhile leave one after the other, too.
    host.now = at(9.1);
    host.poll();
    let acks = (0..99).take_while(|_| host.sched.may_acknowledge(78, host.now)).count();
    assert!(acks.abs_diff(30_000 / 780) <= 1, "{acks} in 30 ns");
}

#[test]
fn a_host_makes_no_room_while_it_runs_however_late_it_is() {
    for stay in [false, true] {
        makes_no_room(Host::new(|params| params.stay = stay));
    }
}

fn makes_no_room(mut host: Host) {
    let rooms = host.sched.sender.rooms();
    (0..4).for_each(|index| host.open(index, 7, 25_000));
    for step in [700, 20_000, 50_000] {
        for _ in 0..200 {
            host.now += Duration::from_ns(step);
            let sent = host.sims.len();
            host.sched.handle_timeout(host.now);
            let mut burst = Burst::with_limit(BURST);
            // A line that takes control only: DATAs wait.
            host.sched.poll_control(host.now, host.now, &mut burst);
            for segment in burst.iter() {
                let Body::Note(note) = segment.hdr.body else { unreachable!() };
                host.sims.push((host.now, segment.hdr.ev, Sim::of(&note).unwrap()));
            }
            for (_, ev, sim) in host.sims.split_off(sent) {
                host.receive(PEER, ev, sim.answer());
            }
        }
    }
    assert!(host.sched.sender.data_since().is_some());
    assert_eq!(host.sched.sender.rooms(), rooms);
    // All DATAs that wait leave once the line takes them.
    host.poll();
    assert!(host.turns.len() > 100, "{}", host.turns.len());
}

#[test]
fn a_flow_that_nothing_answers_probes_ever_more_rarely_until_something_does() {
    let mut host = Host::new(|_| ());
    host.open(0, 0, 100);
    host.run(at(20_000.0));
    let (rtt_max, sent) = (host.sched.rtt_max(), host.sims.len());
    // 100 SIMs an RTT_max for 16 of them, then 1 each time that the silence has grown by a quarter.
    assert!((1600..1900).contains(&sent), "{sent} SIMs");
    let gaps: Vec<_> =
        host.sims[sent - 8..].windows(2).map(|two| two[1].0.since(two[0].0)).collect();
    assert!(gaps.windows(2).all(|two| two[1] > two[0]), "{gaps:?}");
    assert!(*gaps.last().unwrap() > rtt_max * 16, "{gaps:?}");
    // The next ones are answered: all segments that wait are probed soon.
    while host.sims.len() == sent {
        host.now = host.sched.poll_timeout().unwrap();
        host.poll();
    }
    let rounds: Vec<_> = (0..4)
        .scan(sent, |answered, _| {
            for (_, ev, sim) in host.sims.split_off(*answered) {
                assert!(host.receive(PEER, ev, sim.answer()));
                host.sims.push((host.now, ev, sim));
            }
            *answered = host.sims.len();
            host.run(host.now + us(12.0));
            Some(host.sims.len() - *answered)
        })
        .collect();
    assert_eq!(rounds, [4, 16, 64, 15]);
}

#[test]
fn a_flow_whose_answers_are_all_late_goes_on_with_one_probe_at_a_time() {
    let mut host = Host::new(|_| ());
    host.open(0, 0, 100);
    let rtt_max = host.sched.rtt_max();
    let mut answered = 0;
    let mut rtt = |host: &mut Host| {
        let sent = host.sims.len();
        host.run(host.now + rtt_max + us(1.0));
        let asked = host.sims[answered..sent].to_vec();
        for (_, ev, sim) in asked {
            host.receive(PEER, ev, sim.answer());
        }
        host.poll();
        answered = sent;
        host.sims.len() - sent
    };
    let rates: Vec<_> = (0..100).map(|_| rtt(&mut host)).collect();
    assert!(rates[5] > 50 && rates[20..].iter().all(|sims| (1..=2).contains(sims)), "{rates:?}");
    assert!(host.sched.figures().sims.late > 1000);
}

#[test]
fn a_flow_whose_window_is_full_sends_no_sims_until_it_moves_and_then_one() {
    let mut host = Host::new(|_| ());
    host.open(0, 0, 50);
    host.acknowledged = true;
    host.run(at(5.0));
    let (_, ev, sim) = host.sims[0];
    assert!(host.receive(PEER, ev, sim.answer()));
    // The turn comes, and the flow has no segment that it may send.
    while !host.sched.sender.has_due() {
        host.now = host.sched.poll_timeout().unwrap();
        host.sched.handle_timeout(host.now);
    }
    let turn = host.sched.next_turn(host.now, host.now).unwrap();
    host.sched.on_backlog(turn.flow, &backlog(50), host.now);
    assert_eq!(host.sched.figures().sims.wasted, 1);
    let sent = host.sims.len();
    host.run(at(100.0));
    assert!(host.sims.len() <= sent + 12, "what was queued before, and no more");
    let sent = host.sims.len();
    host.sched.on_backlog(flow(0), &backlog(50), host.now);
    host.run(at(101.0));
    assert_eq!(host.sims.len(), sent + 1);
}

#[test]
fn a_probe_lost_before_a_silence_with_nothing_to_send_gives_no_flow_up() {
    let mut host = Host::new(|_| ());
    host.open(0, 0, 1);
    host.run(at(10.0));
    // Its SIM is lost, and its segment is acknowledged after all.
    host.run(at(25.0));
    host.acknowledged = true;
    host.sched.on_backlog(flow(0), &backlog(0), host.now);
    host.run(at(200_000.0));
    host.sched.on_backlog(flow(0), &backlog(1), host.now);
    host.run(at(200_100.0));
    assert!(host.sched.figures().sims.timed_out >= 2);
    assert_eq!(host.sched.next_given_up(), None);
}

#[test]
fn a_flow_whose_peer_answers_nothing_is_given_up_once() {
    let mut host = Host::new(|_| ());
    host.open(0, 0, 1);
    host.run(at(10_000.0));
    assert_eq!(host.sched.next_given_up(), None);
    host.run(at(100_000.0));
    assert_eq!(host.sched.next_given_up(), Some(flow(0)));
    assert_eq!(host.sched.next_given_up(), None);
    let sent = host.sims.len();
    host.run(at(200_000.0));
    assert_eq!(host.sims.len(), sent);
}

#[test]
fn a_flow_near_its_end_has_two_sims_for_each_segment_if_no_other_wants_one() {
    let sent = |tail: bool, others: u64| {
        let mut host = Host::new(|params| params.tail = tail);
        host.per_segment = 1 + u32::from(tail);
        host.open(0, 0, 3);
        if others > 0 {
            host.open(1, 0, others);
        }
        host.run(at(5.0));
        let of = |index| host.sims.iter().filter(|(.., sim)| sim.src_flow == flow(index)).count();
        (of(0), of(1))
    };
    assert_eq!((sent(false, 0), sent(true, 0)), ((3, 0), (6, 0)));
    assert_eq!(sent(true, 9), (6, 9), "second SIMs come last, and only below nine segments");
    let (few, many) = sent(true, 500);
    assert_eq!(few, 3);
    assert!(many > 40);
}

#[test]
fn a_second_sim_makes_up_for_the_first_and_is_wasted_otherwise() {
    let mut host = Host::new(|params| params.tail = true);
    host.per_segment = 2;
    host.open(0, 0, 2);
    host.run(at(5.0));
    let sims = host.sims.clone();
    assert_eq!(sims.len(), 4);
    host.acknowledged = true;
    // The first SIM of each segment is lost on its way.
    for (_, ev, sim) in &sims[2..] {
        assert!(host.receive(PEER, *ev, sim.answer()));
    }
    host.run(at(60.0));
    let rtt_max = host.sched.rtt_max();
    let expected = [2, 3].map(|n: usize| sims[n].0 + rtt_max);
    assert_eq!(host.turns.iter().map(|(at, ..)| *at).collect::<Vec<_>>(), expected);
    assert_eq!(host.sims.len(), 4, "nothing is left to send SIMs for");
    let counts = host.sched.figures().sims;
    assert_eq!((counts.acked, counts.timed_out, counts.wasted), (2, 2, 0));
    let mut host = Host::new(|params| params.tail = true);
    host.per_segment = 2;
    host.open(0, 0, 1);
    host.run(at(5.0));
    host.acknowledged = true;
    for (_, ev, sim) in host.sims.clone() {
        assert!(host.receive(PEER, ev, sim.answer()));
    }
    host.run(at(60.0));
    let counts = host.sched.figures().sims;
    assert_eq!((host.turns.len(), counts.acked, counts.wasted), (1, 2, 1));
    assert_eq!(host.sched.sender.ports_in_use(), (0, 0));
}

/// Answers the SIMs of `host` in this order, and returns which segment each DATA takes.
fn segments_of(bind: Bind, order: [usize; 4]) -> Vec<u64> {
    let mut host = Host::new(|params| params.bind = bind);
    host.open(0, 0, 4);
    host.run(at(5.0));
    let sims = host.sims.clone();
    for index in order {
        assert!(host.receive(PEER, sims[index].1, sims[index].2.answer()));
    }
    host.run(at(40.0));
    let ports: Vec<_> = sims.iter().map(|(_, ev, _)| *ev).collect();
    assert_eq!(host.turns.iter().map(|(.., ev)| *ev).collect::<Vec<_>>(), ports);
    // Segments that wait, by number; each turn takes one out.
    let mut waiting = Vec::from([0, 1, 2, 3]);
    host.nth.iter().map(|nth| waiting.remove(nth.unwrap_or(0).into())).collect()
}

//= dcsim#2.4: the first DATA that waits is associated when the SIM-ACK comes.
#[test]
fn a_sim_ack_binds_the_first_segment_that_waits_or_its_data_does_when_it_leaves() {
    // DATAs leave in the order of their SIMs. The third SIM is answered first, so its DATA is the
    // first segment.
    assert_eq!(segments_of(Bind::Ack, [2, 0, 3, 1]), [1, 3, 0, 2]);
    assert_eq!(segments_of(Bind::Ack, [0, 1, 2, 3]), [0, 1, 2, 3]);
    assert_eq!(segments_of(Bind::Departure, [2, 0, 3, 1]), [0, 1, 2, 3]);
}

#[test]
fn copies_fill_the_line_behind_sims_up_to_their_number_and_again_after_a_pause() {
    let run = |unscheduled| {
        let mut host = Host::new(|params| params.unscheduled = unscheduled);
        host.open(0, 0, 5);
        host.open(1, 0, 2);
        host.run(at(5.0));
        host
    };
    assert_eq!(run(Unscheduled::Bytes(0)).copies, []);
    let mut host = run(Unscheduled::Bytes(3 * 9000));
    // Flows take turns; the line takes 90 ns for each, and a SIM goes first. The backlog does not
    // say that flow 1 has nothing left to copy: the endpoint does.
    let order: Vec<usize> = host.copies.iter().map(|(_, flow)| flow.index()).collect();
    assert_eq!(order, [0, 1, 0, 1, 0, 1]);
    assert_eq!(host.copies[0].0.as_ps(), 2 * 640, "behind the SIMs that have tokens");
    for pair in host.copies.windows(2) {
        let gap = pair[1].0.since(pair[0].0).as_ps();
        assert!((90_000..=91_280).contains(&gap), "{gap} ps");
    }
    // More to send is no reason for more copies, but a pause is.
    host.sched.on_backlog(flow(0), &backlog(9), host.now);
    host.run(at(6.0));
    assert_eq!(host.copies.len(), 6);
    host.acknowledged = true;
    host.sched.on_backlog(flow(0), &backlog(0), host.now);
    host.sched.on_backlog(flow(0), &backlog(1), host.now);
    host.run(at(7.0));
    assert_eq!(host.copies.len(), 9);
    // An offer that finds nothing to copy ends the flow's turns.
    host.sched.on_backlog(flow(1), &backlog(0), host.now);
    host.sched.on_backlog(flow(1), &backlog(1), host.now);
    let turn = host.sched.next_turn(host.now, host.now).unwrap();
    assert!(turn.choice.unwrap().copy);
    host.sched.on_backlog(flow(1), &backlog(1), host.now);
    assert_eq!(host.sched.next_turn(host.now, host.now), None);
}

#[test]
fn the_token_of_a_lost_sim_comes_back_where_the_line_has_room() {
    let sent = |refund| {
        let mut host = Host::new(|params| params.refund = refund);
        host.open(0, 0, 300);
        // Nothing is answered: each SIM is lost after RTT_max.
        host.run(at(44.0));
        host.sims.len()
    };
    let slots = 44_000 / 91 + 2;
    assert!((slots - 3..=slots).contains(&sent(0)), "{}", sent(0));
    assert!(sent(1) > slots * 11 / 10, "{}", sent(1));
}
