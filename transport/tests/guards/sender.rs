//! What claims to be of a flow's receiver and is not, or contradicts what was sent.

use transport::sched::SchedKind;
use transport::units::Credit;
use transport::wire::{Allowance, BlockNack};
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
    // The one half of it is possible each time, the other is not.
    for (psn, cumulative) in [(3, 0), (1 << 30, 0), (0, 4), (2, 1 << 30)] {
        let (mut end, flow) = sending(|_| {});
        let before = in_flight(&end, flow);
        let forged = Ack { sack: u64::MAX, ..ack(psn, cumulative) };
        end.refuses(&packet(flow, Body::Ack(forged), 0), DropReason::BadSegment);
        end.refuses(&packet(flow, Body::Nack(forged), 0), DropReason::BadSegment);
        assert_eq!(in_flight(&end, flow), before, "psn {psn}, cumulative {cumulative}");
    }
    let (mut end, flow) = sending(|_| {});
    end.take(&packet(flow, Body::Ack(ack(2, 3)), 0));
    assert_eq!(in_flight(&end, flow), Bytes::ZERO);
}

#[test]
fn an_acknowledgement_is_the_peers() {
    let (mut end, flow) = sending(|_| {});
    let before = in_flight(&end, flow);
    for body in [Body::Ack(ack(2, 3)), Body::Nack(ack(2, 3))] {
        let forged = RxSegment { from: STRANGER, ..packet(flow, body, 0) };
        end.refuses(&forged, DropReason::UnknownFlow);
        end.refuses(&packet(FlowId::new(1, 1), body, 0), DropReason::UnknownFlow);
    }
    assert_eq!(in_flight(&end, flow), before);
}

#[test]
fn a_refusal_of_another_transmission_refuses_nothing() {
    let (mut end, flow) = sending(|_| {});
    let before = in_flight(&end, flow);
    let other = Ack { echo_sent_at: 1, ..ack(1, 0) };
    end.take(&packet(flow, Body::Nack(other), 0));
    assert_eq!(in_flight(&end, flow), before, "sent at 0, refused as sent at 1");
    end.take(&packet(flow, Body::Nack(ack(1, 0)), 0));
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
    let credit = packet(flow, body, 0);
    end.refuses(&RxSegment { from: STRANGER, ..credit }, DropReason::UnknownFlow);
    end.refuses(&packet(FlowId::new(1, 1), body, 0), DropReason::UnknownFlow);
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
    assert_eq!(end.endpoint.stats().control_received, 0);
    end.take(&request(SRC));
    assert_eq!(end.endpoint.stats().control_received, 1);
}

#[test]
fn a_request_for_a_block_is_refused_where_there_are_none() {
    let (mut end, flow) = sending(|_| {});
    let nack = BlockNack { src_flow: FlowId::new(4, 2), psn: Psn(0), missing: 1 };
    end.refuses(&packet(flow, Body::BlockNack(nack), 0), DropReason::BadSegment);
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
    let last = packet(flow, Body::Ack(ack(2, 3)), 0);
    end.take(&last);
    assert_eq!(end.events().len(), 1);
    end.take(&last);
    end.take(&packet(flow, Body::Nack(ack(2, 3)), 0));
    let stats = end.endpoint.stats();
    assert_eq!((stats.acks_received, stats.nacks_received), (2, 1));
    assert_eq!((end.events(), end.sent()), (vec![], vec![]));
}
