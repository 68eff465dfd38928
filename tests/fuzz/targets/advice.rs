//! Fuzzes the advice that receivers put into acknowledgements, as senders and border switches take
//! it.
//!
//! Advice that is read is written again octet by octet. A rate of zero is none, a rate beyond the
//! line never raises a sender above it, and no rate leaves it below the least. A rate of zero is
//! reported as refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transport::cc::{AckSample, Cc, CcKind, CcParams, CongestionControl};
use transport::rc::MlccHalf;
use transport::wire::advice::Advice;
use transport::wire::half::Half;
use transport::wire::{Ack, Body, Ext, ExtRefusal, Extensions, Extent, Header, Receipt};
use transport::{Bytes, Duration, EntropyValue, FlowId, Instant, Path, Psn, Rate};

const PATH: Path =
    Path { base_rtt: Duration::from_us(6000), line_rate: Rate::from_gbps(25), mtu: Bytes(1090) };

fn header() -> Header {
    let ack = Ack {
        src_flow: FlowId::new(2, 1),
        psn: Psn(1),
        cumulative: Psn(2),
        sack: 0,
        echo_sent_at: 0,
        held: 0,
        sharers: 1,
        ce: false,
        receipt: Receipt::First,
    };
    let extent = Extent::NONE.with_advice();
    Header::new(EntropyValue(1), FlowId::new(1, 1), Body::Ack(ack)).extended(extent)
}

fuzz_target!(|bytes: &[u8]| {
    let mut cc = Cc::new(CcKind::Mlcc, &CcParams::default(), &PATH);
    let (mut now, mut last) = (Instant::ZERO, None);
    for said in bytes.chunks(13) {
        let [ago, octets @ ..] = said else { continue };
        now += Duration::from_us(u64::from(*ago) * 64);
        let advice = Advice { half: Half::MIN, number: 0, values: [1; 2] };
        let mut wire = [0; 256];
        let len = header().emit(&Ext { advice, ..Ext::VACANT }, &mut wire);
        let from = len - usize::from(transport::wire::advice::LEN);
        wire[from..from + octets.len()].copy_from_slice(octets);
        let Ok((header, ext, _)) = Header::parse(EntropyValue(1), &wire[..len]) else { continue };
        let mut again = [0; 256];
        assert_eq!(header.emit(&ext, &mut again), len);
        assert_eq!(again[..len], wire[..len]);
        let advice = header.ext.advice(&ext).expect("an acknowledgement with advice");
        let before = cc.window().pacing;
        let (acked, in_flight, rtt) = (PATH.mtu, PATH.mtu, PATH.base_rtt);
        let held = Duration::ZERO;
        let ack = AckSample { now, rtt, held, acked, in_flight, ecn: false, sharers: 1 };
        let refused = cc.on_ack_with(&ack, Extensions::new(header.ext, &ext), &PATH);
        let pacing = cc.window().pacing.expect("MLCC paces").as_bps();
        assert!((99_999_000..=25_000_000_000).contains(&pacing), "{pacing}");
        let is_ours = advice.half.get() == MlccHalf::NUMBER;
        let is_bad = is_ours && advice.values.contains(&0);
        assert_eq!(refused, is_bad.then_some(ExtRefusal::Advice));
        let is_none = advice.half.get() != MlccHalf::NUMBER || advice.values.contains(&0);
        // Advice is forgotten after some time.
        if is_none && last == Some(now) {
            assert_eq!(cc.window().pacing, before);
        }
        last = Some(now);
    }
});
