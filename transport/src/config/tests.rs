//! Which settings are legal, and what follows from them.

use super::*;
use crate::Bytes;

#[test]
fn the_default_is_legal_and_its_mtu_is_the_papers() {
    let config = Config::new(Settings::default()).unwrap();
    assert_eq!(config.mtu(), Bytes(4160));
}

#[test]
fn an_illegal_setting_is_named() {
    let error = Config::new(Settings { psn_window: 100, ..Settings::default() }).unwrap_err();
    assert!(matches!(error, ConfigError::Setting { name: "psn_window", .. }));
}

#[test]
fn a_flow_has_no_more_paths_than_its_balancer_can_keep() {
    let with = |paths, near, far| {
        let mut settings = Settings { lb: near, ..Settings::default() };
        (settings.lb_params.common.paths, settings.far.lb) = (paths, far);
        Config::new(settings).map(|_| ())
    };
    for kind in LbKind::ALL {
        for paths in [1, 256, 257, 65_535] {
            let refused = kind.paths_expected(paths);
            let error = refused.map(|expected| ConfigError::Setting { name: "lb.paths", expected });
            assert_eq!(with(paths, *kind, None).err(), error, "{paths}");
            assert_eq!(with(paths, LbKind::Ecmp, Some(*kind)).err(), error, "{paths}");
        }
    }
    let error = with(257, LbKind::Wary, None).unwrap_err();
    let said = alloc::format!("{error}");
    assert_eq!(said, "setting lb.paths: expected at most 256 with the balancer wary");
}

#[test]
fn a_block_waits_for_a_microsecond_at_least() {
    let with = |wait| {
        let ec_params = EcParams { block_timeout: wait, ..EcParams::default() };
        Config::new(Settings { ec_params, ..Settings::default() })
    };
    let expected = "auto, or 1us..=2s";
    for wait in [Duration::ZERO, Duration::from_ns(999)] {
        let error = with(Some(wait)).unwrap_err();
        assert_eq!(error, ConfigError::Setting { name: "ec.block_timeout", expected }, "{wait:?}");
    }
    for wait in [None, Some(Duration::from_us(1)), Some(Duration::from_s(2))] {
        assert!(with(wait).is_ok(), "{wait:?}");
    }
    assert!(with(Some(Duration::from_s(3))).is_err());
}

#[test]
fn the_share_of_a_host_or_group_leaves_a_place_beside_flows_without_proof() {
    let share = |flows| ShareMax { flows, ..ShareMax::UNBOUNDED };
    let with = |rx_flows_max, unproven_max, peer_max, group_max| {
        let defaults = Settings::default();
        let settings = Settings { rx_flows_max, unproven_max, peer_max, group_max, ..defaults };
        Config::new(settings).is_ok()
    };
    let all = ShareMax::UNBOUNDED;
    assert!(with(16, 4, share(11), share(11)) && with(16, 4, all, all));
    assert!(!with(16, 4, share(12), all) && !with(16, 4, all, share(12)));
    assert!(with(16, u32::MAX, share(16), share(16)), "where all hosts are trusted");
    let groups = |run| Settings { groups: Groups::Runs(run), ..Settings::default() };
    assert!(Config::new(groups(1)).is_ok() && Config::new(groups(0)).is_err());
}

#[test]
fn there_are_answers_and_a_bounded_number_of_them() {
    let with = |answers_max| Settings { answers_max, ..Settings::default() };
    for (answers, legal) in [(0, false), (1, true), (1_000_000, true), (1_000_001, false)] {
        assert_eq!(Config::new(with(Some(answers))).is_ok(), legal, "{answers}");
    }
}

#[test]
fn reminders_are_neither_a_load_nor_later_than_forgetting() {
    let with = |every| Settings { keep_alive: Some(every), ..Settings::default() };
    let config = Config::new(Settings::default()).unwrap();
    let (least, most) = (config.base_rtt * 8, config.give_up_after(&config.default_path()));
    for (every, legal) in [
        (Duration::from_ps(1), false),
        (least - Duration::from_ps(1), false),
        (least, true),
        (most, true),
        (most + Duration::from_ps(1), false),
    ] {
        assert_eq!(Config::new(with(every)).is_ok(), legal, "{every}");
    }
}

#[test]
fn what_a_configuration_resolves_is_legal_in_another() {
    for base_rtt in [Duration::from_ps(1), Duration::from_us(12), Duration::from_s(2)] {
        let config = Config::new(Settings { base_rtt, ..Settings::default() }).unwrap();
        assert_eq!(Config::new((*config).clone()).unwrap(), config);
    }
}

#[test]
fn a_path_is_far_from_the_threshold_on_and_what_is_not_chosen_stays() {
    let far = FarSettings {
        rtt: Duration::from_us(100),
        cc: Some(CcKind::UnoCc),
        ..FarSettings::default()
    };
    let config = Config::new(Settings { far, ..Settings::default() }).unwrap();
    let at = |us| {
        let path = Path { base_rtt: Duration::from_us(us), ..config.default_path() };
        config.policies(&path)
    };
    assert_eq!(at(99), Policies { cc: CcKind::Smartt, lb: LbKind::Reps });
    assert_eq!(at(100), Policies { cc: CcKind::UnoCc, lb: LbKind::Reps });
}

#[test]
fn slow_round_trips_do_not_make_a_sender_outlast_the_memory_of_its_receiver() {
    for (retries_max, backoff_max) in (1..=64).flat_map(|r| (0..=16).map(move |b| (r, b))) {
        let loss = LossSettings { retries_max, backoff_max, ..LossSettings::default() };
        let config = Config::new(Settings { loss, ..Settings::default() }).unwrap();
        let (path, slow) = (config.default_path(), loss.slow_doublings());
        let waits = (0..=retries_max).map(|n| n.min(backoff_max).max(slow));
        let longest = waits.fold(Duration::ZERO, |sum, n| sum + config.rto(&path) * (1 << n));
        assert!(longest <= config.give_up_after(&path) * 2, "{loss:?}");
    }
    for give_up in [1, 400, 4000, 90_000].map(Duration::from_ms) {
        let loss = LossSettings { give_up, ..LossSettings::default() };
        let base_rtt = Duration::from_ms(1);
        let config = Config::new(Settings { loss, base_rtt, ..Settings::default() }).unwrap();
        let path = config.default_path();
        let rto = config.rto(&path);
        assert!(loss.tries_seldom(rto) && !loss.tries_seldom(Duration::from_us(390)));
        // Each attempt varies by up to a quarter.
        let longest = loss.slow_max(rto).mul_ratio(5, 4) * (u64::from(loss.retries_max) + 1);
        assert!(longest <= config.give_up_after(&path) * 2, "{give_up}");
    }
    let loss =
        LossSettings { give_up: Duration::from_s(90), backoff_max: 1, ..LossSettings::default() };
    assert_eq!(loss.slow_max(Duration::from_ms(100)), Duration::from_s(1));
}

#[test]
fn giving_up_takes_no_less_than_the_silence_that_a_flow_survives() {
    let give_up = Duration::from_s(90);
    let loss = LossSettings { give_up, ..LossSettings::default() };
    let config = Config::new(Settings { loss, ..Settings::default() }).unwrap();
    let path = config.default_path();
    assert_eq!(config.give_up_after(&path), give_up + config.rto(&path) * 65);
    let loss = LossSettings { give_up: Duration::from_s(3601), ..loss };
    assert!(Config::new(Settings { loss, ..Settings::default() }).is_err());
}

#[test]
fn timeouts_double_up_to_a_quarter_of_a_second_where_a_flow_survives_seconds() {
    let doublings = |rto_min, backoff_max, give_up| {
        let loss = LossSettings { rto_min, backoff_max, give_up, ..LossSettings::default() };
        Config::new(Settings { loss, ..Settings::default() }).unwrap().doublings_in_outages()
    };
    let (ms, survived) = (Duration::from_ms, Duration::from_s(9));
    assert_eq!(doublings(ms(1), 6, survived), 6);
    assert_eq!(doublings(ms(25), 6, survived), 3);
    assert_eq!(doublings(ms(25), 2, survived), 2);
    assert_eq!(doublings(ms(251), 6, survived), 0);
    assert_eq!(doublings(ms(100), 6, Duration::ZERO), 6);
}

#[test]
fn giving_up_takes_the_sum_of_the_backed_off_timeouts() {
    let loss = LossSettings { retries_max: 3, backoff_max: 1, ..LossSettings::default() };
    let config = Config::new(Settings { loss, ..Settings::default() }).unwrap();
    let path = config.default_path();
    assert_eq!(config.give_up_after(&path), config.rto(&path) * 7);
}

#[test]
fn a_near_target_is_that_of_the_longest_path_where_no_path_is_far() {
    let queue = |base_us: u64| {
        let base_rtt = Duration::from_us(base_us);
        let mut settings = Settings { base_rtt, ..Settings::default() };
        settings.cc_params.smartt.set("target_of", "near").unwrap();
        Config::new(settings).unwrap().cc_params.smartt.target_queue
    };
    assert_eq!(queue(100), Duration::from_us(50));
    assert_eq!([150, 2000].map(queue), [Duration::ZERO; 2], "paths of 150 us and more are far");
}
