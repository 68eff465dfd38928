//! Fuzzes the telemetry that switches write: in notes of border switches to senders, and in data to
//! the receiver's half.
//!
//! Octets that are no telemetry are a parse error. Whatever values other octets have, rates stay
//! between the least rate and that of the line, windows hold a packet, and reports are never zero.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transport::cc::{Cc, CcKind, CcParams, CongestionControl, mlcc_note};
use transport::rc::{HalfSetup, Rc, RcKind, RcParams, ReceiverHalf, SegmentArrival};
use transport::wire::int::Int;
use transport::wire::{Body, Ext, ExtRefusal, Extensions, Extent, Header};
use transport::{Bytes, Duration, EntropyValue, FlowId, Instant, Path, Psn, Rate};

const PATH: Path =
    Path { base_rtt: Duration::from_us(6000), line_rate: Rate::from_gbps(25), mtu: Bytes(1090) };

/// The least and the largest rate, bit/s: 100 Mb/s, and what rounding of a report adds.
const RATES: std::ops::RangeInclusive<u64> = 99_999_000..=25_000_001_000;

fuzz_target!(|bytes: &[u8]| {
    let mut cc = Cc::new(CcKind::Mlcc, &CcParams::default(), &PATH);
    let params = RcParams::default();
    let Path { base_rtt, line_rate, mtu } = PATH;
    let setup = HalfSetup { params: &params, line_rate, base_rtt, mtu };
    let mut half = Rc::new(RcKind::Mlcc, &setup);
    let mut now = Instant::ZERO;
    for said in bytes.chunks(56) {
        let [ago, sharers, octets @ ..] = said else { continue };
        now += Duration::from_ns(u64::from(*ago) * 64);
        // A note with room for three hops, whose telemetry is what the fuzzer says.
        let int = Int::with_room(3);
        let extent = Extent::NONE.with_int(&int);
        let note = mlcc_note(now.to_wire().wrapping_sub(u32::from(*ago)), u16::from(*sharers));
        let header = Header::new(EntropyValue(1), FlowId::new(1, 1), Body::Note(note));
        let header = header.extended(extent);
        let mut wire = [0; 256];
        let len = header.emit(&Ext { int, ..Ext::VACANT }, &mut wire);
        let from = len - usize::from(int.wire_len());
        let written = octets.len().min(len - from);
        wire[from..from + written].copy_from_slice(&octets[..written]);
        let Ok((header, ext, _)) = Header::parse(EntropyValue(1), &wire[..len]) else { continue };
        let Body::Note(note) = header.body else { continue };
        let extensions = Extensions::new(header.ext, &ext);
        // A note with telemetry is never dropped as a whole.
        let refused = cc.on_note(&note, extensions, now, &PATH).err();
        let is_cut = ext.int.is_cut();
        assert!(matches!(refused, None | Some(ExtRefusal::Int)) || *sharers == 0 || is_cut);
        let window = cc.window();
        let pacing = window.pacing.expect("MLCC paces").as_bps();
        assert!(RATES.contains(&pacing), "{pacing}");
        assert!(window.cwnd >= PATH.mtu);
        let (psn, bytes, sharers) = (Psn(0), Bytes(1000), u16::from(*sharers));
        let (ce, trimmed) = (false, false);
        half.on_segment(&SegmentArrival { at: now, psn, bytes, ce, trimmed, sharers, extensions });
        let report = half.report(now).expect("a segment has come");
        for kbps in report.values {
            assert!(RATES.contains(&(u64::from(kbps) * 1000)), "{kbps}");
        }
    }
});
