//! The two halves over a perfect and an imperfect wire, without an endpoint around them.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::*;
use crate::config::{Config, Settings};
use crate::rng::Rng;
use crate::sched::SchedKind;
use crate::segment::{BURST, PayloadRef};
use crate::time::Duration;
use crate::units::{Bytes, Credit, EntropyValue};
use crate::wire::{Allowance, Data, Open};

const LEN: u64 = 4096;

fn config(change: impl FnOnce(&mut Settings)) -> Config {
    let mut settings = Settings {
        sched: SchedKind::Credits,
        tx_flows_max: 8,
        rx_flows_max: 64,
        ..Settings::default()
    };
    change(&mut settings);
    Config::new(settings).unwrap()
}

fn with(credit: CreditParams) -> Config {
    config(|s| s.sched_params.credit = credit)
}

fn flow(index: u32) -> FlowId {
    FlowId::new(index, 1)
}

fn at(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// A full segment as a flow hands it over.
fn segment(first: bool) -> TxSegment {
    let msg_len = NonZeroU32::MIN.saturating_add(1 << 20);
    let data = Data { open: first.then_some(Open { src_flow: flow(0), msg_len }), ..Data::VACANT };
    let hdr = Header::new(EntropyValue(1), FlowId::UNKNOWN, Body::Data(data));
    let payload = PayloadRef { len: 4096, ..PayloadRef::default() };
    TxSegment { hdr, payload, peer: HostId(1) }
}

fn demand_of(segment: &TxSegment) -> Credit {
    let Body::Data(data) = segment.hdr.body else { panic!("not DATA") };
    data.demand.expect("every segment says what its flow would send")
}

/// The sender of one flow: its backlog and its scheduler.
struct Sender {
    sched: Credits,
    mtu: Bytes,
    backlog: Backlog,
}

impl Sender {
    /// A sender with `segments` to send and an open window.
    fn new(config: &Config, segments: u64) -> Self {
        let mut sched = Credits::new(&config.sched_setup(HostId(0), Rng::new(1)));
        sched.on_open(flow(0), HostId(1), &config.default_path(), Label::NONE);
        let mtu = config.mtu();
        let backlog = Backlog {
            sendable: mtu,
            waiting: Bytes(mtu.0 * segments),
            cwnd: Bytes(1 << 30),
            ..Backlog::default()
        };
        sched.on_backlog(flow(0), &backlog, Instant::ZERO);
        Self { sched, mtu, backlog }
    }

    /// Sends all that credit allows; returns the demands that are announced on the way.
    fn send(&mut self, now: Instant) -> Vec<Credit> {
        let mut demands = Vec::new();
        while self.backlog.waiting > Bytes::ZERO
            && let Some(turn) = self.sched.next_turn(now, now)
        {
            assert_eq!(turn, Turn::of(flow(0)), "each segment spends credit");
            self.backlog.waiting -= self.mtu;
            self.backlog.in_flight += self.mtu;
            let mut sent = segment(false);
            self.sched.on_sent(flow(0), &mut sent, || self.backlog, now);
            demands.push(demand_of(&sent));
        }
        if self.backlog.waiting == Bytes::ZERO {
            self.backlog.sendable = Bytes::ZERO;
            self.sched.on_backlog(flow(0), &self.backlog, now);
        }
        demands
    }

    /// Refuses all segments in flight.
    fn refuse_all(&mut self, now: Instant) {
        let lost = core::mem::take(&mut self.backlog.in_flight);
        self.backlog.waiting += lost;
        self.backlog.refused += lost;
        self.backlog.sendable = self.mtu;
        self.sched.on_backlog(flow(0), &self.backlog, now);
    }

    fn control(&mut self, now: Instant) -> Vec<TxSegment> {
        let mut out = Burst::with_limit(BURST);
        self.sched.poll_control(now, now, &mut out);
        out.iter().copied().collect()
    }

    fn credit(&mut self, upto: Credit, now: Instant) -> bool {
        let body = Body::Credit(Allowance { src_flow: flow(3), upto });
        let hdr = Header::new(EntropyValue(1), flow(0), body);
        self.sched.on_control(flow(0), HostId(1), &hdr, now)
    }
}

/// A receiver of `flows`, and its grants to each.
struct Receiver {
    sched: Credits,
    granted: Vec<Credit>,
}

impl Receiver {
    fn new(config: &Config, flows: usize) -> Self {
        let granted = alloc::vec![Credit::START; flows];
        Self { sched: Credits::new(&config.sched_setup(HostId(0), Rng::new(1))), granted }
    }

    fn arrive(&mut self, index: u32, demand: u32, missing: u64, now: Instant) {
        let Body::Data(mut data) = segment(false).hdr.body else { panic!("not DATA") };
        data.demand = Some(Credit::START.plus(demand));
        let arrival = Arrival {
            from: HostId(index),
            at: now,
            src_flow: flow(9),
            ev: EntropyValue(7),
            data: &data,
            len: 4096,
            missing: Bytes(missing),
        };
        self.sched.on_arrival(flow(index), &arrival, now);
    }

    /// Does everything that is due by `now`; (flow, bytes granted since the last call) in order.
    fn run_until(&mut self, now: Instant) -> Vec<(usize, u32)> {
        let mut given = Vec::new();
        loop {
            let mut out = Burst::with_limit(BURST);
            self.sched.poll_control(now, now, &mut out);
            for sent in out.iter() {
                let Body::Credit(credit) = sent.hdr.body else { panic!("not CREDIT") };
                let index = credit.src_flow.index();
                assert_eq!((sent.peer.0 as usize, sent.hdr.dst_flow), (index, flow(9)));
                given.push((index, credit.upto.ahead_of(self.granted[index])));
                self.granted[index] = credit.upto;
            }
            match self.sched.poll_timeout().filter(|at| *at <= now) {
                Some(at) => self.sched.handle_timeout(at),
                None if out.is_empty() => return given,
                None => {}
            }
        }
    }
}

#[test]
fn a_flow_sends_its_first_window_unasked_and_then_waits_for_credit() {
    let config = config(|_| {});
    let mut sender = Sender::new(&config, 100);
    let first = config.default_path().bdp().0.div_ceil(sender.mtu.0);
    let demands = sender.send(at(1));
    assert_eq!(demands.len() as u64, first, "one BDP, rounded up to a segment");
    assert!(sender.sched.holds(flow(0)));
    // Bytes sent unasked are never asked for, so the first segment announces the whole demand.
    let all = Credit::START.plus(u32::try_from((100 - first) * sender.mtu.0).unwrap());
    let ahead = config.default_path().bdp().scaled(1.5).0;
    let demand = Credit::START.plus(u32::try_from(ahead).unwrap().min(all.ahead_of(Credit::START)));
    assert!(demands.iter().all(|d| d.distance_from(demand) <= 0), "{demands:?} {demand:?}");
    assert_eq!(demands.last(), Some(&demand));
    assert!(sender.control(at(1)).is_empty(), "the receiver has the demand");
}

#[test]
fn credit_for_one_segment_lets_one_segment_go_and_a_repeated_or_older_credit_none() {
    let mut sender = Sender::new(&config(|_| {}), 100);
    sender.send(at(1));
    let mtu = u32::try_from(sender.mtu.0).unwrap();
    for n in 1..=3 {
        assert!(sender.credit(Credit::START.plus(n * mtu), at(2)));
        assert_eq!(sender.send(at(2)).len(), 1);
        assert!(sender.credit(Credit::START.plus(n * mtu), at(2)));
        assert!(sender.credit(Credit::START.plus((n - 1) * mtu), at(2)));
        assert_eq!(sender.send(at(2)).len(), 0);
    }
    let absurd = Credit::START.plus((1 << 30) + 4 * mtu);
    assert!(!sender.credit(absurd, at(3)), "no flow asks for a gibibyte at once");
    assert_eq!(sender.send(at(3)).len(), 0);
}

#[test]
fn a_lost_credit_is_made_up_for_by_the_next() {
    let mut sender = Sender::new(&config(|_| {}), 100);
    sender.send(at(1));
    let mtu = u32::try_from(sender.mtu.0).unwrap();
    sender.credit(Credit::START.plus(5 * mtu), at(2));
    assert_eq!(sender.send(at(2)).len(), 5);
}

#[test]
fn the_first_credit_and_a_refusal_end_what_may_be_sent_unasked() {
    for refused in [false, true] {
        let mut sender = Sender::new(&with(CreditParams { first_window: 8.0, ..DEFAULT }), 1000);
        // A window of one segment: most of the first window is still to go.
        assert!(sender.sched.next_turn(at(1), at(1)).is_some());
        sender.backlog.waiting -= sender.mtu;
        sender.backlog.in_flight = sender.mtu;
        let mut sent = segment(true);
        sender.sched.on_sent(flow(0), &mut sent, || sender.backlog, at(1));
        let mtu = u32::try_from(sender.mtu.0).unwrap();
        if refused {
            sender.refuse_all(at(2));
            assert_eq!(sender.send(at(2)).len(), 0);
        }
        sender.credit(Credit::START.plus(2 * mtu), at(2));
        assert_eq!(sender.send(at(2)).len(), 2, "refused {refused}");
    }
}

#[test]
fn what_was_refused_is_not_asked_for_since_the_receiver_has_it() {
    let mut sender = Sender::new(&config(|_| {}), 10);
    assert_eq!(sender.send(at(1)).len(), 10, "all of it unasked");
    sender.refuse_all(at(5));
    assert!(sender.sched.holds(flow(0)));
    assert!(sender.control(at(5)).is_empty());
    let mtu = u32::try_from(sender.mtu.0).unwrap();
    sender.credit(Credit::START.plus(10 * mtu), at(6));
    assert_eq!(sender.send(at(6)).len(), 10);
}

#[test]
fn what_was_lost_without_a_word_is_asked_for_at_once_and_again_after_a_timeout() {
    let credit = CreditParams { first_window: 0.25, ..DEFAULT };
    let config = config(|s| {
        s.loss.retries_max = 2;
        s.sched_params.credit = credit;
    });
    let mut sender = Sender::new(&config, 10);
    assert_eq!(sender.send(at(1)).len(), 10, "the whole first window");
    // Silence: lost, but not refused.
    sender.backlog.waiting += core::mem::take(&mut sender.backlog.in_flight);
    sender.backlog.sendable = sender.mtu;
    sender.sched.on_backlog(flow(0), &sender.backlog, at(100));
    let wanted = Credit::START.plus(u32::try_from(10 * sender.mtu.0).unwrap());
    let asked = |sender: &mut Sender, now| match sender.control(now)[..] {
        [] => None,
        [TxSegment { hdr: Header { body: Body::Request(request), .. }, .. }] => Some(request.upto),
        ref other => panic!("{other:?}"),
    };
    assert_eq!(asked(&mut sender, at(100)), Some(wanted));
    assert_eq!(asked(&mut sender, at(100)), None);
    let mut times = Vec::new();
    let given_up = loop {
        let due = sender.sched.poll_timeout().expect("it asks again or gives up");
        sender.sched.handle_timeout(due);
        if asked(&mut sender, due) == Some(wanted) {
            times.push(due.since(at(100)) / Duration::from_us(1).as_ps());
        }
        if let Some(flow) = sender.sched.next_given_up() {
            break (flow, due.since(at(100)));
        }
    };
    let rto = config.rto(&config.default_path());
    assert_eq!(times, [rto, rto * 3].map(|t| t / Duration::from_us(1).as_ps()));
    assert_eq!(given_up, (flow(0), config.give_up_after(&config.default_path())));
}

#[test]
fn an_answer_without_credit_shows_that_the_peer_is_there() {
    let config = with(CreditParams { first_window: 0.0, ..DEFAULT });
    let mut sender = Sender::new(&config, 10);
    for _ in 0..100 {
        let due = sender.sched.poll_timeout().unwrap();
        sender.sched.handle_timeout(due);
        assert_eq!(sender.sched.next_given_up(), None);
        for _ in sender.control(due) {
            sender.credit(Credit::START, due);
        }
    }
    assert!(sender.sched.holds(flow(0)));
}

#[test]
fn a_flow_that_is_over_asks_for_nothing() {
    let mut sender = Sender::new(&with(CreditParams { first_window: 0.0, ..DEFAULT }), 10);
    sender.sched.on_backlog(flow(0), &Backlog::default(), at(2));
    assert!(sender.control(at(2)).is_empty(), "its first request waited to leave");
    // Nor for one that a timer or a late CREDIT of its receiver calls for.
    assert!(sender.credit(Credit::START.plus(4096), at(3)));
    while let Some(due) = sender.sched.poll_timeout() {
        sender.sched.handle_timeout(due);
        assert!(sender.control(due).is_empty());
    }
}

#[test]
fn a_flow_that_was_idle_starts_anew_without_the_credit_it_did_not_need() {
    let config = config(|_| {});
    let mut sender = Sender::new(&config, 2);
    sender.send(at(1));
    sender.credit(Credit::START.plus(1 << 20), at(2));
    sender.backlog.in_flight = Bytes::ZERO;
    sender.sched.on_backlog(flow(0), &sender.backlog, at(3));
    let idle =
        Backlog { waiting: Bytes(sender.mtu.0 * 100), sendable: sender.mtu, ..sender.backlog };
    sender.backlog = idle;
    sender.sched.on_backlog(flow(0), &idle, at(4));
    let first = config.default_path().bdp().0.div_ceil(sender.mtu.0);
    assert_eq!(sender.send(at(4)).len() as u64, first);
}

const DEFAULT: CreditParams = CreditParams { first_window: 1.0, ahead: 1.5, rate: 99, quantum: 1 };

#[test]
fn credit_is_given_at_the_rate_of_the_link_and_shared_by_turns() {
    let config = config(|_| {});
    let mut receiver = Receiver::new(&config, 50);
    for index in 0..50 {
        receiver.arrive(index, 10_000_000, 0, at(1));
    }
    let given = receiver.run_until(at(1001));
    let bytes: u64 = given.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
    let link = config.line_rate.bytes_in(Duration::from_us(1000)).0;
    let pace = link * 99 / 100;
    let (most, least) = (pace + config.mtu().0, pace - config.mtu().0);
    assert!((least..=most).contains(&bytes), "{bytes} of {link}");
    let shares: Vec<u32> =
        receiver.granted.iter().map(|granted| granted.ahead_of(Credit::START)).collect();
    let (low, high) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    // The first to arrive has been served once before there were turns.
    assert!(u64::from(high - low) <= 2 * config.mtu().0, "{shares:?}");
    assert!(given.iter().all(|(_, bytes)| u64::from(*bytes) == config.mtu().0));
}

#[test]
fn credit_stops_when_demand_is_met_and_an_idle_receiver_is_silent() {
    let mut receiver = Receiver::new(&config(|_| {}), 2);
    receiver.arrive(0, 10_001, 0, at(1));
    receiver.arrive(1, 0, 0, at(1));
    receiver.run_until(at(100));
    let given = receiver.granted.iter().map(|granted| granted.ahead_of(Credit::START));
    assert_eq!(given.collect::<Vec<_>>(), [10_001, 0]);
    assert_eq!(receiver.sched.poll_timeout(), None);
    receiver.arrive(0, 10_001, 0, at(200));
    assert!(receiver.run_until(at(300)).is_empty(), "old news is no demand");
}

#[test]
fn a_trimmed_segment_is_wanted_again_before_other_demand() {
    let mut receiver = Receiver::new(&config(|_| {}), 3);
    for index in 0..3 {
        receiver.arrive(index, 100 * 4096, 0, at(1));
    }
    receiver.run_until(at(1));
    receiver.arrive(2, 0, LEN, at(1));
    receiver.arrive(2, 0, LEN, at(1));
    let next: Vec<usize> = receiver.run_until(at(3)).iter().map(|(flow, _)| *flow).collect();
    assert_eq!(next[..2], [2, 2]);
    receiver.run_until(at(10_000));
    let given = receiver.granted.iter().map(|granted| granted.ahead_of(Credit::START));
    assert_eq!(given.collect::<Vec<_>>(), [409_600, 409_600, 409_600 + 8192]);
}

#[test]
fn every_request_is_answered_and_nothing_else_is() {
    let mut receiver = Receiver::new(&config(|_| {}), 1);
    receiver.arrive(0, 5000, 0, at(1));
    assert_eq!(receiver.run_until(at(9)).len(), 2);
    let body = Body::Request(Allowance { src_flow: flow(9), upto: Credit::START.plus(5000) });
    let hdr = Header::new(EntropyValue(3), FlowId::UNKNOWN, body);
    assert!(receiver.sched.on_control(flow(0), HostId(0), &hdr, at(20)));
    assert_eq!(receiver.run_until(at(20)), [(0, 0)]);
    receiver.sched.on_forgotten(flow(0));
    assert!(receiver.run_until(at(30)).is_empty());
}

#[test]
fn a_forgotten_flow_gets_nothing_and_its_place_serves_the_next() {
    let mut receiver = Receiver::new(&config(|_| {}), 1);
    receiver.arrive(0, 1 << 20, LEN, at(1));
    receiver.run_until(at(2));
    receiver.sched.on_forgotten(flow(0));
    assert!(receiver.run_until(at(50)).is_empty());
    receiver.granted[0] = Credit::START;
    receiver.arrive(0, 9000, 0, at(60));
    receiver.run_until(at(70));
    assert_eq!(receiver.granted[0], Credit::START.plus(9000));
}

#[test]
fn a_late_call_costs_no_rate_and_never_more_than_a_round_trip_of_it() {
    let config = config(|_| {});
    let mtu = config.mtu().0;
    for (late, most) in [(5, 5), (12, 12), (500, 12)] {
        let mut receiver = Receiver::new(&config, 1);
        receiver.arrive(0, 1 << 30, 0, at(100));
        receiver.run_until(at(100));
        receiver.sched.handle_timeout(at(100 + late));
        let given: u32 = receiver.run_until(at(100 + late)).iter().map(|(_, bytes)| bytes).sum();
        let link = config.line_rate.bytes_in(Duration::from_us(most)).0 * 99 / 100;
        let given = u64::from(given);
        assert!(given + 2 * mtu >= link && given <= link + 2 * mtu, "{late}: {given} of {link}");
    }
}

/// Demands in any order, repeated, lost and trimmed, around the point where places wrap.
#[test]
fn no_more_is_ever_granted_than_was_demanded_or_trimmed() {
    for seed in 0..50 {
        let config = with(CreditParams { quantum: 3, ..DEFAULT });
        let mut rng = Rng::new(seed);
        let mut receiver = Receiver::new(&config, 4);
        let (mut wanted, mut now) = ([0u64; 4], at(1));
        let mut given = [0u64; 4];
        for _ in 0..3000 {
            let index = u32::try_from(rng.below(4)).unwrap();
            let place = &mut wanted[index as usize];
            let demand = *place + rng.below(600_000);
            let missing = if rng.chance(0.3) { LEN } else { 0 };
            // An earlier announcement changes nothing but for what it lacks.
            let demand = if rng.chance(0.3) { demand.saturating_sub(900_000) } else { demand };
            *place = (*place).max(demand) + missing;
            let number = u32::try_from(demand & u64::from(u32::MAX)).unwrap();
            receiver.arrive(index, number, missing, now);
            now += Duration::from_us(rng.below(60));
            for (flow, bytes) in receiver.run_until(now) {
                given[flow] += u64::from(bytes);
            }
            for (given, wanted) in given.iter().zip(&wanted) {
                // Places skip zero: a byte a wrap.
                assert!(*given <= *wanted + 2, "seed {seed}: {given} of {wanted}");
            }
        }
        receiver.run_until(now + Duration::from_ms(500));
        assert!(given.iter().any(|given| *given > 1 << 20), "seed {seed}: {given:?}");
    }
}
