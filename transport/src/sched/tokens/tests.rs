//! Both sides over a perfect and an imperfect wire, without an endpoint around them.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::*;
use crate::config::{Config, Settings};
use crate::rng::Rng;
use crate::sched::{Arrival, Backlog, Label, SchedSetup};
use crate::segment::{BURST, Burst, PayloadRef, TxSegment};
use crate::time::{Duration, Instant};
use crate::units::{Bytes, EntropyValue, FlowId, HostId};
use crate::wire::{Allowance, Body, Data, Header, Open};
use proptest::prelude::*;

const WINDOW: u32 = 10;
const LIFE: Duration = Duration::from_us(8);
const TIMEOUT: Duration = Duration::from_us(11);
/// Flows of the tests go by this index at both ends.
const FLOWS: u32 = 4;

fn flow(index: u32) -> FlowId {
    FlowId::new(index, 1)
}

fn at(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

fn config() -> Config {
    let settings = Settings { tx_flows_max: FLOWS, rx_flows_max: FLOWS, ..Settings::default() };
    Config::new(settings).unwrap()
}

fn segment(index: u32) -> TxSegment {
    let msg_len = NonZeroU32::MIN.saturating_add(1 << 20);
    let data = Data { open: Some(Open { src_flow: flow(index), msg_len }), ..Data::VACANT };
    let hdr = Header::new(EntropyValue(1), FlowId::UNKNOWN, Body::Data(data));
    TxSegment { hdr, payload: PayloadRef { len: 4096, ..PayloadRef::default() }, peer: HostId(1) }
}

/// The sending side and the backlogs of its flows.
struct Sender {
    half: Spender,
    backlogs: [Backlog; FLOWS as usize],
}

impl Sender {
    fn new(unscheduled: u32) -> Self {
        Self::with_first(Unrequested::AtMost(unscheduled))
    }

    fn with_first(unscheduled: Unrequested) -> Self {
        let setup = config();
        let half = Spender::new(&setup.sched_setup(HostId(0), Rng::new(1)), unscheduled, LIFE);
        Self { half, backlogs: [Backlog::default(); FLOWS as usize] }
    }

    fn open(&mut self, index: u32, segments: u64, now: Instant) {
        self.open_labelled(index, segments, Label::NONE, now);
    }

    fn open_labelled(&mut self, index: u32, segments: u64, label: Label, now: Instant) {
        self.half.on_open(flow(index), HostId(1), label);
        let waiting = Bytes(segments * 4096);
        let cwnd = Bytes(1 << 30);
        let backlog = Backlog { sendable: waiting, waiting, segments, cwnd, ..Backlog::default() };
        self.backlogs[index as usize] = backlog;
        self.half.on_backlog(flow(index), &backlog, now);
    }

    /// One segment, if a flow may send: its flow and its report.
    fn send(&mut self, now: Instant) -> Option<(u32, Credit)> {
        let index = u32::try_from(self.half.next_turn(now)?.flow.index()).unwrap();
        let backlog = &mut self.backlogs[index as usize];
        backlog.segments -= 1;
        backlog.waiting -= Bytes(4096);
        backlog.in_flight += Bytes(4096);
        backlog.sendable = backlog.waiting;
        let mut sent = segment(index);
        self.half.on_sent(flow(index), &mut sent, backlog, now);
        let Body::Data(data) = sent.hdr.body else { panic!("not DATA") };
        Some((index, data.demand.expect("each segment has a report")))
    }

    fn send_all(&mut self, now: Instant) -> Vec<u32> {
        core::iter::from_fn(|| self.send(now)).map(|(index, _)| index).collect()
    }

    fn requests(&mut self) -> Vec<Allowance> {
        let mut out = Burst::with_limit(BURST);
        self.half.poll_control(&mut out);
        let request = |sent: &TxSegment| match sent.hdr.body {
            Body::Request(request) => request,
            ref other => panic!("{other:?}"),
        };
        out.iter().map(request).collect()
    }

    fn credit(&mut self, index: u32, tokens: u32, now: Instant) -> bool {
        self.half.on_credit(flow(index), Credit::START.plus(tokens), now)
    }
}

/// The receiving side.
struct Receiver(Issuer);

impl Receiver {
    fn new() -> Self {
        Self::with_retry(WINDOW)
    }

    fn with_retry(retry: u32) -> Self {
        let setup = config();
        Self(Issuer::new(&setup.sched_setup(HostId(1), Rng::new(1)), TIMEOUT, retry))
    }

    fn arrive(&mut self, index: u32, report: Credit) {
        let Body::Data(mut data) = segment(index).hdr.body else { panic!("not DATA") };
        data.demand = Some(report);
        let arrival = Arrival {
            from: HostId(0),
            at: Instant::ZERO,
            src_flow: flow(index),
            ev: EntropyValue(7),
            data: &data,
            len: 4096,
            missing: Bytes::ZERO,
        };
        self.0.on_arrival(flow(index), &arrival);
    }

    fn request(&mut self, index: u32, request: Allowance) -> bool {
        self.0.on_request(flow(index), HostId(0), &request, EntropyValue(7))
    }

    /// The tokens that a flow gets at `now`.
    fn issue(&mut self, index: u32, now: Instant) -> u32 {
        let mut tokens = 0;
        while self.0.ready_at(index as usize, WINDOW).is_some_and(|at| at <= now) {
            self.0.issue(index as usize, WINDOW, now);
            tokens += 1;
        }
        tokens
    }

    /// The last token that each CREDIT names, and its flow.
    fn credits(&mut self) -> Vec<(u32, u32)> {
        let mut out = Burst::with_limit(BURST);
        self.0.poll_control(&mut out);
        let credit = |sent: &TxSegment| match sent.hdr.body {
            Body::Credit(credit) => {
                let index = u32::try_from(credit.src_flow.index()).unwrap();
                (index, credit.upto.ahead_of(Credit::START))
            }
            ref other => panic!("{other:?}"),
        };
        out.iter().map(credit).collect()
    }
}

fn report(spent: u32, needs: u32) -> Credit {
    TokenReport::new(Credit::START.plus(spent), needs).to_field()
}

proptest! {
    #[test]
    fn a_report_is_read_as_it_was_written(spent: u32, needs: u32, since in 0_u32..60_000) {
        let spent = Credit::new(spent).unwrap_or(Credit::START);
        let written = TokenReport::new(spent, needs);
        let read = TokenReport::of_field(written.to_field()).unwrap();
        prop_assert_eq!(read, written);
        prop_assert_eq!(u32::from(read.needs), needs.min(65_534));
        if spent.number() < u32::MAX - since {
            prop_assert_eq!(read.outstanding(spent.plus(since)), since);
        }
    }
}

#[test]
fn at_most_the_first_window_goes_without_tokens_and_the_rest_asks() {
    let mut sender = Sender::new(WINDOW);
    sender.open(0, 25, at(1));
    assert_eq!(sender.requests().len(), 1, "the receiver gets word of the flow at once");
    assert_eq!(sender.send_all(at(1)).len(), WINDOW as usize);
    assert!(sender.half.holds(flow(0)));
    assert!(sender.requests().is_empty(), "it has been sent");
    // What is lost of it is sent again against a token alone.
    let backlog = &mut sender.backlogs[0];
    (backlog.segments, backlog.in_flight) = (16, Bytes(9 * 4096));
    sender.half.on_backlog(flow(0), &sender.backlogs[0], at(2));
    assert_eq!(sender.send_all(at(2)).len(), 0);
}

#[test]
fn where_short_flows_alone_go_without_tokens_a_longer_one_has_none() {
    for (segments, sent) in [(WINDOW, WINDOW as usize), (WINDOW + 1, 0)] {
        let mut sender = Sender::with_first(Unrequested::Short(WINDOW));
        sender.open(0, segments.into(), at(1));
        assert_eq!(sender.send_all(at(1)).len(), sent);
        assert_eq!(sender.requests().len(), usize::from(sent == 0));
    }
}

#[test]
fn a_short_flow_needs_no_token_and_asks_for_none() {
    let mut sender = Sender::new(WINDOW);
    sender.open(0, 4, at(1));
    assert_eq!((sender.requests().len(), sender.send_all(at(1)).len()), (0, 4));
}

#[test]
fn no_token_is_used_twice_however_often_and_late_its_credit_comes() {
    let mut sender = Sender::new(0);
    sender.open(0, 100, at(1));
    let mut sent = 0;
    for tokens in [1, 1, 3, 2, 3, 1, 7] {
        assert!(sender.credit(0, tokens, at(2)));
        sent += sender.send_all(at(2)).len();
    }
    assert_eq!(sent, 7);
    assert!(!sender.credit(0, 1 << 20, at(2)), "no receiver is so far ahead");
    assert_eq!(sender.send_all(at(2)).len(), 0);
}

#[test]
fn a_token_dies_unused_and_the_next_report_says_so() {
    let mut sender = Sender::new(0);
    sender.open(0, 100, at(1));
    sender.credit(0, 3, at(1));
    sender.credit(0, 5, at(4));
    // At 9 us the first three are dead.
    let (_, first) = sender.send(at(9)).unwrap();
    let expected = TokenReport::new(Credit::START.plus(4), 99);
    assert_eq!(TokenReport::of_field(first), Some(expected));
    assert_eq!(sender.send_all(at(9)).len(), 1);
    sender.credit(0, 6, at(9));
    assert_eq!(sender.send_all(at(17)).len(), 0, "8 us later it is dead to the picosecond");
    assert!(sender.half.holds(flow(0)));
}

#[test]
fn tokens_of_one_credit_live_until_a_line_could_have_sent_them() {
    let config = config();
    let setup = config.sched_setup(HostId(0), Rng::new(1));
    for (mtu, several) in [(4096, false), (64, true)] {
        let setup = SchedSetup { mtu: Bytes(mtu), ..setup.clone() };
        let TokenConstants { life, packet_time, per_credit, .. } =
            TokenConstants::new(&setup, None, 1.5);
        assert_eq!(per_credit > 1, several, "{mtu}");
        assert_eq!(life, packet_time.scaled(f64::from(per_credit) + 0.5), "{mtu}");
    }
}

#[test]
fn more_bursts_of_tokens_than_are_kept_apart_die_early_and_never_late() {
    let mut sender = Sender::new(0);
    sender.open(0, 100, at(0));
    let us = |n: u32| Duration::from_ns(u64::from(n) * 100);
    for n in 1..=20 {
        sender.credit(0, n, at(0) + us(n));
    }
    // The first dies at 8.1 us.
    assert_eq!(sender.send_all(at(0) + LIFE + us(20)).len(), 0);
    let mut sender = Sender::new(0);
    sender.open(0, 100, at(0));
    (1..=20).for_each(|n| assert!(sender.credit(0, n, at(0) + us(n))));
    assert_eq!(sender.send_all(at(0) + us(20)).len(), 20);
}

#[test]
fn an_urgent_flow_uses_its_tokens_before_one_with_less_left() {
    let mut sender = Sender::new(2);
    sender.open(0, 1, at(0));
    sender.open_labelled(1, 2, Label { prio: 3, ..Label::NONE }, at(0));
    assert_eq!(sender.send_all(at(0)), [1, 1, 0]);
}

#[test]
fn a_flow_that_stays_silent_wants_a_token_after_each_timeout_and_none_in_between() {
    let mut receiver = Receiver::new();
    receiver.arrive(0, report(0, 3));
    let mut now = at(1);
    for timeouts in 0..20 {
        // One token at a time: more are left to send.
        receiver.0.issue(0, 1, now);
        let next = receiver.0.ready_at(0, 1).unwrap();
        let expected = if timeouts < 8 { Ok(2) } else { Err(next) };
        assert_eq!(receiver.0.wants(0, now), expected, "{timeouts} timeouts");
        now = next;
    }
    assert_eq!(receiver.0.wants(0, now), Ok(3));
    receiver.arrive(0, report(1, 2));
    assert_eq!(receiver.0.wants(0, now), Ok(2), "a report came");
}

#[test]
fn tokens_stay_in_the_range_of_the_sender_however_long_credits_are_lost() {
    let (mut sender, mut receiver) = (Sender::new(0), Receiver::new());
    sender.open(0, 60_000, at(1));
    receiver.arrive(0, report(0, 60_000));
    // Each timeout brings a window at most, and the timeouts grow.
    for tens in 1..=10_000 {
        receiver.issue(0, at(tens * 10_000_000));
    }
    let mut credits = receiver.credits();
    let (_, last) = credits.pop().expect("a CREDIT waits");
    assert!(last > 30_000, "the range is used: {last}");
    assert!(sender.credit(0, last, at(2)), "the sender takes the first CREDIT that comes");
    assert!(sender.send(at(2)).is_some());
}

#[test]
fn a_flow_goes_on_where_a_former_process_of_its_receiver_had_given_it_tokens() {
    for used in [0, 3, 40] {
        let (mut sender, mut receiver) = (Sender::new(0), Receiver::new());
        sender.open(0, 100, at(0));
        sender.credit(0, 40, at(1));
        (0..used).for_each(|_| assert!(sender.send(at(1)).is_some()));
        // The tokens that are left die. No segment was acknowledged, so the request names no flow,
        // and opens one at the process that runs now.
        let died = at(1) + LIFE;
        let mut given = 0;
        for round in 1..100 {
            let now = died + TIMEOUT * round;
            sender.half.handle_timeout(now);
            for request in sender.requests() {
                assert!(receiver.request(0, request));
            }
            receiver.issue(0, now);
            for (flow, upto) in receiver.credits() {
                assert!(sender.credit(flow, upto, now));
            }
            given += sender.send_all(now).len();
        }
        assert_eq!(given, 100 - used, "after {used}");
    }
}

#[test]
fn a_report_from_more_tokens_ago_than_a_sender_may_have_moves_no_number() {
    for late in [0, 7, 200] {
        let mut receiver = Receiver::new();
        let mut given = 0;
        while given < AHEAD_MAX + 100 {
            receiver.arrive(0, report(given, 1000));
            given += receiver.issue(0, at(0));
        }
        receiver.credits();
        receiver.arrive(0, report(late, 1000));
        assert!(receiver.request(0, Allowance { src_flow: flow(0), upto: report(late, 1000) }));
        assert_eq!(receiver.credits(), [(0, given)], "a report of {late} tokens is late");
    }
}

#[test]
fn only_among_the_first_tokens_of_a_flow_is_a_report_of_a_former_process() {
    for given in [0, 100, AHEAD_MAX, 1 << 20, (1 << 31) + 5, u32::MAX - 1] {
        let granted = Credit::START.plus(given);
        // The numbers of these two reports are the same.
        let (late, ahead) = (TokenReport::COUNT - 50, 50);
        let report = TokenReport::new(granted.plus(ahead), 3);
        assert_eq!(report.outstanding(granted), late);
        let of_former = u64::from(given) + u64::from(ahead) <= u64::from(AHEAD_MAX);
        assert_eq!(report.ahead(granted), of_former.then_some(ahead), "after {given} tokens");
    }
}

#[test]
fn the_flow_with_the_least_left_uses_its_tokens_first() {
    let mut sender = Sender::new(0);
    for (index, segments) in [(0, 9), (1, 3), (2, 5)] {
        sender.open(index, segments, at(1));
        sender.credit(index, 2, at(1));
    }
    assert_eq!(sender.send_all(at(1)), [1, 1, 2, 2, 0, 0]);
}

#[test]
fn a_flow_gets_tokens_for_its_needs_and_no_more_than_a_window_at_once() {
    let mut receiver = Receiver::new();
    receiver.arrive(0, report(0, 25));
    assert_eq!(receiver.issue(0, at(1)), WINDOW);
    assert_eq!(receiver.credits(), [(0, WINDOW)]);
    receiver.arrive(0, report(4, 21));
    assert_eq!(receiver.issue(0, at(2)), 4);
    // Reports that were overtaken change nothing.
    receiver.arrive(0, report(3, 22));
    assert_eq!(receiver.issue(0, at(2)), 0);
    receiver.arrive(0, report(14, 3));
    assert_eq!((receiver.issue(0, at(3)), receiver.credits()), (3, alloc::vec![(0, 17)]));
    receiver.arrive(0, report(17, 0));
    assert_eq!(receiver.0.ready_at(0, WINDOW), None);
}

#[test]
fn tokens_of_a_silent_flow_are_dead_after_a_timeout_and_then_less_often() {
    let mut receiver = Receiver::new();
    receiver.arrive(0, report(0, 3));
    assert_eq!(receiver.issue(0, at(1)), 3);
    let mut now = at(1);
    let mut spans = Vec::new();
    for _ in 0..12 {
        let next = receiver.0.ready_at(0, WINDOW).unwrap();
        spans.push(next.since(now));
        now = next;
        assert_eq!(receiver.issue(0, now), 3);
    }
    assert!(spans[..8].iter().all(|span| *span == TIMEOUT), "{spans:?}");
    assert_eq!(spans[8..], [1, 2, 4, 8].map(|times| TIMEOUT * times));
    // A report ends that.
    receiver.arrive(0, report(39, 2));
    assert_eq!(receiver.0.ready_at(0, WINDOW), Some(now + TIMEOUT));
}

#[test]
fn a_flow_that_left_a_window_unanswered_gets_one_token_at_a_time_until_a_report_comes() {
    for (retry, tokens) in [(1, 1), (WINDOW, WINDOW)] {
        let mut receiver = Receiver::with_retry(retry);
        receiver.arrive(0, report(0, 100));
        assert_eq!(receiver.issue(0, at(1)), WINDOW);
        for timeouts in 1..=3 {
            assert_eq!(receiver.issue(0, at(1) + TIMEOUT * timeouts), tokens);
        }
        let now = at(1) + TIMEOUT * 3;
        receiver.arrive(0, report(WINDOW + 3 * tokens, 90));
        assert_eq!(receiver.issue(0, now), WINDOW, "all tokens before are used or dead");
    }
}

#[test]
fn needs_that_a_window_bounds_last_for_as_long_as_segments_wait_behind_it() {
    let mut receiver = Receiver::new();
    let bound = 9 * WINDOW;
    receiver.arrive(0, report(0, bound));
    assert_eq!(receiver.issue(0, at(1)), WINDOW);
    let mut sent = 0;
    while sent < 3 * bound {
        sent += 2;
        receiver.arrive(0, report(sent, bound));
        assert_eq!(receiver.issue(0, at(1)), 2, "after {sent}");
    }
    // From there on needs fall, and each of them gets its token.
    let end = sent + bound;
    let mut given = sent + WINDOW;
    while sent < end {
        sent += 2;
        receiver.arrive(0, report(sent, end - sent));
        given += receiver.issue(0, at(1));
    }
    assert_eq!(given, end);
}

#[test]
fn a_report_counts_also_when_its_tokens_were_taken_for_dead_before() {
    let mut receiver = Receiver::new();
    receiver.arrive(0, report(0, 3));
    receiver.issue(0, at(1));
    // All three were used; their segments took longer than the timeout.
    assert_eq!(receiver.issue(0, at(1) + TIMEOUT), 3);
    receiver.arrive(0, report(2, 1));
    receiver.arrive(0, report(3, 0));
    assert_eq!(receiver.0.ready_at(0, WINDOW), None);
}

#[test]
fn a_request_is_answered_and_one_without_needs_ends_the_tokens() {
    let mut receiver = Receiver::new();
    let request = |report| Allowance { src_flow: flow(0), upto: report };
    let ask = |receiver: &mut Receiver, report| {
        receiver.0.on_request(flow(0), HostId(0), &request(report), EntropyValue(1))
    };
    assert!(ask(&mut receiver, report(0, 5)));
    assert_eq!(receiver.credits(), [(0, 0)]);
    receiver.issue(0, at(1));
    receiver.credits();
    assert!(ask(&mut receiver, report(5, 0)));
    assert_eq!((receiver.0.ready_at(0, WINDOW), receiver.credits()), (None, alloc::vec![(0, 5)]));
    assert!(!ask(&mut receiver, Credit::new(7 << 16).unwrap()), "no report");
}

#[test]
fn a_flow_given_tokens_that_it_does_not_need_says_so() {
    let mut sender = Sender::new(0);
    sender.open(0, 2, at(1));
    assert_eq!(sender.requests().len(), 1);
    // Nothing waits any more; a need of two is on record at the receiver.
    sender.backlogs[0] = Backlog { in_flight: Bytes(4096), ..Backlog::default() };
    sender.half.on_backlog(flow(0), &sender.backlogs[0], at(2));
    sender.credit(0, 2, at(3));
    let said = sender.requests();
    assert_eq!(said.len(), 1);
    assert_eq!(TokenReport::of_field(said[0].upto).map(|report| report.needs), Some(0));
    sender.credit(0, 3, at(4));
    assert!(sender.requests().is_empty(), "once is enough");
}

#[test]
fn a_flow_wants_no_more_tokens_than_its_window_has_room_for() {
    let mut sender = Sender::new(0);
    sender.open(0, 500, at(1));
    sender.backlogs[0].cwnd = Bytes(4 * 4096);
    sender.half.on_backlog(flow(0), &sender.backlogs[0], at(1));
    let said = sender.requests();
    assert_eq!(TokenReport::of_field(said[0].upto).map(|report| report.needs), Some(5));
}

#[test]
fn a_flow_wants_no_tokens_for_messages_that_cannot_begin() {
    let mut sender = Sender::new(0);
    sender.open(0, 500, at(1));
    let mut needs_of = |blocked: u64, now: Instant| {
        sender.backlogs[0].blocked = blocked;
        sender.half.on_backlog(flow(0), &sender.backlogs[0], now);
        let said = sender.requests();
        said.first().and_then(|said| TokenReport::of_field(said.upto)).map(|said| said.needs)
    };
    assert_eq!(needs_of(494, at(1)), Some(6));
    // All of them: nothing is asked for, however long that takes.
    needs_of(500, at(2));
    sender.half.handle_timeout(at(1_000_000));
    assert_eq!(sender.half.poll_timeout(), None);
    assert_eq!(sender.half.next_given_up(), None);
}

#[test]
fn requests_that_were_in_vain_before_an_acknowledgement_count_for_no_later_wait() {
    // Requests until the flow is given up, or so many.
    let wait = |sender: &mut Sender, most: usize| {
        let mut asked = 0;
        while asked < most {
            let due = sender.half.poll_timeout().unwrap();
            sender.half.handle_timeout(due);
            if sender.half.next_given_up().is_some() {
                break;
            }
            asked += sender.requests().len();
        }
        asked
    };
    let asks = |before: usize| {
        let mut sender = Sender::new(0);
        sender.open(0, 2, at(1));
        sender.requests();
        assert_eq!(wait(&mut sender, before), before);
        // What seemed lost is acknowledged, and another message follows.
        let backlog = core::mem::take(&mut sender.backlogs[0]);
        sender.half.on_backlog(flow(0), &sender.backlogs[0], at(1));
        sender.half.on_backlog(flow(0), &backlog, at(1));
        wait(&mut sender, 100)
    };
    assert_eq!((asks(0), asks(9)), (12, 12));
}

#[test]
fn a_flow_that_may_be_over_asks_for_nothing() {
    let mut sender = Sender::new(0);
    sender.open(0, 2, at(1));
    sender.requests();
    sender.half.on_backlog(flow(0), &Backlog::default(), at(2));
    sender.credit(0, 2, at(3));
    assert!(sender.requests().is_empty());
}

/// Both sides over a wire that loses, delays and repeats: every segment leaves in the end, and
/// none without a token of its own.
#[test]
fn over_a_bad_wire_every_flow_ends_and_every_segment_has_its_token() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let (mut sender, mut receiver) = (Sender::new(0), Receiver::new());
        let mut wire: Vec<(u64, u32, Result<u32, Credit>)> = Vec::new();
        let mut used = [0; FLOWS as usize];
        let mut given = [0; FLOWS as usize];
        (0..FLOWS).for_each(|index| sender.open(index, 60, at(1)));
        for us in 1..20_000 {
            let now = at(us);
            let mut put = |wire: &mut Vec<_>, index, packet| {
                for _ in 0..rng.below(3) {
                    wire.push((us + 1 + rng.below(6), index, packet));
                }
            };
            for request in sender.requests() {
                let index = u32::try_from(request.src_flow.index()).unwrap();
                put(&mut wire, index, Err(request.upto));
            }
            for _ in 0..1 + us % 2 {
                if let Some((index, report)) = sender.send(now) {
                    used[index as usize] += 1;
                    put(&mut wire, index, Err(report));
                }
            }
            let busy = u32::try_from(us % u64::from(FLOWS)).unwrap();
            receiver.issue(busy, now);
            for (index, tokens) in receiver.credits() {
                given[index as usize] = given[index as usize].max(tokens);
                put(&mut wire, index, Ok(tokens));
            }
            let (due, later) = wire.into_iter().partition::<Vec<_>, _>(|(at, ..)| *at <= us);
            wire = later;
            for (_, index, packet) in due {
                match packet {
                    Ok(tokens) => assert!(sender.credit(index, tokens, now)),
                    Err(report) => receiver.arrive(index, report),
                }
            }
            sender.half.handle_timeout(now);
            assert!(used.iter().zip(&given).all(|(used, given)| used <= given), "seed {seed}");
        }
        assert_eq!(used, [60; FLOWS as usize], "seed {seed}");
    }
}
