//! The cases of `processes`: devices, refusals, signals, faults.

mod crashes;
mod dci;
mod netns;
mod sweeps;
mod turned_away;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use transport::Rng;

use netns::Pair;
use system_tests::process::{Ended, Running};

pub(crate) use system_tests::cases::Verdict;

/// A name and what runs under it.
type Case = (&'static str, fn() -> Verdict);

/// Every case.
pub(crate) const CASES: &[Case] = &[
    ("every_byte_arrives_over_memif_in_both_directions_and_comes_back", memif),
    ("sessions_of_schedulers_that_ask_first_begin_and_end", schedulers),
    ("ctrl_c_ends_a_ping_between_two_round_trips", ping_interrupted),
    ("terms_that_cannot_be_are_refused_with_a_reason", refused),
    ("another_udp_port_carries_all_and_a_peer_at_a_different_one_is_reported", udp_port),
    ("border_switches_carry_every_byte_between_two_sites", dci::carried),
    ("a_border_switch_that_is_killed_and_started_again_loses_no_byte", dci::killed),
    ("a_device_that_is_never_answered_keeps_no_other_of_a_border_switch_waiting", dci::unanswered),
    ("border_switches_refuse_devices_and_hosts_that_cannot_be", dci::refused),
    (
        "clients_that_come_during_a_session_are_refused_and_served_after_it",
        turned_away::during_a_session,
    ),
    ("ctrl_c_on_either_side_ends_both_and_their_books_balance", interrupted),
    ("one_signal_ends_a_measurement_that_has_nothing_to_keep", measurement_ended),
    ("killed_processes_leave_nothing_behind_and_their_successors_work", killed),
    ("what_is_short_is_counted_by_name_and_nothing_is_lost", shortages),
    ("macs_that_are_not_given_are_asked_for_over_both_versions_of_ip", resolved),
    ("segments_grow_to_what_both_netdevs_carry_over_af_packet", af_packet),
    ("an_interface_is_promiscuous_only_while_a_process_has_it", promiscuous),
    ("af_xdp_carries_what_fits_its_frames", af_xdp),
    ("tap_devices_meet_over_bridges", tap),
    ("the_doctor_opens_a_device_alone_and_lists_what_device_and_software_do", doctor),
    ("a_link_that_goes_down_and_comes_up_again_loses_nothing", link_down),
    ("a_process_that_stands_still_loses_nothing", crashes::stalled),
    ("a_link_that_flaps_loses_nothing", crashes::flaps),
    ("frames_that_wait_while_an_interface_is_down_leave_once_it_is_up", crashes::kept_frames),
    ("a_full_disk_is_named_and_what_was_written_stays", crashes::full_disk),
    ("too_little_memory_is_said_before_it_is_used_up", crashes::little_memory),
    ("a_reader_that_stops_costs_no_message", crashes::readers),
    ("the_sockets_of_a_killed_process_are_no_obstacle", crashes::left_over),
    ("a_sweep_in_real_time_says_how_far_its_runs_are", sweeps::progress),
];

/// A server and what its clients are to be started with.
struct Stage {
    server: Running,
    device: String,
    netns: Option<String>,
}

impl Stage {
    /// Over memif, at a socket in `dir`.
    fn memif(dir: &Path, server: &[&str]) -> Self {
        let socket = dir.join("memif.sock");
        let device = format!("net_memif0,socket={}", socket.display());
        Self::new([None, None], [&device, &device], server)
    }

    fn new(netns: [Option<&str>; 2], devices: [&str; 2], more: &[&str]) -> Self {
        let args = [&["perf", "server", "--device", devices[0]], more].concat();
        let mut server = Running::start(netns[0], &args);
        server.on_event("queue(s) of");
        Self { server, device: devices[1].to_owned(), netns: netns[1].map(str::to_owned) }
    }

    fn client(&self, what: &str, more: &[&str]) -> Running {
        let args = [&[what, "client", "--json", "--device", &self.device], more].concat();
        Running::start(self.netns.as_deref(), &args)
    }

    fn run(&self, what: &str, more: &[&str]) -> Ended {
        self.client(what, more).wait()
    }

    /// Ends the server, which must report success.
    fn end(self) -> Ended {
        self.server.signal("INT");
        let ended = self.server.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended
    }
}

fn memif() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let stage = Stage::memif(dir.path(), &[]);
    for (more, up, down) in [
        (&["--bytes", "32MiB"][..], 32 << 20, None),
        (
            &["--bytes", "8MiB", "--bidir", "--flows", "4", "--udp-sum", "on"],
            8 << 20,
            Some(8 << 20),
        ),
    ] {
        let result = stage.run("perf", &[&["--verify"], more].concat()).result();
        assert_eq!(result["to_server"]["bytes"], up, "{result:#}");
        assert_eq!(result["from_server"]["bytes"].as_u64(), down, "{result:#}");
        assert_eq!(result["segment_bytes"], 8960);
        let sent = result["intervals"].as_array().unwrap().iter();
        let sent = sent.map(|line| line["sent_bytes"].as_u64().unwrap()).sum::<u64>();
        assert_eq!(result["to_server"]["bytes"], sent, "intervals add up to all: {result:#}");
    }
    let reverse = ["--reverse", "--time", "0.5", "--cc", "swift", "--set", "ack_every=4"];
    let result = stage.run("perf", &[&reverse[..], &["-i", "0.1"]].concat()).result();
    assert!(result["from_server"]["bytes"].as_u64() > Some(0) && result["to_server"].is_null());
    assert_eq!(result["cc"], "swift");
    assert_vitals(&result);
    let none = ["--bytes", "1MiB", "--interval", "0"];
    let result = stage.run("perf", &none).result();
    assert!(result["intervals"] == serde_json::json!([]), "{result:#}");
    assert!(result["here"]["rtt_us"].is_null() && result["here"]["segments"].as_u64() > Some(0));
    let result = stage.run("ping", &["--count", "500", "--size", "1000", "--verify"]).result();
    assert_eq!(result["round_trip_us"]["count"], 500);
    assert!(result["round_trip_us"]["min"].as_f64() > Some(0.0), "{result:#}");
    // 550 answers, and notes: nothing of the sessions before.
    let answers = result["server_counters"]["data_new"].as_u64().unwrap();
    assert!((550..1000).contains(&answers), "{result:#}");
    let ended = stage.end();
    assert!(ended.out.contains("5 sessions, 0 broken"), "{}", ended.out);
    Verdict::Passed
}

/// The server's endpoint of such a session sends nothing before the client's own answers it, and
/// the client waits for the server's welcome before it has one.
fn schedulers() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let stage = Stage::memif(dir.path(), &[]);
    let transports = ["dcsim", "dcsim-fast", "phost", "dcpim", "eqds"];
    for transport in transports {
        let bytes = ["--transport", transport, "--bytes", "300KiB", "--bidir", "--verify"];
        let result = stage.run("perf", &bytes).result();
        assert!(result["from_server"]["bytes"].as_u64() > Some(0), "{transport}: {result:#}");
        let result = stage.run("ping", &["--transport", transport, "--count", "5"]).result();
        assert_eq!(result["round_trip_us"]["count"], 5, "{transport}");
    }
    // A path over the moon and back.
    let far = ["--rtt", "2s", "--bytes", "1KiB", "--patience", "60"];
    drop(stage.run("perf", &far).result());
    let ended = stage.end();
    let sessions = format!("{} sessions, 0 broken", 2 * transports.len() + 1);
    assert!(ended.out.contains(&sessions), "{}", ended.out);
    Verdict::Passed
}

fn ping_interrupted() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let stage = Stage::memif(dir.path(), &[]);
    let mut client = stage.client("ping", &["--count", "9", "--interval", "60s"]);
    client.on_event("session with");
    client.signal("INT");
    let ended = client.wait();
    assert!(ended.out.contains("\"round_trip_us\""), "{ended:?}");
    assert!(stage.end().out.contains("1 sessions, 0 broken"));
    Verdict::Passed
}

/// A session of half a second in which the server sent: what both ends have seen, by intervals of
/// 0.1 s, which add up to no more than the whole.
fn assert_vitals(result: &Value) {
    let cpu = ["here", "there"].map(|end| result[end]["cpu_percent"].as_f64().unwrap());
    assert!(cpu.iter().all(|cpu| (0.1..1000.0).contains(cpu)), "{result:#}");
    let there = &result["there"];
    let [p50, p99, max] = ["p50", "p99", "max"].map(|key| there["rtt_us"][key].as_f64().unwrap());
    assert!(p50 > 0.0 && p50 <= p99 && p99 <= max, "{result:#}");
    let segments = there["segments"].as_u64().unwrap();
    assert!(there["rtt_us"]["count"].as_u64().unwrap() <= segments + 1000, "{result:#}");
    // Swift may go below a segment where delays are long.
    assert!(there["cwnd_bytes"].as_u64() > Some(0), "{result:#}");
    let intervals = result["intervals"].as_array().unwrap();
    let last = intervals.last().unwrap()["until_s"].as_f64();
    assert!(last >= Some(0.1) && last <= result["seconds"].as_f64(), "{result:#}");
    let whole = &intervals[..intervals.len() - 1];
    assert!(whole.iter().all(|line| line["seconds"].as_f64() >= Some(0.1)), "{result:#}");
    let sum = intervals.iter().map(|line| line["received_bytes"].as_u64().unwrap()).sum::<u64>();
    let all = result["from_server"]["bytes"].as_u64().unwrap();
    assert!(sum > 0 && sum <= all, "{result:#}");
}

fn refused() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let stage = Stage::memif(dir.path(), &["--memory", "8MiB"]);
    let ended = stage.run("perf", &["--size", "4MiB", "--bytes", "4MiB"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("--memory"), "{}", ended.err);
    for (more, word) in [
        (["--cc", "smrtt"], "smartt"),
        (["--set", "mtu=7"], "mtu=7"),
        (["--set", "mtu"], "KEY=VALUE"),
        (["--at", "0=1.2.3.4"], "host 1, this one, is missing"),
        (["--device", "a/b"], "PCI address"),
    ] {
        let args = [&["perf", "client", "--device", "net_memif0"][..], &more].concat();
        let args =
            if more[0] == "--device" { [&["perf", "client"][..], &more].concat() } else { args };
        let ended = Running::alone(&args).wait();
        assert_eq!(ended.code, Some(2), "{more:?}: {ended:?}");
        assert!(ended.err.contains(word), "{more:?}: {}", ended.err);
    }
    let alone = ["perf", "client", "--device", "net_memif0,socket=/nowhere/x", "--wait", "1"];
    let ended = Running::alone(&alone).wait();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("start the other side"), "{}", ended.err);
    stage.end();
    Verdict::Passed
}

/// Both sides report a wrong port; the server goes on, and counts the packets by name.
fn udp_port() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = Stage::memif(dir.path(), &["--udp-port", "5000", "--json"]);
    let result = stage.run("ping", &["--count", "10", "--udp-port", "5000"]).result();
    assert_eq!(result["round_trip_us"]["count"], 10);
    let lost = stage.run("ping", &["--count", "10", "--wait", "1"]);
    assert_eq!((lost.code, lost.out.as_str()), (Some(1), ""), "{lost:?}");
    assert!(lost.err.contains("at host 0, UDP port 4797, within 1 s"), "{}", lost.err);
    assert!(lost.err.contains("--udp-port and --security on both sides"), "{}", lost.err);
    stage.server.on_event("UDP packets come to another port than 5000");
    let again = stage.run("perf", &["--bytes", "1MiB", "--verify", "--udp-port", "5000"]);
    assert_eq!(again.result()["to_server"]["bytes"], 1 << 20);
    let served: Value = serde_json::from_str(&stage.end().out).unwrap();
    assert!(served["counters"]["other_port"].as_u64() > Some(0), "{served:#}");
    Verdict::Passed
}

/// No connection is made to the process whose socket the device names.
fn doctor() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let stage = Stage::memif(dir.path(), &[]);
    let device = format!("{},role=client", stage.device);
    let ask = |device: &str| {
        let args = ["doctor", "--json", "--device", device, "--queues", "2"];
        let ended = Running::alone(&args).wait();
        let diagnosis: Value = serde_json::from_str(&ended.out).unwrap_or(Value::Null);
        let of_device = |finding: &&Value| finding["id"].as_str().unwrap().starts_with("device.w");
        let found = diagnosis["findings"].as_array().cloned().unwrap_or_default();
        let line = found.iter().find(|finding| finding["id"] == "device").cloned();
        let without: Vec<String> =
            found.iter().filter(of_device).map(|finding| finding["what"].to_string()).collect();
        (ended, line, without)
    };
    let (ended, line, without) = ask(&device);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = line.unwrap()["what"].as_str().unwrap().to_owned();
    assert!(line.starts_with(&format!("{device}: net_memif: 2 queue(s) of 512/512")), "{line}");
    assert!(line.contains("steering by handing over from the first queue"), "{line}");
    for what in ["no UDP checksums by the device", "one worker receives for all"] {
        assert!(without.iter().any(|lost| lost.contains(what)), "{what}: {without:?}");
    }
    // This one has a hash and sends no chains.
    let (ended, line, without) = ask("net_null0");
    assert!(ended.code == Some(0) && line.is_some(), "{ended:?}");
    assert!(without.iter().all(|lost| !lost.contains("one worker receives")), "{without:?}");
    assert!(without.iter().any(|lost| lost.contains("no chains sent")), "{without:?}");
    let (ended, line, _) = ask("net_nosuchdriver0");
    assert!(ended.code == Some(3) && line.is_none(), "{ended:?}");
    assert!(ended.err.contains("--device net_nosuchdriver0: "), "{ended:?}");
    let (ended, ..) = ask("a/b");
    assert!(ended.code == Some(2) && ended.out.is_empty(), "{ended:?}");
    let (ended, line, _) = ask(&stage.device);
    assert!(ended.code == Some(0) && line.is_some(), "the socket is taken, and not asked for");
    let ended = stage.end();
    assert!(!ended.err.contains("link"), "it has called on the server: {}", ended.err);
    Verdict::Passed
}

fn interrupted() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let stage = Stage::memif(dir.path(), &[]);
    let mut client = stage.client("perf", &["--time", "60", "--bidir", "--verify"]);
    client.on_event(" 1.");
    client.signal("INT");
    let result = client.wait().result();
    assert_eq!(result["stopped"], true);
    assert!(result["to_server"]["bytes"].as_u64() > Some(0), "{result:#}");
    let mut client = stage.client("perf", &["--time", "60"]);
    client.on_event(" 1.");
    stage.end();
    let ended = client.wait();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("the server ended the session"), "{}", ended.err);
    Verdict::Passed
}

fn measurement_ended() -> Verdict {
    for name in ["TERM", "INT"] {
        let args = ["bench", "messages", "--count", "1000000000", "--trips", "0"];
        let mut bench = Running::alone(&args);
        bench.on_work();
        bench.signal(name);
        let ended = bench.wait();
        assert_eq!(ended.code, Some(130), "{ended:?}");
    }
    Verdict::Passed
}

/// Clients and servers are killed at moments drawn from a seed, in the middle of their work.
fn killed() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(7).fork("kill", 0);
    let mut pids = Vec::new();
    let mut stage = Stage::memif(dir.path(), &[]);
    for round in 0..crashes::rounds(4) {
        let mut client = stage.client("perf", &["--time", "60", "--bidir", "--patience", "1"]);
        pids.push(client.id());
        // In some rounds while it starts.
        if round > 0 {
            client.on_event("session with");
        }
        sleep(Duration::from_millis(rng.below(400)));
        if round % 2 == 0 {
            client.signal("KILL");
            assert_eq!(client.wait().code, Some(-9));
        } else {
            pids.push(stage.server.id());
            stage.server.signal("KILL");
            // A server that takes its place during the session has no state of it.
            let successor = (round % 4 == 3).then(|| Stage::memif(dir.path(), &[]));
            let ended = client.wait();
            assert_eq!(ended.code, Some(1), "{ended:?}");
            let said = ["nothing was received", "counted: ", "data_new "];
            assert!(said.iter().all(|words| ended.err.contains(words)), "{}", ended.err);
            stage = successor.unwrap_or_else(|| Stage::memif(dir.path(), &[]));
        }
        let result = stage.run("perf", &["--bytes", "2MiB", "--bidir", "--verify"]).result();
        assert_eq!(result["from_server"]["bytes"], 2 << 20, "round {round}: {result:#}");
    }
    pids.push(stage.server.id());
    stage.end();
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    for (pid, place) in pids.iter().flat_map(|pid| {
        ["/var/run/dpdk", "/tmp/dpdk", "/dev/hugepages"].map(|place| (pid, Path::new(place)))
    }) {
        let names = std::fs::read_dir(place).into_iter().flatten().filter_map(Result::ok);
        let prefix = format!("headrace-{pid}");
        let left: Vec<_> = names
            .map(|entry| entry.file_name())
            .filter(|name| name.to_string_lossy().starts_with(&prefix))
            .collect();
        assert!(left.is_empty(), "{}: {left:?}", place.display());
    }
    Verdict::Passed
}

fn shortages() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let stage = Stage::memif(dir.path(), &[]);
    let bytes = ["--verify", "--bytes"];
    // An application that takes a message every 200 us, and 512 of them under way.
    let slow = ["1MiB", "--size", "512", "--depth", "512", "--think", "200us"];
    let ended = stage.run("perf", &[&bytes[..], &slow].concat());
    let waited = ended.counter("server_counters", "completions_waited");
    assert!(waited > 0, "{}", ended.out);
    // In some sessions the window stays below what is short.
    let is_short = |set: [&str; 2], counter: &str| {
        let more = ["16MiB", "--rtt", "1ms", "--depth", "64"];
        let is_short = (0..12).any(|_| {
            let ended = stage.run("perf", &[&bytes[..], &more, &set].concat());
            assert_eq!(ended.result()["to_server"]["bytes"], 16 << 20, "{}", ended.out);
            ended.counter("counters", counter) > 0
        });
        assert!(is_short, "{counter} is in no session of twelve");
    };
    // Segments wait for buffers that come back, and for a queue of 64 frames.
    is_short(["--buffers", "16"], "starved");
    is_short(["--ring", "64"], "device_full");
    stage.end();
    Verdict::Passed
}

/// A stage over two namespaces, or why there is none.
fn across(pair: &Pair, devices: [&str; 2]) -> Stage {
    let netns = [Some(pair.names[0].as_str()), Some(pair.names[1].as_str())];
    Stage::new(netns, devices, &[])
}

/// Addresses without MACs, and which hosts are distinguished by them.
fn resolved() -> Verdict {
    let hosts = |a, b| {
        let port = ["--udp-port", "5003"].map(str::to_owned);
        let [a, b] = [format!("0={a}"), format!("1={b}")];
        ["--at".to_owned(), a, "--at".to_owned(), b].into_iter().chain(port).collect::<Vec<_>>()
    };
    let (v4, v6) = (hosts("192.0.2.1", "192.0.2.2"), hosts("fd00::1", "fd00::2"));
    let dir = tempfile::tempdir().unwrap();
    for at in [&v4, &v6] {
        let at: Vec<&str> = at.iter().map(String::as_str).collect();
        let stage = Stage::memif(dir.path(), &at);
        let more = ["--bytes", "4MiB", "--bidir", "--verify"];
        let result = stage.run("perf", &[&more[..], &at].concat()).result();
        assert_eq!(result["from_server"]["bytes"], 4 << 20);
        if at[1].contains(':') {
            stage.end();
            continue;
        }
        // No host has this address.
        let wrong = [at[0], "0=198.51.100.9", at[2], "1=198.51.100.2", "--wait", "1"];
        let ended = stage.run("ping", &wrong);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("198.51.100.9) does not say its MAC"), "{}", ended.err);
        let elsewhere = stage.run("ping", &[&at[..4], &["--wait", "1"]].concat());
        assert!(elsewhere.err.contains("no server answered"), "{}", elsewhere.err);
        stage.end();
    }
    let pair = match Pair::new("asked", 9000) {
        Ok(pair) => pair,
        Err(reason) => return Verdict::Skipped(reason),
    };
    for at in [&v4, &v6] {
        let at: Vec<&str> = at.iter().map(String::as_str).collect();
        let netns = [Some(pair.names[0].as_str()), Some(pair.names[1].as_str())];
        let stage = Stage::new(netns, ["veth", "veth"], &at);
        let result = stage.run("ping", &[&["--count", "100"][..], &at].concat()).result();
        assert_eq!(result["round_trip_us"]["count"], 100);
        stage.end();
    }
    Verdict::Passed
}

fn af_packet() -> Verdict {
    // As much as fits beside all headers into frames of both ends' MTU.
    for (case, mtu, segment) in [("jumbo", 9000, 8886), ("plain", 1500, 1386)] {
        let pair = match Pair::new(case, mtu) {
            Ok(pair) => pair,
            Err(reason) => return Verdict::Skipped(reason),
        };
        let stage = across(&pair, ["veth", "veth"]);
        let more = ["--bytes", "8MiB", "--bidir", "--verify", "--flows", "2"];
        let result = stage.run("perf", &more).result();
        assert_eq!(result["segment_bytes"], segment, "{result:#}");
        assert_eq!(result["from_server"]["bytes"], 8 << 20);
        let result = stage.run("ping", &["--count", "200"]).result();
        assert_eq!(result["round_trip_us"]["count"], 200);
        stage.end();
    }
    Verdict::Passed
}

fn promiscuous() -> Verdict {
    let pair = match Pair::new("promisc", 1500) {
        Ok(pair) => pair,
        Err(reason) => return Verdict::Skipped(reason),
    };
    let off = (0, false);
    let looked = Running::start(Some(&pair.names[0]), &["doctor", "--device", "veth"]).wait();
    assert!(looked.out.contains("net_af_packet"), "{looked:?}");
    assert_eq!(pair.promiscuity(0), off);
    let stage = across(&pair, ["veth", "veth"]);
    assert_eq!(pair.promiscuity(0).0, 1);
    assert_eq!(stage.run("ping", &["--count", "10"]).code, Some(0));
    assert_eq!(pair.promiscuity(1), off);
    // A process that is killed restores nothing.
    stage.server.signal("KILL");
    drop(stage.server.wait());
    assert_eq!(pair.promiscuity(0), off);
    // What the operator has set stays.
    system_tests::netns::ip(&format!("-n {} link set veth promisc on", pair.names[0])).unwrap();
    let on = pair.promiscuity(0);
    across(&pair, ["veth", "veth"]).end();
    assert_eq!((pair.promiscuity(0), on), (on, (1, true)));
    Verdict::Passed
}

fn af_xdp() -> Verdict {
    let pair = match Pair::new("xdp", 1500) {
        Ok(pair) => pair,
        Err(reason) => return Verdict::Skipped(reason),
    };
    let device = "net_af_xdp0,iface=veth";
    let args = ["perf", "server", "--device", device];
    let mut server = Running::start(Some(&pair.names[0]), &args);
    // A kernel or a DPDK without it reports so at once.
    while server.goes_on() && !server.said().contains("queue(s) of") {
        sleep(Duration::from_millis(20));
    }
    if server.goes_on() {
        server.signal("INT");
    }
    let ended = server.wait();
    if ended.code == Some(3) {
        return Verdict::Skipped(format!("no AF_XDP here: {}", ended.err.trim()));
    }
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let stage = across(&pair, [device, device]);
    let more = ["--bytes", "4MiB", "--bidir", "--verify"];
    assert_eq!(stage.run("perf", &more).result()["from_server"]["bytes"], 4 << 20);
    stage.end();
    Verdict::Passed
}

fn tap() -> Verdict {
    let pair = match Pair::new("tap", 1500) {
        Ok(pair) => pair,
        Err(reason) => return Verdict::Skipped(reason),
    };
    // The driver makes the kernel's side, and takes it away again.
    let device = "net_tap0,iface=tap";
    let stage = across(&pair, [device, device]);
    if let Err(reason) = pair.bridge_tap(0) {
        return Verdict::Skipped(reason);
    }
    let mut client = stage.client("perf", &["--bytes", "1MiB", "--verify", "--wait", "20"]);
    client.on_event("queue(s) of");
    pair.bridge_tap(1).unwrap();
    let result = client.wait().result();
    assert_eq!(result["to_server"]["bytes"], 1 << 20);
    stage.end();
    Verdict::Passed
}

fn link_down() -> Verdict {
    let pair = match Pair::new("down", 9000) {
        Ok(pair) => pair,
        Err(reason) => return Verdict::Skipped(reason),
    };
    let breaks = crashes::breaks();
    let longest = breaks.iter().max().unwrap().as_secs();
    let patience = (2 * longest + 10).to_string();
    let patience = ["--patience", &patience];
    let netns = [Some(pair.names[0].as_str()), Some(pair.names[1].as_str())];
    let stage = Stage::new(netns, ["veth", "veth"], &patience);
    // Long enough for the flow to go on after the longest.
    let seconds = (breaks.iter().sum::<Duration>()
        + BETWEEN * u32::try_from(breaks.len()).unwrap())
    .as_secs()
        + 3;
    let time = ["--time", &seconds.to_string(), "--verify"];
    let mut client = stage.client("perf", &[&time[..], &patience].concat());
    client.on_event(" 1.");
    for down in &breaks {
        pair.set([true, false]).unwrap();
        sleep(*down);
        pair.set([true, true]).unwrap();
        sleep(BETWEEN);
    }
    let ended = client.wait();
    let result = ended.result();
    // A process looks at its link now and then, and may miss the shortest.
    assert!(ended.counter("counters", "link_downs") > 0, "{result:#}");
    assert!(ended.counter("counters", "retransmitted") > 0, "{result:#}");
    stage.end();
    Verdict::Passed
}

/// Between two breaks of a link.
const BETWEEN: Duration = Duration::from_millis(400);
