//! How long a receiver keeps a flow, and how it forgets the flow then.

use transport::sched::SchedKind;
use transport::units::Credit;
use transport::wire::Allowance;
use transport::{Duration, MsgId};

use super::*;

impl End {
    /// Twice the longest that a sender retries.
    pub(crate) fn linger(&self) -> Duration {
        self.config.give_up_after(&self.config.default_path()) * 2
    }

    /// Nothing happens for `span`.
    pub(crate) fn wait(&mut self, span: Duration) {
        self.now += span;
        self.endpoint.handle_timeout(self.now);
    }

    /// One whole message of 100 bytes arrives; the flow's name here.
    fn first_message(&mut self) -> FlowId {
        self.places(&first(opening(0, 0, 0, 100), 100));
        assert_eq!(self.delivered(), [100]);
        self.acked_flow()
    }
}

fn under(src: u32, data: Data) -> Data {
    let mut data = data;
    data.open.as_mut().unwrap().src_flow = FlowId::new(src, 1);
    data
}

#[test]
fn a_retransmission_within_the_senders_patience_is_no_new_flow() {
    let mut end = End::new(|_| {});
    let flow = end.first_message();
    end.wait(end.linger() - Duration::from_us(1));
    assert_eq!(end.take(&first(opening(0, 0, 0, 100), 100)), Placement::Release);
    assert_eq!((end.acked_flow(), end.delivered()), (flow, vec![]));
    // A packet of the flow has arrived again, so its time begins anew.
    end.wait(end.linger() - Duration::from_us(1));
    assert_eq!(end.take(&first(opening(0, 0, 0, 100), 100)), Placement::Release);
    assert_eq!(end.delivered(), []);
}

#[test]
fn a_flow_goes_on_after_any_silence_and_delivers_nothing_twice() {
    let mut end = End::new(|_| {});
    let flow = end.first_message();
    for message in 1..4 {
        end.wait(end.linger() * 1000);
        assert_eq!(end.endpoint.poll_timeout(), None, "a flow at rest has no timer");
        // A copy of all that went before comes first.
        assert_eq!(
            end.take(&later(flow, data(message - 1, message - 1, 0), 100)),
            Placement::Release
        );
        end.places(&later(flow, opening(message, message, 0, 100), 100));
        assert_eq!((end.delivered(), end.acked_flow()), (vec![100], flow));
    }
    assert_eq!(end.endpoint.stats().duplicates, 3);
}

#[test]
fn a_flow_of_another_process_under_the_same_name_is_another_flow() {
    for silence in [Duration::ZERO, Duration::from_s(1)] {
        let mut end = End::new(|_| {});
        let flow = end.first_message();
        end.wait(silence);
        let again = without_key(&first(opening(0, 0, 0, 700), 700));
        assert_eq!(end.endpoint.would_open(&again).map(NonZeroU32::get), Some(700));
        end.places(&again);
        assert_eq!(end.delivered(), [700]);
        assert_ne!(end.acked_flow(), flow);
        // The first goes on beside it.
        end.places(&later(flow, opening(1, 1, 0, 100), 100));
        assert_eq!(end.delivered(), [100]);
    }
}

#[test]
fn a_sender_that_stopped_before_it_was_answered_is_recognised_by_its_key() {
    let mut end = End::new(|_| {});
    let flow = end.first_message();
    end.wait(end.linger() * 10);
    assert_eq!(end.take(&first(opening(0, 0, 0, 100), 100)), Placement::Release);
    assert_eq!((end.acked_flow(), end.delivered()), (flow, vec![]));
}

#[test]
fn a_flow_of_which_something_is_missing_is_aborted_and_can_be_opened_again() {
    let mut end = End::new(|_| {});
    end.places(&first(opening(1, 0, 4096, 5000), 904));
    end.places(&first(opening(5, 2, 0, 300), 300));
    let flow = end.acked_flow();
    assert_eq!(end.delivered(), [300]);
    end.wait(end.linger());
    let aborted =
        |event: &Event| matches!(event, Event::Aborted { from: PEER, msg } if *msg != MsgId(0));
    let events = end.events();
    assert!(events.len() == 1 && events.iter().all(aborted), "{events:?}");
    end.refuses(&later(flow, data(0, 0, 0), FULL), DropReason::UnknownFlow);
    // Neither PSN 1 nor message 2 has arrived on the new flow, nor is it one of two.
    end.places(&first(opening(1, 0, 4096, 5000), 904));
    let acks = end.sent();
    let Some(Body::Ack(ack)) = acks.last().map(|tx| tx.hdr.body) else { panic!("{acks:?}") };
    assert_eq!((ack.sack, ack.sharers), (0b10, 1));
    end.places(&first(opening(5, 2, 0, 300), 300));
    end.places(&first(opening(0, 0, 0, 5000), FULL));
    assert_eq!(end.delivered(), [300, 5000]);
}

#[test]
fn an_acknowledgement_that_waits_when_its_flow_is_forgotten_does_not_leave() {
    let mut end = End::new(|s| s.ack_every = 8);
    end.places(&first(opening(1, 0, 4096, 5000), 904));
    end.places(&first(opening(70, 0, 0, 5000), 100));
    // The first left the flow for the queue when another word of PSNs began.
    end.wait(end.linger());
    assert_eq!(end.sent(), []);
    // Its buffers are empty: acknowledgements that waited there do not wait for the next flow.
    end.places(&first(opening(1, 0, 4096, 5000), 904));
    assert_eq!(end.sent(), []);
}

#[test]
fn a_full_table_has_room_for_a_new_flow_where_one_is_at_rest() {
    let mut end = End::new(|s| s.rx_flows_max = 2);
    let resting = end.first_message();
    end.wait(end.linger());
    end.places(&first(under(10, opening(0, 0, 0, 5000)), FULL));
    // No timer of the second is due.
    end.wait(end.linger() / 2);
    end.places(&first(under(11, opening(0, 0, 0, 5000)), FULL));
    assert_eq!(end.endpoint.stats().flows_evicted, 1);
    end.refuses(&later(resting, opening(1, 1, 0, 100), 100), DropReason::UnknownFlow);
    // Both flows are receiving now: there is no room for a third.
    end.refuses(&first(under(12, opening(0, 0, 0, 5000)), FULL), DropReason::TableFull);
    assert_eq!((end.endpoint.stats().flows_evicted, end.events()), (1, vec![]));
    end.places(&first(under(10, opening(1, 0, 4096, 5000)), 904));
    end.places(&first(under(11, opening(1, 0, 4096, 5000)), 904));
    assert_eq!(end.delivered(), [5000, 5000]);
}

#[test]
fn a_flow_that_is_forgotten_is_given_no_credit() {
    let credits = |end: &mut End| {
        let sent = end.sent();
        sent.iter().filter(|tx| matches!(tx.hdr.body, Body::Credit(_))).count()
    };
    let mut end = End::new(|s| s.sched = SchedKind::Credits);
    let demand = Some(Credit::START.plus(1 << 30));
    end.places(&first(Data { demand, ..opening(0, 0, 0, 5000) }, FULL));
    assert!(credits(&mut end) > 0);
    // It wants a gibibyte, which takes longer to give.
    end.wait(end.linger());
    assert_eq!(credits(&mut end), 0);
    end.wait(Duration::from_us(10));
    assert_eq!(credits(&mut end), 0);
}

#[test]
fn a_flow_at_rest_asks_for_credit_by_its_senders_name() {
    let mut end = End::new(|s| s.sched = SchedKind::Credits);
    let flow = end.first_message();
    end.wait(end.linger() * 10);
    let upto = Credit::START.plus(5000);
    let body = Body::Request(Allowance { src_flow: SRC, upto });
    end.take(&packet(FlowId::UNKNOWN, body, 0));
    let sent = end.sent();
    assert!(
        matches!(
            sent[..],
            [TxSegment { hdr: Header { body: Body::Credit(c), dst_flow: SRC, .. }, .. }]
                if c.src_flow == flow && c.upto != Credit::START
        ),
        "{sent:?}"
    );
    assert!(end.endpoint.poll_timeout().is_some(), "it rests no longer");
}

#[test]
fn a_flow_that_gave_way_in_a_burst_is_not_opened_again_by_the_same_burst() {
    let mut end = End::new(|settings| settings.rx_flows_max = 2);
    end.first_message();
    end.places(&first(under(5, opening(0, 0, 0, 100)), 100));
    end.wait(end.linger() * 10);
    let again = first(opening(0, 0, 0, 100), 100);
    let other = first(under(7, opening(0, 0, 0, 200)), 200);
    assert_eq!(end.endpoint.would_open(&again), None, "its message is done");
    let mut places = [Placement::Release; 2];
    end.endpoint.handle_burst(again.at, &[other, again], &mut places);
    assert!(matches!(places[0], Placement::Place { .. }), "{places:?}");
    assert_eq!(places[1], Placement::Release, "no memory was kept for it");
    assert_eq!(end.endpoint.stats().flows_evicted, 1);
    assert!(end.endpoint.would_open(&again).is_some(), "it may come again");
    end.places(&again);
}
