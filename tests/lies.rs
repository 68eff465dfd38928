//! Data that lies, through the real command. Each lie ends with exit code 2, nothing on standard
//! output, and a message on standard error. The message has the place as FILE:LINE:COLUMN, what was
//! expected, and for names the nearest one. Data that only looks odd is accepted. Size alone is no
//! lie.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// Exit code, standard output, standard error of one call.
fn headrace(args: &[&str]) -> (u8, String, String) {
    let program::Ran { code, out, err } = program::headrace(args);
    (code, out, err)
}

fn file(dir: &Path, name: &str, bytes: &[u8]) -> String {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// `path` is refused at `place` (line, or line:column) with each of `words`.
fn refused(args: &[&str], path: &str, place: &str, words: &[&str]) {
    let (code, out, err) = headrace(args);
    let case = format!("{args:?}\n{err}");
    assert_eq!((code, out.as_str()), (2, ""), "{case}");
    // A run over a real network says first whether its packets are sealed.
    assert!(err.starts_with("error: ") || err.contains("\nerror: "), "{case}");
    assert!(err.contains(&format!("{path}:{place}")), "no {path}:{place} in {case}");
    assert!(err.contains("expected"), "{case}");
    for word in words {
        assert!(err.contains(word), "no `{word}` in {case}");
    }
}

#[test]
fn a_matrix_that_lies_is_refused_at_the_lie() {
    let dir = tempfile::tempdir().unwrap();
    let one = "Nodes 4\nConnections 1\n";
    let cases: [(&str, &str, &[&str]); 18] = [
        ("0->4 start 0 size 5", "3", &["4"]),
        ("9->0 start 0 size 5", "3", &["9"]),
        ("0->1 start 0 size 0", "3", &[]),
        ("2->2 start 0 size 5", "3", &["2"]),
        ("0->1 start 0", "3", &["size"]),
        ("0->1 size 5", "3", &["start"]),
        ("0->1 start 0 size 5 zise 6", "3:21", &["size"]),
        ("0->1 stat 0 size 5", "3:6", &["start"]),
        ("0-1 start 0 size 5", "3:1", &[]),
        ("0->1 start -1 size 5", "3:12", &[]),
        ("0->1 start 0 size 99999999999999999999999999", "3:19", &[]),
        ("0->1 start 99999999999999999999999 size 5", "3:12", &[]),
        ("99999999999->1 start 0 size 5", "3:1", &[]),
        ("0->1 start 0 size 5kB", "3:19", &[]),
        ("0->1 start nan size 5", "3:12", &[]),
        ("0->1 id 0 start 0 size 5", "3:9", &[]),
        ("0->1 id 1 trigger 7 size 5", "3", &["7"]),
        ("0->1 start 0 size 5\n0->2 start 0 size 5", "", &["1"]),
    ];
    for (line, place, words) in cases {
        let path = file(dir.path(), "lie.cm", format!("{one}{line}\n").as_bytes());
        refused(&["run", &path], &path, place, words);
    }
}

#[test]
fn flows_whose_sum_has_no_number_run_until_their_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = "Nodes 4\nConnections 3\n".to_owned();
    for at in 1..4 {
        writeln!(text, "{at}->0 id {at} start 0 size {}", i64::MAX).unwrap();
    }
    let path = file(dir.path(), "huge.cm", text.as_bytes());
    for setting in ["mtu=64", "mtu=4096", "run.message=1"] {
        let args = ["run", &path, "--set", setting, "--set", "run.limit=1us", "--json", "--quiet"];
        let (code, out, err) = headrace(&args);
        assert_eq!(code, 1, "{setting}: {err}");
        let summary: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(summary["audit"]["ok"], true, "{setting}");
        // As long as the clock goes.
        assert!(summary["ideal_us"].as_f64() > Some(1.8e13), "{setting}: {}", summary["ideal_us"]);
    }
}

#[test]
fn a_header_that_promises_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let flow = "0->1 start 0 size 5\n";
    let cases: [(&str, &str); 8] = [
        ("Nodes 4\nConnections 2\n", ""),
        ("Nodes 4\nConnections 18446744073709551615\n", "2"),
        ("Nodes 4\nConnections 100000000\n", ""),
        ("Nodes 0\nConnections 1\n", "1"),
        ("Nodes 4294967295\nConnections 1\n", "1"),
        ("Nodes 4\nNodes 5\nConnections 1\n", "2"),
        ("Nodes 4\nConnections 1\nTriggers 3\n", ""),
        ("Connections 1\n", ""),
    ];
    for (header, place) in cases {
        let path = file(dir.path(), "header.cm", format!("{header}{flow}").as_bytes());
        refused(&["run", &path], &path, place, &[]);
    }
}

#[test]
fn triggers_that_wait_for_each_other_or_for_ever_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let head = "Nodes 4\nConnections 2\nTriggers 2\n";
    let cycle = "0->1 id 1 trigger 1 size 5 send_done_trigger 2\n\
                 1->2 id 2 trigger 2 size 5 recv_done_trigger 1\n\
                 trigger id 1 oneshot\ntrigger id 2 oneshot\n";
    let path = file(dir.path(), "cycle.cm", format!("{head}{cycle}").as_bytes());
    refused(&["run", &path], &path, "", &["1", "2"]);
    let never = "0->1 id 1 start 0 size 5 send_done_trigger 1\n\
                 1->2 id 2 trigger 1 size 5\ntrigger id 1 barrier count 2\n";
    let head = "Nodes 4\nConnections 2\nTriggers 1\n";
    let path = file(dir.path(), "never.cm", format!("{head}{never}").as_bytes());
    refused(&["run", &path], &path, "", &["barrier"]);
    let misspelt = never.replace("barrier count 2", "onshot");
    let path = file(dir.path(), "kind.cm", format!("{head}{misspelt}").as_bytes());
    refused(&["run", &path], &path, "6:14", &["oneshot"]);
}

#[test]
fn a_topology_that_lies_is_refused_at_the_lie() {
    let dir = tempfile::tempdir().unwrap();
    let matrix = file(dir.path(), "ok.cm", b"Nodes 4\nConnections 1\n0->1 start 0 size 5\n");
    let good = "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 2\n\
                Radix_Up 2\nDownlink_Latency_ns 600\nTier 1\nDownlink_speed_Gbps 100\n\
                Radix_Down 2\nDownlink_Latency_ns 600\n";
    let path = file(dir.path(), "good.topo", good.as_bytes());
    assert_eq!(headrace(&["run", &matrix, "--topo", &path, "--world", "sim", "--json"]).0, 0);
    let cases: [(&str, &str, &str, &[&str]); 9] = [
        ("Nodes 4", "Nodes 5", "", &[]),
        ("Nodes 4", "Nodes 4294967296", "1", &[]),
        ("Tiers 2", "Tiers 4", "2", &[]),
        ("Podsize 4", "Podsize 0", "3", &[]),
        ("Radix_Up 2", "Radix_Pu 2", "7:1", &["Radix_Up"]),
        ("Radix_Up 2", "Radix_Up two", "7:10", &[]),
        ("Radix_Up 2", "Radix_Up 0", "7", &[]),
        ("Downlink_speed_Gbps 100", "Downlink_speed_Gbps 0", "5", &[]),
        ("Tier 1", "Tier 7", "9", &[]),
    ];
    for (right, wrong, place, words) in cases {
        let text = good.replacen(right, wrong, 1);
        let path = file(dir.path(), "bad.topo", text.as_bytes());
        refused(&["run", &matrix, "--topo", &path], &path, place, words);
    }
    let text = good.replacen("Radix_Up 2", "Radix_Up 2\nQueue_Up 1000", 1);
    let path = file(dir.path(), "small.topo", text.as_bytes());
    let run = ["run", &matrix, "--topo", &path, "--world", "sim"];
    refused(&run, &path, "8", &["Queue_Up 1000 in tier 0", "4176", "mtu"]);
    // A setting takes its place.
    assert_eq!(headrace(&[&run[..], &["--set", "switch.queue=99999"]].concat()).0, 0);
    refused(&["run", &matrix, "--set", "switch.queue=9"], "switch.queue", "", &["4176"]);
}

#[test]
fn a_matrix_without_flows_runs_and_warns_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "none.cm", b"# nothing\nNodes 2\nConnections 0\n");
    let (code, _, err) = headrace(&["run", &path, "--world", "sim"]);
    assert_eq!(code, 0, "{err}");
    let place = format!("{path}:3:13: warning: found a matrix without flows");
    assert!(err.contains(&place), "{err}");
}

#[test]
fn a_scenario_that_lies_is_refused_at_the_lie() {
    let dir = tempfile::tempdir().unwrap();
    let incast = "[workload]\nkind = \"incast\"\n";
    let cases: [(&str, &str, &[&str]); 8] = [
        ("transprot = \"smartt\"\n", "1:1", &["transport"]),
        ("cc = \"smart\"\n", "1:6", &["smartt"]),
        ("lb = 7\n", "1:6", &[]),
        ("seed = -1\n", "1:8", &[]),
        ("seed = 99999999999999999999\n", "1:", &[]),
        ("[set]\nmtu = 1e99\n", "2:", &[]),
        ("[[fault]]\nkind = \"los\"\nrate = 0.1\n", "2:", &["loss"]),
        ("[[fault]]\nkind = \"loss\"\nrate = 1.5\n", "3:", &["probability"]),
    ];
    for (text, place, words) in cases {
        let path = file(dir.path(), "lie.toml", format!("{text}{incast}").as_bytes());
        refused(&["run", &path], &path, place, words);
    }
}

#[test]
fn parts_of_a_run_that_do_not_fit_are_refused_where_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let incast = "[workload]\nkind = \"incast\"\nsenders = 2\n";
    let cases: [(&str, &str, &[&str]); 8] = [
        ("trim = true\n", "2:8", &["trim: `on`", "neither trim nor pause"]),
        ("cc = \"smartt\"\n", "2:6", &["cc: `smartt`", "RTT_max", "--cc fixed"]),
        ("cc = \"unocc\"\n", "2:6", &["cc: `unocc`"]),
        ("[set]\nsched.dcsim.rtt_max = \"1us\"\n", "3:23", &["sched.dcsim.rtt_max: 1.000us"]),
        ("[set]\n\nswitch.sim.bucket = 13\n", "4:21", &["switch.sim.bucket: 13", "1 to"]),
        ("[set]\nswitch.program = \"pfc@tor\"\n", "3:18", &["switch.program: `pfc`"]),
        ("[set]\nswitch.kmin = 0.9\n", "3:15", &["switch.kmin: 0.9", "switch.kmax"]),
        ("[set]\npsn_window = 64\n", "3:14", &["found `psn_window=64`", "expected"]),
    ];
    for (text, place, words) in cases {
        let text = format!("transport = \"dcsim\"\n{text}{incast}");
        let path = file(dir.path(), "lie.toml", text.as_bytes());
        refused(&["run", &path, "--topo", "dcsim"], &path, place, words);
    }
    // A flag has the last word.
    let text = format!("transport = \"dcsim\"\ntrim = true\n{incast}");
    let path = file(dir.path(), "mended.toml", text.as_bytes());
    let flags = ["--topo", "dcsim", "--trim", "off", "--world", "sim"];
    assert_eq!(headrace(&[&["run", &path], &flags[..]].concat()).0, 0);
    let matrix = file(dir.path(), "ok.cm", b"Nodes 4\nConnections 1\n0->1 start 0 size 5\n");
    let set = ["--transport", "dcsim", "--set", "switch.sim.bucket=13"];
    let run = [&["run", &matrix], &set[..]].concat();
    refused(&run, "switch.sim.bucket", " found 13", &["1 to"]);
    let topology = "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 2\n\
                    Radix_Up 2\nQueue_Down 10000\nDownlink_Latency_ns 600\nTier 1\n\
                    Downlink_speed_Gbps 100\nRadix_Down 2\nDownlink_Latency_ns 600\n";
    let path = file(dir.path(), "small.topo", topology.as_bytes());
    let run = ["run", &matrix, "--topo", &path, "--transport", "dcsim"];
    refused(&run, &path, "8", &["a buffer of 10000 bytes", "two of data"]);
    // Where two queues have the size that is too small, neither is named.
    let both = topology.replace("Tier 1\n", "Tier 1\nQueue_Down 10000\n");
    let path = file(dir.path(), "both.topo", both.as_bytes());
    let run = ["run", &matrix, "--topo", &path, "--transport", "dcsim"];
    refused(&run, "switch.queue", " found a buffer of 10000 bytes", &["two of data"]);
}

#[test]
fn a_hosts_file_that_lies_is_refused_at_the_lie() {
    let dir = tempfile::tempdir().unwrap();
    let matrix = file(dir.path(), "ok.cm", b"Nodes 2\nConnections 1\n0->1 start 0 size 5\n");
    let good = "[[host]]\nname = \"a\"\naddress = \"10.0.0.1/24\"\ndevice = \"net_null0\"\n\
                control = \"127.0.0.1:4798\"\n[[host]]\nname = \"b\"\naddress = \"10.0.0.2/24\"\n\
                device = \"net_null0\"\n";
    let cases: [(&str, &str, &str, &[&str]); 7] = [
        ("name = \"b\"", "name = \"a\"", "7:8", &["host `a` has it"]),
        ("10.0.0.2/24", "10.0.0.2", "8:11", &["10.0.0.1/24"]),
        ("10.0.0.2/24", "fd00::2/64", "8:11", &["one IP version"]),
        ("device = \"net_null0\"\n", "", "1:", &["device"]),
        ("device = \"net_null0\"", "device = \"a device\"", "4:10", &["0000:3b:00.0"]),
        ("127.0.0.1:4798", "127.0.0.1:no", "5:11", &["HOST:PORT"]),
        ("address = \"10.0.0.2", "addres = \"10.0.0.2", "8:1", &["did you mean `address`"]),
    ];
    for (right, wrong, place, words) in cases {
        let path = file(dir.path(), "hosts.toml", good.replacen(right, wrong, 1).as_bytes());
        let args = ["run", &matrix, "--world", "nic", "--hosts", &path, "--host", "a"];
        refused(&args, &path, place, words);
    }
    let path = file(dir.path(), "hosts.toml", good.as_bytes());
    let nic = ["run", &matrix, "--world", "nic"];
    refused(&nic, "--hosts", "", &["--hosts HOSTS.toml --host NAME"]);
    refused(&[&nic[..], &["--hosts", &path]].concat(), "--host", "", &["--host NAME"]);
    let stranger = ["--hosts", &path, "--host", "c"];
    refused(&[&nic[..], &stranger].concat(), "--host", "", &["`c`", "a, b"]);
    refused(&["run", &matrix, "--hosts", &path], "--hosts", "", &["--world nic"]);
    // The matrix has more hosts than the file; no topology mends that.
    let larger = file(dir.path(), "larger.cm", b"Nodes 9\nConnections 1\n0->8 start 0 size 5\n");
    let nic = ["run", &larger, "--world", "nic", "--hosts", &path, "--host", "a"];
    for topology in [&[][..], &["--topo", "leaf-spine:2,2,8"]] {
        let words = ["2 hosts for a matrix of 9", "[[host]]"];
        refused(&[&nic[..], topology].concat(), &path, "", &words);
    }
}

#[test]
fn sizes_of_packets_that_a_user_gives_are_refused_on_a_real_network() {
    // Without DPDK there is no such world, and that is said first.
    if !cfg!(feature = "dpdk") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let matrix = file(dir.path(), "ok.cm", b"Nodes 2\nConnections 1\n0->1 start 0 size 5\n");
    let host = |name: &str, number: u8| {
        format!(
            "[[host]]\nname = \"{name}\"\naddress = \"10.0.0.{number}/24\"\n\
             device = \"net_null0\"\ncontrol = \"127.0.0.1:4798\"\n"
        )
    };
    let pod = [&host("a", 1), &host("b", 2), &host("s", 3), "role = \"scheduler\"\n"].concat();
    let pod = file(dir.path(), "pod.toml", pod.as_bytes());
    let nic = ["run", &matrix, "--world", "nic", "--hosts", &pod, "--host", "b"];
    // The sizes of Zeropod's preset are put back to those of frames; a user's sizes are not.
    for (transport, key) in [
        ("uno", "wire.control"),
        ("uno", "wire.data_overhead"),
        ("zeropod", "wire.control"),
        ("zeropod", "wire.data_overhead"),
    ] {
        let size = format!("{key}=41");
        let set = ["--transport", transport, "--set", &size, "--set", "nic.patience=1s"];
        let words = ["`41` by --set", "`headers`", "--world sim"];
        refused(&[&nic[..], &set].concat(), key, "", &words);
    }
}

#[test]
fn faults_of_links_that_are_not_there_are_refused_at_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let matrix = file(dir.path(), "ok.cm", b"Nodes 4\nConnections 1\n0->1 start 0 size 5\n");
    let head =
        format!("matrix = \"{matrix}\"\ntopology = \"zeropod:8\"\ntransport = \"zeropod\"\n");
    let fault = |kind: &str, link: &str| {
        format!("\n[[fault]]\nkind = \"{kind}\"\nfrom_us = 30\nlink = \"{link}\"\n")
    };
    // The second fault is the wrong one.
    let first = fault("partition", "scheduler:0:7");
    for (kind, link, words) in [
        ("kill", "scheduler:7", &["`kill@scheduler:7,from_us=30`", "the only one is 0"][..]),
        ("kill", "backup:0", &["backup 0", "none", "zeropod-ha:K"]),
        ("partition", "scheduler:0:99", &["99", "0 to 7", "name one that is there"]),
        ("down", "core:0", &["core switch 0", "none"]),
        ("restart", "host:99", &["host:99", "0 to 15"]),
        ("reorder", "all", &["`reorder", "all after the same time"]),
    ] {
        let rate = if kind == "reorder" { "rate = 0.1\ndelay_us = 5\n" } else { "" };
        let text = format!("{head}{first}{}{rate}", fault(kind, link));
        let path = file(dir.path(), "fault.toml", text.as_bytes());
        refused(&["run", &path], &path, "13:8", words);
    }
    // Without a line the setting is the place.
    let run = ["run", &matrix, "--topo", "zeropod:8", "--transport", "zeropod"];
    let set = ["--set", "fault=kill@backup:0"];
    refused(&[&run[..], &set].concat(), "fault", "", &["backup 0", "zeropod-ha:K"]);
}

#[test]
fn parts_of_a_matrix_that_a_network_lacks_are_refused_at_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let text = "Nodes 17\nConnections 1\nFailures 2\n0->1 start 0 size 5\n\
                failure switch_type TOR switch_id 0 link_id 0\n\n\
                failure switch_type AGG switch_id 9 link_id 0\n";
    let path = file(dir.path(), "fail.cm", text.as_bytes());
    let small = ["run", &path, "--topo", "leaf-spine:4,4,4"];
    refused(&small, &path, "1: ", &["found 17 hosts", "at most 16", "--topo"]);
    let large = ["run", &path, "--topo", "leaf-spine:8,4,4"];
    let words = ["a failure of AGG 9 link 0", "they go from 0 to 3", "switch_id"];
    refused(&large, &path, "7: ", &words);
    let scenario = format!("matrix = \"{path}\"\ntopology = \"leaf-spine:8,4,4\"\n");
    let scenario = file(dir.path(), "fail.toml", scenario.as_bytes());
    refused(&["run", &scenario], &path, "7: ", &words);
    // Generated hosts are counted in the scenario.
    let text = "topology = \"leaf-spine:4,4,4\"\n[workload]\nkind = \"incast\"\nnodes = 17\n";
    let path = file(dir.path(), "nodes.toml", text.as_bytes());
    refused(&["run", &path], &path, "4:9", &["found 17 hosts", "at most 16"]);
}

/// Two pods of 2 x 2 hosts with a scheduler each, joined by two Cores.
const PODS: &str = "Nodes 8\nTiers 3\nPodsize 4\nSchedulers 1\nCores 2\n\
    Tier 0\nDownlink_speed_Gbps 100\nRadix_Down 2\nRadix_Up 2\nDownlink_Latency_ns 1000\n\
    Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 2\nRadix_Up 1\nDownlink_Latency_ns 1000\n\
    Tier 2\nDownlink_speed_Gbps 100\nRadix_Down 2\nDownlink_Latency_ns 1000\n";

#[test]
fn numbers_of_a_topology_that_zeropod_cannot_use_are_refused_at_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let matrix = file(dir.path(), "ok.cm", b"Nodes 4\nConnections 1\n0->1 start 0 size 5\n");
    let good = file(dir.path(), "good.topo", PODS.as_bytes());
    let run = |path: &str| {
        let owned = ["run", &matrix, "--transport", "zeropod", "--world", "sim", "--topo", path];
        owned.map(str::to_owned)
    };
    let args = run(&good);
    assert_eq!(
        headrace(&args.each_ref().map(String::as_str)).0,
        0,
        "{}",
        headrace(&args.each_ref().map(String::as_str)).2
    );
    let tier = |number: u32, key: &str, to: &str| {
        let (before, rest) = PODS.split_once(&format!("Tier {number}\n")).unwrap();
        let (_, tail) = rest.split_once(key).unwrap();
        let tail = tail.split_once('\n').unwrap().1;
        let head = &rest[..rest.find(key).unwrap()];
        format!("{before}Tier {number}\n{head}{to}\n{tail}")
    };
    let cases = [
        (tier(1, "Downlink_speed", "Downlink_speed_Gbps 200"), "12: ", "200 Gb/s in tier 1"),
        (tier(2, "Downlink_Lat", "Downlink_Latency_ns 7"), "19: ", "7 ns in tier 2"),
        (
            tier(2, "Downlink_Lat", "Downlink_Latency_ns 1000\nSwitch_Latency_ns 9"),
            "20: ",
            "9 ns of a switch in tier 2",
        ),
        (PODS.replace("Schedulers 1", "Schedulers 0"), "4: ", "no scheduler"),
        (PODS.replace("Schedulers 1\n", ""), " found", "no scheduler"),
    ];
    for (text, place, words) in cases {
        let path = file(dir.path(), "bad.topo", text.as_bytes());
        let args = run(&path);
        refused(&args.each_ref().map(String::as_str), &path, place, &[words, "zeropod:"]);
    }
    let text =
        format!("matrix = \"{matrix}\"\ntransport = \"zeropod\"\ntopology = \"ft128-1os\"\n");
    let path = file(dir.path(), "pods.toml", text.as_bytes());
    refused(&["run", &path], &path, "3:12", &["no scheduler"]);
}

#[test]
fn a_wrong_entry_of_a_list_is_what_the_message_is_about() {
    let dir = tempfile::tempdir().unwrap();
    let matrix = file(dir.path(), "ok.cm", b"Nodes 4\nConnections 1\n0->1 start 0 size 5\n");
    let run = ["run", &matrix, "--transport", "mlcc", "--topo", "two-dc-leaf"];
    for (value, place, words) in [
        ("dci@border,pfc@tor,pfc@spine", "--set", ["`pfc@spine`", "tor, agg, core or border"]),
        ("dci@border,pfc@border", "switch.program", ["dci@border runs nowhere", "leave it out"]),
    ] {
        let set = format!("switch.program={value}");
        refused(&[&run[..], &["--set", &set]].concat(), place, "", &words);
    }
    refused(
        &[&run[..], &["--set", "switch.dci.buffer=1"]].concat(),
        "switch.dci.buffer",
        "",
        &["found 1 bytes", "holds one packet"],
    );
    let run = ["run", &matrix, "--transport", "timely", "--topo", "two-dc-leaf"];
    for (set, words) in [
        ("cc.timely.t_low=1ms", ["found 1000.000us", "below cc.timely.t_high"]),
        ("cc.timely.t_high=1us", ["found 1.000us", "above cc.timely.t_low"]),
    ] {
        let (key, _) = set.split_once('=').unwrap();
        refused(&[&run[..], &["--set", set]].concat(), key, "", &words);
    }
    let far = ["run", &matrix, "--topo", "two-dc-leaf:1s"];
    refused(&far, "--topo", "", &["a round trip of 2000.", "latencies", "two-dc-leaf:900ms"]);
    let near = ["run", &matrix, "--world", "sim", "--topo", "two-dc-leaf:900ms"];
    assert_eq!(headrace(&near).0, 0);
}

#[test]
fn round_trips_that_make_no_time_are_refused_under_their_own_name() {
    let dir = tempfile::tempdir().unwrap();
    let matrix = file(dir.path(), "ok.cm", b"Nodes 4\nConnections 1\n0->1 start 0 size 5\n");
    let set = ["--set", "rc.mlcc.theta_rtts=0.0000001"];
    let mlcc = ["run", &matrix, "--transport", "mlcc", "--topo", "two-dc-leaf"];
    let words = ["0.0000001 of RTT_C", "a count by which theta is", "1us..=10s"];
    refused(&[&mlcc[..], &set].concat(), "rc.mlcc.theta_rtts", "", &words);
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let matrix = file(dir.path(), "ok.cm", b"Nodes 4\nConnections 1\n0->1 start 0 size 5\n");
    let path = file(dir.path(), "bytes.cm", b"Nodes 4\nConnections 1\n0->1 start 0 si\xff\xfe 5\n");
    refused(&["run", &path], &path, "3", &[]);
    let path = file(dir.path(), "bytes.topo", b"Nodes 4\n\xc3\x28 2\n");
    refused(&["run", &matrix, "--topo", &path], &path, "2", &[]);
    let path = file(dir.path(), "bytes.toml", b"seed = 1\ncc = \"\xff\"\n");
    refused(&["run", &path], &path, "2", &[]);
}

#[test]
fn odd_but_honest_files_are_accepted() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("crlf.cm", "Nodes 4\r\nConnections 1\r\n0->1 start 0 size 5\r\n"),
        ("end.cm", "Nodes 4\nConnections 1\n0->1 start 0 size 5"),
        ("space.cm", "\n  Nodes\t4\nConnections 1\n\n 0->1   start 0\tsize 5  \n\n"),
        ("fraction.cm", "Nodes 4\nConnections 1\n0->1 start 1.5 size 5\n"),
    ] {
        let path = file(dir.path(), name, text.as_bytes());
        let (code, out, err) = headrace(&["run", &path, "--world", "sim", "--json"]);
        assert_eq!(code, 0, "{name}: {err}");
        let summary: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(summary["flows"]["finished"], 1, "{name}");
    }
}

#[test]
fn compressed_files_are_read_and_their_errors_have_a_line() {
    let gzip = |text: &str| {
        let mut writer = GzEncoder::new(Vec::new(), Compression::fast());
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().unwrap()
    };
    let dir = tempfile::tempdir().unwrap();
    let matrix = |size: &str| format!("Nodes 4\nConnections 1\n0->1 start 0 size {size}\n");
    let path = file(dir.path(), "small.cm.gz", &gzip(&matrix("5")));
    let (code, out, err) = headrace(&["run", &path, "--world", "sim", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["bytes"]["delivered"], 5);
    let wrong = file(dir.path(), "wrong.cm.gz", &gzip(&matrix("many")));
    let whole = gzip(&matrix("5"));
    let cut = file(dir.path(), "cut.cm.gz", &whole[..whole.len() - 9]);
    for (path, words) in [(&wrong, "wrong.cm.gz:3:"), (&cut, "cut.cm.gz: found an unreadable")] {
        let (code, out, err) = headrace(&["run", path]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(words), "{err}");
    }
}

#[test]
fn a_setting_out_of_its_range_is_refused_with_its_value_and_where_it_is_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "small.cm", b"Nodes 4\nConnections 1\n0->1 start 0 size 5\n");
    for (setting, expected) in [
        ("ack_every=100", "1..=64"),
        ("loss.backoff_max=20", "0..=16"),
        ("msg_window=5000", "1..=1024"),
        ("msg_window=64,5000", "1..=1024"),
    ] {
        let (code, out, err) = headrace(&["run", &path, "--set", setting]);
        let value = setting.replace("64,", "");
        let words = format!("--set: found `{value}`, expected {expected}");
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(&words) && err.contains("headrace list settings"), "{err}");
    }
}

/// A run of `transport` with `flags` over two sites ends before it begins: exit code 2, and a
/// message with each of `words`.
fn mlcc_refused(transport: &str, flags: &[&str], words: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let text = "Nodes 256\nConnections 2\n0->128 start 0 size 5000\n128->1 start 0 size 5000\n";
    let path = file(dir.path(), "across.cm", text.as_bytes());
    let run = ["run", &path, "--transport", transport];
    let topology = ["--topo", "two-dc-leaf"];
    let topology = if flags.contains(&topology[0]) { &[][..] } else { &topology };
    let (code, out, err) = headrace(&[&run[..], topology, flags].concat());
    let case = format!("{transport} {flags:?}\n{err}");
    assert_eq!((code, out.as_str()), (2, ""), "{case}");
    assert!(err.contains("found") && err.contains("expected"), "{case}");
    for source in ["::", "Duration", "ParamError"] {
        assert!(!err.contains(source), "the source's words: {case}");
    }
    for word in words {
        assert!(err.contains(word), "no `{word}` in {case}");
    }
}

#[test]
fn settings_of_mlcc_are_refused_under_the_name_they_were_given() {
    for (set, words) in [
        ("cc.mlcc.theta=1ns", ["`cc.mlcc.theta=1ns`", "in 1us..=10s", "default is 3 of RTT_C"]),
        ("rc.mlcc.theta=1ns", ["`rc.mlcc.theta=1ns`", "in 1us..=10s", "by rc.mlcc.theta_rtts of"]),
        (
            "cc.mlcc.theta=abc",
            ["`cc.mlcc.theta=abc`", "a time of whole ns (600ns,", "is 3 of RTT_C"],
        ),
        ("cc.mlcc.dt=0", ["`cc.mlcc.dt=0`", "in 1ns..=1s", "default is 0.1666667 of RTT_C"]),
        ("cc.mlcc.dt=2s", ["`cc.mlcc.dt=2s`", "in 1ns..=1s", "by cc.mlcc.dt_rtts of"]),
        ("cc.mlcc.alpha=0", ["`cc.mlcc.alpha=0`", "in 0.01..=1", "its default is 0.5"]),
        ("cc.mlcc.alpha=nan", ["`cc.mlcc.alpha=nan`", "in 0.01..=1", "its default is 0.5"]),
        ("cc.mlcc.m=6", ["`cc.mlcc.m=6`", "in 1..=5", "its default is 5"]),
        ("cc.mlcc.m=x", ["`cc.mlcc.m=x`", "in 1..=5", "its default is 5"]),
        ("cc.mlcc.near=maybe", ["`cc.mlcc.near=maybe`", "on or off", "its default is on"]),
        ("cc.mlcc.initial=half", ["`cc.mlcc.initial=half`", "line or equal", "is equal"]),
        ("cc.mlcc.below=x", ["`cc.mlcc.below=x`", "credit, eq5 or stale", "is eq5 with the"]),
        ("cc.mlcc.clock=-1", ["`cc.mlcc.clock=-1`", "in 0..=1000", "its default is 2"]),
        ("cc.mlcc.feedback_gap=2s", ["`cc.mlcc.feedback_gap=2s`", "in 0ns..=1s", "is 6us"]),
        ("dci.queues=0", ["`dci.queues=0`", "in 1..=1048576", "its default is 4096"]),
        ("switch.int_room=99", ["--set", "`switch.int_room=99`", "0..=8 hops"]),
        ("cc.mlcc.tetha=18ms", ["`cc.mlcc.tetha`", "did you mean", "`cc.mlcc.theta`"]),
        (
            "cc.mlcc.theta=1ms",
            ["cc.mlcc.theta: found 1000", "cc.mlcc.dt_rtts, 0.16", "theta_rtts=3"],
        ),
        (
            "rc.mlcc.dt=20ms",
            ["rc.mlcc.dt: found 20000", "shorter than cc.mlcc.theta_rtts, 3 of", "theta_rtts=3"],
        ),
    ] {
        mlcc_refused("mlcc", &["--set", set], &words);
    }
    // The profiles of the paper have times of their own.
    mlcc_refused("mlcc-paper", &["--set", "cc.mlcc.dt=0"], &["its default is 1ms"]);
    mlcc_refused("mlcc-paper", &["--set", "cc.mlcc.theta=0"], &["its default is 18ms"]);
}

#[test]
fn what_mlcc_and_controllers_that_read_telemetry_cannot_use_is_refused_with_a_mend() {
    fn set(flag: &str) -> [&str; 2] {
        ["--set", flag]
    }
    let signal = "--set cc.mlcc.signal=off";
    mlcc_refused("mlcc", &set("switch.program=none"), &["switch.program", "dci@border", signal]);
    mlcc_refused("mlcc", &["--topo", "leaf-spine:16,16,16"], &["--topo", "two-dc-leaf", signal]);
    for (transport, room, longest) in [("hpcc", 5, 6), ("powertcp", 5, 6), ("mlcc", 3, 4)] {
        let (room, most) = (format!("switch.int_room={room}"), format!("int_room={longest}"));
        mlcc_refused(transport, &set(&room), &["switch.int_room", "longest path", &most]);
    }
    for (transport, lb, mend) in
        [("hpcc", "spray", "--lb ecmp"), ("powertcp", "reps", "--lb ecmp"), ("mlcc", "spray", "lb")]
    {
        mlcc_refused(transport, &["--lb", lb], &[lb, "compares hops", mend]);
    }
    mlcc_refused("mlcc", &set("far.lb=reps"), &["far.lb", "compares hops", "far.lb=ecmp"]);
    mlcc_refused("mlcc", &set("mtu=60"), &["`mtu=60`", "64..=8960 bytes"]);
    let lossless = ["--set", "switch.program=pfc@all", "--set", "switch.border_queue=10MB"];
    let words = ["switch.border_queue: found", "lossless", "--set switch.border_queue=750"];
    mlcc_refused("hpcc", &lossless, &words);
    // Sizes that the preset chose yield to those of real frames; those of the user are refused.
    for transport in ["mlcc-paper", "mlcc-literal"] {
        let real = ["--world", "vdev", "--set", "wire.control=90"];
        mlcc_refused(transport, &real, &["wire.control", "`90` by --set", "--world sim"]);
    }
}

#[test]
fn a_long_matrix_runs_in_bounded_time_and_memory() {
    const LINES: u32 = 100_000;
    let dir = tempfile::tempdir().unwrap();
    let mut text = format!("Nodes 16\nConnections {LINES}\n");
    for line in 0..LINES {
        let (src, hop) = (line % 16, line / 16 % 15 + 1);
        let start = line / 16;
        writeln!(text, "{src}->{} start {start} size 64", (src + hop) % 16).unwrap();
    }
    let path = dir.path().join("long.cm");
    fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    let (code, out, err) = headrace(&["run", path.to_str().unwrap(), "--world", "sim", "--json"]);
    assert_eq!(code, 0, "{err}");
    let summary: Value = serde_json::from_str(&out).unwrap();
    println!("{LINES} lines: {} s, {} bytes", summary["wall_s"], summary["peak_rss_bytes"]);
    assert_eq!(summary["flows"]["finished"], LINES);
    assert!(summary["wall_s"].as_f64().unwrap() < 60.0, "{}", summary["wall_s"]);
    assert!(summary["peak_rss_bytes"].as_u64().unwrap() < 4 << 30, "{summary}");
}

#[test]
#[cfg(feature = "dpdk")]
fn a_border_switch_with_two_links_names_the_flag_of_a_run_that_has_some() {
    let flags = ["--lan", "net_null0", "--wan", "net_null1", "--wan", "net_null2"];
    let rest = ["--hosts", "none.toml", "--site", "east"];
    let refused = program::headrace(&[&["dci"], &flags[..], &rest[..]].concat());
    assert_eq!(refused.code, 2, "{refused:?}");
    let said: Vec<_> = refused.err.split_whitespace().collect();
    let command = said.windows(3).find(|words| words[0] == "(headrace").expect("a command");
    assert_eq!(command[1], "run", "{refused:?}");
    let run = program::headrace(&["run", "none.cm", command[2], "two-dc-leaf:1ms,100,1,8,2"]);
    assert!(run.err.contains("none.cm") && !run.err.contains("argument"), "{run:?}");
}
