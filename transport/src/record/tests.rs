//! Recordings of two endpoints that exchange messages, replayed and damaged.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::cc::fixed::FixedParams;
use crate::cc::{CcKind, Custom, Fixed};
use crate::config::{Config, FarSettings, LossSettings, Settings};
use crate::endpoint::MsgSpec;
use crate::lb::LbKind;
use crate::rng::Rng;
use crate::sched::SchedKind;
use crate::segment::{BURST, Burst, Placement, RxSegment};
use crate::time::{Duration, Instant};
use crate::units::{Bytes, HostId};
use crate::wire::Ext;
use crate::wire::int::Hop;

fn small(change: impl FnOnce(&mut Settings)) -> Config {
    let mut settings =
        Settings { tx_flows_max: 4, rx_flows_max: 4, msgs_max: 8, ..Settings::default() };
    change(&mut settings);
    Config::new(settings).unwrap()
}

/// Two endpoints exchange messages over a link that loses and marks; both recordings.
fn recorded(config: &Config, seed: u64) -> [Vec<u8>; 2] {
    let mut chance = Rng::new(seed);
    let mut ends = [0, 1]
        .map(|i: u32| Recorder::on(config, HostId(i), Rng::new(seed).fork("host", u64::from(i))));
    let mut now = Instant::ZERO;
    for (i, end) in ends.iter_mut().enumerate() {
        let peer = HostId(1 - u32::try_from(i).unwrap());
        let flow = end.open_flow(peer, config.default_path()).unwrap();
        let len = NonZeroU32::new(100_000).unwrap();
        end.post_send(now, MsgSpec { flow, len, tag: 3 }).unwrap();
        end.close_flow(now, flow);
    }
    for _ in 0..800 {
        for from in 0..2 {
            let mut burst = Burst::with_limit(BURST);
            ends[from].poll_transmit(now, &mut burst);
            let at = now + Duration::from_us(3);
            let segment = |tx: &crate::segment::TxSegment, ce| RxSegment {
                hdr: tx.hdr,
                at,
                from: HostId(u32::try_from(from).unwrap()),
                payload_len: tx.payload.len,
                ce,
                trimmed: false,
            };
            let mut arrives = |(index, tx)| {
                let (lost, ce) = (chance.chance(0.05), chance.chance(0.2));
                let (mut ext, hdr) = (*burst.ext(index), &segment(tx, ce).hdr);
                if let Some(int) = hdr.ext.int_mut(&mut ext) {
                    int.stamp(Hop::new(now, Bytes(64), Bytes(0), config.line_rate, 1));
                }
                (!lost).then(|| (segment(tx, ce), ext))
            };
            let arrived = burst.iter().enumerate().filter_map(&mut arrives);
            let (rx, exts): (Vec<RxSegment>, Vec<Ext>) = arrived.unzip();
            let mut places = [Placement::Release; BURST];
            ends[1 - from].handle_extended(at, (&rx, &exts), &mut places);
        }
        now += Duration::from_us(3);
        for end in &mut ends {
            end.handle_timeout(now);
            while end.poll_event().is_some() {}
        }
    }
    ends.map(|mut end| end.finish())
}

#[test]
fn every_policy_replays_with_the_same_decisions() {
    let with = |sched: SchedKind| LbKind::ALL.iter().map(move |&lb| (lb, sched));
    for cc in CcKind::ALL {
        let scheds = SchedKind::ALL.iter().filter(|sched| !sched.facts().needs_network);
        for (lb, sched) in scheds.flat_map(|&sched| with(sched)) {
            let config = small(|s| {
                (s.cc, s.lb, s.sched) = (*cc, lb, sched);
                // Most of a message is sent against credit.
                s.sched_params.credit.first_window = 0.1;
            });
            let mut retransmitted = 0;
            for (host, bytes) in (0..).zip(recorded(&config, 5)) {
                let report = replay(&bytes).unwrap();
                assert_eq!((report.host, &report.config), (HostId(host), &config));
                assert!(report.stats.messages_sent == 1 && report.stats.messages_delivered == 1);
                retransmitted += report.stats.retransmitted;
            }
            assert!(retransmitted > 0, "nothing was lost");
        }
    }
}

#[test]
fn telemetry_is_recorded_and_replays_to_the_same_decisions() {
    let config = small(|s| (s.int_always, s.int_room) = (true, 2));
    let without = recorded(&small(|_| ()), 5)[0].len();
    for bytes in recorded(&config, 5) {
        assert!(replay(&bytes).unwrap().stats.messages_sent == 1);
        // Each segment is recorded with its room, each acknowledgement with what it echoes.
        assert!(bytes.len() > without + 20 * 36, "{} and {without}", bytes.len());
    }
    // What switches wrote reaches the answers: other telemetry, other digest.
    let mut bytes = recorded(&config, 5)[1].clone();
    let hop = [0, 0, 0, 1, 0, 0, 0, 0, 3, 232, 0, 1];
    let at = bytes.windows(hop.len()).position(|octets| octets == hop).unwrap();
    bytes[at + 3] ^= 1;
    assert!(matches!(replay(&bytes), Err(ReplayError::Format(_))), "the input's own digest");
}

#[test]
fn a_different_answer_is_named_by_its_call() {
    let bytes = &mut recorded(&small(|_| ()), 1)[0];
    let words = settings::to_words(&small(|_| ())).len();
    let first = 8 + 4 + 8 + 4 + 8 * words + 8;
    // Kind, peer, path, short digest, then the digest of the answer.
    bytes[first + 1 + 4 + 24 + 4] ^= 1;
    assert_eq!(replay(bytes), Err(ReplayError::Differs { call: 0, kind: CallKind::OpenFlow }));
}

#[test]
fn a_recording_of_another_version_is_refused_by_its_first_octets() {
    // Version 1 had the words of a configuration in another order.
    for other in [1, FORMAT[7] + 1] {
        let [mut bytes, _] = recorded(&small(|_| {}), 1);
        bytes[7] = other;
        let refused = replay(&bytes).unwrap_err();
        assert_eq!(refused, ReplayError::Format(FormatError::NotARecording), "{other}");
    }
}

#[test]
fn an_endpoint_that_is_not_recorded_writes_nothing() {
    let mut off = Recorder::off(&small(|_| ()), HostId(0), Rng::new(1));
    off.handle_timeout(Instant::ZERO);
    assert_eq!((off.pending(), off.finish()), (0, Vec::new()));
}

#[test]
fn every_setting_survives_its_words_and_illegal_words_are_none() {
    let config = small(|s| {
        s.loss = LossSettings {
            reorder_window_quarters: None,
            in_order: true,
            tail_probe: true,
            silence_probe: false,
            ..LossSettings::default()
        };
        s.cc_params.set(CcKind::Smartt, "adjustment", "sample:9").unwrap();
        s.lb_params.set("paths", "77").unwrap();
        s.sched_params.set(SchedKind::Credits, "rate", "55").unwrap();
        s.far = FarSettings { lb: Some(LbKind::Subflow), ..FarSettings::default() };
        (s.cc, s.sched) = (CcKind::Fixed, SchedKind::Credits);
    });
    let words = settings::to_words(&config);
    assert_eq!(settings::from_words(words.iter().copied()), Some(config));
    for at in 0..words.len() {
        let cut = words.iter().copied().take(at);
        assert_eq!(settings::from_words(cut), None);
    }
    let mut wrong = words.clone();
    wrong[5] = 99;
    assert_eq!(settings::from_words(wrong.into_iter()), None);
    let long = words.into_iter().chain([0]);
    assert_eq!(settings::from_words(long), None);
}

#[test]
fn a_controller_that_no_registry_names_makes_a_recording_that_is_refused() {
    let custom = |s: &mut Settings| {
        s.cc_params.custom =
            Custom::built_by(1.0, |path| Fixed::new(&FixedParams::default(), path));
    };
    let near = small(|s| (custom(s), s.cc = CcKind::Custom).1);
    let far = small(|s| (custom(s), s.far.cc = Some(CcKind::Custom)).1);
    for config in [near, far] {
        assert_eq!(settings::from_words(settings::to_words(&config).into_iter()), None);
    }
}

proptest! {
    #[test]
    fn any_damage_is_noticed_without_a_panic(
        at in any::<prop::sample::Index>(), bit in 0u8..8, cut in any::<bool>(),
    ) {
        let mut bytes = recorded(&small(|s| s.psn_window = 128), 2)[1].clone();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << bit;
        }
        prop_assert!(replay(&bytes).is_err());
    }
}
