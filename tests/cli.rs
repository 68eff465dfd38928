//! The command line as its users and their scripts see it: exit codes, streams, files, messages.
//!
//! Runs the program in this process through `headrace::main_with`; nothing here starts DPDK.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::fs;
use std::path::{Path, PathBuf};

use experiments::workload::cm::{self, StartUnit};
use experiments::workload::matrix::Start;
use experiments::workload::{FlowSpec, GENERATORS, check};
use serde_json::Value;
use transport::Duration;

use program::headrace;

/// A directory with files of a test.
struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn matrix(&self) -> String {
        let path = self.path("small.cm");
        let ran = headrace(&["gen", "incast", "--hosts", "16", "--degree", "4", "-o", &path]);
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
        path
    }
}

#[test]
fn a_run_that_finishes_prints_its_summary_as_json_and_nothing_else() {
    let dir = Dir::new();
    let ran = headrace(&["run", &dir.matrix(), "--world", "sim", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let summary: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(summary["flows"]["finished"], 4);
    assert_eq!(summary["audit"]["ok"], true, "{summary}");
    assert_eq!(summary["bytes"]["delivered"], summary["bytes"]["offered"]);
    assert!(summary["slowdown"].as_f64().unwrap() >= 1.0, "{summary}");
}

#[test]
fn the_summary_has_every_key_of_the_schema_with_its_type() {
    let dir = Dir::new();
    let ran = headrace(&["run", &dir.matrix(), "--json", "--seed", "7"]);
    let summary: Value = serde_json::from_str(&ran.out).unwrap();
    for (pointer, expected) in [
        ("/schema", 1.into()),
        ("/world", "sim".into()),
        ("/seed", 7.into()),
        ("/hosts", 16.into()),
    ] as [(&str, Value); 4]
    {
        assert_eq!(summary.pointer(pointer), Some(&expected), "{pointer}");
    }
    for key in ["transport", "cc", "lb"] {
        assert!(summary[key].is_string(), "{key}");
    }
    let numbers = [
        ("flows", "total finished"),
        ("fct_us", "min mean p50 p99 p999 max"),
        ("packets", "data_new retransmitted parity acks nacks trimmed dropped ecn_marked hops"),
        ("queue_bytes", "mean p99 max"),
        ("bytes", "offered delivered"),
    ];
    for (object, keys) in numbers {
        for key in keys.split(' ') {
            assert!(summary[object][key].is_number(), "{object}.{key}");
        }
    }
    let flat = "completion_us ideal_us slowdown goodput_gbps jain wall_s hops_per_s \
                peak_rss_bytes time_scale";
    for key in flat.split_whitespace() {
        assert!(summary[key].is_number(), "{key}");
    }
    assert!(summary["audit"]["findings"].is_array());
}

#[test]
fn a_run_cut_short_ends_with_one_and_says_so() {
    let dir = Dir::new();
    let ran = headrace(&["run", &dir.matrix(), "--set", "run.limit=20us"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("stopped early"), "{ran:?}");
    assert!(ran.out.contains(" of 4.2 MB delivered"), "{ran:?}");
    assert!(!ran.out.contains(" 0 B of 4.2 MB"), "{ran:?}");
    let out = dir.path("cut");
    let cut = ["--set", "run.limit=20us", "--json", "--out", &out];
    let ran = headrace(&[&["run", &dir.matrix()[..]], &cut[..]].concat());
    let summary: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, summary["slowdown"].is_null()), (1, true), "{summary}");
    let flows = fs::read_to_string(format!("{out}/flows.jsonl")).unwrap();
    let flows = flows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let flows: Vec<Value> = flows.collect();
    let sum = |key: &str| flows.iter().map(|flow| flow[key].as_u64().unwrap()).sum::<u64>();
    assert!(sum("delivered") >= sum("acked") && sum("acked") > 0, "{flows:?}");
    assert_eq!(summary["bytes"]["delivered"], sum("delivered"), "{flows:?}");
}

#[test]
fn erasure_codes_are_chosen_by_flag_counted_and_refused_when_there_is_none_of_that_shape() {
    let dir = Dir::new();
    let matrix = dir.matrix();
    let out = dir.path("coded");
    let all = ["--set", "ec.base_rtt_min=0us", "--json"];
    let run = |more: &[&str]| headrace(&[&["run", &matrix], more, &all].concat());
    let coded = run(&["--ec", "4,1", "--out", &out]);
    let summary: Value = serde_json::from_str(&coded.out).unwrap();
    let packets = |summary: &Value, key: &str| summary["packets"][key].as_u64().unwrap();
    assert!(packets(&summary, "parity") * 4 >= packets(&summary, "data_new"), "{summary}");
    assert!(packets(&summary, "parity") > 0 && summary["ec"]["unneeded"].is_u64(), "{summary}");
    let manifest = fs::read_to_string(format!("{out}/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let settings = manifest["configuration"].as_array().unwrap();
    let ec = settings.iter().find(|setting| setting["key"] == "ec").unwrap();
    assert_eq!((&ec["value"], &ec["source"]), (&"4,1".into(), &"flag --ec".into()));
    let plain: Value = serde_json::from_str(&run(&["--ec", "off"]).out).unwrap();
    assert!(packets(&plain, "parity") == 0 && plain["ec"].is_null(), "{plain}");
    for shape in ["8", "0,2", "8,0", "49,1", "8,17", "on"] {
        let refused = run(&["--ec", shape]);
        assert_eq!(refused.code, 2, "{shape}: {refused:?}");
        assert!(refused.err.contains("--ec") && refused.err.contains("like 8,2"), "{refused:?}");
    }
}

#[test]
fn an_erasure_code_that_no_flow_is_far_enough_for_is_said_to_code_nothing() {
    let dir = Dir::new();
    let ran = headrace(&["run", &dir.matrix(), "--ec", "8,2", "--json"]);
    let summary: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, summary["packets"]["parity"].as_u64()), (0, Some(0)), "{ran:?}");
    assert!(ran.err.contains("ec.base_rtt_min"), "{ran:?}");
}

#[test]
#[cfg(feature = "dpdk")]
fn a_benchmark_of_what_there_is_not_is_refused_with_what_there_is() {
    let device = headrace(&["bench", "datapath", "--device", "net_rong", "--json"]);
    assert_eq!((device.code, device.out.as_str()), (2, ""), "{device:?}");
    assert!(device.err.contains("net_rong") && device.err.contains("net_ring"), "{device:?}");
    let segment = headrace(&["bench", "datapath", "--segment", "9001"]);
    assert_eq!((segment.code, segment.out.as_str()), (2, ""), "{segment:?}");
    assert!(segment.err.contains("9001") && segment.err.contains("8960"), "{segment:?}");
    let ideal = headrace(&["bench", "datapath", "--transport", "ideal"]);
    assert!(ideal.code == 2 && ideal.err.contains("no host can run"), "{ideal:?}");
    // The far end of a border switch's device has to send.
    let silent = headrace(&["bench", "dci", "--device", "net_null"]);
    assert_eq!(silent.code, 2, "{silent:?}");
    assert!(silent.err.contains("net_null") && silent.err.contains("net_ring"), "{silent:?}");
    let alone = headrace(&["bench", "scheduler", "--device", "net_null"]);
    assert!(alone.code == 2 && alone.err.contains("net_ring, net_memif"), "{alone:?}");
    let epochs = headrace(&["bench", "scheduler", "--epochs", "2000"]);
    assert!(epochs.code == 2 && epochs.err.contains("--device"), "{epochs:?}");
    let queues = headrace(&["bench", "dci", "--queues", "0"]);
    assert!(queues.code == 2 && queues.err.contains("1..=4096"), "{queues:?}");
    let bytes = headrace(&["bench", "messages", "--bytes", "0"]);
    assert_eq!(bytes.code, 2, "{bytes:?}");
    for (option, value, remedy) in [
        ("--hosts", "1", "2..=1024"),
        ("--hosts", "1025", "2..=1024"),
        ("--matcher", "greddy", "greedy"),
        ("--demand", "some", "1 to 15"),
        ("--demand", "16", "1 to 15"),
        ("--demand", "0", "1 to 15"),
        ("--iterations", "0", "1..=255"),
    ] {
        let ran = headrace(&["bench", "scheduler", option, value]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains(value) && ran.err.contains(remedy), "{ran:?}");
    }
}

#[test]
fn the_scheduler_is_measured_by_pod_and_matcher() {
    let ran = headrace(&["bench", "scheduler", "--hosts", "16", "--demand", "all", "--json"]);
    let rows: Value = serde_json::from_str(&ran.out).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!((ran.code, rows.len()), (0, 3), "{ran:?}");
    for row in rows {
        let of = |key: &str| row[key].as_f64().unwrap();
        assert!(of("ns_per_decision") > 0.0 && of("p99_ns") >= of("ns_per_decision"), "{row}");
        assert!((0.9..=1.0).contains(&of("matched")) && of("epoch_us") > 0.0, "{row}");
        let per_epoch = of("rts_per_s") * of("epoch_us") / 1e6;
        assert!((per_epoch - 16.0).abs() < 0.2, "one request a host: {row}");
    }
}

#[test]
fn malformed_inputs_end_with_two_and_name_the_place() {
    let dir = Dir::new();
    let cases = [
        ("size.cm", "Nodes 4\nConnections 1\n0->1 start 0 size 0\n", ":3"),
        ("range.cm", "Nodes 4\nConnections 1\n0->9 start 0 size 5\n", ":3"),
        ("token.cm", "Nodes 4\nConnections 1\n0->1 start 0 sise 5\n", ":3"),
        ("self.cm", "Nodes 4\nConnections 1\n2->2 start 0 size 5\n", ":3"),
        ("few.cm", "Nodes 4\nConnections 2\n0->1 start 0 size 5\n", "few.cm"),
        (
            "cycle.cm",
            "Nodes 4\nConnections 1\nTriggers 1\n\
             0->1 id 1 trigger 1 size 5 send_done_trigger 1\ntrigger id 1 oneshot\n",
            "cycle.cm:",
        ),
        ("empty.cm", "", "empty.cm"),
        ("noise.cm", "\u{0}\u{1}\u{2}", "noise.cm:1"),
        ("syntax.toml", "matrix = [\n", "syntax.toml:"),
        ("key.toml", "matrix = \"x.cm\"\ntransprot = \"smartt\"\n", "key.toml:2:"),
        ("cc.toml", "cc = \"smart\"\n[workload]\nkind = \"incast\"\n", "cc.toml:1:"),
        ("set.toml", "[workload]\nkind = \"ring\"\n[set]\nmut = 4096\n", "set.toml:4:"),
    ];
    for (name, text, place) in cases {
        let path = dir.file(name, text);
        let ran = headrace(&["run", &path]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{name}: {ran:?}");
        assert!(ran.err.starts_with("error: "), "{name}: {ran:?}");
        assert!(ran.err.contains(place) && ran.err.contains("expected"), "{name}: {ran:?}");
    }
    let topo = dir.file("bad.topo", "Nodes 16\nTiers 2\nPodsize 16\nTier 0\nRadix_Dwn 4\n");
    let ran = headrace(&["run", &dir.matrix(), "--topo", &topo]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("bad.topo:5"), "{ran:?}");
}

#[test]
fn unknown_names_suggest_the_nearest() {
    let dir = Dir::new();
    let matrix = dir.matrix();
    let cases: [(&[&str], &str); 13] = [
        (&["--transport", "smrtt"], "did you mean `smartt`?"),
        (&["--transport", "zeropod-2x"], "--topo zeropod-2x:K[,PODS[,CORES]]"),
        (&["--transport", "zeropod-2x:8"], "with transport zeropod"),
        (&["--transport", "smart"], "several names begin so: smartt, smartt-paper"),
        (&["--set", "lb.reps.x=3"], "known: lb.paths"),
        (&["--cc", "fixd"], "fixed"),
        (&["--lb", "resp"], "reps"),
        (&["--topo", "ft1024-1so"], "ft1024-1os"),
        (&["--set", "mut=4096"], "mtu"),
        (&["--set", "switch.qdsic=ecn"], "switch.qdisc"),
        (&["--set", "mtu"], "KEY=VALUE"),
        (&["--world", "vdv"], "vdev"),
        (&["--sede", "1"], "--seed"),
    ];
    for (flags, suggestion) in cases {
        let ran = headrace(&[&["run", matrix.as_str()], flags].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{flags:?}: {ran:?}");
        assert!(ran.err.contains(suggestion), "{flags:?}: {ran:?}");
        assert!(ran.err.contains(flags[0]), "{flags:?}: {ran:?}");
        assert!(ran.err.len() < 500, "{flags:?}: {ran:?}");
    }
    for (set, help) in
        [("strange=1", "headrace list settings has all"), ("nothing.x=1", "list settings")]
    {
        let ran = headrace(&["run", matrix.as_str(), "--set", set]);
        assert!(ran.code == 2 && ran.err.contains(help) && ran.err.len() < 500, "{ran:?}");
    }
    let command = headrace(&["rnu"]);
    assert!(command.code == 2 && command.err.contains("tip: `run`?"), "{command:?}");
    let gone = headrace(&["run", "incast-15to2"]);
    assert_eq!(gone.code, 2);
    assert!(gone.err.contains("did you mean `incast-15to1`"), "{gone:?}");
    let missing = headrace(&["run", &dir.path("gone.cm")]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("gone.cm"), "{missing:?}");
    let workload = headrace(&["gen", "incats"]);
    assert_eq!(workload.code, 2);
    assert!(workload.err.contains("incast"), "{workload:?}");
}

#[test]
fn a_matrix_larger_than_its_topology_is_refused() {
    let dir = Dir::new();
    let path = dir.path("large.cm");
    assert_eq!(headrace(&["gen", "permutation", "--hosts", "64", "-o", &path]).code, 0);
    let ran = headrace(&["run", &path, "--topo", "paper-testbed"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("64") && ran.err.contains("16"), "{ran:?}");
}

#[test]
fn a_priority_is_served_or_refused_with_its_line() {
    let dir = Dir::new();
    let path = dir.path("urgent.cm");
    let text = "Nodes 16\nConnections 2\n\n0->1 start 0 size 100\n0->2 start 0 size 100 prio 3\n";
    fs::write(&path, text).unwrap();
    let refused = headrace(&["run", &path, "--transport", "zeropod", "--topo", "zeropod:8"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
    assert!(refused.err.contains("urgent.cm:5"), "{refused:?}");
    assert!(refused.err.contains("`prio 3`"), "{refused:?}");
    assert!(refused.err.contains("sched=zeropod"), "{refused:?}");
    for transport in ["smartt", "eqds", "dcsim"] {
        let served = headrace(&["run", &path, "--transport", transport, "--json"]);
        assert_eq!(served.code, 0, "{transport}: {served:?}");
    }
}

#[test]
fn every_generator_writes_a_matrix_that_reads_back() {
    for generator in GENERATORS {
        let ran = headrace(&["gen", generator.name, "--hosts", "8", "--start-us", "2.5"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}: {ran:?}", generator.name);
        let file = cm::read(ran.out.as_bytes(), generator.name, StartUnit::Us).unwrap();
        assert_eq!(file.matrix.nodes, 8);
        assert_eq!(check::check(&file.matrix), Ok(()));
        let offset = Duration::from_ns(2500);
        let late = |flow: &FlowSpec| !matches!(flow.start, Start::At(at) if at < offset);
        assert!(file.matrix.flows.iter().all(late), "{}", generator.name);
    }
}

#[test]
fn gigabytes_are_announced_before_they_are_written() {
    struct Closed(u64);
    impl std::io::Write for Closed {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            if self.0 > 1 << 20 {
                Err(std::io::ErrorKind::BrokenPipe.into())
            } else {
                Ok(bytes.len())
            }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (mut out, mut err) = (Closed(0), Vec::new());
    let line = "headrace gen all-to-all --hosts 4096 -o -".split(' ').map(Into::into);
    assert_eq!(headrace::main_with(line, &mut out, &mut err), 141);
    let err = String::from_utf8(err).unwrap();
    assert!(err.starts_with("warning: about 1.3 GB of text"), "{err}");
    assert!(out.0 > 1 << 20, "{} bytes", out.0);
}

#[test]
fn generators_take_their_parameters_with_units_in_value_or_flag() {
    let plain = headrace(&["gen", "poisson", "--duration", "50us", "--link-rate", "400Gbps"]);
    let flags = headrace(&["gen", "poisson", "--duration-us", "50", "--link-gbps", "400"]);
    assert_eq!((plain.code, &plain.out), (0, &flags.out));
    let remote = headrace(&["gen", "incast", "--degree", "3", "--prefer-remote", "--size", "2K"]);
    assert!(remote.out.contains("8->0") && remote.out.contains("size 2000"), "{remote:?}");
    let drawn = headrace(&["gen", "incast", "--degree", "3", "--remote=false", "--seed", "9"]);
    assert_eq!(drawn.code, 0, "{drawn:?}");
    for bad in [
        &["gen", "incast", "--degree", "16", "--hosts", "16"][..],
        &["gen", "incast", "--size", "big"],
        &["gen", "incast", "--hosts", "0"],
        &["gen", "poisson", "--cdf", "no-such-file"],
        &["gen", "poisson-two-dc", "--dc0-hosts", "16", "--hosts", "16"],
        &["gen", "incast-two-dc", "--intra", "8", "--hosts", "16"],
        &["gen", "poisson", "--start-us", "18446744073709"],
        &["gen", "poisson", "--flows", "20", "--duration", "0"],
        &["gen"],
    ] {
        let ran = headrace(bad);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{bad:?}: {ran:?}");
        assert!(!ran.err.is_empty());
    }
}

#[test]
fn everything_can_be_listed_as_lines_and_as_json() {
    let kinds = "transports cc lb schedulers qdiscs topologies workloads distributions scenarios \
                 settings";
    for kind in kinds.split(' ') {
        let (lines, json) = (headrace(&["list", kind]), headrace(&["list", kind, "--json"]));
        assert_eq!((lines.code, json.code), (0, 0));
        let entries: Value = serde_json::from_str(&json.out).unwrap();
        let entries = entries.as_array().unwrap();
        assert!(!entries.is_empty(), "{kind}");
        assert_eq!(lines.out.lines().count(), entries.len(), "{kind}");
        for (line, entry) in lines.out.lines().zip(entries) {
            assert!(line.starts_with(entry["name"].as_str().unwrap()), "{line}");
        }
    }
    assert_eq!(headrace(&["list", "everything"]).code, 2);
}

#[test]
fn the_doctor_ends_as_its_verdict_says() {
    let (text, json) = (headrace(&["doctor"]), headrace(&["doctor", "--json"]));
    let diagnosis: Value = serde_json::from_str(&json.out).unwrap();
    let expected = if diagnosis["fit"]["vdev"] == true { 0 } else { 3 };
    assert_eq!((text.code, json.code), (expected, expected));
    assert_eq!((&diagnosis["schema"], &diagnosis["fit"]["sim"]), (&1.into(), &true.into()));
    assert!(text.out.contains("sim: fit"), "{text:?}");
}

#[test]
fn the_doctor_says_what_is_wrong_with_a_file_of_keys() {
    let ran = headrace(&["doctor", "--security", "psk:/nowhere/keys"]);
    let said = ["FAIL  security.keys", "/nowhere/keys", "nic: unfit"];
    assert!(ran.code == 3 && said.iter().all(|words| ran.out.contains(words)), "{ran:?}");
}

#[test]
fn keys_are_logged_only_where_packets_are_sealed() {
    for command in
        [&["run", "incast", "--world", "nic"][..], &["perf", "server"], &["ping", "client"]]
    {
        let ran = headrace(&[command, &["--key-log", "/nowhere/log"]].concat());
        assert!(ran.code == 2 && ran.err.contains("--security"), "{ran:?}");
    }
}

#[test]
fn the_doctor_is_asked_about_queues_of_a_device_alone() {
    let ran = headrace(&["doctor", "--queues", "2"]);
    assert!(ran.code == 2 && ran.err.contains("--device"), "{ran:?}");
    let ran = headrace(&["doctor", "--device", "net_null0", "--queues", "17"]);
    assert!(ran.code == 2 && ran.err.contains("1..=16"), "{ran:?}");
}

#[test]
fn a_series_of_a_real_network_is_refused_before_anything_is_opened() {
    let dir = Dir::new();
    let nic = ["run", &dir.matrix(), "--world", "nic"].map(str::to_owned);
    let run = |more: &[&str]| {
        let flags: Vec<&str> = nic.iter().map(String::as_str).chain(more.iter().copied()).collect();
        headrace(&flags)
    };
    let sampled = run(&["--set", "sampling.interval=10us"]);
    assert_eq!(sampled.code, 2, "{sampled:?}");
    for part in ["sampling.interval", "sampling every 10 us", "--set sampling.interval=none"] {
        assert!(sampled.err.contains(part), "{sampled:?}");
    }
    let unsampled = run(&["--set", "sampling.interval=none"]);
    assert!(
        unsampled.err.contains("--hosts") && !unsampled.err.contains("sampling"),
        "{unsampled:?}"
    );
}

#[test]
fn faults_of_links_in_a_real_network_are_refused_and_not_forgotten() {
    let nic = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/nic");
    let [hosts, pair] = ["servers.toml", "pair.cm"].map(|name| nic.join(name));
    let [hosts, pair] = [&hosts, &pair].map(|path| path.to_str().unwrap());
    let run = |world: &[&str]| {
        headrace(&[&["run", pair, "--set", "fault=loss:0.01@all", "--json"][..], world].concat())
    };
    let ran = run(&["--world", "nic", "--hosts", hosts, "--host", "node0"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    for part in ["fault:", "real network", "--world sim or vdev"] {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
    assert_eq!(run(&["--world", "sim"]).code, 0, "the same fault elsewhere");
}

#[test]
fn a_manifest_has_the_values_that_follow_from_the_network() {
    let dir = Dir::new();
    let out = dir.path("out");
    let flags = ["--transport", "mlcc", "--topo", "two-dc-leaf:20us,100,1,8", "--out", &out];
    let ran = headrace(&[&["run", &dir.matrix()], &flags[..]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let manifest = fs::read_to_string(Path::new(&out).join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let settings = manifest["configuration"].as_array().unwrap();
    for key in ["far.rtt", "rc.mlcc.rtt_c"] {
        let setting = settings.iter().find(|setting| setting["key"] == key).unwrap();
        assert_eq!(setting["source"], "topology", "{setting}");
    }
}

#[test]
fn results_are_files_and_the_same_run_leaves_the_same_flows() {
    let dir = Dir::new();
    let matrix = dir.matrix();
    let outs = [dir.path("a"), dir.path("b/c")];
    for out in &outs {
        let flags = ["--seed", "3", "--set", "sampling.interval=10us", "--lb", "spray"];
        let ran = headrace(&[&["run", &matrix, "--out", out][..], &flags].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let [a, b] = outs.map(PathBuf::from);
    for name in ["flows.jsonl", "series.jsonl"] {
        let text = fs::read_to_string(a.join(name)).unwrap();
        assert_eq!(text, fs::read_to_string(b.join(name)).unwrap(), "{name}");
        assert!(!text.is_empty(), "{name}");
        for line in text.lines() {
            assert!(serde_json::from_str::<Value>(line).unwrap().is_object());
        }
    }
    assert_eq!(fs::read_to_string(a.join("flows.jsonl")).unwrap().lines().count(), 4);
    let mut names: Vec<_> = fs::read_dir(&a).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["flows.jsonl", "manifest.json", "series.jsonl", "summary.json"]);
    manifest_names_what_was_run(&a, &matrix);
}

fn manifest_names_what_was_run(out: &Path, matrix: &str) {
    let manifest = fs::read_to_string(out.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["seed"], 3);
    assert_eq!(manifest["arguments"][0], "headrace");
    assert_eq!(manifest["inputs"][0]["path"], matrix);
    assert_eq!(manifest["inputs"][0]["sha256"].as_str().unwrap().len(), 64);
    let source = |key: &str| {
        let settings = manifest["configuration"].as_array().unwrap();
        let setting = settings.iter().find(|setting| setting["key"] == key).unwrap();
        setting["source"].as_str().unwrap().to_owned()
    };
    assert_eq!(source("lb"), "flag --lb");
    assert_eq!(source("cc"), "transport smartt");
    assert_eq!(source("sampling.interval"), "--set");
    assert_eq!(source("cc.smartt.fi"), "default");
    assert_eq!(source("lb.paths"), "default");
    assert_eq!(source("world"), "default");
    assert_eq!(source("topology"), "default for 16 hosts");
}

#[test]
fn a_place_that_takes_no_results_is_refused_before_the_run() {
    let dir = Dir::new();
    let file = dir.file("taken", "x");
    let ran = headrace(&["run", &dir.matrix(), "--out", &file]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(ran.err.contains("choose another directory"), "{ran:?}");
}

#[test]
fn a_setting_out_of_range_is_refused_by_the_name_it_was_given() {
    let dir = Dir::new();
    let matrix = dir.matrix();
    for (set, words) in [
        (&["mtu=63"][..], "`mtu=63`, expected 64..=8960 bytes"),
        (&["mtu=8961"], "`mtu=8961`, expected 64..=8960 bytes"),
        (&["switch.kmin=0.5", "switch.kmax=0.25"], "switch.kmin: found 0.5, expected at most"),
    ] {
        let mut args = vec!["run", &matrix];
        set.iter().for_each(|set| args.extend(["--set", set]));
        let ran = headrace(&args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains(words), "{words}: {ran:?}");
    }
}

#[test]
fn every_built_in_scenario_runs_to_its_end() {
    let scenarios: Value =
        serde_json::from_str(&headrace(&["list", "scenarios", "--json"]).out).unwrap();
    let plain = |scenario: &&Value| !scenario["about"].as_str().unwrap().ends_with("runs)");
    // A test of the program itself plans those with variants; they take minutes.
    for scenario in scenarios.as_array().unwrap().iter().filter(plain) {
        let name = scenario["name"].as_str().unwrap();
        let ran = headrace(&["run", name, "--quiet"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name}: {ran:?}");
    }
}

#[test]
fn flags_beat_the_scenario_and_set_beats_flags() {
    let dir = Dir::new();
    let text = "cc = \"fixed\"\nseed = 5\n[workload]\nkind = \"incast\"\ndegree = 2\nnodes = 16\n";
    let path = dir.file("s.toml", text);
    let plain: Value = serde_json::from_str(&headrace(&["run", &path, "--json"]).out).unwrap();
    assert_eq!((&plain["cc"], &plain["seed"]), (&"fixed".into(), &5.into()));
    let ran = headrace(&["run", &path, "--json", "--cc", "smartt", "--seed", "6"]);
    let flagged: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&flagged["cc"], &flagged["seed"]), (&"smartt".into(), &6.into()));
}

#[test]
fn a_person_gets_tables_and_flows_on_request() {
    let dir = Dir::new();
    let ran = headrace(&["run", &dir.matrix(), "--flows"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for word in
        ["fct", "completion", "ideal", "slowdown", "goodput", "Jain", "audit", "delivered us"]
    {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
    assert_eq!(ran.out.matches("finished").count(), 5, "{}", ran.out);
    assert_eq!(headrace(&["run", &dir.matrix(), "--flows", "--json"]).code, 2);
}

#[test]
fn shells_and_man_have_every_command() {
    let commands =
        ["run", "doctor", "gen", "list", "compare", "report", "bench", "perf", "ping", "replay"];
    let dir = Dir::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = headrace(&["completions", shell]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        for word in commands.into_iter().chain(["transport"]) {
            assert!(ran.out.contains(word), "{shell}: no {word}");
        }
    }
    let pages = dir.path("man1");
    let ran = headrace(&["man", &pages]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    for command in commands.into_iter().chain(["perf-client", "bench-datapath"]) {
        let page = fs::read_to_string(format!("{pages}/headrace-{command}.1")).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && !page.contains("help(1)"), "{command}: {page}");
    }
    let page = fs::read_to_string(format!("{pages}/headrace-run.1")).unwrap();
    assert!(page.contains("transport") && !page.contains("SUBCOMMANDS"), "{page}");
    let counted = fs::read_dir(&pages).unwrap().count();
    assert!(ran.err.starts_with(&format!("{counted} pages")), "{}", ran.err);
    let taken = dir.file("taken", "");
    assert_eq!(headrace(&["man", &taken]).code, 2);
}

#[test]
fn help_and_version_are_answers() {
    for args in [&["--help"][..], &["--version"], &["run", "--help"], &["gen", "incast", "--help"]]
    {
        let ran = headrace(args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        assert!(!ran.out.is_empty());
    }
    assert_eq!(headrace(&[]).code, 2);
    assert_eq!(headrace(&["fly"]).code, 2);
}

#[test]
fn threads_that_a_matrix_cannot_use_are_named_beside_the_json() {
    let dir = Dir::new();
    let coupled = "Nodes 16\nConnections 2\nTriggers 1\n\
                   0->1 id 1 start 0 size 1000 send_done_trigger 1\n\
                   2->3 id 2 trigger 1 size 1000\ntrigger id 1 oneshot\n";
    let path = dir.file("coupled.cm", coupled);
    let ran = headrace(&["run", &path, "--topo", "paper-testbed", "--threads", "2", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("sim.threads is 1"), "{}", ran.err);
    serde_json::from_str::<Value>(&ran.out).unwrap();
}

#[test]
fn flags_that_show_a_run_are_refused_where_there_is_nothing_to_show() {
    let dir = Dir::new();
    let matrix = dir.matrix();
    let capture = dir.path("a.pcapng");
    for (args, said) in [
        (vec!["run", &matrix, "--metrics", "/tmp/x.sock"], "--metrics shows DPDK workers"),
        (vec!["run", &matrix, "--telemetry"], "add --world vdev, or leave --telemetry out"),
        (vec!["run", "fig12-incast", "--capture", &capture], "this scenario has variants"),
        (vec!["run", &matrix, "--capture", "x.pcapng,snpa=3"], "--capture: found `snpa=3`"),
        (vec!["run", &matrix, "--capture", "/nonexistent/x"], "--capture: found `/nonexistent/x"),
    ] {
        let ran = headrace(&args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains(said), "{said}: {ran:?}");
    }
    let only = format!("{capture},host=99");
    let ran = headrace(&["run", &matrix, "--capture", &only]);
    assert!(ran.code == 2 && ran.err.contains("host=I, below 16"), "{ran:?}");
    let ran = headrace(&["run", &matrix, "--capture", &capture, "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(fs::read(&capture).unwrap()[..4], [0x0A, 0x0D, 0x0D, 0x0A]);
}

#[test]
fn sizes_of_a_paper_are_shown_and_refused_where_frames_are_real() {
    let dir = Dir::new();
    let matrix = dir.matrix();
    let sizes = ["--set", "wire.data_overhead=40", "--set", "wire.control=40"];
    let ran = headrace(&[&["run", &matrix][..], &sizes].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("around payload 40 bytes, without payload 40 bytes"), "{ran:?}");
    // Without DPDK there is no such world, and that is said first.
    if cfg!(feature = "dpdk") {
        let ran = headrace(&[&["run", &matrix, "--world", "vdev"][..], &sizes].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        for part in ["wire.data_overhead", "`40` by --set", "`headers`", "--world sim"] {
            assert!(ran.err.contains(part), "{part} in {}", ran.err);
        }
    }
    let ran = headrace(&["run", &matrix, "--set", "wire.control=256"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("wire.control=256"), "{ran:?}");
}

#[test]
fn clocks_of_simulated_hosts_are_checked_and_refused_where_clocks_are_real() {
    let dir = Dir::new();
    let matrix = dir.matrix();
    let clocks = ["host.offset=100us", "host.drift_ppm=50", "host.jitter=5ns"];
    for clock in clocks {
        let ran = headrace(&["run", &matrix, "--set", clock]);
        assert_eq!(ran.code, 0, "{clock}: {ran:?}");
        // Without DPDK there is no such world, and that is said first.
        if cfg!(feature = "dpdk") {
            let ran = headrace(&["run", &matrix, "--world", "vdev", "--set", clock]);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{clock}: {ran:?}");
            assert!(ran.err.contains(clock.split('=').next().unwrap()), "{clock}: {ran:?}");
        }
    }
    for wrong in ["host.offset=2s", "host.drift_ppm=10001", "host.drift_ppm=-1", "host.jitter=2ms"]
    {
        let ran = headrace(&["run", &matrix, "--set", wrong]);
        assert_eq!(ran.code, 2, "{wrong}: {ran:?}");
        assert!(ran.err.contains(wrong), "{wrong}: {ran:?}");
    }
}

#[test]
fn a_border_that_is_to_act_faster_than_its_feedback_is_named_with_a_mend() {
    let run = |theta: &str| {
        let set = format!("rc.mlcc.{theta}");
        let flags = ["--transport", "mlcc", "--topo", "two-dc-leaf", "--set", &set, "--quiet"];
        let dir = Dir::new();
        headrace(&[&["run", &dir.matrix()], &flags[..]].concat())
    };
    let ran = run("theta=5ms");
    let words =
        ["rc.mlcc.theta: warning: found a theta of 5000", "rc.mlcc.rtt_c, 60", "theta_rtts=3"];
    assert!(ran.code == 0 && words.iter().all(|word| ran.err.contains(word)), "{ran:?}");
    assert!(!run("theta_rtts=1.5").err.contains("rc.mlcc.theta"));
}

#[test]
fn flags_that_change_nothing_are_named() {
    let warned =
        |flags: &[&str]| headrace(&[&["run", "permutation-16", "--quiet"], flags].concat());
    for (flags, part) in [
        (
            &["--set", "cc.swift.fs_range=5"][..],
            "--set: warning: found `cc.swift.fs_range`, which no policy",
        ),
        (&["--udp-port", "5000"], "--udp-port: warning: found 5000 in a simulation"),
        (&["--jobs", "2"], "--jobs 2 changes nothing"),
        (&["--set", "far.cc=unocc"], "`far.cc`, in a network without far paths"),
        (&["--set", "far.rtt=1ms"], "`far.rtt`, in a network without far paths"),
        (&["--set", "vdev.workers=2"], "`vdev.workers`, in a world without virtual devices"),
        (&["--set", "nic.patience=2s"], "`nic.patience`, in a world whose hosts"),
        (&["--set", "udp_port=5000"], "`udp_port`, in a simulation"),
        (&["--set", "lb.plb_rounds=3"], "`lb.plb_rounds`, which no policy"),
        (&["--set", "ec.base_rtt_min=0us"], "`ec.base_rtt_min`, which no policy"),
        (&["--set", "switch.phantom.drain=0.5"], "`switch.phantom.drain`, which no policy"),
        (&["--set", "dci.queues=7"], "`dci.queues`, which no policy"),
        (&["--set", "sched.dcsim.recycle=4"], "`sched.dcsim.recycle`, which no policy"),
        (&["--set", "rc.mlcc.theta=1ms"], "`rc.mlcc.theta`, which no policy"),
        (&["--set", "switch.pfc.alpha=1"], "`switch.pfc.alpha`, which no policy"),
        (
            &["--transport", "dcsim", "--set", "switch.kmin=0.3"],
            "`switch.kmin`, in a network whose queues mark nothing",
        ),
        (
            &["--transport", "ideal", "--set", "switch.kmin=0.3"],
            "`switch.kmin`, with the transport ideal",
        ),
        (
            &["--transport", "ideal", "--set", "ack_every=4"],
            "`ack_every`, with the transport ideal",
        ),
        (&["--set", "switch.detection=1ms"], "`switch.detection`, in a network whose links"),
        (&["--set", "sampling.interval=1us"], "`sampling.interval`, of samples that no file"),
        (&["--set", "switch.border_queue=9MB"], "`switch.border_queue`, in a network without"),
        (&["--set", "switch.border_qdisc=ecn"], "`switch.border_qdisc`, in a network without"),
        (
            &["--set", "switch.queue=9MB", "--set", "switch.queue_bdp=2"],
            "`switch.queue_bdp`, beside switch.queue",
        ),
    ] {
        let ran = warned(flags);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains(part), "{flags:?}: {ran:?}");
    }
    for flags in [
        &["--transport", "auto", "--set", "cc.unocc.qa_early=0"][..],
        &["--transport", "swift", "--set", "cc.swift.fs_range=5"],
        &["--transport", "dcsim", "--set", "switch.dcsim.queue=11"],
        &["--set", "run.message=64KiB", "--set", "switch.queue=1MB", "--set", "nic.depth=2"],
        &["--set", "switch.qdisc=phantom", "--set", "switch.phantom.drain=0.5"],
        &["--lb", "plb", "--set", "lb.plb_rounds=3", "--set", "lb.paths=16"],
        &["--topo", "two-dc", "--set", "far.rtt=1ms", "--set", "far.cc=unocc"],
        &["--topo", "two-dc", "--transport", "uno", "--set", "far.rtt=5ms"],
        &["--topo", "two-dc", "--set", "switch.border_queue=9MB"],
        &["--transport", "roce", "--set", "switch.pfc.xoff=32KiB"],
        &["--transport", "dctcp", "--set", "switch.kmin=0.3", "--set", "switch.kmax=0.9"],
        &["--set", "fault=down@tor:0:up:1", "--set", "switch.detection=1ms"],
    ] {
        let ran = warned(flags);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{flags:?}");
    }
}
