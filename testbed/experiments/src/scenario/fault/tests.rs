//! Faults as text: what is read, what is refused, and what a fault becomes on its links.

use proptest::prelude::*;

use super::*;
use crate::workload::matrix::SwitchTier;

#[test]
fn burst_losses_have_the_rate_and_the_run_that_were_asked_for() {
    for (rate, burst) in [(0.01, 8.0), (0.5, 1.0), (0.9, 20.0), (0.9, 2.0), (0.0, 5.0)] {
        let [enter, leave] = burst_chances(rate, burst);
        assert!((enter / (enter + leave) - rate).abs() < 1e-9, "{rate} {burst}");
        assert!(1.0 / leave > burst - 1e-9, "{rate} {burst}");
    }
    assert_eq!(burst_chances(1.0, 4.0).map(f64::to_bits), [1.0, 0.0].map(f64::to_bits));
}

#[test]
fn losses_in_a_row_have_one_chance_in_a_million_million() {
    let of = |text: &str| text.parse::<FaultSpec>().unwrap().kind.losses_in_a_row();
    for (text, expected) in [
        // 2^-40 is about 10^-12.
        ("loss:0.5@all", 39.86),
        ("corrupt:0.01@all", 6.0),
        ("burst-loss:0.01@all,burst=10", 1.0 + 262.25),
        ("block-loss:0.1@all,block=10", 2.0),
        ("block-loss:0.1/0.2@all,block=2", 4.0 + 2.0 * 17.17),
        ("loss:0@all", 0.0),
        ("burst-loss:0@all", 0.0),
        ("duplicate:0.5@all", 0.0),
    ] {
        assert!((of(text) - expected).abs() < 0.01, "{text}: {}", of(text));
    }
    for text in ["loss:1@all", "burst-loss:1@all", "block-loss:0/1@all,block=2", "down@all"] {
        assert!(of(text).is_infinite(), "{text}");
    }
}

#[test]
fn faults_of_schedulers_and_hosts_read_as_they_are_written() {
    for text in [
        "kill@scheduler:0",
        "kill@backup:2,from_us=50,until_us=60",
        "restart@scheduler:1,from_us=90.5",
        "restart@host:3,from_us=40",
        "partition@scheduler:0,from_us=1",
    ] {
        assert_eq!(text.parse::<FaultSpec>().unwrap().to_string(), text);
    }
}

fn links() -> impl Strategy<Value = LinkSelector> {
    let ports = prop_oneof![
        Just(Ports::All),
        Just(Ports::Up),
        Just(Ports::Down),
        any::<u32>().prop_map(Ports::UpPort),
        any::<u32>().prop_map(Ports::DownPort),
    ];
    let tiers = prop_oneof![
        Just(SwitchTier::Tor),
        Just(SwitchTier::Agg),
        Just(SwitchTier::Core),
        Just(SwitchTier::Border),
    ];
    prop_oneof![
        Just(LinkSelector::All),
        Just(LinkSelector::Hosts),
        Just(LinkSelector::Fabric),
        Just(LinkSelector::Border),
        Just(LinkSelector::Wan),
        any::<u32>().prop_map(LinkSelector::Host),
        (any::<u32>(), any::<bool>(), prop::option::of(any::<u32>()))
            .prop_map(|(pod, backup, link)| LinkSelector::Scheduler { pod, backup, link }),
        (tiers, any::<u32>(), ports).prop_map(|(tier, switch, ports)| LinkSelector::Switch {
            tier,
            switch,
            ports
        }),
    ]
}

fn kinds() -> impl Strategy<Value = FaultKind> {
    let rate = || 0.0..=1.0f64;
    prop_oneof![
        rate().prop_map(FaultKind::Loss),
        (rate(), 1..BURST_MAX).prop_map(|(rate, burst)| FaultKind::BurstLoss { rate, burst }),
        (prop::collection::vec(0.0..=0.1f64, 1..=LOSSES_MAX), 8..=BLOCK_MAX).prop_map(
            |(drawn, block)| {
                let mut losses = [0.0; LOSSES_MAX];
                losses[..drawn.len()].copy_from_slice(&drawn);
                FaultKind::BlockLoss { block, losses }
            }
        ),
        rate().prop_map(FaultKind::Duplicate),
        (rate(), 1u64..)
            .prop_map(|(rate, delay)| FaultKind::Reorder { rate, delay: Duration::from_ps(delay) }),
        rate().prop_map(FaultKind::Corrupt),
        Just(FaultKind::Down),
        (1e-300..=1.0).prop_map(FaultKind::Degrade),
    ]
}

proptest! {
    #[test]
    fn parsing_what_was_printed_gives_the_same_fault(
        kind in kinds(), links in links(), from in 0..1u64 << 60,
        span in prop::option::of(1u64..9),
    ) {
        let from = Duration::from_ps(from);
        let until = span.map(|span| from + Duration::from_ps(span));
        let fault = FaultSpec { kind, links, from, until };
        prop_assert_eq!(fault.to_string().parse(), Ok(fault), "{}", fault);
        let whole = matches!(links, LinkSelector::Switch { ports: Ports::All, .. });
        let scheduler = matches!(links, LinkSelector::Scheduler { .. });
        let whole_end = matches!(links, LinkSelector::Scheduler { link: None, .. });
        let begins_anew = whole_end || matches!(links, LinkSelector::Host(_));
        for (kind, fits) in [
            (FaultKind::Crash, whole),
            (FaultKind::Kill, whole_end),
            (FaultKind::Restart, begins_anew && until.is_none()),
            (FaultKind::Partition, scheduler),
        ] {
            let fault = FaultSpec { kind, ..fault };
            let parsed: Result<FaultSpec, _> = fault.to_string().parse();
            prop_assert_eq!(parsed.ok(), fits.then_some(fault));
        }
    }

    #[test]
    fn any_text_gives_a_fault_or_an_error(text in "[a-z0-9:@,=._-]{0,30}|\\PC*") {
        if let Ok(fault) = text.parse::<FaultSpec>() {
            prop_assert_eq!(fault.to_string().parse(), Ok(fault));
        }
    }
}

#[test]
fn the_spellings_of_the_manual_are_faults() {
    for text in [
        "loss:0.01@all",
        "burst-loss:0.01@fabric,burst=8",
        "reorder:0.05@hosts,delay_us=20",
        "degrade:0.5@tor:0:up:2",
        "down@tor:0:up:2,from_us=10,until_us=20.5",
        "down@border:0:up:0",
        "block-loss:0.0003/0.000075/0.000016@border,block=10",
        "block-loss:0@wan,block=1",
    ] {
        assert_eq!(text.parse::<FaultSpec>().unwrap().to_string(), text);
    }
    assert_eq!("corrupt:1e-4".parse::<FaultSpec>().unwrap().to_string(), "corrupt:0.0001@all");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    for (text, words) in [
        ("los:0.1", "did you mean `loss`"),
        ("loss", "no `rate`"),
        ("loss:2", "a probability"),
        ("loss:nan", "a probability"),
        ("degrade:0@all", "above 0"),
        ("down:0.5@all", "does not use it"),
        ("loss:0.1@all,delay_us=3", "does not use it"),
        ("reorder:0.1@all", "a time in microseconds"),
        ("down@tor:x:up", "links `tor:x:up`"),
        ("block-loss:0.5/0.6@all", "1 at most together"),
        ("block-loss:0.1/0.1@all,block=1", "1 at most,"),
        ("block-loss:0.1@all,block=65", "1..=64"),
        ("loss:0.1@all,block=9", "does not use it"),
        ("down@all,from_us=9,until_us=9", "later than"),
        ("down@all,frm_us=9", "did you mean `from_us`"),
    ] {
        let error = text.parse::<FaultSpec>().unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}
