//! A recorded run replays bit for bit through the core alone, and damage is noticed.

use proptest::prelude::*;
use transport::Stats;
use transport::record::{FormatError, ReplayError, replay};

use crate::exchange;
use crate::rig::{Rig, Sizes, Weather};

const WEATHER: Weather =
    Weather { loss: 0.03, duplicate: 0.03, reorder: 0.1, corrupt: 0.02, lies: 0.0, trim: 0.0 };

fn recorded(seed: u64) -> Rig {
    record(&Sizes::ample(), seed, WEATHER)
}

/// Hosts of these sizes that have exchanged messages of all lengths, and recorded it.
pub(crate) fn record(sizes: &Sizes, seed: u64, weather: Weather) -> Rig {
    let sizes = Sizes { record: true, ..sizes.clone() };
    exchange(&sizes, seed, weather, &[50_000, 1, 9000, 120_000, 4096], 64)
}

/// Both recordings replay with the packets and the `counts` that there were.
pub(crate) fn check_replay(rig: &mut Rig, counts: impl Fn(&Stats) -> [u64; 2]) {
    for host in &mut rig.hosts {
        let report = replay(&host.worker.recorder().finish()).unwrap();
        assert_eq!(report.received, host.worker.counts().parsed);
        assert_eq!(report.sent, host.worker.counts().filled);
        assert_eq!(counts(&report.stats), counts(host.worker.stats()));
        assert_eq!(report.host, host.worker.endpoint().host());
    }
}

#[test]
fn a_recording_replays_with_every_decision_the_same() {
    for seed in 1..6 {
        let counts = |stats: &Stats| [stats.data_placed_bytes, stats.retransmitted];
        check_replay(&mut recorded(seed), counts);
    }
}

#[test]
fn an_end_that_is_missing_and_one_that_is_too_long_are_noticed() {
    let mut rig = recorded(9);
    let bytes = rig.hosts[0].worker.recorder().finish();
    assert!(replay(&bytes).is_ok());
    let cut = replay(&bytes[..bytes.len() - 1]);
    assert!(matches!(cut, Err(ReplayError::Format(FormatError::Truncated(_)))), "{cut:?}");
    let mut long = bytes.clone();
    long.push(0);
    let trailing = ReplayError::Format(FormatError::Trailing(bytes.len()));
    assert_eq!(replay(&long), Err(trailing));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn any_flipped_bit_of_a_recording_is_noticed_without_a_panic(
        at in any::<prop::sample::Index>(), bit in 0..8,
    ) {
        static RECORDING: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let bytes = RECORDING.get_or_init(|| recorded(2).hosts[0].worker.recorder().finish());
        let mut flipped = bytes.clone();
        flipped[at.index(bytes.len())] ^= 1u8 << bit;
        prop_assert!(replay(&flipped).is_err());
    }

    #[test]
    fn random_bytes_are_no_recording_and_no_panic(
        tail in prop::collection::vec(any::<u8>(), 0..400), headed in any::<bool>(),
    ) {
        let mut bytes = if headed { transport::record::FORMAT.to_vec() } else { Vec::new() };
        bytes.extend(tail);
        prop_assert!(replay(&bytes).is_err());
    }
}
