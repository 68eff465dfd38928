//! The cost of a seal: frames sealed and opened as workers do, beside the library alone.
//!
//! Workers' code seals frames, and the library alone seals as many payloads of the same length, in
//! the same rounds, in turn, on one core. The library's part is one call for each payload, with no
//! header, number or table around it.
//! Frames stay in the cache, as they do in a worker, which has just copied or received them.
//! Nanoseconds a frame, the best of some rounds.

use std::hint::black_box;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use transport::units::{EntropyValue, FlowId, Key, Psn};
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::frame::{self, Ecn, FrameSpec, TrafficClass};
use transport::wire::{Body, Data, Ext, Header, seal};
use transport::{HostId, Instant};
use transport_dpdk::CALIBRATION_MIN;
use transport_dpdk::{Calibration, Keys, Payloads, Security, WallClock, eal};

use super::run::BenchError;
use super::windows::precise;

/// What sealing a frame and opening it cost, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SealCost {
    /// Octets of payload.
    pub payload_bytes: u16,
    /// A frame is sealed.
    pub seal_ns: f64,
    /// A frame is opened.
    pub open_ns: f64,
    /// The library seals a payload of that length.
    pub library_seal_ns: f64,
    /// The library opens a payload of that length.
    pub library_open_ns: f64,
}

/// Frames of a round: some hundred kilobytes.
const FRAMES: u32 = 64;
const ROUNDS: u32 = 400;
/// Any instant: keys are renewed by time, and a round takes less than a second.
const NOW: Instant = Instant::from_ps(1);

/// Measures segments of `payload_bytes`, 64 to 8960, with this treatment of payloads.
///
/// # Errors
/// Clocks that cannot be compared, or a size that is out of range.
pub fn sealing(payload_bytes: u16, payloads: Payloads) -> Result<SealCost, BenchError> {
    if !(64..=8960).contains(&payload_bytes) {
        return Err(BenchError::Sealed(payload_bytes));
    }
    let rate = Calibration::measure(CALIBRATION_MIN)?;
    let unsealed = || BenchError::Sealed(payload_bytes);
    let mut ours = Ours::new(payload_bytes, payloads).ok_or_else(unsealed)?;
    let mut library = Library::new(payload_bytes, payloads).ok_or_else(unsealed)?;
    let mut least = [u64::MAX; 4];
    for _ in 0..ROUNDS {
        let round = [
            ticks(|| ours.seal()),
            ticks(|| ours.open()),
            ticks(|| library.seal()),
            ticks(|| library.open()),
        ];
        for (least, (ticks, whole)) in least.iter_mut().zip(round) {
            if !whole {
                return Err(unsealed());
            }
            *least = ticks.min(*least);
        }
    }
    let ns = |ticks: u64| precise(ticks) * 1e9 / precise(rate.hz()) / f64::from(FRAMES);
    let [seal_ns, open_ns, library_seal_ns, library_open_ns] = least.map(ns);
    Ok(SealCost { payload_bytes, seal_ns, open_ns, library_seal_ns, library_open_ns })
}

/// The ticks that `call` takes, and what it returns.
fn ticks(call: impl FnOnce() -> bool) -> (u64, bool) {
    let start = eal::tsc();
    let whole = black_box(call());
    (eal::tsc().wrapping_sub(start), whole)
}

/// Two hosts that share keys, and frames of one flow between them.
struct Ours {
    sender: Security,
    receiver: Security,
    addressing: Addressing,
    frames: Vec<Vec<u8>>,
}

const ENDS: (HostId, HostId) = (HostId(1), HostId(2));

impl Ours {
    fn new(payload_bytes: u16, payloads: Payloads) -> Option<Self> {
        let addressing = Addressing::emulated(IpVersion::V4);
        let addrs = addressing.pair(ENDS.0, ENDS.1)?;
        let spec = FrameSpec { addrs, ecn: Ecn::Ect0, class: TrafficClass::Data };
        let frame = |psn| {
            let body = Body::Data(Data { psn: Psn(psn), ..Data::VACANT });
            let header = Header::new(EntropyValue(5), FlowId::new(1, 1), body).keyed(Key(77));
            let room = usize::from(frame::HEADERS_MAX) + usize::from(payload_bytes);
            let mut octets = vec![0x5A; room + usize::from(seal::LEN)];
            let at = frame::emit(&spec, &header, &Ext::VACANT, payload_bytes, &mut octets);
            octets.truncate(at + usize::from(payload_bytes) + usize::from(seal::LEN));
            octets
        };
        let keys = Keys::of(&[(1, [7; 32])]);
        // The receiver started before the sender.
        let host = |ahead| Security::new(&keys, payloads, 1, (WallClock::Network(ahead), NOW));
        let (receiver, sender) = (host(1 << 60), host((1 << 60) + 1));
        Some(Self { sender, receiver, addressing, frames: (0..FRAMES).map(frame).collect() })
    }

    fn seal(&mut self) -> bool {
        self.frames.iter_mut().all(|frame| self.sender.sealer.seal(frame, NOW))
    }

    fn open(&mut self) -> bool {
        let here = (&self.addressing, ENDS.1);
        self.frames.iter_mut().all(|frame| self.receiver.opener.open(frame, here, NOW).is_ok())
    }
}

/// The library with one key, over payloads of the same length.
struct Library {
    key: LessSafeKey,
    encrypts: bool,
    number: u64,
    payloads: Vec<Payload>,
}

/// A payload, and the number and tag with which it was sealed.
struct Payload {
    octets: Vec<u8>,
    sealed: Option<(u64, Tag)>,
}

impl Library {
    fn new(payload_bytes: u16, payloads: Payloads) -> Option<Self> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).ok()?);
        let payload = |_| Payload { octets: vec![0x5A; payload_bytes.into()], sealed: None };
        let encrypts = payloads == Payloads::Encrypted;
        Some(Self { key, encrypts, number: 0, payloads: (0..FRAMES).map(payload).collect() })
    }

    fn seal(&mut self) -> bool {
        let Self { key, encrypts, number, payloads } = self;
        payloads.iter_mut().all(|Payload { octets, sealed }| {
            *number += 1;
            let (aad, text): (&[u8], &mut [u8]) =
                if *encrypts { (&[], octets) } else { (octets, &mut []) };
            let made = key.seal_in_place_separate_tag(nonce(*number), Aad::from(aad), text);
            *sealed = made.ok().map(|tag| (*number, tag));
            sealed.is_some()
        })
    }

    fn open(&mut self) -> bool {
        let Self { key, encrypts, payloads, .. } = self;
        payloads.iter_mut().all(|Payload { octets, sealed }| {
            let Some((number, tag)) = sealed else { return false };
            let (aad, text): (&[u8], &mut [u8]) =
                if *encrypts { (&[], octets) } else { (octets, &mut []) };
            let (nonce, aad) = (nonce(*number), Aad::from(aad));
            key.open_in_place_separate_tag(nonce, aad, tag.as_ref(), text).is_ok()
        })
    }
}

fn nonce(number: u64) -> Nonce {
    let mut octets = [0; 12];
    octets[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_and_mode_is_sealed_and_opened() {
        for payloads in [Payloads::Encrypted, Payloads::Authenticated] {
            for bytes in [64, 1500, 4096, 8960] {
                let cost = sealing(bytes, payloads).unwrap();
                // The seal covers more than the library's payload, by the same library.
                assert!(cost.seal_ns > 0.0 && cost.library_seal_ns > 0.0, "{cost:?}");
                assert!(cost.open_ns > 0.0 && cost.library_open_ns > 0.0, "{cost:?}");
            }
        }
        assert!(sealing(63, Payloads::Encrypted).is_err());
    }
}
