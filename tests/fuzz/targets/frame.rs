//! Fuzzes the frame decoder and the edits of a switch. The first octet chooses IP version and
//! checks; the rest is the frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::checksum::Checksum;
use transport::wire::frame::*;
use transport::wire::int::{Hop, Int};
use transport::{Bytes, Instant, Rate};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, frame)) = bytes.split_first() else { return };
    let version = if choice & 1 == 0 { IpVersion::V4 } else { IpVersion::V6 };
    let addressing = Addressing::emulated(version);
    let check = match choice >> 1 & 3 {
        0 => UdpCheck::Required,
        1 => UdpCheck::IfPresent,
        _ => UdpCheck::Skip,
    };
    if let Ok(parsed) = parse(frame, &addressing, check) {
        reproduces(frame, &parsed, &addressing);
    }
    edits(frame, &addressing);
    finish_udp_checksum(&mut frame.to_vec(), Checksum::new());
    seed_udp_checksum(&mut frame.to_vec());
});

/// From the UDP ports to the end of the Headrace header, but for the checksum, `emit` writes the
/// octets that were read.
fn reproduces(frame: &[u8], parsed: &Parsed, addressing: &Addressing) {
    assert!(parsed.payload.end <= frame.len());
    let addrs = addressing.pair(parsed.src, parsed.dst).expect("both hosts were found");
    let spec = FrameSpec { addrs, ecn: parsed.ecn, class: parsed.class };
    let mut out = [0; 256];
    let len = emit(&spec, &parsed.header, &parsed.ext, parsed.payload_len, &mut out);
    let udp = usize::from(header_overhead(addressing.version()) - UDP_LEN);
    assert_eq!(out[udp..udp + 6], frame[udp..udp + 6]);
    assert_eq!(out[udp + 8..len], frame[udp + 8..len]);
}

/// A frame that parses still does after a mark and a cut, with the same values.
fn edits(frame: &[u8], addressing: &Addressing) {
    let before = parse(frame, addressing, UdpCheck::Skip);
    let mut edited = frame.to_vec();
    set_ce(&mut edited);
    let at = Instant::from_ps(u64::from(frame.first().copied().unwrap_or(0)));
    let hop = Hop::new(at, Bytes(1), Bytes(2), Rate::from_gbps(100), 3);
    let stamped = stamp(&mut edited, &hop);
    let len = trim(&mut edited);
    assert!(len <= frame.len());
    edited.truncate(len);
    if let Ok(before) = before {
        let after = parse(&edited, addressing, UdpCheck::Skip).expect("edits keep a frame valid");
        assert_eq!((after.header, after.payload_len), (before.header, before.payload_len));
        let (old, new) = (before.header.ext.int(&before.ext), after.header.ext.int(&after.ext));
        let added = |int: &Int| int.is_cut() || int.hops().last() == Some(&hop);
        assert!(if stamped { new.is_some_and(added) } else { new == old });
        assert!(after.trimmed || before.payload.is_empty());
    }
}
