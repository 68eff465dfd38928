//! Trimmed packets where packets are sealed: without its seal a packet proves nothing.

use transport::Duration;

use super::*;

/// A trimmed copy of `segment`.
fn trimmed(segment: RxSegment) -> RxSegment {
    RxSegment { trimmed: true, payload_len: 0, ..segment }
}

#[test]
fn a_hint_keeps_no_flow_from_being_forgotten() {
    for sealed in [false, true] {
        let mut end = End::new(|s| s.sealed = sealed);
        end.places(&first(opening(0, 0, 0, 5000), FULL));
        let linger = end.config.give_up_after(&end.config.default_path()) * 2;
        end.now += linger - Duration::from_us(1);
        end.endpoint.handle_timeout(end.now);
        end.take(&trimmed(first(opening(1, 0, 4096, 5000), 0)));
        assert_eq!(end.endpoint.stats().trimmed, 1);
        end.now += Duration::from_us(2);
        end.endpoint.handle_timeout(end.now);
        let aborted = end.events().iter().any(|event| matches!(event, Event::Aborted { .. }));
        assert_eq!(aborted, sealed);
    }
}

#[test]
fn a_hint_of_a_segment_that_is_here_is_never_acknowledged_with_its_times() {
    for sealed in [false, true] {
        let mut end = End::new(|s| s.sealed = sealed);
        end.places(&first(opening(0, 0, 0, 5000), FULL));
        end.sent();
        end.take(&trimmed(first(opening(0, 0, 0, 5000), 0)));
        let answers = end.sent();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(matches!(answers[0].hdr.body, Body::Nack(_)), sealed, "{answers:?}");
    }
}

/// A sender of three segments that has a refusal of the first, as sent at `echo`, and then an
/// acknowledgement of the third; what it sends again.
fn sent_again(sealed: bool, after: Duration, echo: impl Fn(Instant) -> u32) -> Vec<TxSegment> {
    let mut end = End::new(|s| {
        s.sealed = sealed;
        s.loss.reorder_window_quarters = Some(1);
    });
    end.now += Duration::from_us(100);
    let flow = end.open();
    end.post(flow, 3 * u32::from(FULL));
    assert_eq!(end.sent().len(), 3);
    let began = end.now;
    end.now += after;
    let refusal = Ack { echo_sent_at: echo(end.now), ..ack(0, 0) };
    end.take(&end.reply(flow, Body::Nack(refusal)));
    let arrived = Ack { echo_sent_at: began.to_wire(), sack: 0b100, ..ack(2, 0) };
    end.take(&end.reply(flow, Body::Ack(arrived)));
    end.sent()
}

#[test]
fn a_refusal_that_names_another_time_than_the_segments_declares_none_lost() {
    // As if a segment that was sent just now had arrived.
    let forged = |sealed| sent_again(sealed, Duration::from_us(20), Instant::to_wire).len();
    assert!(forged(false) > 0, "the time is believed where nothing is sealed");
    assert_eq!(forged(true), 0);
    let long_ago = |now: Instant| now.to_wire().wrapping_add(1 << 31);
    assert_eq!(sent_again(true, Duration::from_us(20), long_ago).len(), 0);
}

#[test]
fn a_refusal_of_a_segment_in_flight_sends_it_again_from_a_hint_too() {
    let after = Duration::from_us(20);
    let true_time = |_| (Instant::ZERO + Duration::from_us(100)).to_wire();
    for sealed in [false, true] {
        assert_eq!(sent_again(sealed, after, true_time).len(), 1);
    }
}

#[test]
fn what_a_hints_refusal_reports_beside_it_has_arrived() {
    let mut end = End::new(|s| s.sealed = true);
    let flow = end.open();
    end.post(flow, 3 * u32::from(FULL));
    assert_eq!(end.sent().len(), 3);
    let before = end.endpoint.flow_window(flow).unwrap().1;
    let refusal = Ack { echo_sent_at: 77, sack: 0b11, ..ack(2, 2) };
    end.take(&end.reply(flow, Body::Nack(refusal)));
    let after = end.endpoint.flow_window(flow).unwrap().1;
    assert_eq!(after.0 * 3, before.0, "two of three segments have arrived");
}
