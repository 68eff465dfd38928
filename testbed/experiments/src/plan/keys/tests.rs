//! Tests of settings: their names, their texts and the values that they refuse.

use fabric::{ProgramKind, ProgramSettings, QdiscKind, QdiscSettings};
use transport::{Bytes, Duration, Rng};

use super::*;
use crate::plan::Plan;
use crate::plan::draft::Origin;
use crate::topology::by_name;
use crate::workload::{Matrix, Params};

#[test]
fn every_shown_value_sets_its_key_to_the_same_value() {
    let mut draft = Draft::default();
    for (key, value) in effective(&Draft::default()).filter(|(key, _)| key != "fault") {
        draft.set(&key, &value, Origin::Set).unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    assert!(effective(&draft).eq(effective(&Draft::default())));
}

#[test]
fn every_parameter_of_the_chosen_policies_is_shown_with_its_source() {
    let mut draft = Draft::default();
    draft.set("cc.smartt.fi", "0.5", Origin::Set).unwrap();
    draft.set_trim(false, Origin::Flag("trim"));
    draft.set("fault", "loss:0.5@all", Origin::Set).unwrap();
    draft.add_fault("down@host:1".parse().unwrap(), Origin::scenario("s"));
    let all = draft.effective();
    let of = |wanted: &str| {
        let lines = all.iter().filter(|(key, ..)| key == wanted);
        lines.map(|(_, value, source)| (value.as_str(), source.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(of("cc.smartt.fi"), [("0.5", "--set".to_owned())]);
    assert_eq!(of("cc.smartt.quick_adapt"), [("on", "default".to_owned())]);
    assert_eq!(of("cc.smartt.trimming"), [("off", "flag --trim".to_owned())]);
    assert_eq!(of("lb.paths"), [("256", "default".to_owned())]);
    assert!(of("cc.fixed.bdps").is_empty());
    let faults = [("loss:0.5@all", "--set"), ("down@host:1", "scenario s")];
    assert_eq!(of("fault"), faults.map(|(fault, source)| (fault, source.to_owned())));
}

#[test]
fn a_presets_parameters_hold_until_another_preset_and_yield_to_the_users() {
    let preset = |draft: &mut Draft, name| {
        draft.set_transport(name, Origin::Flag("transport")).unwrap();
    };
    let bdps = |draft: &Draft| {
        let source = draft.origin("cc.fixed.bdps").to_string();
        (draft.settings.cc_params.fixed.bdps, source)
    };
    let mut draft = Draft::default();
    preset(&mut draft, "eqds");
    assert_eq!(draft.settings.sched, SchedKind::Credits);
    assert_eq!(bdps(&draft), (1.1, "transport eqds".to_owned()));
    preset(&mut draft, "fixed-window");
    assert_eq!(bdps(&draft), (1.0, "default".to_owned()));
    preset(&mut draft, "eqds");
    draft.set("cc.fixed.bdps", "3", Origin::Set).unwrap();
    draft.set("sched.credit.rate", "90", Origin::Set).unwrap();
    preset(&mut draft, "fixed-window");
    assert_eq!(bdps(&draft), (3.0, "--set".to_owned()));
    assert_eq!(draft.settings.sched_params.credit.rate, 90);
    for known in crate::plan::transports::TRANSPORTS {
        for (key, value) in known.set() {
            Draft::default().set(key, value, Origin::Set).unwrap();
            assert!(default_of(key).is_some(), "{key}");
        }
    }
}

#[test]
fn every_setting_of_a_discipline_or_program_is_a_key_among_those_of_switches() {
    let names = names();
    let first = names.iter().position(|name| name.starts_with("switch.")).unwrap();
    let switch: Vec<_> = names[first..].iter().take_while(|n| n.starts_with("switch.")).collect();
    let all = names.iter().filter(|name| name.starts_with("switch.")).count();
    assert_eq!(switch.len(), all, "one after the other");
    let draft = Draft::default();
    let shown: Vec<_> = effective(&draft).map(|(key, _)| key).collect();
    assert!(shown.iter().filter(|key| key.starts_with("switch.")).eq(switch.iter().copied()));
    let qdiscs = QdiscKind::ALL.iter().map(|&kind| (kind.name(), QdiscSettings::keys(kind)));
    let programs = ProgramKind::ALL.iter().map(|&kind| (kind.name(), ProgramSettings::keys(kind)));
    for (name, keys) in qdiscs.chain(programs) {
        for known in keys {
            let key = format!("switch.{name}.{}", known.key);
            assert!(switch.contains(&&key), "{key}");
            assert!(default_of(&key).is_some(), "{key}");
        }
    }
}

#[test]
fn no_two_settings_have_one_key() {
    let mut names = names();
    names.sort();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None);
    let shared = ProgramKind::NAMES.iter().find(|name| QdiscKind::by_name(name).is_some());
    assert_eq!(shared, None, "a discipline and a program share switch.<name>");
}

#[test]
fn a_setting_of_a_program_is_set_by_its_key() {
    let mut draft = Draft::default();
    draft.set("switch.pfc.xoff", "32KiB", Origin::Set).unwrap();
    draft.set("switch.pfc.xon", "auto", Origin::Set).unwrap();
    let pfc = draft.switch.programs.pfc;
    assert_eq!((pfc.xoff, pfc.xon), (Some(Bytes(32 << 10)), None));
    assert!(draft.set("switch.pfc.xof", "1", Origin::Set).is_err());
}

#[test]
fn a_setting_of_a_discipline_is_set_by_its_key_and_refused_by_its_range() {
    let mut draft = Draft::default();
    draft.set("switch.phantom.size", "1.5MB", Origin::Set).unwrap();
    draft.set("switch.phantom.drain", "0.5", Origin::Set).unwrap();
    let phantom = draft.switch.qdiscs.phantom;
    assert_eq!((phantom.size, phantom.drain), (Some(Bytes(1_500_000)), 0.5));
    for (key, value) in [
        ("switch.phantom.drain", "0"),
        ("switch.phantom.size", "many"),
        ("switch.phantom.kmin", "nan"),
        ("switch.trim.kmin", "0.5"),
    ] {
        let error = draft.set(key, value, Origin::Set).unwrap_err();
        assert!(error.to_string().contains(key), "{error}");
    }
    assert_eq!(draft.switch.qdiscs.phantom, phantom);
}

#[test]
fn a_misspelt_key_suggests_the_nearest() {
    let error = Draft::default().set("swich.kmin", "0.1", Origin::Set).unwrap_err();
    assert!(error.help.contains("did you mean `switch.kmin`"), "{error}");
}

#[test]
fn a_value_out_of_range_says_what_would_be_in_it() {
    for (key, value) in [("switch.kmin", "2"), ("loss.rto", "0"), ("vdev.workers", "0")] {
        let error = Draft::default().set(key, value, Origin::Set).unwrap_err();
        assert!(error.to_string().contains(key), "{error}");
    }
    // The range is in the setting's own line, whatever was wrong.
    for (key, value, range) in [
        ("host.jitter", "2ms", "a time up to 1ms; its default is 0ps"),
        ("host.offset", "2s", "a time up to 1s"),
        ("ack_every", "70000", "1..=64; its default is 1"),
        ("loss.retries_max", "x", "1..=64"),
        ("wire.data_min", "9000", "0..=8960"),
        ("wire.control", "256", "1..=255"),
    ] {
        let error = Draft::default().set(key, value, Origin::Set).unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}={value}`")) && error.contains(range), "{error}");
    }
}

#[test]
fn a_window_for_reordering_is_0_or_at_least_a_quarter() {
    let mut draft = Draft::default();
    let mut set = |value: &str| draft.set("loss.reorder_window", value, Origin::Set);
    for value in ["0", "0.25", "3", "off", "auto"] {
        set(value).unwrap();
    }
    for value in ["0.01", "0.249", "-1", "-0.25", "inf", "x"] {
        let error = set(value).unwrap_err().to_string();
        let expected = format!("`loss.reorder_window={value}`, expected 0, or base RTTs from 0.25");
        assert!(error.contains(&expected), "{error}");
        assert!(error.contains("help: loss.reorder_window: base RTTs a segment"), "{error}");
    }
}

#[test]
fn a_wrong_part_of_a_fault_is_named_with_what_would_be_right() {
    let cases = [("block-loss:2@wan", "rate"), ("loss:0.1@nowhere", "nowhere")];
    for (fault, part) in cases {
        let error = Draft::default().set("fault", fault, Origin::Set).unwrap_err();
        assert!(error.to_string().contains(fault), "{error}");
        let said = format!("{} {}", error.found.replace(fault, ""), error.expected);
        assert!(said.contains(part), "{error}");
    }
}

#[test]
fn settings_of_policies_are_reached_by_their_names() {
    let mut draft = Draft::default();
    draft.set("lb.paths", "64", Origin::Set).unwrap();
    assert_eq!(draft.settings.lb_params.common.paths, 64);
    let named: Vec<String> = names();
    assert!(named.iter().any(|name| name.starts_with("cc.smartt.")));
}

#[test]
fn a_presets_settings_are_shown_with_it_and_go_with_it_but_what_was_set_stays() {
    let shown = |draft: &Draft, wanted: &str| {
        let mut all = draft.effective().into_iter();
        let (_, value, source) = all.find(|(key, ..)| key == wanted).unwrap();
        (value, source.to_string())
    };
    let by = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    let mut draft = Draft::default();
    let default = shown(&draft, "cc.smartt.window_start");
    assert_eq!(default, by("1", "default"));
    draft.set_transport("smartt-paper", Origin::Flag("transport")).unwrap();
    let paper = "transport smartt-paper";
    assert_eq!(shown(&draft, "cc.smartt.window_start"), by("1.5", paper));
    assert_eq!(shown(&draft, "cc.smartt.qa_share"), by("measured", paper));
    assert_eq!(shown(&draft, "lb.explore_order"), by("uniform", paper));
    draft.set("cc.smartt.qa_share", "measured", Origin::Set).unwrap();
    draft.set_transport("smartt", Origin::Flag("transport")).unwrap();
    assert_eq!(shown(&draft, "cc.smartt.window_start"), default);
    assert_eq!(shown(&draft, "lb.explore_order"), by("permuted", "default"));
    assert_eq!(shown(&draft, "cc.smartt.qa_share"), by("measured", "--set"));
}

#[test]
fn the_settings_of_every_preset_are_settings_of_its_own_policies() {
    for preset in crate::plan::transports::TRANSPORTS {
        let mut draft = Draft::default();
        draft.set_transport(preset.name, Origin::Set).unwrap();
        let shown = |draft: &Draft, wanted| effective(draft).find(|(key, _)| key == wanted);
        for (key, value) in preset.set() {
            let mut again = draft.clone();
            again.set(key, value, Origin::Set).unwrap();
            assert!(shown(&draft, key).is_some(), "{}: {key}={value}", preset.name);
            assert_eq!(shown(&again, key), shown(&draft, key), "{}", preset.name);
        }
    }
}

#[test]
fn what_a_plan_shows_of_endpoints_is_what_its_endpoints_have() {
    let incast = || {
        let workload =
            crate::workload::by_name("incast", &Params::from_pairs(vec![("degree", "4")]));
        workload.unwrap().generate(32, &mut Rng::new(1)).unwrap()
    };
    let mut plans = 0;
    for transport in crate::plan::transports::TRANSPORTS {
        for topology in ["leaf-spine:4,4,8", "two-dc:4", "two-dc:4,4,10us"] {
            let topology = by_name(topology).unwrap();
            let mut draft = Draft::default();
            draft.set_transport(transport.name, Origin::Set).unwrap();
            // Buffers of lossless switches are too small between sites.
            let Ok(plan) = Plan::new(&draft, incast(), &topology) else { continue };
            plans += 1;
            // As if the endpoints' settings had been shown.
            let mut ran = plan.draft.clone();
            ran.settings = plan.settings.clone();
            let decided = |key: &str| ["msg_window"].contains(&key);
            let shown = effective(&plan.draft).filter(|(key, _)| !decided(key));
            let acting = effective(&ran).filter(|(key, _)| !decided(key));
            for (shown, acting) in shown.zip(acting) {
                assert_eq!(shown, acting, "{}", transport.name);
            }
        }
    }
    assert!(plans > 2 * crate::plan::transports::TRANSPORTS.len());
}

#[test]
fn sizes_of_a_preset_yield_to_real_frames_and_what_was_set_is_refused() {
    let mut draft = Draft::default();
    draft.set_transport("mlcc-paper", Origin::Flag("transport")).unwrap();
    assert!(draft.check_real_world().is_err());
    draft.yield_to_frames("vdev");
    assert_eq!(draft.check_real_world(), Ok(()));
    assert_eq!(draft.origin("wire.control"), Origin::World("vdev"));
    draft.set("wire.control", "102", Origin::Set).unwrap();
    draft.yield_to_frames("vdev");
    assert!(draft.check_real_world().unwrap_err().to_string().contains("wire.control"));
    let mut slotted = Draft::default();
    slotted.set_transport("zeropod", Origin::Flag("transport")).unwrap();
    slotted.yield_to_frames("vdev");
    assert!(slotted.check_real_world().is_err(), "slots have the sizes of a simulation");
}

#[test]
fn acknowledgements_of_several_segments_wait_for_a_quarter_of_a_sites_round_trip() {
    let waits = |set: &[(&str, &str)], topology: &str| {
        let mut draft = Draft::default();
        draft.set_transport("uno", Origin::Flag("transport")).unwrap();
        set.iter().for_each(|(key, value)| draft.set(key, value, Origin::Set).unwrap());
        let matrix = Matrix { nodes: 2, ..Matrix::default() };
        let plan = Plan::new(&draft, matrix, &by_name(topology).unwrap()).unwrap();
        (plan.settings.ack_delay.map(Duration::as_us_f64), plan.draft.origin("ack_delay"))
    };
    let (delay, origin) = waits(&[("ack_every", "4")], "two-dc");
    assert!(delay.is_some_and(|us| (3.0..4.0).contains(&us)), "{delay:?}");
    assert_eq!(origin, Origin::Topology);
    assert_eq!(waits(&[], "two-dc"), (None, Origin::Default), "each is acknowledged at once");
    assert_eq!(waits(&[("ack_every", "4")], "ft128-1os"), (None, Origin::Default));
    let set = &[("ack_every", "4"), ("ack_delay", "9us")];
    assert_eq!(waits(set, "two-dc"), (Some(9.0), Origin::Set));
}

#[test]
fn a_code_is_off_a_shape_a_name_or_both() {
    let mut draft = Draft::default();
    for (text, shown) in [
        ("off", "off"),
        ("8,2", "8,2"),
        ("mds:4,1", "4,1"),
        ("auto", "auto:8,2"),
        ("auto:4,1", "auto:4,1"),
    ] {
        draft.set("ec", text, Origin::Set).unwrap();
        assert_eq!(show(&draft, "ec").as_deref(), Some(shown));
    }
    for text in ["auto,3", "auto:3", "auto:8,0", "auto:0,2", "auto:8,2,1", "Auto", "off:8,2", "8,0"]
    {
        let refused = draft.set("ec", text, Origin::Set).unwrap_err().to_string();
        assert!(refused.contains("off, auto, or X,Y"), "{text}: {refused}");
    }
    for (key, value) in [("ec.auto.rate", "2"), ("ec.auto.losses", "0"), ("ec.auto.hold", "0s")] {
        assert!(draft.set(key, value, Origin::Set).is_err(), "{key}={value}");
    }
}
