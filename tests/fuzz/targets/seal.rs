//! Fuzzes the layout of sealed frames: any octets are taken apart, and a plain frame that is sealed
//! and opened again is what it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transport::wire::seal::{FrameParts, LEN, Seal};

/// A frame whose lengths have room for those of a seal.
const LONGEST: usize = 65_000;
/// The checksum of IPv4; octets of an address in IPv6, which no seal changes.
const IPV4_SUM: std::ops::Range<usize> = 24..26;

fuzz_target!(|frame: &[u8]| {
    let Ok(parts) = FrameParts::of(frame) else { return };
    assert!(parts.payload_at <= parts.end);
    assert!(parts.authenticated().end == parts.payload_at);
    // Nothing is asked of a trimmed frame whose kind is never trimmed.
    if parts.payload_at <= frame.len() {
        let (src, dst) = parts.addresses(frame);
        assert!(src.len() == dst.len() && !src.is_empty());
    }
    if let Some(written) = parts.telemetry(frame) {
        assert!(written.start <= written.end && written.end == parts.authenticated().len());
    }
    let seal = frame.get(parts.end..).and_then(<[u8]>::first_chunk::<{ LEN as usize }>);
    if let Some(octets) = seal.filter(|_| parts.sealed) {
        reproduces(octets);
    }
    let mut opened = frame.to_vec();
    parts.clear_checksum(&mut opened);
    if parts.sealed {
        parts.unmark(&mut opened);
        let len = opened.len().min(parts.end);
        let again = FrameParts::of(&opened[..len]);
        // A trimmed frame keeps the length that its UDP header says.
        let again = again.expect("a frame without its seal is a frame");
        assert_eq!(again, with_seal(parts, false));
    } else if !parts.trimmed && parts.end < LONGEST {
        let mut sealed = opened[..parts.end].to_vec();
        sealed.resize(parts.end + usize::from(LEN), 0);
        let mut before = sealed.clone();
        parts.mark(&mut sealed);
        let marked = FrameParts::of(&sealed).expect("a sealed frame is a frame");
        assert_eq!(marked, with_seal(parts, true));
        marked.unmark(&mut sealed);
        // Zero has two forms in the sum of an IPv4 header.
        before[IPV4_SUM].copy_from_slice(&sealed[IPV4_SUM]);
        assert_eq!(sealed, before);
    }
});

/// `parts` of a frame with or without a seal.
fn with_seal(mut parts: FrameParts, sealed: bool) -> FrameParts {
    parts.sealed = sealed;
    parts
}

/// What is read of a seal is written as it was.
fn reproduces(octets: &[u8; LEN as usize]) {
    let Ok(seal) = Seal::read(octets) else { return };
    let mut out = *octets;
    seal.emit(&mut out);
    assert_eq!(out, *octets);
}
