//! Fuzzes the code that opens sealed frames. It gets any octets, and octets that no host has sealed
//! do not open. A frame that is sealed opens once, and unchanged. It does not open when any octet
//! that its seal covers is changed. The first octet chooses the IP version, what is sealed and
//! where it is changed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transport::stats::DropReason;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame::route_of;
use transport::wire::seal::{FrameParts, LEN};
use transport::{Duration, HostId, Instant};
use transport_dpdk::security::Opened;
use transport_dpdk::{Keys, Payloads, Security, WallClock};

/// A frame whose lengths have room for those of a seal.
const LONGEST: usize = 65_000;
const NOW: Instant = Instant::from_ps(5_000_000_000_000);
/// The end of an IPv4 header, whose sum an attacker would set right: later octets are changed.
const IPV4_END: usize = 34;

/// A host whose clock is `ahead` ns ahead.
fn host(payloads: Payloads, ahead: u64) -> Security {
    let wall = WallClock::Network(1_800_000_000_000_000_000 + ahead);
    Security::new(&Keys::of(&[(1, [0x11; 32]), (2, [0x22; 32])]), payloads, 4, (wall, NOW))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let version = if choice & 1 == 0 { IpVersion::V4 } else { IpVersion::V6 };
    let addressing = Addressing::emulated(version);
    let payloads = if choice & 2 == 0 { Payloads::Encrypted } else { Payloads::Authenticated };
    let (mut sender, mut receiver) = (host(payloads, 1), host(payloads, 0));
    let route = route_of(bytes, &addressing).ok();
    let here = (&addressing, route.map_or(HostId(0), |route| route.dst));
    let given = receiver.opener.open(&mut bytes.to_vec(), here, NOW);
    assert_ne!(given, Ok(Opened::Whole), "no host has sealed it");
    let Some(parts) = FrameParts::of(bytes).ok().filter(|parts| !parts.sealed) else { return };
    assert_eq!(given, Ok(Opened::Unsealed));
    if route.is_none() || parts.trimmed || parts.end > LONGEST {
        return;
    }
    let plain = &bytes[..parts.end];
    let mut sealed = plain.to_vec();
    sealed.resize(parts.end + usize::from(LEN), 0);
    assert!(sender.sealer.seal(&mut sealed, NOW));
    let start = parts.authenticated().start;
    let covered = start.max(IPV4_END)..sealed.len();
    let at = covered.start + usize::from(*choice >> 2) * covered.len() / 64;
    // The UDP checksum is none, and switches write telemetry.
    let sum = start + 2 * version.address_len() + 6;
    let written = parts.telemetry(&sealed).unwrap_or_default();
    if !(sum..sum + 2).contains(&at) && !written.contains(&(at - start)) {
        let mut changed = sealed.clone();
        changed[at] ^= 0x10;
        let opened = receiver.opener.open(&mut changed, here, NOW);
        assert_ne!(opened, Ok(Opened::Whole), "octet {at} was changed");
    }
    let mut opened = sealed.clone();
    assert_eq!(receiver.opener.open(&mut opened, here, NOW), Ok(Opened::Whole));
    assert_eq!(opened[parts.payload_at..parts.end], plain[parts.payload_at..]);
    let again = receiver.opener.open(&mut sealed.clone(), here, NOW);
    assert_eq!(again, Err(DropReason::Replayed));
    let late = receiver.opener.open(&mut sealed, here, NOW + Duration::from_s(61));
    assert_eq!(late, Err(DropReason::StaleSeal));
});
