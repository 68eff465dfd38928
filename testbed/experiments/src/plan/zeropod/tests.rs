//! Tests of what Zeropod cannot work with.

use crate::plan::{Draft, Origin, Plan};
use crate::topology::{FatTreeSpec, by_name, topo_file};
use crate::workload::{FlowSpec, Matrix};
use transport::{Bytes, HostId};

fn refusal(topology: &str, set: &[(&str, &str)]) -> String {
    refusal_in(&by_name(topology).unwrap(), set)
}

/// A pod whose hosts ask in turns.
const ASKING: (&str, &str) = ("sched.zeropod.ask_every", "8");

/// Each of these words is in the refusal.
fn says(topology: &str, set: &[(&str, &str)], words: &[&str]) {
    let said = refusal(topology, set);
    for word in words {
        assert!(said.contains(word), "{set:?}: no `{word}` in `{said}`");
    }
}

fn refusal_in(topology: &FatTreeSpec, set: &[(&str, &str)]) -> String {
    plan(topology, set).map_or_else(|error| error, |_| String::new())
}

fn plan(topology: &FatTreeSpec, set: &[(&str, &str)]) -> Result<Plan, String> {
    let mut draft = Draft::default();
    draft.set_transport("zeropod", Origin::Default).unwrap();
    for (key, value) in set {
        match *key {
            "trim" => draft.set_trim(*value == "on", Origin::Set),
            "cc" => draft.set_cc(value, Origin::Set).unwrap(),
            "lb" => draft.set_lb(value, Origin::Set).unwrap(),
            _ => {
                draft.set(key, value, Origin::Set).map_err(|error| error.to_string())?;
            }
        }
    }
    let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
    matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1000)));
    Plan::new(&draft, matrix, topology).map_err(|error| error.to_string())
}

#[test]
fn what_does_not_fit_is_refused_with_key_value_and_expectation() {
    assert_eq!(refusal("zeropod:32", &[]), "");
    assert_eq!(refusal("zeropod:8,8,7", &[("sched.zeropod.mice_cores", "6")]), "");
    for (topology, set, words) in [
        ("leaf-spine:4,4,4", &[][..], &["topology", "no scheduler", "zeropod:K"][..]),
        ("zeropod:40", &[], &["sched.zeropod.cells", "16", "at least 19", "control slot"]),
        (
            "zeropod:8",
            &[("sched.zeropod.clock_jitter", "200ns")],
            &["clock_jitter", "200.000ns", "at most 176.640ns", "lower it"],
        ),
        ("zeropod:8", &[("sched.zeropod.clock_drift", "20000")], &["clock_drift", "0..=10000"]),
        ("zeropod:8", &[("sched.zeropod.clock_offset", "2s")], &["clock_offset"]),
        (
            "zeropod:8,2,2",
            &[("sched.zeropod.cells", "6"), ("sched.zeropod.clock_drift", "50")],
            &["sched.zeropod.cells", "how late a request was", "leave out"],
        ),
        ("zeropod:8", &[("trim", "on")], &["trim", "`on`", "do not trim"]),
        ("zeropod:8", &[("switch.qdisc", "ecn")], &["switch.qdisc", "`ecn`", "bufferless"]),
        ("zeropod:8", &[("switch.routing", "hash")], &["switch.routing", "explicit"]),
        ("zeropod:8", &[("cc", "smartt")], &["cc", "`smartt`", "fixed"]),
        ("zeropod:8", &[("lb", "ecmp")], &["lb", "`ecmp`", "spray", "leave --lb out"]),
        ("zeropod:8", &[("ec", "8,2")], &["ec", "`8,2`", "expected off", "leave --ec out"]),
        (
            "zeropod:8",
            &[("wire.control", "headers")],
            &["wire.control", "`headers`", "a number of bytes", "leave it out"],
        ),
        (
            "zeropod:8",
            &[("wire.data_overhead", "headers")],
            &["wire.data_overhead: found `headers`", "wire.data_min is 512", "leave it out"],
        ),
        ("zeropod:8", &[("sched.zeropod.fair_every", "65536")], &["fair_every=65536", "0..=65535"]),
        ("zeropod:8", &[("sched.zeropod.fair_every", "-1")], &["fair_every=-1", "0..=65535"]),
        ("zeropod:8", &[("wire.data_min", "0")], &["wire.data_min", "512, as mtu"]),
        ("zeropod:8", &[("mtu", "1024")], &["wire.data_min", "1024, as mtu"]),
        (
            "zeropod:8",
            &[("mtu", "64"), ("wire.data_min", "64"), ("wire.control", "60")],
            &["4.800ns", "less than half", "8.320ns"],
        ),
        ("zeropod:8", &[("sched.zeropod.guard", "2us")], &["guard", "2.000us", "712.960ns"]),
        ("zeropod:8", &[("sched.zeropod.cells", "0")], &["cells=0", "1..=32"]),
        ("zeropod:8", &[("sched.zeropod.iterations", "0")], &["iterations=0", "1..=255"]),
        ("zeropod:8", &[("sched.zeropod.top_k", "99")], &["top_k=99"]),
        ("zeropod:8", &[("switch.program", "pod-scheduler@tor")], &["topology places it"]),
        ("zeropod:8,8,7", &[("switch.program", "pod-core@core")], &["topology places it"]),
        ("zeropod:8,2,2", &[("sched.zeropod.mice_cores", "2")], &["mice_cores", "fewer than"]),
        ("zeropod:8", &[("sched.zeropod.mice_cores", "1")], &["mice_cores", "the Cores, 0"]),
        ("zeropod:8,2,2", &[("sched.zeropod.pause_cells", "0")], &["pause_cells=0", "1..="]),
        ("zeropod:4,2,16", &[("sched.zeropod.cells", "6")], &["at least 7", "each Core"]),
        ("ft128-1os", &[], &["no scheduler"]),
    ] {
        says(topology, set, words);
    }
}

#[test]
fn times_that_do_not_fit_are_refused_to_what_differs() {
    for (topology, set, words) in [
        (
            "zeropod:8",
            &[("host.drift_ppm", "1100")][..],
            &["sched.zeropod.clock_drift", "1100 parts", "at most 1091", "1.600ns", "lower"][..],
        ),
        (
            "zeropod:8",
            &[("sched.zeropod.clock_drift", "140"), ASKING],
            &["clock_drift", "140 parts", "at most 136", "ask_every"],
        ),
        ("zeropod:8", &[("sched.zeropod.delay", "100ns")], &["delay", "an epoch"]),
        ("zeropod:8", &[("sched.zeropod.delay", "10s")], &["delay", "10.000s", "1460.142us"]),
        ("zeropod:8,3,5", &[("sched.zeropod.delay", "1419ns")], &["1419.000ns", "1419.520ns"]),
        (
            "zeropod:4",
            &[("sched.zeropod.cells", "1")],
            &["sched.zeropod.cells", "until an arrival is reported", "48", "raise it"],
        ),
        (
            "zeropod:4",
            &[("sched.zeropod.early", "1s")],
            &["sched.zeropod.early", "from a decision to its cells", "lower it"],
        ),
    ] {
        says(topology, set, words);
    }
    for fits in [&[("host.drift_ppm", "1091")][..], &[("host.drift_ppm", "136"), ASKING]] {
        assert_eq!(refusal("zeropod:8", fits), "");
    }
}

/// A value that was not given cannot be left out.
#[test]
fn what_a_preset_brings_is_mended_by_another_preset() {
    let network = by_name("zeropod:8").unwrap();
    let said = |set: &[(&str, &str)]| {
        let mut draft = Draft::default();
        draft.set_transport("smartt", Origin::Default).unwrap();
        for (key, value) in set {
            match *key {
                "trim" => draft.set_trim(*value == "on", Origin::Set),
                key => draft.set(key, value, Origin::Set).unwrap(),
            }
        }
        let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1000)));
        Plan::new(&draft, matrix, &network).unwrap_err().to_string()
    };
    let preset = said(&[("sched", "zeropod")]);
    assert!(
        preset.contains("trim: found `on`") && preset.contains("--transport zeropod"),
        "{preset}"
    );
    let given = said(&[("sched", "zeropod"), ("trim", "on")]);
    assert!(given.contains("leave --trim out"), "{given}");
}

#[test]
fn what_takes_too_long_is_mended_by_what_is_named() {
    let mut slow = by_name("zeropod:4").unwrap();
    slow.tier.iter_mut().for_each(|tier| tier.downlink_latency_ns = 100_000);
    let said = refusal_in(&slow, &[("sched.zeropod.delay", "200us")]);
    assert!(said.contains("topology") && said.contains("less delay"), "{said}");
    // Each remedy that is named helps, and all that are needed are named.
    let cells = |cells| ("sched.zeropod.cells", cells);
    let early = |early| ("sched.zeropod.early", early);
    for (set, key, more, mended) in [
        (&[ASKING, cells("4")][..], "ask_every", None, &[cells("4")][..]),
        (&[cells("1"), early("1s")], "early", Some("raise sched.zeropod.cells"), &[]),
        (
            &[ASKING, cells("4"), early("1s")],
            "early",
            Some("lower sched.zeropod.ask_every"),
            &[cells("4")],
        ),
    ] {
        let said = refusal("zeropod:4", set);
        assert!(said.contains(&format!("sched.zeropod.{key}: found")), "{said}");
        assert_eq!(said.contains(", and "), more.is_some(), "{said}");
        assert!(more.is_none_or(|more| said.contains(more)), "{said}");
        assert!(plan(&by_name("zeropod:4").unwrap(), mended).is_ok(), "{said}");
    }
    // A world has chosen how early hosts are.
    let network = by_name("zeropod:4").unwrap();
    let plan = plan(&network, &[]).unwrap();
    let early = |draft: &mut Draft| {
        draft.settings.sched_params.zeropod.early = transport::Duration::from_ms(20);
    };
    let said = plan.with(early).unwrap_err().to_string();
    assert!(said.contains("vdev.time_scale") && said.contains("raise it"), "{said}");
}

#[test]
fn faults_that_cut_hosts_off_are_refused_where_clocks_are_off_and_no_others() {
    for (topology, fault, cuts_off) in [
        ("zeropod:8", "down@host:3", true),
        ("zeropod:8", "down@hosts,from_us=10,until_us=20", true),
        ("zeropod:8", "down@all", true),
        ("zeropod:8", "down@tor:0:down:1", true),
        ("zeropod:8", "crash@tor:0", true),
        ("zeropod:8", "loss:1@host:3", true),
        ("zeropod:8", "burst-loss:1@hosts", true),
        ("zeropod:8", "block-loss:0/1@hosts,block=2", true),
        ("zeropod:8", "corrupt:1@host:3", true),
        ("zeropod:8", "partition@scheduler:0,from_us=10", true),
        ("zeropod:8", "kill@scheduler:0", true),
        ("zeropod:8", "restart@scheduler:0,from_us=10", true),
        ("zeropod:8", "down@scheduler:0", true),
        ("zeropod:8", "partition@scheduler:0:3", true),
        // Of four ToRs and four aggregation switches.
        ("zeropod:8", "partition@scheduler:0:4", false),
        ("zeropod:8,2,2", "partition@scheduler:1:4,from_us=10", false),
        ("zeropod-ha:8", "kill@backup:0", true),
        ("zeropod:8", "loss:0.01@scheduler:0", false),
        ("zeropod:8", "loss:0.01@hosts", false),
        ("zeropod:8", "block-loss:1@hosts,block=2", false),
        ("zeropod:8", "down@tor:0:up:1", false),
        ("zeropod:8", "down@fabric", false),
    ] {
        assert_eq!(refusal(topology, &[("fault", fault)]), "", "{fault} with exact clocks");
        let drift = ("sched.zeropod.clock_drift", "50");
        let said = refusal(topology, &[("fault", fault), drift]);
        let words = ["exact clocks", "cuts hosts off", fault, "clock_drift"];
        let is_refused = words.iter().all(|word| said.contains(word));
        assert_eq!((is_refused, said.is_empty()), (cuts_off, !cuts_off), "{fault}: {said}");
    }
}

#[test]
fn what_describes_the_network_is_the_networks_or_left_out() {
    let keys = ["per_tor", "hosts", "aggs", "pods", "cores", "cell", "scheduler", "backup"];
    for (key, none) in keys.map(|key| (key, "0")).into_iter().chain([("hop", "0ns")]) {
        let key = format!("sched.zeropod.{key}");
        assert_eq!(refusal("zeropod:4,3,2", &[(&key, none)]), "", "{key}");
        let wrong = if none == "0" { "3" } else { "3ns" };
        let said = refusal("zeropod:4,4,4", &[(&key, wrong)]);
        assert!(said.contains(&key) && said.contains("as the network has it"), "{said}");
    }
    // The value of the network may be given.
    assert_eq!(refusal("zeropod:4,3,2", &[("sched.zeropod.per_tor", "2")]), "");
}

/// The bound is that of a port. That runs stay below it is checked by
/// `a_core_holds_no_more_than_its_threshold_and_what_is_under_way`.
#[test]
fn a_core_has_room_for_what_arrives_before_a_pause_acts() {
    let of = |topology, pause, bytes: u32| {
        let buffer = bytes.to_string();
        let set = [("sched.zeropod.pause_cells", pause), ("sched.zeropod.core_buffer", &*buffer)];
        refusal(topology, &set)
    };
    for (topology, pause, cells) in [
        ("zeropod:8,8,7", "1", 3137),
        ("zeropod:8,8,7", "320", 3456),
        ("zeropod:8,2,1", "320", 320 + 32 * 14),
    ] {
        assert_eq!(of(topology, pause, cells * 552), "");
        let said = of(topology, pause, cells * 552 - 1);
        let least = format!("at least {}", cells * 552);
        for word in ["core_buffer", &least, "pause_cells", "before a pause acts", "raise it"] {
            assert!(said.contains(word), "no `{word}` in `{said}`");
        }
    }
    let said = refusal("zeropod:8,8,7", &[("sched.zeropod.pause_cells", "60000")]);
    assert!(said.contains("32000000 bytes"), "{said}");
    // A pod alone has no Cores.
    assert_eq!(of("zeropod:8", "320", 1), "");
}

#[test]
fn links_that_move_packets_in_time_are_refused() {
    for fault in ["duplicate:0.2@hosts", "reorder:0.2@all,delay_us=50", "degrade:0.5@fabric"] {
        let said = refusal("zeropod:8", &[("fault", fault)]);
        let words = [fault, "once", "sched=zeropod", "leave the fault out"];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}

/// A collision is a bug elsewhere, and fails the audit.
#[test]
fn packets_may_meet_only_where_clocks_may_be_off_by_more_than_a_guard() {
    let drift = ("sched.zeropod.clock_drift", "50");
    for (set, expected) in [
        (&[][..], false),
        (&[("fault", "burst-loss:0.01@hosts,burst=1000")], false),
        (&[drift], false),
        (&[("sched.zeropod.clock_jitter", "5ns")], false),
        (&[("sched.zeropod.clock_jitter", "5ns"), ("sched.zeropod.guard", "4ns")], true),
        (&[("sched.zeropod.clock_drift", "1000")], true),
        (&[drift, ("fault", "loss:0.01@all")], false),
        (&[drift, ("fault", "block-loss:1@hosts,block=2")], false),
        // A host may be without answers for milliseconds.
        (&[drift, ("fault", "burst-loss:0.01@hosts,burst=1000")], true),
        (&[drift, ("fault", "burst-loss:0.01@scheduler:0:1,burst=1000")], true),
        (&[drift, ("fault", "loss:0.99@host:3")], true),
        (&[drift, ("fault", "burst-loss:0.01@fabric,burst=1000")], false),
        (&[drift, ("fault", "burst-loss:0.01@scheduler:0:4,burst=1000")], false),
    ] {
        let plan = plan(&by_name("zeropod:8").unwrap(), set).unwrap();
        assert_eq!(plan.fabric.qdiscs.bufferless.loose, expected, "{set:?}");
    }
}

#[test]
fn pods_with_a_host_a_tor_have_a_scheduler_and_no_cores() {
    let tier = |ups: &str, downs: u32| {
        format!("{ups}Radix_Down {downs}\nDownlink_speed_Gbps 100\nDownlink_Latency_ns 1000\n")
    };
    let (tor, agg) = (tier("Tier 0\nRadix_Up 2\n", 1), tier("Tier 1\nRadix_Up 1\n", 4));
    let header = "Podsize 4\nSchedulers 1\n";
    let core = tier("Tier 2\n", 2);
    let pods = format!("Nodes 8\nTiers 3\n{header}Cores 2\n{tor}{agg}{core}");
    let said = refusal_in(&topo_file::read(pods.as_bytes(), "pods.topo").unwrap(), &[]);
    assert!(said.contains("1 host of a ToR") && said.contains("at least 2"), "{said}");
    let pod = format!("Nodes 4\nTiers 2\n{header}{tor}{}", tier("Tier 1\n", 4));
    let pod = topo_file::read(pod.as_bytes(), "pod.topo").unwrap();
    assert_eq!(refusal_in(&pod, &[]), "");
}
