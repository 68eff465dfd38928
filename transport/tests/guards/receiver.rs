//! DATA that contradicts the message, the flow or the sender it claims to be of.

use super::*;
use transport::Duration;
use transport::sched::SchedKind;
use transport::units::Credit;
use transport::wire::{Extent, Presence};

impl End {
    /// The bytes of credit that the endpoint gives within `span`.
    fn credit_within(&mut self, span: Duration) -> u32 {
        let (end, mut most) = (self.now + span, Credit::START.number());
        while self.now < end {
            for tx in self.sent() {
                if let Body::Credit(given) = tx.hdr.body {
                    most = most.max(given.upto.number());
                }
            }
            self.wait(Duration::from_us(10));
        }
        most - Credit::START.number()
    }
}

#[test]
fn a_segment_that_ends_behind_its_message_is_refused() {
    let mut end = End::new(|_| {});
    end.refuses(&first(opening(1, 0, 4096, 5000), FULL), DropReason::BadSegment);
    end.places(&first(opening(1, 0, 4096, 5000), 904));
    end.places(&first(opening(0, 0, 0, 5000), FULL));
    assert_eq!(end.delivered(), [5000]);
}

#[test]
fn segments_that_hold_more_than_their_message_are_refused() {
    let mut end = End::new(|_| {});
    end.places(&first(opening(0, 0, 0, 5000), FULL));
    // Within the message, but only 904 bytes are missing.
    end.refuses(&first(opening(1, 0, 0, 5000), FULL), DropReason::BadSegment);
    assert_eq!(end.delivered(), []);
}

#[test]
fn a_trimmed_segment_is_counted_and_is_in_no_message() {
    let mut end = End::new(|_| {});
    let segment = first(opening(0, 0, 0, 100), 100);
    end.take(&RxSegment { trimmed: true, payload_len: 0, ..segment });
    assert_eq!(end.endpoint.stats().trimmed, 1);
    end.places(&segment);
    assert_eq!(end.delivered(), [100]);
}

#[test]
fn a_trimmed_segment_gets_credit_for_the_bytes_that_it_lacks_and_a_header() {
    let credit = |len: u32| {
        let mut end = End::new(|s| s.sched = SchedKind::Credits);
        let data = Data { demand: Some(Credit::START), ..opening(0, 0, 0, len) };
        end.take(&RxSegment { trimmed: true, payload_len: 0, ..first(data, 1) });
        end.credit_within(Duration::from_ms(1))
    };
    let [short, long] = [100, 1100].map(credit);
    assert!((101..300).contains(&short), "{short}");
    assert_eq!(long - short, 1000);
}

#[test]
fn the_header_of_a_trimmed_segment_is_as_long_as_its_extensions_make_it() {
    let granted = |extent: Extent| {
        let mut end = End::new(|s| s.sched = SchedKind::Credits);
        let data = Data { demand: Some(Credit::START), ..opening(0, 0, 0, 1000) };
        let mut segment = first(data, 1);
        segment.hdr.ext = extent;
        end.take(&RxSegment { trimmed: true, payload_len: 0, ..segment });
        end.credit_within(Duration::from_ms(1))
    };
    let half = Extent::NONE.with_half();
    assert_eq!(granted(half) - granted(Extent::NONE), u32::from(half.len()));
}

#[test]
fn a_segment_that_later_ones_overtook_is_counted_as_reordered() {
    let mut end = End::new(|_| {});
    for psn in [3, 0, 2, 1] {
        end.places(&first(opening(psn, 0, psn * 4096, 5 * 4096), FULL));
    }
    assert_eq!(end.endpoint.stats().reordered, 3);
}

#[test]
fn a_segment_sent_again_and_the_last_of_a_message_are_acknowledged_at_once() {
    for (retransmission, len, acks) in [(false, 5000, 0), (true, 5000, 1), (false, 4096, 1)] {
        let mut end = End::new(|s| s.ack_every = 4);
        end.places(&first(Data { retransmission, ..opening(0, 0, 0, len) }, FULL));
        assert_eq!(end.sent().len(), acks, "{retransmission} {len}");
    }
}

#[test]
fn a_report_takes_the_path_of_the_segment_that_its_acknowledgement_answers() {
    let mut end = End::new(|s| s.sched = SchedKind::Phost);
    for (psn, ev) in [(0, 11), (64, 12)] {
        let mut segment = first(opening(psn, 0, psn * 4096, 1 << 20), FULL);
        segment.hdr.ev = EntropyValue(ev);
        end.places(&segment);
    }
    let at_once = end.sent();
    assert!(!at_once.iter().any(|tx| matches!(tx.hdr.body, Body::Ack(_))), "{at_once:?}");
    end.wait(end.config.base_rtt);
    let answers = end.sent();
    let path =
        |is: fn(&Body) -> bool| answers.iter().find(|tx| is(&tx.hdr.body)).map(|tx| tx.hdr.ev.0);
    assert_eq!(path(|body| matches!(body, Body::Report(_))), Some(12));
    assert_eq!(path(|body| matches!(body, Body::Ack(_))), Some(12));
}

#[test]
fn a_message_has_begun_once_a_segment_of_it_is_here_and_has_one_length() {
    let mut end = End::new(|_| {});
    let has = |end: &End, data: Data| end.endpoint.has_message_of(&first(data, 904));
    end.places(&first(opening(0, 0, 0, 4096), FULL));
    assert!(has(&end, opening(1, 0, 0, 4096)), "it is over");
    let second = opening(1, 1, 4096, 5000);
    assert!(!has(&end, second), "none of it is here");
    end.places(&first(opening(2, 1, 0, 5000), FULL));
    assert!(has(&end, second));
    assert!(!has(&end, opening(1, 1, 4096, 5001)), "of another length");
    let flow = end.acked_flow();
    assert!(end.endpoint.has_message_of(&later(flow, data(1, 1, 4096), 904)));
    assert!(!end.endpoint.has_message_of(&later(flow, data(9, 2, 0), 904)));
}

#[test]
fn a_segment_without_payload_is_refused() {
    let mut end = End::new(|_| {});
    end.refuses(&first(opening(0, 0, 0, 5000), 0), DropReason::BadSegment);
    // It did not count as arrived.
    end.places(&first(opening(0, 0, 0, 5000), FULL));
}

#[test]
fn a_message_does_not_change_its_length() {
    for other in [4999, 5001, 9000] {
        let mut end = End::new(|_| {});
        end.places(&first(opening(0, 0, 0, 5000), FULL));
        end.refuses(&first(opening(1, 0, 4096, other), 900), DropReason::BadSegment);
    }
}

#[test]
fn a_new_segment_of_a_delivered_message_is_refused() {
    let mut end = End::new(|_| {});
    end.places(&first(opening(0, 0, 0, 100), 100));
    assert_eq!(end.delivered(), [100]);
    end.refuses(&first(opening(1, 0, 0, 100), 100), DropReason::BadSegment);
}

#[test]
fn a_message_beyond_the_window_is_refused() {
    let mut end = End::new(|s| s.msg_window = 4);
    end.refuses(&first(opening(0, 4, 0, 100), 100), DropReason::BadSegment);
    end.places(&first(opening(0, 3, 0, 100), 100));
}

#[test]
fn a_message_that_was_not_opened_is_refused_on_a_known_flow() {
    let mut end = End::new(|_| {});
    end.places(&first(opening(0, 0, 0, 5000), FULL));
    let flow = end.acked_flow();
    end.refuses(&later(flow, data(1, 1, 0), 100), DropReason::UnknownFlow);
    end.places(&later(flow, data(1, 0, 4096), 904));
    assert_eq!(end.delivered(), [5000]);
}

#[test]
fn a_message_that_the_table_has_no_room_for_is_refused() {
    let mut end = End::new(|s| s.msgs_max = 1);
    end.places(&first(opening(0, 0, 0, 5000), FULL));
    end.refuses(&first(opening(1, 1, 0, 5000), FULL), DropReason::TableFull);
    end.places(&first(opening(2, 0, 4096, 5000), 904));
    end.places(&first(opening(1, 1, 0, 5000), FULL));
}

#[test]
fn a_psn_beyond_the_window_is_refused_and_counts_for_nothing() {
    let mut end = End::new(|s| s.psn_window = 128);
    // One word of the bitmap holds the first missing PSN, so 64 are open.
    end.refuses(&first(opening(64, 0, 4096, 5000), 904), DropReason::PsnOutOfWindow);
    end.places(&first(opening(63, 0, 4096, 5000), 904));
    end.places(&first(opening(0, 0, 0, 5000), FULL));
    assert_eq!(end.delivered(), [5000]);
}

#[test]
fn a_flow_takes_segments_from_its_sender_alone() {
    let mut end = End::new(|_| {});
    end.places(&first(opening(0, 0, 0, 5000), FULL));
    let flow = end.acked_flow();
    let segment = later(flow, data(1, 0, 4096), 904);
    end.refuses(&RxSegment { from: STRANGER, ..segment }, DropReason::UnknownFlow);
    assert_eq!(disowned(&mut end).len(), 1, "another host gets one answer and no more");
    end.places(&segment);
    assert_eq!(end.delivered(), [5000]);
}

#[test]
fn a_segment_without_the_key_is_not_of_the_flow() {
    let mut end = End::new(|_| {});
    end.places(&first(opening(0, 0, 0, 5000), FULL));
    let flow = end.acked_flow();
    let due = end.endpoint.poll_timeout();
    end.now += Duration::from_us(1);
    let segment = later(flow, data(1, 0, 4096), 904);
    let accepted = end.endpoint.stats().accepted();
    end.refuses(&without_key(&segment), DropReason::WrongKey);
    assert_eq!(end.endpoint.stats().accepted(), accepted, "it is of no flow");
    assert_eq!((disowned(&mut end).len(), end.endpoint.poll_timeout()), (1, due));
    let memory = end.endpoint.would_open(&without_key(&segment));
    assert_eq!(memory, None, "no memory for what is refused");
    let strange = [segment, without_key(&segment)].map(|rx| end.endpoint.is_strange(&rx));
    assert_eq!(strange, [false, true], "drivers learn it before");
    end.places(&segment);
    assert_eq!(end.endpoint.stats().accepted(), accepted + 1);
    assert_eq!(end.delivered(), [5000]);
}

#[test]
fn a_segment_that_names_two_flows_is_of_neither() {
    let mut end = End::new(|_| {});
    end.places(&first(opening(0, 0, 0, 5000), FULL));
    let flow = end.acked_flow();
    let mut both = opening(1, 0, 4096, 5000);
    end.places(&later(flow, both, 904));
    assert_eq!(end.delivered(), [5000]);
    both = opening(2, 1, 0, 100);
    both.open.as_mut().unwrap().src_flow = FlowId::new(4, 7);
    end.refuses(&later(flow, both, 100), DropReason::UnknownFlow);
}

#[test]
fn a_segment_of_no_flow_is_refused() {
    let mut end = End::new(|_| {});
    end.refuses(&first(data(0, 0, 0), 100), DropReason::UnknownFlow);
    assert_eq!(end.sent(), []);
    end.refuses(&later(FlowId::new(0, 1), data(0, 0, 0), 100), DropReason::UnknownFlow);
    assert_eq!(disowned(&mut end).len(), 1);
}

#[test]
fn a_flow_that_the_table_has_no_room_for_is_refused() {
    let mut end = End::new(|s| s.rx_flows_max = 1);
    end.places(&first(opening(0, 0, 0, 5000), FULL));
    let mut other = opening(0, 0, 0, 100);
    other.open.as_mut().unwrap().src_flow = FlowId::new(4, 7);
    end.refuses(&first(other, 100), DropReason::TableFull);
    end.places(&first(opening(1, 0, 4096, 5000), 904));
}

#[test]
fn a_segment_that_comes_again_is_one_segment_however_it_is_addressed() {
    let mut end = End::new(|_| {});
    let segment = first(opening(0, 0, 0, 5000), FULL);
    end.places(&segment);
    let flow = end.acked_flow();
    assert_eq!(end.take(&segment), Placement::Release);
    assert_eq!(end.acked_flow(), flow, "the sender's name is looked up while it opens");
    assert_eq!(end.take(&later(flow, data(0, 0, 0), FULL)), Placement::Release);
    assert_eq!(end.endpoint.stats().duplicates, 2);
    let Body::Ack(ack) = end.sent().last().unwrap().hdr.body else { panic!("no ACK") };
    assert_eq!(ack.receipt, Receipt::Again);
}

#[test]
fn what_has_arrived_is_not_refused_when_it_comes_again_trimmed() {
    let mut end = End::new(|_| {});
    let segment = first(opening(0, 0, 0, 5000), FULL);
    end.places(&segment);
    end.sent();
    end.take(&RxSegment { trimmed: true, payload_len: 0, ..segment });
    assert_eq!((end.endpoint.stats().trimmed, end.endpoint.stats().duplicates), (1, 1));
    assert!(matches!(end.sent()[..], [TxSegment { hdr: Header { body: Body::Ack(_), .. }, .. }]));
}

#[test]
fn where_the_scheduler_reports_arrivals_no_segment_is_acknowledged() {
    let mut end = End::new(|s| s.sched = SchedKind::Zeropod);
    let segment = first(opening(0, 0, 0, 5000), FULL);
    let trimmed = RxSegment { trimmed: true, payload_len: 0, ..segment };
    end.take(&trimmed);
    end.places(&segment);
    end.take(&segment);
    end.wait(Duration::from_ms(1));
    let answers = end.sent();
    let is_answer = |tx: &TxSegment| matches!(tx.hdr.body, Body::Ack(_) | Body::Nack(_));
    assert!(!answers.iter().any(is_answer), "{answers:?}");
    assert_eq!((end.endpoint.stats().trimmed, end.endpoint.stats().duplicates), (1, 1));
}

#[test]
fn a_driver_is_asked_for_memory_once_a_message() {
    let mut end = End::new(|_| {});
    let segment = first(opening(0, 0, 0, 5000), FULL);
    let trimmed = RxSegment { trimmed: true, payload_len: 0, ..segment };
    assert_eq!(end.endpoint.would_open(&trimmed), None, "a trimmed segment brings no bytes");
    assert_eq!(end.endpoint.would_open(&segment).map(NonZeroU32::get), Some(5000));
    end.take(&trimmed);
    assert_eq!(end.endpoint.would_open(&segment).map(NonZeroU32::get), Some(5000));
    end.places(&segment);
    let second = first(opening(1, 0, 4096, 5000), 904);
    assert_eq!(end.endpoint.would_open(&second), None, "the message has its memory");
    end.places(&second);
    assert_eq!(end.endpoint.would_open(&second), None, "the message is over");
}

/// What the endpoint says of flows that are not here, and it says nothing else.
fn disowned(end: &mut End) -> Vec<Presence> {
    let sent = end.sent();
    let said = sent.iter().map(|tx| match tx.hdr.body {
        Body::Presence(presence) => presence,
        other => panic!("{other:?}"),
    });
    said.collect()
}

#[test]
fn a_packet_of_an_unknown_flow_is_answered_and_one_of_a_known_flow_is_not() {
    let mut end = End::new(|_| {});
    let never = FlowId::new(7, 9);
    end.refuses(&later(never, data(0, 0, 0), FULL), DropReason::UnknownFlow);
    assert_eq!(disowned(&mut end), [Presence::Unknown { named: never }]);
    end.places(&first(opening(0, 0, 0, 5000), FULL));
    let flow = end.acked_flow();
    // Known to this host, and opens no message.
    end.refuses(&later(flow, data(1, 1, 0), 100), DropReason::UnknownFlow);
    assert_eq!(disowned(&mut end), []);
    // The name is that of a flow, and this process never gave it to the one with this key.
    end.refuses(&without_key(&later(flow, data(1, 0, 4096), 904)), DropReason::WrongKey);
    assert_eq!(disowned(&mut end), [Presence::Unknown { named: flow }]);
    // A packet that opens a flow names none.
    end.refuses(&first(data(1, 0, 4096), 904), DropReason::UnknownFlow);
    assert_eq!(disowned(&mut end), []);
}

#[test]
fn a_flow_that_this_process_has_forgotten_is_called_so() {
    let mut end = End::new(|s| (s.incarnation, s.rx_flows_max) = (900, 2));
    end.places(&first(opening(1, 0, 4096, 5000), 904));
    let flow = end.acked_flow();
    end.now += end.config.give_up_after(&end.config.default_path()) * 2;
    end.endpoint.handle_timeout(end.now);
    end.events();
    end.refuses(&later(flow, data(0, 0, 0), FULL), DropReason::UnknownFlow);
    assert_eq!(disowned(&mut end), [Presence::Forgotten { named: flow }]);
    // Names of the process before, by its generations, and of places never used.
    for never in [FlowId::new(0, 899), FlowId::new(0, 901), FlowId::new(1, 900)] {
        end.refuses(&later(never, data(0, 0, 0), FULL), DropReason::UnknownFlow);
        assert_eq!(disowned(&mut end), [Presence::Unknown { named: never }]);
    }
}

#[test]
fn a_flow_is_kept_by_its_sender_alone() {
    let mut end = End::new(|_| {});
    end.places(&first(opening(0, 0, 0, 100), 100));
    let flow = end.acked_flow();
    let keep = packet(flow, Body::Presence(Presence::Keep), 0);
    end.events();
    end.refuses(&RxSegment { from: STRANGER, ..keep }, DropReason::UnknownFlow);
    end.refuses(&without_key(&keep), DropReason::UnknownFlow);
    assert_eq!(disowned(&mut end).len(), 2);
    // At rest, it has no timer; kept, it has one again.
    end.now += end.config.give_up_after(&end.config.default_path()) * 2;
    end.endpoint.handle_timeout(end.now);
    assert_eq!(end.endpoint.poll_timeout(), None);
    end.take(&keep);
    assert!(end.endpoint.poll_timeout().is_some());
    assert_eq!(disowned(&mut end), []);
}
