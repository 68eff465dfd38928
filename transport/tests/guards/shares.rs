//! Bounds of what the proven flows of a host hold, and those of the hosts of one address prefix.

use transport::event::FailReason;
use transport::wire::Presence;
use transport::wire::addressing::Groups;
use transport::{Duration, ShareMax};

use super::proof::{asked, open_by, part_by, proof};
use super::*;

/// Hosts 0 to 3 are of one prefix, 4 to 7 of another.
const NEIGHBOUR: HostId = HostId(2);
const ELSEWHERE: HostId = HostId(5);

const MAX: ShareMax = ShareMax::UNBOUNDED;

/// An endpoint that asks every flow for proof.
fn strict(change: impl FnOnce(&mut Settings)) -> End {
    End::new(|s| {
        (s.unproven_max, s.rx_flows_max, s.groups) = (0, 16, Groups::Runs(4));
        change(s);
    })
}

/// The sender of `open` proves its address; returns the proof.
fn prove(end: &mut End, open: &RxSegment) -> RxSegment {
    end.refuses_quietly(open, DropReason::Unproven);
    let cookie = asked(end)[0].2;
    let proof = proof(open, cookie);
    end.take(&proof);
    proof
}

/// The first segment of the second message of the flow that `part` began, of `len` bytes.
fn second(part: &RxSegment, len: u32) -> RxSegment {
    let mut next = *part;
    let Body::Data(data) = &mut next.hdr.body else { panic!("{part:?}") };
    (data.psn, data.msg) = (Psn(3), MsgNo(1));
    data.open.as_mut().unwrap().msg_len = NonZeroU32::new(len).unwrap();
    next.payload_len = u16::try_from(len.min(FULL.into())).unwrap();
    next
}

/// The segment at `psn` of the message that `part` began.
fn rest(part: &RxSegment, psn: u32) -> RxSegment {
    let mut next = *part;
    let Body::Data(data) = &mut next.hdr.body else { panic!("{part:?}") };
    (data.psn, data.offset) = (Psn(psn), psn * u32::from(FULL));
    next
}

/// How many of the answers since the last call say that there is no room.
fn refusals(end: &mut End) -> usize {
    let said = end.sent();
    said.iter().filter(|tx| tx.hdr.body == Body::Presence(Presence::Refused)).count()
}

#[test]
fn the_hosts_of_a_prefix_share_their_flows_and_take_none_of_another() {
    let mut end = strict(|s| s.group_max = ShareMax { flows: 2, ..MAX });
    // First in the table: an eviction that looks at no host takes it.
    let other = open_by(ELSEWHERE, 0);
    prove(&mut end, &other);
    end.places(&other);
    for host in [PEER, NEIGHBOUR] {
        let open = open_by(host, 0);
        prove(&mut end, &open);
        end.places(&open);
    }
    let third = open_by(HostId(3), 0);
    end.refuses_quietly(&third, DropReason::Unproven);
    let cookie = asked(&mut end)[0].2;
    end.refuses(&proof(&third, cookie), DropReason::GroupShare);
    assert_eq!(refusals(&mut end), 1);
    let more = open_by(ELSEWHERE, 1);
    prove(&mut end, &more);
    end.places(&more);
    // A flow at rest of the prefix gives way, and none of another.
    end.now += end.linger() + Duration::from_s(1);
    end.endpoint.handle_timeout(end.now);
    prove(&mut end, &third);
    end.places(&third);
    assert_eq!(end.endpoint.stats().flows_evicted, 1);
    end.take(&other);
    assert_eq!(end.endpoint.stats().duplicates, 1, "its flow is still here");
}

#[test]
fn flows_without_proof_and_those_of_trusted_hosts_have_no_share() {
    for unproven_max in [1, u32::MAX] {
        let few = ShareMax { bytes: 50, ..MAX };
        let mut end = End::new(|s| (s.unproven_max, s.peer_max) = (unproven_max, few));
        end.places(&open_by(PEER, 0));
    }
}

#[test]
fn no_flow_gives_way_to_one_that_gave_way_in_the_same_burst() {
    let mut end = strict(|s| s.group_max = ShareMax { flows: 2, ..MAX });
    let earlier = [PEER, NEIGHBOUR].map(|host| {
        let open = open_by(host, 0);
        let proof = prove(&mut end, &open);
        end.places(&open);
        proof
    });
    end.now += end.linger() + Duration::from_us(10);
    end.endpoint.handle_timeout(end.now);
    let third = open_by(HostId(3), 0);
    end.refuses_quietly(&third, DropReason::Unproven);
    let proof = proof(&third, asked(&mut end)[0].2);
    // One of the two gives way to the third, and proves its address once more.
    let burst = [proof, earlier[0], earlier[1]].map(|rx| RxSegment { at: end.now, ..rx });
    end.endpoint.handle_burst(end.now, &burst, &mut [Placement::Release; 3]);
    assert_eq!(end.endpoint.stats().flows_evicted, 1);
}

#[test]
fn a_host_has_as_many_messages_and_bytes_under_way_as_it_may() {
    let whole = 3 * u64::from(FULL);
    for (most, reason) in [
        (ShareMax { messages: 1, ..MAX }, DropReason::PeerShare),
        (ShareMax { bytes: whole + 4999, ..MAX }, DropReason::PeerShare),
    ] {
        let mut end = strict(|s| s.peer_max = most);
        let part = part_by(PEER, 0);
        prove(&mut end, &part);
        end.places(&part);
        end.refuses_quietly(&second(&part, 5000), reason);
        assert_eq!(refusals(&mut end), 1);
        // Nor does it help to open another flow, but another host has its own share.
        let more = part_by(PEER, 1);
        prove(&mut end, &more);
        end.refuses_quietly(&more, reason);
        let neighbour = part_by(NEIGHBOUR, 0);
        prove(&mut end, &neighbour);
        end.places(&neighbour);
        // Once the first is whole there is room.
        end.places(&rest(&part, 1));
        end.places(&rest(&part, 2));
        assert_eq!(end.delivered(), [3 * u32::from(FULL)]);
        end.places(&second(&part, 5000));
    }
}

#[test]
fn the_messages_of_a_prefix_leave_those_of_others_alone() {
    let mut end = strict(|s| s.group_max = ShareMax { messages: 2, ..MAX });
    for host in [PEER, NEIGHBOUR] {
        let part = part_by(host, 0);
        prove(&mut end, &part);
        end.places(&part);
    }
    let third = part_by(HostId(3), 0);
    prove(&mut end, &third);
    end.refuses_quietly(&third, DropReason::GroupShare);
    let other = part_by(ELSEWHERE, 0);
    prove(&mut end, &other);
    end.places(&other);
    // The first two are forgotten with what they hold.
    end.now += end.linger() + Duration::from_s(1);
    end.endpoint.handle_timeout(end.now);
    for host in [PEER, HostId(3)] {
        let part = part_by(host, 7);
        prove(&mut end, &part);
        end.places(&part);
    }
}

#[test]
fn messages_that_began_without_proof_count_once_their_flow_is_proven() {
    let mut end = End::new(|s| {
        (s.unproven_max, s.rx_flows_max, s.msgs_max) = (8, 16, 64);
        s.peer_max = ShareMax { messages: 1, ..MAX };
    });
    let cookie = |end: &mut End, part: &RxSegment| {
        end.places(part);
        let named = RxSegment { hdr: Header { dst_flow: end.acked_flow(), ..part.hdr }, ..*part };
        end.take(&named);
        asked(end)[0].2
    };
    let (one, two) = (part_by(PEER, 0), part_by(PEER, 1));
    let cookies = [cookie(&mut end, &one), cookie(&mut end, &two)];
    end.take(&proof(&one, cookies[0]));
    end.refuses_quietly(&second(&one, 100), DropReason::PeerShare);
    end.refuses_quietly(&proof(&two, cookies[1]), DropReason::PeerShare);
    // What the second began goes on, and then there is room for its flow.
    (1..3).for_each(|psn| end.places(&rest(&two, psn)));
    end.refuses_quietly(&second(&one, 100), DropReason::PeerShare);
    end.take(&proof(&two, cookies[1]));
    (1..3).for_each(|psn| end.places(&rest(&one, psn)));
    end.places(&second(&one, 5000));
}

#[test]
fn a_message_that_is_refused_on_a_flow_in_use_fails_by_that_name() {
    for answered in [false, true] {
        let mut end = End::new(|s| s.loss.retries_max = 2);
        let flow = end.open();
        end.post(flow, 100);
        end.sent();
        end.take(&end.reply(flow, Body::Ack(ack(0, 1))));
        end.post(flow, 2 * u32::from(FULL));
        end.sent();
        end.take(&end.reply(flow, Body::Presence(Presence::Refused)));
        if answered {
            // There was room later.
            end.take(&end.reply(flow, Body::Ack(ack(1, 2))));
        }
        end.events();
        while end.endpoint.stats().messages_failed == 0 {
            end.now = end.endpoint.poll_timeout().unwrap();
            end.endpoint.handle_timeout(end.now);
            end.sent();
        }
        let expected = if answered { FailReason::PeerSilent } else { FailReason::PeerFull };
        let events = end.events();
        assert!(matches!(events[..], [Event::Failed { reason, .. }] if reason == expected));
    }
}
