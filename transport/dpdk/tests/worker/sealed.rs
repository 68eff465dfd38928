//! Workers that share keys: messages arrive intact in any weather and coding, and what a host on
//! the path changes, sends again or makes up is dropped by its name.

use std::num::NonZeroU32;

use proptest::prelude::*;
use transport::Duration;
use transport::stats::DropReason;
use transport::units::MsgNo;
use transport::wire::addressing::{Addressing, IpVersion};
use transport::wire::seal::FrameParts;
use transport::wire::{Body, frame};
use transport_dpdk::{Completion, Keys, Payloads};

use crate::coded::coded;
use crate::exchange;
use crate::rig::{Meddler, Rig, Sizes, Weather};

const OURS: (u8, [u8; 32]) = (1, [7; 32]);
const NEXT: (u8, [u8; 32]) = (2, [8; 32]);
const SIZES: [u32; 4] = [60_000, 1, 150_000, 30_000];

fn sealed(shape: Sizes, payloads: Payloads) -> Sizes {
    Sizes { keys: [(); 2].map(|()| Some((Keys::of(&[OURS]), payloads))), ..shape }
}

/// Drops of both hosts for `reason`.
fn drops(rig: &Rig, reason: DropReason) -> u64 {
    rig.hosts.iter().map(|host| host.worker.stats().drops.of(reason)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]
    #[test]
    fn every_sealed_message_arrives_once_and_intact_in_any_weather(
        seed in any::<u64>(),
        sizes in prop::collection::vec(1u32..60_000, 1..10),
        loss in 0.0..0.1f64, duplicate in 0.0..0.1f64, reorder in 0.0..0.3f64,
        corrupt in 0.0..0.1f64, trim in 0.0..0.2f64,
        is_coded in any::<bool>(), is_encrypted in any::<bool>(),
    ) {
        let payloads = if is_encrypted { Payloads::Encrypted } else { Payloads::Authenticated };
        let shape = if is_coded { coded((8, 2), 4096, 640) } else { Sizes::ample() };
        let weather = Weather { loss, duplicate, reorder, corrupt, trim, lies: 0.0 };
        let rig = exchange(&sealed(shape, payloads), seed, weather, &sizes, 64);
        for host in &rig.hosts {
            let counts = host.worker.counts();
            let seen = counts.parsed + counts.malformed + counts.foreign + counts.refused;
            prop_assert_eq!(counts.received, seen);
            prop_assert_eq!(counts.filled, counts.handed_over);
            prop_assert_eq!((counts.foreign, counts.refused, counts.unsendable), (0, 0, 0));
        }
    }
}

#[test]
fn trimmed_packets_are_answered_and_bring_what_was_lost() {
    let weather = Weather { trim: 0.1, ..Weather::default() };
    let rig = exchange(&sealed(Sizes::ample(), Payloads::Encrypted), 5, weather, &[900_000; 4], 64);
    let nacks: u64 = rig.hosts.iter().map(|host| host.worker.stats().nacks_sent).sum();
    assert!(nacks > 20, "{nacks}");
}

#[test]
fn damage_is_never_delivered_and_goes_by_the_name_of_bad_tag() {
    let weather = Weather { corrupt: 0.2, ..Weather::default() };
    let sizes = sealed(Sizes::ample(), Payloads::Authenticated);
    let mut rig = exchange(&sizes, 3, weather, &[400_000, 300_000], 64);
    (0..200).for_each(|_| rig.step(64));
    let damaged: u64 = rig.hosts.iter().map(|host| host.damaged).sum();
    assert!(drops(&rig, DropReason::BadTag) * 2 > damaged && damaged > 20);
}

/// Runs messages between two hosts with a host on the path that sends what `meddler` makes of each
/// frame, before and after it. They still arrive once and intact, and nothing else does.
fn beside(meddler: Meddler) -> Rig {
    let shape = sealed(Sizes::ample(), Payloads::Encrypted);
    let mut rig = Rig::new(&shape, 9, Weather::default());
    rig.meddler = Some(meddler);
    (0..2).for_each(|host| rig.open(host, 0, &shape));
    for (tag, size) in (1..).zip(SIZES) {
        (0..2).for_each(|host| rig.send(host, 0, size, tag));
    }
    let whole = |rig: &Rig, host: usize| rig.sent(host).len() == SIZES.len();
    rig.run(Duration::from_s(2), 64, |rig| whole(rig, 0) && whole(rig, 1));
    (0..400).for_each(|_| rig.step(64));
    for host in 0..2 {
        assert_eq!(rig.check_delivered(host), [1, 2, 3, 4], "once each, in order");
        assert_eq!(rig.hosts[host].worker.stats().messages_failed, 0);
    }
    rig
}

#[test]
fn a_packet_sent_again_is_replayed_and_does_nothing() {
    let rig = beside(Box::new(|frame| vec![frame.to_vec()]));
    let [a, b] = &rig.hosts;
    let received = a.worker.counts().received + b.worker.counts().received;
    // Each packet comes three times, and the first of the three counts.
    assert_eq!(drops(&rig, DropReason::Replayed) * 3, received * 2);
    assert_eq!(a.worker.stats().duplicates + b.worker.stats().duplicates, 0);
}

#[test]
fn a_changed_octet_is_a_bad_tag_wherever_it_is() {
    let mut at = 0;
    let rig = beside(Box::new(move |frame| {
        let mut changed = frame.to_vec();
        let parts = FrameParts::of(frame).unwrap();
        // Behind lengths and ports, which the parser refuses by their own names.
        let first = parts.payload_at.min(parts.end - 20) - 20;
        at += 7;
        let len = changed.len() - 8;
        changed[first + at % (len - first)] ^= 0x10;
        vec![changed]
    }));
    assert!(drops(&rig, DropReason::BadTag) > 100);
    // What is refused takes no number: the packet that was changed is still taken.
    let sent_again = rig.hosts.iter().map(|host| host.worker.stats().retransmitted);
    assert_eq!(sent_again.sum::<u64>(), 0);
}

#[test]
fn packets_forged_with_the_right_key_of_a_flow_are_unsealed_or_have_a_bad_tag() {
    // The attacker sees flow names, keys and numbers: it makes of each packet a plain one, one with
    // another payload, and one with another acknowledgement, under the seal that it has seen.
    let rig = beside(Box::new(|frame| {
        let parts = FrameParts::of(frame).unwrap();
        let mut plain = frame.to_vec();
        parts.unmark(&mut plain);
        plain.truncate(parts.end);
        let addressing = Addressing::emulated(IpVersion::V4);
        assert!(frame::parse(&plain, &addressing, frame::UdpCheck::IfPresent).is_ok());
        let mut payload = frame.to_vec();
        payload[parts.payload_at..parts.end].fill(0x66);
        let mut numbers = frame.to_vec();
        numbers[parts.payload_at - 1] ^= 1;
        let ahead = {
            let mut ahead = frame.to_vec();
            ahead[parts.end + 23] ^= 0x40;
            ahead
        };
        let changed = if parts.payload_at < parts.end { payload } else { numbers };
        vec![plain, changed, ahead]
    }));
    assert!(drops(&rig, DropReason::Unsealed) > 100);
    assert!(drops(&rig, DropReason::BadTag) > 200);
}

#[test]
fn forged_trimmed_packets_cost_no_more_than_retransmissions() {
    let rig = beside(Box::new(|frame| {
        let mut trimmed = frame.to_vec();
        let len = frame::trim(&mut trimmed);
        trimmed.truncate(len);
        if len < frame.len() { vec![trimmed] } else { Vec::new() }
    }));
    let (stranger, stats) = (DropReason::TrimmedStranger, rig.hosts[0].worker.stats());
    assert!(drops(&rig, stranger) > 0, "the first one comes before its flow");
    assert!(stats.flows_reopened == 0 && stats.retransmitted <= stats.nacks_received);
}

#[test]
fn a_forged_trimmed_packet_begins_no_message() {
    // Each forged header names the next message and a length that the message does not have.
    let mut rig = beside(Box::new(|frame| {
        let mut forged = frame.to_vec();
        FrameParts::of(frame).unwrap().unmark(&mut forged);
        let renamed = frame::rewrite_header(&mut forged, &mut |header, _| {
            if let Body::Data(data) = &mut header.body {
                data.msg = MsgNo(data.msg.0.wrapping_add(1));
                if let Some(open) = &mut data.open {
                    open.msg_len = NonZeroU32::new(1_000_000).unwrap();
                }
            }
        });
        FrameParts::of(&forged).unwrap().mark(&mut forged);
        let len = frame::trim(&mut forged);
        let is_data = len < forged.len();
        forged.truncate(len);
        if is_data && renamed { vec![forged] } else { Vec::new() }
    }));
    assert!(drops(&rig, DropReason::TrimmedStranger) > 0);
    // The next message has the number that the last forged headers name.
    rig.meddler = None;
    rig.send(0, 0, 5000, 5);
    rig.run(Duration::from_s(2), 64, |rig| rig.sent(0).len() > SIZES.len());
    assert_eq!(rig.check_delivered(1), [1, 2, 3, 4, 5]);
}

/// One message from host 0 to host 1 and the drops of host 1, when hosts have these keys.
fn between(keys: [Option<Keys>; 2]) -> (usize, Rig) {
    let keys = keys.map(|keys| keys.map(|keys| (keys, Payloads::Encrypted)));
    let shape = Sizes { keys, ..Sizes::ample() };
    let mut rig = Rig::new(&shape, 4, Weather::default());
    rig.open(0, 0, &shape);
    rig.send(0, 0, 5000, 1);
    (0..20_000).for_each(|_| rig.step(64));
    let delivered = |completion: &&Completion| matches!(completion, Completion::Delivered { .. });
    (rig.hosts[1].completions.iter().filter(delivered).count(), rig)
}

#[test]
fn hosts_without_common_keys_say_which_is_wrong() {
    let other = Keys::of(&[(1, [9; 32])]);
    let cases = [
        (Some(Keys::of(&[OURS])), Some(Keys::of(&[OURS])), None),
        (Some(Keys::of(&[NEXT, OURS])), Some(Keys::of(&[OURS, NEXT])), None),
        (Some(other), Some(Keys::of(&[OURS])), Some(DropReason::BadTag)),
        (Some(Keys::of(&[NEXT])), Some(Keys::of(&[OURS])), Some(DropReason::UnknownKey)),
        (None, Some(Keys::of(&[OURS])), Some(DropReason::Unsealed)),
        (Some(Keys::of(&[OURS])), None, Some(DropReason::Sealed)),
    ];
    for (sender, receiver, reason) in cases {
        let (delivered, rig) = between([sender, receiver]);
        assert_eq!(delivered, usize::from(reason.is_none()), "{reason:?}");
        if let Some(reason) = reason {
            let counts = rig.hosts[1].worker.counts();
            let named = rig.hosts[1].worker.stats().drops.of(reason);
            assert!(named > 0 && named == counts.received, "{reason:?}");
            assert_eq!(counts.malformed, named);
        }
    }
}

#[test]
fn keys_rotate_in_the_middle_of_a_transfer() {
    let shape = sealed(Sizes::ample(), Payloads::Encrypted);
    let mut rig = Rig::new(&shape, 9, Weather { loss: 0.01, ..Weather::default() });
    rig.open(0, 0, &shape);
    let tags: Vec<u64> = (1..40).collect();
    tags.iter().for_each(|tag| rig.send(0, 0, 100_000, *tag));
    // Host by host: the new key is known, then used, then the old one is gone.
    let steps = [[OURS, NEXT], [NEXT, OURS], [NEXT, NEXT]];
    for (step, keys) in steps.iter().enumerate() {
        let keys = if keys[0] == keys[1] { Keys::of(&keys[..1]) } else { Keys::of(keys) };
        let before = rig.sent(0).len();
        for host in 0..2 {
            rig.run(Duration::from_s(1), 64, |rig| rig.sent(0).len() > before + 4 * host);
            rig.hosts[host].worker.rotate(&keys);
        }
        let between = |rig: &Rig| rig.sent(0).len() > before + 8;
        rig.run(Duration::from_s(1), 64, between);
        assert!(rig.sent(0).len() < tags.len(), "the transfer goes on after step {step}");
    }
    rig.run(Duration::from_s(2), 64, |rig| rig.sent(0).len() == tags.len());
    let mut delivered = rig.check_delivered(1);
    delivered.sort_unstable();
    assert_eq!(delivered, tags);
    for reason in [DropReason::UnknownKey, DropReason::StaleSeal, DropReason::BadTag] {
        assert_eq!(drops(&rig, reason), 0, "{reason:?}: the transfer has not waited for keys");
    }
}
