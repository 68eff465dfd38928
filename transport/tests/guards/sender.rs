//! Answers that claim to be of a flow's receiver and are not, or contradict what was sent.

use transport::sched::SchedKind;
use transport::units::Credit;
use transport::wire::{Allowance, BlockNack, Note, Presence, Report};
use transport::{Bytes, PostError};

use super::*;

/// An endpoint that has sent three segments on the flow.
fn sending(change: impl FnOnce(&mut Settings)) -> (End, FlowId) {
    let mut end = End::new(change);
    let flow = end.open();
    end.post(flow, 3 * u32::from(FULL));
    assert_eq!(end.sent().len(), 3);
    (end, flow)
}

fn in_flight(end: &End, flow: FlowId) -> Bytes {
    end.endpoint.flow_window(flow).unwrap().1
}

#[test]
fn an_acknowledgement_of_what_was_not_sent_is_refused() {
    // One of the two fields is possible each time, the other is not.
    for (psn, cumulative) in [(3, 0), (1 << 30, 0), (0, 4), (2, 1 << 30)] {
        let (mut end, flow) = sending(|_| {});
        let before = in_flight(&end, flow);
        let forged = Ack { sack: u64::MAX, ..ack(psn, cumulative) };
        let news = [Body::Ack(forged), Body::Nack(forged)].map(|body| end.reply(flow, body));
        end.refuses(&news[0], DropReason::BadSegment);
        end.refuses(&news[1], DropReason::BadSegment);
        assert_eq!(in_flight(&end, flow), before, "psn {psn}, cumulative {cumulative}");
    }
    let (mut end, flow) = sending(|_| {});
    end.take(&end.reply(flow, Body::Ack(ack(2, 3))));
    assert_eq!(in_flight(&end, flow), Bytes::ZERO);
}

#[test]
fn an_acknowledgement_is_the_peers() {
    let (mut end, flow) = sending(|_| {});
    let before = in_flight(&end, flow);
    for body in [Body::Ack(ack(2, 3)), Body::Nack(ack(2, 3))] {
        let forged = RxSegment { from: STRANGER, ..end.reply(flow, body) };
        end.refuses(&forged, DropReason::UnknownFlow);
        end.refuses(&packet(FlowId::new(1, 1), body, 0), DropReason::UnknownFlow);
    }
    assert_eq!(in_flight(&end, flow), before);
}

#[test]
fn feedback_without_the_key_changes_nothing() {
    let silence = |forging: bool| {
        let (mut end, flow) = sending(|s| s.loss.retries_max = 3);
        let before = end.endpoint.flow_window(flow);
        while end.endpoint.stats().messages_failed == 0 {
            end.now = end.endpoint.poll_timeout().unwrap();
            if forging {
                let report = Report { first: Psn(0), arrived: [0b110, 0, 0, 0, 0, 0, 0, 0] };
                let news = [Body::Ack(ack(2, 3)), Body::Nack(ack(1, 0)), Body::Report(report)];
                for body in news {
                    end.refuses(&without_key(&end.reply(flow, body)), DropReason::WrongKey);
                }
                let timeouts = end.endpoint.stats().lost_by_timeout;
                assert!(timeouts > 0 || end.endpoint.flow_window(flow) == before);
            }
            end.endpoint.handle_timeout(end.now);
            end.sent();
        }
        end.now
    };
    // Neither the count of silence nor a timer has changed.
    assert_eq!(silence(true), silence(false));
}

#[test]
fn a_note_for_a_flow_is_its_peers_and_has_its_key() {
    let (mut end, flow) = sending(|_| {});
    let note = end.reply(flow, Body::Note(Note::new(1, &[1, 2]).unwrap()));
    let before = end.endpoint.stats().switch_notes;
    end.refuses(&RxSegment { from: STRANGER, ..note }, DropReason::UnknownFlow);
    end.refuses(&packet(FlowId::new(1, 1), note.hdr.body, 0), DropReason::UnknownFlow);
    end.refuses(&without_key(&note), DropReason::WrongKey);
    // It reaches the controller, which has no use for it.
    end.refuses(&note, DropReason::BadSegment);
    // No host sends such notes, so all count as those of switches.
    assert_eq!(end.endpoint.stats().switch_notes, before + 4);
}

#[test]
fn only_the_receiver_that_the_flow_is_at_can_make_it_open_anew() {
    let (mut end, flow) = sending(|_| {});
    let lost = |end: &End, named| end.reply(FlowId::UNKNOWN, Body::Presence(named));
    let named = ack(0, 1).src_flow;
    // Nothing has been acknowledged: no receiver has given it a name.
    end.refuses(&lost(&end, Presence::Unknown { named }), DropReason::BadSegment);
    end.take(&end.reply(flow, Body::Ack(ack(0, 1))));
    let before = end.endpoint.flow_window(flow);
    let other = FlowId::new(4, 3);
    end.refuses(&lost(&end, Presence::Unknown { named: other }), DropReason::BadSegment);
    let good = lost(&end, Presence::Forgotten { named });
    end.refuses(&RxSegment { from: STRANGER, ..good }, DropReason::UnknownFlow);
    // A key whose place is empty, and one that has the place and is not the flow's.
    end.refuses(&without_key(&good), DropReason::UnknownFlow);
    let near = RxSegment { hdr: Header { key: Key(good.hdr.key.0 ^ 1 << 63), ..good.hdr }, ..good };
    assert_eq!(end.take(&near), Placement::Release);
    assert_eq!((end.endpoint.flow_window(flow), end.sent()), (before, vec![]));
    assert_eq!(end.endpoint.stats().flows_reopened, 0);
    end.take(&lost(&end, Presence::Unknown { named }));
    assert_eq!(end.endpoint.stats().flows_reopened, 1);
    let old = end.key;
    let again = end.sent();
    assert!(again.len() == 3 && again.iter().all(|tx| tx.hdr.dst_flow == FlowId::UNKNOWN));
    assert_ne!(end.key, old);
    // The same answer again, and what the receiver said before, are of the flow that was.
    end.refuses(&good, DropReason::WrongKey);
    let late = end.reply(flow, Body::Ack(ack(2, 3)));
    let late = RxSegment { hdr: Header { key: old, ..late.hdr }, ..late };
    end.refuses(&late, DropReason::WrongKey);
}

#[test]
fn a_flow_that_is_over_or_has_failed_is_not_opened_anew() {
    let named = ack(0, 1).src_flow;
    for closed in [true, false] {
        let (mut end, flow) = sending(|s| s.loss.retries_max = 1);
        end.take(&end.reply(flow, Body::Ack(ack(0, 1))));
        if closed {
            end.endpoint.close_flow(end.now, flow);
            end.take(&end.reply(flow, Body::Ack(ack(2, 3))));
        }
        while !closed && end.endpoint.stats().messages_failed == 0 {
            end.now = end.endpoint.poll_timeout().unwrap();
            end.endpoint.handle_timeout(end.now);
            end.sent();
        }
        end.events();
        let lost = end.reply(FlowId::UNKNOWN, Body::Presence(Presence::Unknown { named }));
        end.refuses(&lost, DropReason::UnknownFlow);
        assert_eq!(end.sent(), []);
    }
}

#[test]
fn a_report_is_the_peers_of_what_was_sent() {
    let (mut end, flow) = sending(|_| {});
    let report = |first, bits| {
        let mut arrived = [0; 8];
        arrived[0] = bits;
        Body::Report(Report { first: Psn(first), arrived })
    };
    let before = in_flight(&end, flow);
    end.refuses(&end.reply(flow, report(0, 0b1000)), DropReason::BadSegment);
    end.refuses(&end.reply(flow, report(64, 1)), DropReason::BadSegment);
    let good = end.reply(flow, report(0, 0b110));
    end.refuses(&RxSegment { from: STRANGER, ..good }, DropReason::UnknownFlow);
    assert_eq!(in_flight(&end, flow), before);
    end.take(&good);
    assert!(in_flight(&end, flow) < before);
}

#[test]
fn the_receivers_name_of_a_flow_does_not_change() {
    let (mut end, flow) = sending(|s| s.sched = SchedKind::Credits);
    end.take(&end.reply(flow, Body::Ack(ack(0, 1))));
    let before = in_flight(&end, flow);
    let other = FlowId::new(4, 3);
    for body in [Body::Ack, Body::Nack].map(|kind| kind(Ack { src_flow: other, ..ack(2, 3) })) {
        end.refuses(&end.reply(flow, body), DropReason::BadSegment);
    }
    let upto = Credit::START.plus(1 << 20);
    let credit = |src_flow| Body::Credit(Allowance { src_flow, upto });
    end.refuses(&end.reply(flow, credit(other)), DropReason::BadSegment);
    assert_eq!(in_flight(&end, flow), before);
    // What is sent next still goes where the first acknowledgement said.
    end.post(flow, 100);
    assert_eq!(end.sent().last().unwrap().hdr.dst_flow, ack(0, 1).src_flow);
    end.take(&end.reply(flow, credit(ack(0, 1).src_flow)));
    assert_eq!(end.endpoint.stats().control_received, 1);
}

#[test]
fn feedback_about_what_is_no_longer_outstanding_is_no_sign_of_life() {
    let given_up = |late: Option<Body>| {
        let (mut end, flow) = sending(|s| s.loss.retries_max = 3);
        end.take(&end.reply(flow, Body::Ack(ack(0, 1))));
        while end.endpoint.stats().messages_failed == 0 {
            end.now = end.endpoint.poll_timeout().unwrap();
            if let Some(body) = late {
                end.take(&end.reply(flow, body));
            }
            end.endpoint.handle_timeout(end.now);
            end.sent();
            if end.now > Instant::ZERO + transport::Duration::from_ms(100) {
                return false;
            }
        }
        true
    };
    assert!(given_up(None));
    assert!(given_up(Some(Body::Ack(ack(0, 1)))));
    assert!(given_up(Some(Body::Nack(ack(0, 1)))));
    assert!(given_up(Some(Body::Report(Report {
        first: Psn(0),
        arrived: [1, 0, 0, 0, 0, 0, 0, 0]
    }))));
    // A refusal of what is outstanding is one.
    assert!(!given_up(Some(Body::Nack(ack(1, 1)))));
}

#[test]
fn credit_that_cannot_be_meant_is_no_sign_of_life() {
    let given_up = |upto: Option<u32>| {
        let mut end = End::new(|s| {
            s.sched = SchedKind::Credits;
            s.sched_params.credit.first_window = 0.0;
            s.loss.retries_max = 3;
        });
        let flow = end.open();
        end.post(flow, 100_000);
        // Its requests have the key.
        while end.endpoint.stats().messages_failed == 0 {
            end.key = end.sent().last().map_or(end.key, |tx| tx.hdr.key);
            end.now = end.endpoint.poll_timeout().unwrap();
            if let Some(more) = upto {
                let upto = Credit::START.plus(more);
                let body = Body::Credit(Allowance { src_flow: FlowId::new(4, 2), upto });
                end.take(&end.reply(flow, body));
            }
            end.endpoint.handle_timeout(end.now);
            if end.now > Instant::ZERO + transport::Duration::from_ms(100) {
                return false;
            }
        }
        true
    };
    assert!(given_up(None) && given_up(Some(1 << 30 | 1)));
    assert!(!given_up(Some(0)), "an answer that gives nothing is an answer");
}

#[test]
fn the_keys_of_two_flows_differ_and_are_the_same_in_the_same_run() {
    let keys = |secret| {
        let mut end = End::new(|s| s.secret = secret);
        [(); 2].map(|()| {
            let flow = end.open();
            end.post(flow, 1);
            end.sent()[0].hdr.key
        })
    };
    let all = [[0, 0], [1, 0], [0, 1]].map(|secret| {
        assert_eq!(keys(secret), keys(secret));
        keys(secret)
    });
    let mut all: Vec<u64> = all.iter().flatten().map(|key| key.0).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 6);
}

#[test]
fn a_refusal_of_another_transmission_refuses_nothing() {
    let (mut end, flow) = sending(|_| {});
    let before = in_flight(&end, flow);
    let other = Ack { echo_sent_at: 1, ..ack(1, 0) };
    end.take(&end.reply(flow, Body::Nack(other)));
    assert_eq!(in_flight(&end, flow), before, "sent at 0, refused as sent at 1");
    end.take(&end.reply(flow, Body::Nack(ack(1, 0))));
    assert!(in_flight(&end, flow) < before);
    assert_eq!(end.sent().len(), 1, "it is sent again");
}

#[test]
fn credit_is_the_peers() {
    let (mut end, flow) = sending(|s| {
        s.sched = SchedKind::Credits;
        s.sched_params.credit.first_window = 1.0;
    });
    let upto = Credit::START.plus(1 << 20);
    let body = Body::Credit(Allowance { src_flow: FlowId::new(4, 2), upto });
    let credit = end.reply(flow, body);
    end.refuses(&RxSegment { from: STRANGER, ..credit }, DropReason::UnknownFlow);
    end.refuses(&packet(FlowId::new(1, 1), body, 0), DropReason::UnknownFlow);
    end.refuses(&without_key(&credit), DropReason::WrongKey);
    assert_eq!(end.endpoint.stats().control_received, 0);
    end.take(&credit);
    assert_eq!(end.endpoint.stats().control_received, 1);
}

#[test]
fn a_request_is_the_senders_of_the_flow_that_it_names() {
    let mut end = End::new(|s| s.sched = SchedKind::Credits);
    end.places(&first(opening(0, 0, 0, 5000), FULL));
    let flow = end.acked_flow();
    let upto = Credit::START.plus(5000);
    let request = |src_flow| packet(flow, Body::Request(Allowance { src_flow, upto }), 0);
    end.refuses(&RxSegment { from: STRANGER, ..request(SRC) }, DropReason::UnknownFlow);
    end.refuses(&request(FlowId::new(4, 7)), DropReason::UnknownFlow);
    end.refuses(&without_key(&request(SRC)), DropReason::WrongKey);
    assert_eq!(end.endpoint.stats().control_received, 0);
    end.take(&request(SRC));
    assert_eq!(end.endpoint.stats().control_received, 1);
}

#[test]
fn a_request_for_a_block_is_refused_where_there_are_none() {
    let (mut end, flow) = sending(|_| {});
    let nack = BlockNack { src_flow: FlowId::new(4, 2), psn: Psn(0), missing: 1 };
    end.refuses(&end.reply(flow, Body::BlockNack(nack)), DropReason::BadSegment);
}

#[test]
fn a_closed_flow_takes_no_message_and_no_host_sends_to_itself() {
    let (mut end, flow) = sending(|_| {});
    end.endpoint.close_flow(end.now, flow);
    let spec = MsgSpec { flow, len: NonZeroU32::MIN, tag: 0 };
    assert_eq!(end.endpoint.post_send(end.now, spec), Err(PostError::NoSuchFlow));
    let stale = MsgSpec { flow: FlowId::new(0, 2), ..spec };
    assert_eq!(end.endpoint.post_send(end.now, stale), Err(PostError::NoSuchFlow));
    let path = end.config.default_path();
    assert_eq!(end.endpoint.open_flow(HERE, path), Err(PostError::SelfSend));
}

#[test]
fn what_arrives_for_a_flow_that_is_over_is_counted_and_revives_nothing() {
    let (mut end, flow) = sending(|_| {});
    end.endpoint.close_flow(end.now, flow);
    let last = end.reply(flow, Body::Ack(ack(2, 3)));
    end.take(&last);
    assert_eq!(end.events().len(), 1);
    end.take(&last);
    end.take(&end.reply(flow, Body::Nack(ack(2, 3))));
    end.refuses(&without_key(&last), DropReason::WrongKey);
    let stats = end.endpoint.stats();
    assert_eq!((stats.acks_received, stats.nacks_received), (2, 1));
    assert_eq!((end.events(), end.sent()), (vec![], vec![]));
}
