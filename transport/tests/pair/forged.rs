//! Packets that no peer has sent.

use super::*;

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
