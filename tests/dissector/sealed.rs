//! Sealed packets, which the dissector deciphers where it has a log of their keys.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use live::peers::SharedKeys;
use transport::wire::Coded;
use transport::wire::frame::HEADERS_MAX;
use transport::wire::seal;

use super::*;

/// A segment of `len` octets, and parity of as many where it is `coded`.
fn plain(version: IpVersion, key: Key, (coded, len): (bool, u16)) -> (Vec<u8>, Vec<u8>) {
    let code = coded.then(|| Coded::new(NonZeroU8::MIN, 8, 2, 9).unwrap());
    let body = Body::Data(Data { psn: Psn(len.into()), code, ..Data::VACANT });
    let header = Header::new(EntropyValue(7), FlowId::new(3, 9), body).keyed(key);
    let addrs = Addressing::emulated(version).pair(HostId(700), HostId(3)).unwrap();
    let spec = FrameSpec { addrs, ecn: Ecn::Ect0, class: TrafficClass::Data };
    let mut head = vec![0; usize::from(HEADERS_MAX)];
    let end = frame::emit(&spec, &header, &Ext::VACANT, len, &mut head);
    head.truncate(end);
    let mut rng = Rng::new(len.into());
    let payload: Vec<u8> = (0..len).map(|_| rng.next_u32().to_le_bytes()[0]).collect();
    ([&head[..], &payload].concat(), payload)
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[test]
fn payload_of_sealed_packets_is_read_with_a_log_of_keys_and_not_without() {
    let dir = tempfile::tempdir().unwrap();
    let [keys, log] = ["keys", "log"].map(|name| dir.path().join(name));
    fs::write(&keys, format!("1 {}\n", "3c5a".repeat(16))).unwrap();
    fs::set_permissions(&keys, Permissions::from_mode(0o600)).unwrap();
    for mode in ["psk", "psk-auth"] {
        let shared = SharedKeys::read(&format!("{mode}:{}", keys.display())).unwrap();
        let mut security = shared.logged(&log).unwrap().security(4);
        let (mut frames, mut payloads) = (Vec::new(), Vec::new());
        for version in [IpVersion::V4, IpVersion::V6] {
            for (flow, len) in [(1, 3), (1, 4), (2, 15), (2, 16), (1, 17), (1, 1400)] {
                for coded in [false, true] {
                    let key = Key(0x0123_4567_89AB_CDEF * flow);
                    let (mut frame, payload) = plain(version, key, (coded, len));
                    frame.extend([0; seal::LEN as usize]);
                    assert!(security.sealer.seal(&mut frame, Instant::ZERO));
                    frames.push(frame);
                    payloads.push(hex(&payload));
                }
            }
        }
        let fields = ["headrace.payload", "headrace.deciphered", "headrace.malformed"];
        let fields = fields.map(str::to_owned);
        let preference = format!("headrace.key_log:{}", log.display());
        let encrypted = mode == "psk";
        for logged in [true, false] {
            let preferences: &[&str] = if logged { &[&preference] } else { &[] };
            let Some(rows) = dissected("sealed", &frames, &fields, preferences) else { return };
            for (row, payload) in rows.iter().zip(&payloads) {
                assert_eq!(row[0] == *payload, logged || !encrypted, "{row:?} {payload}");
                assert_eq!(!row[1].is_empty(), logged && encrypted, "{row:?}");
                assert!(row[2].is_empty(), "{row:?}");
            }
        }
    }
}
