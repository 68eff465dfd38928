//! Packets that no peer has sent.

use super::*;
use transport::wire::dcpim::{MatchStep, Offer};

#[test]
fn forged_segments_are_counted_and_change_nothing() {
    let config = config(|_| {});
    let mut pair = exchange(&config, 5, Weather::default(), &[20_000]);
    let forged = |hdr: Header| RxSegment {
        hdr,
        at: pair.now,
        from: HostId(9),
        payload_len: 0,
        ce: false,
        trimmed: false,
    };
    let ack = transport::wire::Ack {
        src_flow: FlowId::new(0, 1),
        psn: Psn(1 << 30),
        cumulative: Psn(1 << 30),
        sack: u64::MAX,
        echo_sent_at: 0,
        held: 0,
        ce: false,
        sharers: 1,
        receipt: transport::wire::Receipt::First,
    };
    let hdr = Header::new(transport::EntropyValue(1), FlowId::new(0, 1), Body::Ack(ack));
    let stranger = forged(hdr);
    let peer = RxSegment { from: HostId(1), ..stranger };
    let mut out = [Placement::Release; 2];
    let now = pair.now;
    pair.hosts[0].endpoint.handle_burst(now, &[stranger, peer], &mut out);
    let drops = &pair.hosts[0].endpoint.stats().drops;
    assert_eq!(drops.of(DropReason::UnknownFlow), 1);
    assert_eq!(drops.of(DropReason::WrongKey), 1);
    assert_eq!(pair.hosts[0].endpoint.flow_window(FlowId::new(0, 1)).unwrap().1, Bytes::ZERO);
}

#[test]
fn requests_of_channels_for_no_flow_count_as_such_and_get_one_answer_at_once() {
    let config = config(|settings| settings.sched = SchedKind::DcPim);
    let mut pair = exchange(&config, 5, Weather::default(), &[20_000]);
    let (now, host) = (pair.now, &mut pair.hosts[0].endpoint);
    let before = *host.stats();
    for number in 0..100 {
        let (step, flow) = (MatchStep::Request, FlowId::new(number, 9));
        let (channels, early, round, stage, left) = (1, 0, 0, 0, 1);
        let (place, asked, granted) = (0, number, 0);
        let offer =
            Offer { step, channels, early, round, stage, left, flow, place, asked, granted };
        let body = Body::Note(offer.note());
        let hdr = Header::new(transport::EntropyValue(1), FlowId::UNKNOWN, body);
        let (from, payload_len, ce, trimmed) = (HostId(number), 0, false, false);
        let forged = RxSegment { hdr, at: now, from, payload_len, ce, trimmed };
        host.handle_burst(now, &[forged], &mut [Placement::Release]);
    }
    let mut out = Burst::with_limit(BURST);
    host.poll_transmit(now, &mut out);
    assert_eq!(out.len(), 1);
    let drops = |reason| host.stats().drops.of(reason) - before.drops.of(reason);
    assert_eq!((drops(DropReason::UnknownFlow), drops(DropReason::BadSegment)), (100, 0));
    assert_eq!(host.stats().control_received, before.control_received);
}
