//! Packets that contradict the erasure code, the block or the place in it that they claim.

use std::num::NonZeroU8;

use transport::ec::{BlockShape, EcKind, EcParams};
use transport::wire::{BlockNack, Coded};
use transport::{Coding, Duration};

use super::*;

/// An endpoint whose flows are coded, two parity packets behind each two of data.
fn coded() -> End {
    coded_and(|_| {})
}

fn coded_and(change: impl FnOnce(&mut Settings)) -> End {
    End::new(|s| {
        let base_rtt_min = Duration::ZERO;
        s.ec = EcKind::Mds;
        s.ec_shape = BlockShape::new(2, 2).unwrap();
        s.ec_params = EcParams { base_rtt_min, ..EcParams::default() };
        change(s);
    })
}

/// Bytes of a message of two full blocks.
const LEN: u32 = 4 * 4096;

/// Packet `packet` of the block that begins at segment `begin`, as it should be.
fn of_block(psn: u32, begin: u32, packet: u8) -> Data {
    let segment = if packet < 2 { begin + u32::from(packet) } else { begin };
    Data { code: Coded::new(NonZeroU8::MIN, 2, 2, packet), ..opening(psn, 0, segment * 4096, LEN) }
}

/// `data` as packet `packet` of a block of `shape`, of the code with that number.
fn with_code(data: Data, number: u8, shape: (u8, u8), packet: u8) -> Data {
    let code = Coded::new(NonZeroU8::new(number).unwrap(), shape.0, shape.1, packet);
    assert!(code.is_some());
    Data { code, ..data }
}

#[test]
fn only_the_code_that_both_ends_have_is_taken() {
    let mut end = coded();
    for other in [
        with_code(of_block(0, 0, 0), 1, (2, 3), 0),
        with_code(of_block(0, 0, 0), 1, (60, 2), 0),
        with_code(of_block(0, 0, 0), 2, (2, 2), 0),
    ] {
        end.refuses(&first(other, FULL), DropReason::BadSegment);
    }
    end.places(&first(of_block(0, 0, 0), FULL));
    // A receiver without a code has no memory for parity.
    let mut plain = End::new(|s| s.ec_shape = BlockShape::new(2, 2).unwrap());
    plain.refuses(&first(of_block(0, 0, 0), FULL), DropReason::BadSegment);
}

#[test]
fn a_packet_that_restores_another_is_acknowledged_at_once_and_one_that_does_not_later() {
    let mut end = coded_and(|s| s.ack_every = 4);
    let acks = |end: &mut End| {
        let sent = end.sent();
        sent.iter().filter(|tx| matches!(tx.hdr.body, Body::Ack(_))).count()
    };
    end.places(&first(of_block(0, 0, 0), FULL));
    assert_eq!(acks(&mut end), 0);
    end.places(&first(of_block(2, 0, 2), FULL));
    assert_eq!(acks(&mut end), 1);
}

#[test]
fn parity_is_counted_as_kept_as_unneeded_and_as_sent_again_for_nothing() {
    let mut end = coded();
    end.places(&first(of_block(0, 0, 0), FULL));
    end.places(&first(of_block(2, 0, 2), FULL));
    let counted = |end: &mut End, data: Data| {
        assert_eq!(end.take(&first(data, FULL)), Placement::Release);
        let stats = end.endpoint.stats();
        (stats.parity_kept, stats.parity_unneeded, stats.duplicates)
    };
    let late = of_block(3, 0, 3);
    assert_eq!(counted(&mut end, late), (1, 1, 0));
    assert_eq!(counted(&mut end, Data { retransmission: true, ..late }), (1, 1, 1));
    assert_eq!(counted(&mut end, of_block(1, 0, 1)), (1, 1, 2), "a segment is no parity");
}

#[test]
fn a_packet_is_where_its_number_says() {
    let mut end = coded();
    for wrong in [
        // Behind the message.
        Data { offset: LEN, ..of_block(4, 2, 0) },
        Data { offset: 1 << 30, ..of_block(4, 2, 0) },
        // Between two segments.
        Data { offset: 100, ..of_block(0, 0, 0) },
        // Segment 1 as packet 0, and parity that begins in the middle of its block.
        with_code(of_block(1, 0, 1), 1, (2, 2), 0),
        Data { offset: 4096, ..of_block(2, 0, 2) },
    ] {
        end.refuses(&first(wrong, FULL), DropReason::BadSegment);
    }
    end.places(&first(of_block(0, 0, 0), FULL));
}

#[test]
fn a_packet_of_a_block_is_as_long_as_its_place() {
    let mut end = coded();
    end.refuses(&first(of_block(0, 0, 0), FULL - 1), DropReason::BadSegment);
    end.refuses(&first(of_block(2, 0, 2), FULL - 1), DropReason::BadSegment);
    end.places(&first(of_block(2, 0, 2), FULL));
}

#[test]
fn a_sender_that_contradicts_itself_ends_its_message_once() {
    let mut end = coded();
    // One segment three times under other PSNs: 4096 bytes seem to be missing.
    for psn in [100, 200, 300] {
        end.places(&first(of_block(psn, 2, 0), FULL));
    }
    // Two parity packets stand for the two segments of the first block, 8192 bytes.
    end.places(&first(of_block(2, 0, 2), FULL));
    end.places(&first(of_block(3, 0, 3), FULL));
    assert_eq!(end.delivered(), [LEN]);
    assert_eq!(end.take(&first(of_block(0, 0, 0), FULL)), Placement::Release);
    assert_eq!(end.delivered(), []);
}

/// An endpoint that has sent the first block of a message, and the flow.
fn sending() -> (End, FlowId) {
    let mut end = coded();
    let flow = end.open();
    end.post(flow, LEN);
    let sent = end.sent();
    let parity = sent.iter().filter(|tx| matches!(tx.payload.coding, Coding::Parity(_)));
    assert_eq!((sent.len(), parity.count()), (8, 4));
    (end, flow)
}

#[test]
fn a_request_names_a_block_that_was_sent() {
    let (mut end, flow) = sending();
    end.now += Duration::from_us(100);
    let key = end.key;
    let request = |flow, psn, missing| {
        let nack = BlockNack { src_flow: FlowId::new(4, 2), psn: Psn(psn), missing };
        let asked = packet(flow, Body::BlockNack(nack), 0);
        RxSegment { hdr: Header { key, ..asked.hdr }, ..asked }
    };
    end.refuses(&without_key(&request(flow, 0, 0b111)), DropReason::WrongKey);
    // A block that was never sent, and one that begins elsewhere.
    end.refuses(&request(flow, 9, 1), DropReason::BadSegment);
    end.refuses(&request(flow, 1, 1), DropReason::BadSegment);
    end.refuses(&RxSegment { from: STRANGER, ..request(flow, 0, 0b111) }, DropReason::UnknownFlow);
    assert_eq!((end.sent(), end.endpoint.stats().lost_by_block), (vec![], 0));
    end.take(&request(flow, 0, 0b111));
    assert_eq!(end.endpoint.stats().lost_by_block, 3);
    assert!(!end.sent().is_empty(), "what the block needs is sent again");
}
