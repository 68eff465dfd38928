//! Senders that forge addresses: what they cost a receiver, and that they keep no others out.

use std::ops::RangeInclusive;

use transport::sched::SchedKind;
use transport::units::Credit;
use transport::wire::addressing::Groups;
use transport::wire::{Allowance, Presence};
use transport::{Duration, FailReason};

use super::*;

/// A segment that opens flow number `n` of a host, with a key of its own.
pub(crate) fn open_by(from: HostId, n: u32) -> RxSegment {
    let mut data = opening(0, 0, 0, 100);
    data.open.as_mut().unwrap().src_flow = FlowId::new(n, 1);
    let segment = first(data, 100);
    let key = Key((u64::from(from.0) << 32) + u64::from(n) + 1);
    RxSegment { hdr: Header { key, ..segment.hdr }, from, ..segment }
}

/// The first of three segments of a message that opens flow number `n` of a host.
pub(crate) fn part_by(from: HostId, n: u32) -> RxSegment {
    let mut data = opening(0, 0, 0, 3 * u32::from(FULL));
    data.open.as_mut().unwrap().src_flow = FlowId::new(n, 1);
    let hdr = Header { key: open_by(from, n).hdr.key, ..first(data, FULL).hdr };
    RxSegment { hdr, from, ..first(data, FULL) }
}

/// What the endpoint asks senders for: (host, its flow, cookie).
pub(crate) fn asked(end: &mut End) -> Vec<(HostId, FlowId, u64)> {
    let sent = end.sent();
    let asks = sent.iter().filter_map(|tx| match tx.hdr.body {
        Body::Presence(Presence::Prove { cookie }) => Some((tx.peer, tx.hdr.dst_flow, cookie)),
        _ => None,
    });
    asks.collect()
}

/// The proof for `open`.
pub(crate) fn proof(open: &RxSegment, cookie: u64) -> RxSegment {
    let Body::Data(data) = open.hdr.body else { panic!("{open:?}") };
    let proof = packet(data.open.unwrap().src_flow, Body::Presence(Presence::Proof { cookie }), 0);
    RxSegment { hdr: Header { key: open.hdr.key, ..proof.hdr }, from: open.from, ..proof }
}

#[test]
fn with_many_unproven_flows_a_new_one_takes_memory_only_with_its_cookie() {
    let mut end = End::new(|s| (s.unproven_max, s.secret) = (1, [7, 8]));
    end.places(&open_by(PEER, 0));
    assert_eq!(end.delivered(), [100]);
    let (open, other) = (open_by(PEER, 1), open_by(STRANGER, 1));
    end.refuses(&open, DropReason::Unproven);
    let asks = asked(&mut end);
    let [(PEER, flow, cookie)] = asks[..] else { panic!("{asks:?}") };
    assert_eq!(flow, FlowId::new(1, 1));
    end.refuses(&other, DropReason::Unproven);
    let strangers = asked(&mut end)[0].2;
    for wrong in [
        proof(&open, cookie ^ 1),
        proof(&open, strangers),
        proof(&other, cookie),
        without_key(&proof(&open, cookie)),
        proof(&open_by(PEER, 2), cookie),
    ] {
        end.refuses(&wrong, DropReason::WrongKey);
    }
    end.refuses(&open, DropReason::Unproven);
    end.take(&proof(&open, cookie));
    end.places(&open);
    assert_eq!(end.delivered(), [100]);
}

#[test]
fn a_packet_without_the_key_of_a_flow_takes_none_of_its_bytes_or_questions() {
    let mut end = End::new(|s| (s.unproven_max, s.unproven_bytes) = (9, 200));
    let open = open_by(PEER, 0);
    end.places(&open);
    let acks = end.sent();
    let flow = acks.iter().find_map(|tx| match tx.hdr.body {
        Body::Ack(ack) => Some(ack.src_flow),
        _ => None,
    });
    let dst_flow = flow.unwrap();
    let mut data = opening(1, 1, 0, 100);
    data.open.as_mut().unwrap().src_flow = FlowId::new(0, 1);
    let next = Header { body: Body::Data(data), dst_flow, ..open.hdr };
    let forged = Header { key: Key(next.key.0 ^ 1), ..next };
    end.refuses_quietly(&RxSegment { hdr: forged, ..open }, DropReason::WrongKey);
    assert!(asked(&mut end).is_empty());
    end.places(&RxSegment { hdr: next, ..open });
    assert_eq!(end.delivered(), [100]);
}

#[test]
fn a_cookie_is_good_for_one_or_two_periods() {
    for (seconds, good) in [(9, true), (19, true), (21, false), (600, false)] {
        let mut end = End::new(|s| s.unproven_max = 0);
        let open = open_by(PEER, 1);
        end.refuses(&open, DropReason::Unproven);
        let cookie = asked(&mut end)[0].2;
        end.now += Duration::from_s(seconds);
        end.take(&proof(&open, cookie));
        assert_eq!(matches!(end.take(&open), Placement::Place { .. }), good, "{seconds} s");
    }
}

#[test]
fn an_ask_for_proof_is_no_longer_than_what_asks_for_a_flow() {
    let mut end = End::new(|s| (s.unproven_max, s.sched) = (0, SchedKind::Credits));
    let body = Body::Request(Allowance { src_flow: SRC, upto: Credit::START.plus(9) });
    let request = packet(FlowId::UNKNOWN, body, 0);
    end.refuses(&request, DropReason::Unproven);
    let sent = end.sent();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].hdr.emit_len() <= request.hdr.emit_len());
}

#[test]
fn forged_flows_give_way_to_a_proven_one_and_proven_ones_to_none_in_use() {
    let mut end = End::new(|s| (s.rx_flows_max, s.unproven_max) = (4, 4));
    for n in 0..4 {
        end.places(&part_by(STRANGER, n));
    }
    end.sent();
    // The table is full of flows that are not proven, and of which none is at rest.
    for n in 0..4 {
        let open = open_by(PEER, n);
        end.refuses_quietly(&open, DropReason::Unproven);
        let cookie = asked(&mut end)[0].2;
        end.take(&proof(&open, cookie));
        end.places(&open);
    }
    assert_eq!(end.endpoint.stats().flows_evicted, 4);
    end.events();
    // Now it is full of proven ones: another is refused, and its sender gets that answer.
    let open = open_by(HostId(5), 9);
    end.refuses(&open, DropReason::Unproven);
    let cookie = asked(&mut end)[0].2;
    end.refuses(&proof(&open, cookie), DropReason::TableFull);
    let sent = end.sent();
    assert!(
        sent.iter().any(|tx| tx.peer == HostId(5)
            && tx.hdr.body == Body::Presence(Presence::Refused)
            && tx.hdr.key == open.hdr.key),
        "{sent:?}"
    );
    assert_eq!(end.endpoint.stats().flows_evicted, 4);
}

#[test]
fn an_unproven_flow_opens_no_second_message_when_half_of_the_messages_are_taken() {
    let mut end = End::new(|s| (s.unproven_max, s.msgs_max) = (100, 4));
    let long = |n: u32, msg: u32| {
        let open = open_by(STRANGER, n);
        let mut data = opening(msg, msg, 0, 5000);
        data.open.as_mut().unwrap().src_flow = FlowId::new(n, 1);
        let hdr = Header { body: Body::Data(data), ..open.hdr };
        RxSegment { hdr, payload_len: FULL, ..open }
    };
    end.places(&long(0, 0));
    end.places(&long(0, 1));
    end.refuses(&long(0, 2), DropReason::Unproven);
    // Another flow has its first.
    end.places(&long(1, 0));
    end.refuses(&long(1, 1), DropReason::Unproven);
}

#[test]
fn a_sender_that_is_refused_goes_on_and_says_so_when_it_gives_up() {
    let mut end = End::new(|s| s.loss.retries_max = 2);
    let flow = end.open();
    end.post(flow, 100);
    end.sent();
    let refused = end.reply(flow, Body::Presence(Presence::Refused));
    end.refuses(&without_key(&refused), DropReason::WrongKey);
    end.refuses(&RxSegment { from: STRANGER, ..refused }, DropReason::UnknownFlow);
    end.take(&refused);
    // Segments that were on their way are met by questions: there is no more room than before.
    end.take(&end.reply(flow, Body::Presence(Presence::Prove { cookie: 99 })));
    assert_eq!(end.events(), []);
    while end.endpoint.stats().messages_failed == 0 {
        end.now = end.endpoint.poll_timeout().unwrap();
        end.endpoint.handle_timeout(end.now);
        end.sent();
    }
    assert!(end.endpoint.stats().retransmitted >= 2);
    assert!(matches!(end.events()[..], [Event::Failed { reason: FailReason::PeerFull, .. }]));
}

#[test]
fn a_sender_proves_its_address_once_a_round_trip_and_sends_all_again() {
    let mut end = End::new(|_| {});
    let flow = end.open();
    end.post(flow, 3 * u32::from(FULL));
    let key = end.sent()[0].hdr.key;
    let ask = end.reply(flow, Body::Presence(Presence::Prove { cookie: 99 }));
    end.refuses(&without_key(&ask), DropReason::WrongKey);
    end.refuses(&RxSegment { from: STRANGER, ..ask }, DropReason::UnknownFlow);
    assert_eq!(end.sent(), []);
    end.now += Duration::from_us(1);
    for _ in 0..3 {
        end.take(&ask);
    }
    let sent = end.sent();
    let proof = Body::Presence(Presence::Proof { cookie: 99 });
    assert_eq!((sent[0].hdr.body, sent[0].hdr.dst_flow, sent[0].hdr.key), (proof, flow, key));
    let data = sent[1..].iter().filter(|tx| matches!(tx.hdr.body, Body::Data(_)));
    assert_eq!((sent.len(), data.count()), (4, 3));
    // That says nothing of the network: no loss was counted.
    assert_eq!(end.endpoint.stats().lost_by_timeout, 0);
}

#[test]
fn messages_of_unproven_flows_share_their_bytes_until_a_flow_is_proven() {
    let mut end = End::new(|s| (s.unproven_max, s.unproven_bytes) = (100, 12_000));
    let long = |n: u32, psn: u32, msg: u32| {
        let open = open_by(STRANGER, n);
        let mut data = opening(psn, msg, 0, 5000);
        data.open.as_mut().unwrap().src_flow = FlowId::new(n, 1);
        RxSegment { hdr: Header { body: Body::Data(data), ..open.hdr }, payload_len: FULL, ..open }
    };
    end.places(&long(0, 0, 0));
    end.places(&long(1, 0, 0));
    end.sent();
    let third = long(2, 0, 0);
    end.refuses(&third, DropReason::Unproven);
    let cookie = asked(&mut end)[0].2;
    // A message that is open costs no more.
    let mut second = long(1, 1, 0);
    let Body::Data(data) = &mut second.hdr.body else { panic!() };
    data.offset = u32::from(FULL);
    second.payload_len = u16::try_from(5000 - data.offset).unwrap();
    end.places(&second);
    end.refuses_quietly(&long(0, 1, 1), DropReason::Unproven);
    end.sent();
    end.take(&proof(&third, cookie));
    for msg in 0..3 {
        end.places(&long(2, msg, msg));
    }
}

/// A segment of `from` for a flow that is not here.
fn stray(from: HostId, n: u32) -> RxSegment {
    let open = open_by(from, n);
    RxSegment { hdr: Header { dst_flow: FlowId::new(n % 1000, 7), ..open.hdr }, ..open }
}

/// Answers a second with which the share of a host or a group has one in 2 ms, and that of a flow
/// six.
const EVERY_2_MS: Option<u32> = Some(8 * 64 * 500);
/// Answers at once of the share of a host or a group, of that of a flow, and of all flows.
const AT_ONCE: [usize; 3] = [1024, 32, 64 * 32];

/// How many answers these hosts get to packets of flows that are not here: each to one of every
/// flow in turn.
fn answers(end: &mut End, hosts: &[HostId], flows: RangeInclusive<u32>) -> usize {
    let packets = flows.flat_map(|n| hosts.iter().map(move |host| stray(*host, n)));
    let answered = packets.map(|packet| {
        end.refuses_quietly(&packet, DropReason::UnknownFlow);
        end.sent().len()
    });
    answered.sum()
}

#[test]
fn packets_that_name_one_unknown_flow_use_up_the_answers_of_its_shares() {
    let mut end = End::new(|s| (s.secret, s.answers_max) = ([1, 2], EVERY_2_MS));
    let [host, flow, flows] = AT_ONCE;
    assert_eq!(answers(&mut end, &[STRANGER; 2000], 1..=1), host + flow);
    assert_eq!(end.endpoint.stats().answers_withheld, 2000 - (host + flow) as u64);
    assert_eq!(answers(&mut end, &[PEER], 1..=1), 1);
    // All shares of flows together.
    let all = answers(&mut end, &[STRANGER], 0..=20_000);
    assert!((flows - flow - 3..=flows).contains(&all), "{all}");
}

#[test]
fn shares_that_are_used_up_answer_together_at_instants_of_which_none_follows_from_others() {
    const STEP: Duration = Duration::from_us(100);
    let lumps_of = |secret| {
        let mut end = End::new(|s| (s.secret, s.answers_max) = (secret, EVERY_2_MS));
        answers(&mut end, &[STRANGER; 2000], 1..=1);
        let (mut all, mut lumps) = (0, Vec::new());
        for step in 0..4000_usize {
            end.now += STEP;
            let given = answers(&mut end, &[STRANGER; 80], 1..=1);
            all += given;
            if given > 0 {
                lumps.push(step);
            }
        }
        // One instant in each 4 ms, each with the answers since the one before.
        assert!((99..=101).contains(&lumps.len()), "{lumps:?}");
        assert!(((1 + 6) * 195..=(1 + 6) * 205).contains(&all), "{all}");
        lumps
    };
    let [lumps, others] = [[1, 2], [1, 3]].map(lumps_of);
    assert_ne!(lumps, others, "they follow from the secret");
    let mut pauses: Vec<usize> = lumps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().all(|pause| *pause <= 80), "{pauses:?}");
    pauses.sort_unstable();
    pauses.dedup();
    assert!(pauses.len() > 30, "{pauses:?}");
}

#[test]
fn an_opening_is_withheld_once_no_share_has_a_question_for_it() {
    let mut end = End::new(|s| (s.unproven_max, s.secret) = (0, [1, 2]));
    // Late in a lump a share has all that it allows at once, too.
    end.now += Duration::from_us(3900);
    let [host, flow, _] = AT_ONCE;
    let open = RxSegment { at: end.now, ..open_by(STRANGER, 1) };
    for asked in 0..host + flow {
        assert!(!end.endpoint.withhold_question(&open, &[]), "{asked}");
        end.refuses(&open, DropReason::Unproven);
        assert_eq!(end.sent().len(), 1);
    }
    let withheld = |end: &mut End, rx| {
        let before = end.endpoint.stats().answers_withheld;
        let rx = RxSegment { at: end.now, ..rx };
        let withheld = end.endpoint.withhold_question(&rx, &[]);
        assert_eq!(end.endpoint.stats().answers_withheld - before, u64::from(withheld));
        withheld
    };
    assert!(withheld(&mut end, open));
    // Other shares have questions, and a segment that names a flow asks for none.
    assert!(!withheld(&mut end, open_by(PEER, 1)));
    assert!(!withheld(&mut end, stray(STRANGER, 1)));
    end.now += Duration::from_s(1);
    assert!(!withheld(&mut end, open));
}

#[test]
fn an_opening_behind_its_own_proof_in_a_burst_is_not_withheld() {
    let mut end = End::new(|s| (s.unproven_max, s.secret) = (0, [1, 2]));
    let [open, other] = [1, 2].map(|n| RxSegment { at: end.now, ..open_by(STRANGER, n) });
    end.refuses(&open, DropReason::Unproven);
    let cookie = asked(&mut end)[0].2;
    while !end.endpoint.withhold_question(&open, &[]) {
        end.refuses(&open, DropReason::Unproven);
        end.sent();
    }
    let proven = proof(&open, cookie);
    assert!(!end.endpoint.withhold_question(&open, &[other, proven]));
    // Neither another cookie, nor another host, nor another flow.
    let of_peer = RxSegment { from: PEER, ..proven };
    for wrong in [proof(&open, cookie + 1), of_peer, proof(&other, cookie)] {
        assert!(end.endpoint.withhold_question(&open, &[wrong]), "{wrong:?}");
    }
}

#[test]
fn a_flood_causes_as_many_answers_as_are_set_in_the_long_run() {
    for (set, most) in [(None, 8000), (Some(160), 160), (Some(80_000), 20_000)] {
        let mut end = End::new(|s| (s.unproven_max, s.answers_max) = (0, set));
        let at_once = answers(&mut end, &[STRANGER], 0..=10_000);
        assert!(at_once <= AT_ONCE[0] + AT_ONCE[2], "{at_once}");
        let mut caused = 0;
        for n in 0..40_000 {
            end.now += Duration::from_us(50);
            caused += answers(&mut end, &[STRANGER], n..=n);
        }
        // Of the flows' shares, and of its host's.
        let of_one = 2 * most * 6 / 8;
        assert!((of_one * 8 / 10..=2 * most).contains(&caused), "{set:?}: {caused}");
    }
}

#[test]
fn shares_of_flows_give_all_that_is_set_however_much_that_is() {
    // In each 4 ms, all flows together have more than 32 for each of their shares.
    let most = 1_000_000;
    let mut end = End::new(|s| (s.unproven_max, s.answers_max) = (0, Some(most)));
    answers(&mut end, &[STRANGER], 0..=20_000);
    let mut given = 0;
    for _ in 0..400 {
        end.now += Duration::from_ms(1);
        given += answers(&mut end, &[STRANGER], 0..=2500);
    }
    let of_flows = most as usize * 4 / 10 * 6 / 8;
    assert!((of_flows * 97 / 100..=of_flows * 103 / 100).contains(&given), "{given}");
}

#[test]
fn packets_of_one_host_or_group_leave_others_the_answers_of_their_shares() {
    let mut end = End::new(|s| {
        (s.secret, s.answers_max, s.groups) = ([1, 2], EVERY_2_MS, Groups::Runs(1000));
    });
    let [own, near, far] = [HostId(1), HostId(2), HostId(1001)];
    let [host, _, flows] = AT_ONCE;
    // Of the host, its group, and all flows.
    assert_eq!(answers(&mut end, &[own], 0..=20_000), host + host + flows);
    assert_eq!(answers(&mut end, &[near], 0..=2000), host);
    let group: Vec<HostId> = (3..1000).map(HostId).collect();
    assert_eq!(answers(&mut end, &group, 0..=300), 62 * host);
    assert_eq!(answers(&mut end, &[far], 0..=2000), host);
    // Later the first takes all of its group's and of all flows'.
    end.now += Duration::from_ms(12);
    let given = answers(&mut end, &[own], 0..=20_000);
    let one = answers(&mut end, &[near], 0..=200);
    assert!((1..=8).contains(&one), "{one}");
    let all = (1 + 1 + 64 * 6) * one..=(1 + 1) * one + 64 * (6 * one + 5);
    assert!(all.contains(&given), "{given}");
    assert_eq!(answers(&mut end, &[far], 0..=200), (1 + 1) * one);
}

#[test]
fn packets_of_flows_that_are_not_here_leave_the_questions_for_proof_alone() {
    let mut end = End::new(|s| (s.unproven_max, s.secret) = (0, [1, 2]));
    for n in 0..20_000 {
        end.refuses_quietly(&stray(STRANGER, n), DropReason::UnknownFlow);
        end.sent();
    }
    for n in 0..200 {
        end.refuses(&open_by(PEER, n), DropReason::Unproven);
        assert_eq!(asked(&mut end).len(), 1, "{n}");
    }
}

#[test]
fn packets_under_a_hosts_address_and_other_keys_keep_no_answer_from_its_flow() {
    let mut end = End::new(|s| s.secret = [1, 2]);
    for n in 1..600 {
        end.refuses_quietly(&stray(PEER, n), DropReason::UnknownFlow);
        end.sent();
    }
    end.refuses_quietly(&stray(PEER, 0), DropReason::UnknownFlow);
    assert_eq!(end.sent().len(), 1);
}

#[test]
fn senders_of_new_flows_get_as_many_answers_as_their_share_has() {
    let mut end = End::new(|s| (s.unproven_max, s.secret) = (0, [1, 2]));
    let open = open_by(STRANGER, 1);
    let mut asks = 0;
    for _ in 0..2000 {
        end.refuses(&open, DropReason::Unproven);
        asks += asked(&mut end).len();
    }
    assert_eq!(asks, AT_ONCE[0] + AT_ONCE[1]);
    end.refuses(&open_by(PEER, 1), DropReason::Unproven);
    assert_eq!(asked(&mut end).len(), 1);
}

#[test]
fn openings_under_the_address_of_a_new_client_leave_an_answer_to_one_of_its_250_attempts() {
    let mut end = End::new(|s| (s.unproven_max, s.secret) = (0, [1, 2]));
    let mut forged = (10..1_000_000).cycle();
    // 143,000 a second are forged. The client tries 7.5 to 10 ms apart, or 100 to 125.
    for (client, least) in [(1, 1072), (2, 1072), (3, 14_290), (4, 14_290)] {
        let mut tries = 0..250;
        let answered = tries.any(|attempt| {
            for n in forged.by_ref().take(least + attempt * 37 % (least / 4)) {
                end.now += Duration::from_us(7);
                end.refuses(&open_by(PEER, n), DropReason::Unproven);
                end.sent();
            }
            end.refuses(&open_by(PEER, client), DropReason::Unproven);
            !asked(&mut end).is_empty()
        });
        assert!(answered, "{client}");
    }
}

#[test]
fn a_flood_of_openings_is_asked_eight_thousand_questions_a_second_at_most() {
    let mut end = End::new(|s| (s.unproven_max, s.secret) = (0, [1, 2]));
    let (mut asks, mut later) = (0, 0);
    for n in 1..286_000 {
        end.now += Duration::from_us(7);
        end.refuses(&open_by(PEER, n), DropReason::Unproven);
        let asked = asked(&mut end).len();
        asks += asked;
        later += if n > 143_000 { asked } else { 0 };
    }
    // One host has all shares of flows, and one of the 64 of hosts and of groups.
    assert!((5900..6100).contains(&later), "{later}");
    assert!(asks < 2 * later + 2 * AT_ONCE[0] + AT_ONCE[2], "{asks}");
}

#[test]
fn the_sender_of_a_known_flow_is_asked_three_times_a_base_rtt_apart() {
    let mut end = End::new(|s| s.unproven_max = 100);
    end.places(&part_by(PEER, 0));
    let flow = end.acked_flow();
    let mut asks = Vec::new();
    for step in 0..40_u32 {
        let mut segment = later(flow, data(1, 0, u32::from(FULL)), FULL);
        segment.hdr.key = part_by(PEER, 0).hdr.key;
        end.take(&segment);
        asks.extend(asked(&mut end).iter().map(|_| step));
        end.now += end.config.base_rtt / 10;
    }
    assert_eq!(asks, [0, 10, 20]);
}

/// A further segment of the first message of `part_by(PEER, 0)`, which names its flow.
fn named_part(flow: FlowId) -> RxSegment {
    let mut segment = later(flow, data(1, 0, u32::from(FULL)), FULL);
    segment.hdr.key = part_by(PEER, 0).hdr.key;
    segment
}

#[test]
fn a_question_that_was_withheld_is_none_of_the_three() {
    let mut end = End::new(|s| (s.unproven_max, s.acks_waiting_max) = (100, 32));
    end.places(&part_by(PEER, 0));
    let flow = end.acked_flow();
    // Half of the queue is taken: no question finds room.
    for n in 1..100 {
        end.refuses_quietly(&stray(STRANGER, n), DropReason::UnknownFlow);
    }
    for _ in 0..4 {
        end.take(&named_part(flow));
        end.now += end.config.base_rtt;
    }
    assert_eq!(asked(&mut end), []);
    let asks = (0..6).map(|_| {
        end.take(&named_part(flow));
        end.now += end.config.base_rtt;
        asked(&mut end).len()
    });
    assert_eq!(asks.collect::<Vec<_>>(), [1, 1, 1, 0, 0, 0]);
}

/// What one endpoint sends to another; the first proof is lost.
#[test]
fn a_proof_of_a_flow_in_use_that_is_lost_is_given_at_the_next_question() {
    let mut end = End::new(|s| s.unproven_max = 100);
    let mut sender = Endpoint::new(&end.config, PEER, Rng::new(2));
    let flow = sender.open_flow(HERE, end.config.default_path()).unwrap();
    let (mut proofs, mut questions, mut delivered) = (0, 0, 0);
    for _ in 0..60 {
        let len = NonZeroU32::new(100).unwrap();
        sender.post_send(end.now, MsgSpec { flow, len, tag: 0 }).unwrap();
        let mut burst = Burst::with_limit(BURST);
        sender.poll_transmit(end.now, &mut burst);
        for tx in burst.iter() {
            let is_proof = matches!(tx.hdr.body, Body::Presence(Presence::Proof { .. }));
            proofs += u32::from(is_proof);
            if !is_proof || proofs > 1 {
                let payload_len = tx.payload.len;
                end.take(&RxSegment { hdr: tx.hdr, payload_len, ..packet(SRC, tx.hdr.body, 0) });
            }
        }
        delivered += end.delivered().len();
        for tx in end.sent() {
            questions += u32::from(matches!(tx.hdr.body, Body::Presence(Presence::Prove { .. })));
            let answer = RxSegment { hdr: tx.hdr, from: HERE, ..packet(SRC, tx.hdr.body, 0) };
            let mut out = [Placement::Release];
            sender.handle_burst(end.now, &[RxSegment { at: end.now, ..answer }], &mut out);
        }
        end.now += end.config.base_rtt / 4;
    }
    assert_eq!((delivered, questions, proofs), (60, 2, 2));
}

#[test]
fn a_refusal_is_not_accepted_of_a_receiver_that_was_restarted() {
    let mut end = End::new(|s| s.loss.retries_max = 2);
    let flow = end.open();
    end.post(flow, 100);
    end.sent();
    let refused = end.reply(flow, Body::Presence(Presence::Refused));
    end.take(&refused);
    // There was room later: the flow has a name.
    let named = end.reply(flow, Body::Ack(ack(0, 1)));
    end.take(&named);
    end.post(flow, 100);
    end.sent();
    let unknown = Presence::Unknown { named: FlowId::new(4, 2) };
    let unknown = end.reply(FlowId::UNKNOWN, Body::Presence(unknown));
    end.take(&unknown);
    assert_eq!(end.endpoint.stats().flows_reopened, 1);
    end.events();
    while end.endpoint.stats().messages_failed == 0 {
        end.now = end.endpoint.poll_timeout().unwrap();
        end.endpoint.handle_timeout(end.now);
        end.sent();
    }
    let events = end.events();
    assert!(matches!(events[..], [Event::Failed { reason: FailReason::PeerSilent, .. }]));
}

#[test]
fn a_question_that_a_later_segment_of_the_flight_meets_sends_nothing_again() {
    let mut end = End::new(|_| {});
    let flow = end.open();
    end.post(flow, 3 * u32::from(FULL));
    end.sent();
    let ask = end.reply(flow, Body::Presence(Presence::Prove { cookie: 99 }));
    end.take(&ask);
    assert_eq!(end.sent().len(), 4);
    end.now += end.config.base_rtt * 2;
    end.take(&ask);
    assert_eq!(end.sent(), []);
    // The proof was lost.
    end.now += end.config.rto(&end.config.default_path());
    end.take(&ask);
    assert_eq!(end.sent().len(), 4);
}

#[test]
fn one_look_at_a_full_table_finds_a_flow_at_rest_where_none_is_unproven() {
    let mut end = End::new(|s| (s.rx_flows_max, s.unproven_max) = (128, 200));
    for n in 0..64 {
        let open = open_by(PEER, n);
        end.places(&open);
        let mut named = later(end.acked_flow(), data(0, 0, 0), 100);
        named.hdr.key = open.hdr.key;
        end.take(&named);
        let cookie = asked(&mut end)[0].2;
        end.take(&proof(&open, cookie));
        end.now += Duration::from_us(100);
    }
    end.now += end.config.give_up_after(&end.config.default_path()) * 2 + Duration::from_s(1);
    end.endpoint.handle_timeout(end.now);
    // Behind those at rest: in use, and of each a message is done.
    for n in 0..64 {
        end.places(&open_by(STRANGER, n));
        end.sent();
    }
    let open = open_by(HostId(5), 0);
    end.refuses_quietly(&open, DropReason::Unproven);
    let cookie = asked(&mut end)[0].2;
    end.take(&proof(&open, cookie));
    end.places(&open);
    assert_eq!(end.endpoint.stats().flows_evicted, 1);
}

#[test]
fn asks_for_proof_leave_room_for_acknowledgements() {
    let mut end = End::new(|s| (s.unproven_max, s.acks_waiting_max) = (1, 32));
    end.places(&open_by(PEER, 0));
    end.events();
    for n in 1..100 {
        end.refuses(&open_by(STRANGER, n), DropReason::Unproven);
    }
    let sent = end.sent();
    assert_eq!(sent.iter().filter(|tx| matches!(tx.hdr.body, Body::Ack(_))).count(), 1);
    assert_eq!((sent.len(), end.endpoint.stats().answers_withheld), (16, 84));
    assert_eq!(end.endpoint.stats().acks_discarded, 0);
}

#[test]
fn a_host_with_as_many_proven_flows_as_it_may_have_takes_the_places_of_no_other() {
    let mut end = End::new(|s| {
        (s.unproven_max, s.peer_max.flows, s.rx_flows_max) = (0, 2, 8);
    });
    let prove = |end: &mut End, open: &RxSegment| {
        end.refuses_quietly(open, DropReason::Unproven);
        proof(open, asked(end)[0].2)
    };
    for n in 0..2 {
        let open = open_by(PEER, n);
        let good = prove(&mut end, &open);
        end.take(&good);
        end.places(&open);
        // A proof that comes again is of the flow that has its place.
        end.take(&good);
    }
    let third = open_by(PEER, 2);
    let good = prove(&mut end, &third);
    end.refuses_quietly(&good, DropReason::PeerShare);
    let refused = |tx: &TxSegment| tx.hdr.body == Body::Presence(Presence::Refused);
    assert_eq!(end.sent().iter().filter(|tx| refused(tx)).count(), 1);
    let other = open_by(HostId(5), 0);
    let others = prove(&mut end, &other);
    end.take(&others);
    end.places(&other);
    // Its own flows give way once they rest.
    end.now += end.config.give_up_after(&end.config.default_path()) * 2 + Duration::from_s(1);
    end.endpoint.handle_timeout(end.now);
    let good = prove(&mut end, &third);
    end.take(&good);
    end.places(&third);
    assert_eq!(end.endpoint.stats().flows_evicted, 1);
}

#[test]
fn a_flow_that_has_delivered_is_forgotten_by_no_full_table_before_its_sender_gives_up() {
    let mut end = End::new(|s| (s.rx_flows_max, s.unproven_max) = (2, 2));
    let (done, part) = (open_by(PEER, 0), part_by(STRANGER, 1));
    end.places(&done);
    end.places(&part);
    assert_eq!(end.delivered(), [100]);
    end.sent();
    // One takes the place of what has not arrived yet, and none that of what was delivered.
    for (n, evicted) in [(2, 1), (3, 1)] {
        let open = open_by(HostId(5), n);
        end.refuses_quietly(&open, DropReason::Unproven);
        let cookie = asked(&mut end)[0].2;
        if n == 2 {
            end.take(&proof(&open, cookie));
        } else {
            end.refuses(&proof(&open, cookie), DropReason::TableFull);
        }
        assert_eq!(end.endpoint.stats().flows_evicted, evicted);
    }
    // The sender repeats what was delivered: it is acknowledged, and delivered to no application.
    end.take(&done);
    assert_eq!(end.delivered(), [0; 0]);
    assert_eq!(end.endpoint.stats().messages_delivered, 1);
}

#[test]
fn flows_without_proof_are_gone_when_their_senders_are_silent() {
    let mut end = End::new(|s| {
        (s.rx_flows_max, s.unproven_max, s.unproven_bytes) = (8, 3, 3_000);
    });
    // One is whole, one lacks segments, and one was refused.
    end.places(&open_by(STRANGER, 0));
    end.refuses_quietly(&part_by(STRANGER, 1), DropReason::Unproven);
    end.places(&open_by(STRANGER, 2));
    end.sent();
    end.refuses_quietly(&open_by(PEER, 4), DropReason::Unproven);
    end.sent();
    end.now += Duration::from_s(1000);
    end.endpoint.handle_timeout(end.now);
    // There is room for others without proof again.
    end.delivered();
    for n in 5..8 {
        end.places(&open_by(PEER, n));
    }
}
