//! Frames of any content, to each of their readers.

use std::net::IpAddr;

use proptest::prelude::*;

use super::arp::Arp;
use super::octets::Icmp;
use super::{Prober, Resolver, Station};
use transport::{Duration, Instant};

fn station(is_v6: bool) -> Station {
    let ip = if is_v6 { "fd00::1".parse().unwrap() } else { IpAddr::from([10, 0, 0, 1]) };
    Station { mac: [2, 0, 0, 0, 0, 1], ip, prefix: 8, gateway: None }
}

/// Runs every reader on a frame; an answer is never longer than the frame, but for padding.
fn show(is_v6: bool, frame: &[u8]) -> Option<usize> {
    let station = station(is_v6);
    let peer = if is_v6 { "fd00::2".parse().unwrap() } else { IpAddr::from([10, 0, 0, 2]) };
    let mut resolver = Resolver::new(station, &[(peer, None)], Instant::ZERO, Duration::from_s(1));
    resolver.handle_frame(frame);
    let mut prober = Prober::new(station, 1, 1514, (&[(peer, [2; 6])], Instant::ZERO));
    let mut out = vec![0; 2048];
    prober.poll_transmit(Instant::ZERO, &mut out);
    prober.handle_frame(Instant::ZERO, frame);
    let answered = station.answer(frame, &mut out);
    assert!(answered.is_none_or(|len| len <= frame.len().max(86)), "{answered:?}");
    assert!(answered.is_none() || Station::may_answer(frame), "it would not be asked");
    assert_eq!(station.answer(frame, &mut [0; 20]), None, "no room, no answer");
    answered
}

proptest! {
    #[test]
    fn frames_of_any_bytes_are_read_without_a_panic(bytes: Vec<u8>, is_v6: bool) {
        show(is_v6, &bytes);
    }

    #[test]
    fn frames_that_are_nearly_right_are_read_without_a_panic(
        is_v6: bool, body in prop::collection::vec(any::<u8>(), 1..80), cut in 0_usize..120,
        flip in (0_usize..120, any::<u8>()),
        kind in prop::sample::select(vec![0_u8, 8, 128, 129, 135, 136]),
    ) {
        let to = station(is_v6);
        let src = if is_v6 { "fd00::9".parse().unwrap() } else { IpAddr::from([10, 0, 0, 9]) };
        let from = [2, 0, 0, 0, 0, 9];
        let packet = Icmp {
            src_mac: from, dst_mac: to.mac, src, dst: to.ip, hops: 255, kind, body: &body,
        };
        let mut frame = [0; 256];
        // Four octets hold type, code and checksum.
        prop_assume!(body.len() >= 4);
        let len = packet.emit(&mut frame).unwrap();
        let parsed = Icmp::parse(&frame[..len]).unwrap();
        prop_assert_eq!((parsed.src, parsed.dst, parsed.kind), (src, to.ip, kind));
        show(is_v6, &frame[..len]);
        show(is_v6, &frame[..cut.min(len)]);
        let (at, xor) = flip;
        if at < len && xor != 0 {
            frame[at] ^= xor;
            // A damaged ICMP packet is never accepted: its MACs apart, every octet is summed or has
            // one value; hops and class of IPv6 are not summed.
            let unsummed = at < 12 || is_v6 && (14..18).contains(&at) || is_v6 && at == 21;
            prop_assert!(unsummed || Icmp::parse(&frame[..len]).is_none(), "octet {}", at);
            show(is_v6, &frame[..len]);
        }
    }

    #[test]
    fn an_arp_packet_is_read_as_it_was_written(
        is_reply: bool, sender: [u8; 6], target: [u8; 6], from: [u8; 4], to: [u8; 4],
    ) {
        let arp = Arp { is_reply, sender: (sender, from.into()), target: (target, to.into()) };
        let mut frame = [0; 60];
        let len = arp.emit(&mut frame).unwrap();
        prop_assert_eq!(Arp::parse(&frame), Some(arp));
        show(false, &frame);
        prop_assert!((0..len).all(|cut| Arp::parse(&frame[..cut]).is_none()));
    }
}

#[test]
fn questions_about_others_and_answers_to_others_are_left_alone() {
    let (own, mut out) = (station(false), [0; 64]);
    let asks = |target: [u8; 4], is_reply| {
        let asker = ([2, 0, 0, 0, 0, 7], [10, 0, 0, 7].into());
        let arp = Arp { is_reply, sender: asker, target: ([0; 6], target.into()) };
        let mut frame = [0; 42];
        arp.emit(&mut frame).unwrap();
        frame
    };
    assert_eq!(own.answer(&asks([10, 0, 0, 1], false), &mut out), Some(42));
    assert_eq!(own.answer(&asks([10, 0, 0, 2], false), &mut out), None);
    assert_eq!(own.answer(&asks([10, 0, 0, 1], true), &mut out), None);
}
