//! The cases of the `nic` world.

use std::fs;
use std::net::TcpListener;

use serde_json::Value;

use crate::hosts::{Ended, Files, Running, flows, summary};
use crate::{pod, queueing, rotation, sites, stalls};
use system_tests::cases::Verdict::{self, Passed, Skipped};
use system_tests::lab::Lab;

/// A name and what runs under it.
pub(crate) type Case = (&'static str, fn() -> Verdict);

/// Every case.
pub(crate) const CASES: &[Case] = &[
    ("two_hosts_over_memif_deliver_and_report_the_same", memif),
    ("two_hosts_over_memif_probe_before_they_send", probing),
    ("a_run_that_is_cut_short_says_what_has_arrived_of_each_flow", cut_short),
    ("hosts_that_would_not_run_the_same_say_what_differs", differing),
    ("a_host_killed_in_the_middle_of_a_run_is_named_at_once_and_leaves_nothing", stalls::killed),
    ("the_survivors_of_a_killed_host_finish_all_flows_among_themselves", stalls::survivors),
    ("flows_that_wait_for_one_of_a_killed_host_do_not_start_and_the_run_ends", stalls::triggers),
    ("the_survivors_of_a_killed_first_host_finish_all_flows_among_themselves", stalls::first),
    ("hosts_that_stand_still_for_up_to_a_second_lose_no_flow", stalls::short),
    ("an_emulated_run_that_stands_still_finishes_and_says_that_it_is_invalid", stalls::emulated),
    ("hosts_that_stand_still_for_long_lose_no_flow", stalls::long),
    ("a_host_that_stands_still_before_its_run_begins_is_waited_for", stalls::starting),
    ("a_host_killed_before_its_run_begins_ends_the_run_of_the_other", stalls::killed_early),
    ("a_link_that_is_down_for_a_while_loses_no_flow", stalls::unlinked),
    ("keys_change_in_the_middle_of_a_run_and_no_flow_notices", rotation::rotated),
    ("two_hosts_over_memif_send_messages_in_coded_blocks", coded),
    ("four_hosts_on_a_bridge_find_their_macs_and_run_a_matrix_with_triggers", bridge),
    ("three_hosts_on_a_bridge_speak_ipv6", ipv6),
    ("frames_too_long_for_the_network_are_found_before_the_run", short_mtu),
    ("a_host_that_is_not_there_is_named_with_its_address", absent),
    ("an_interface_that_is_not_there_is_refused_with_its_place_at_once", no_interface),
    ("hosts_of_a_pod_send_when_their_scheduler_says_and_every_byte_arrives", pod::served),
    ("a_scheduler_that_is_started_again_is_in_a_later_term_and_flows_go_on", pod::restarted),
    ("hosts_of_a_pod_speak_ipv6", pod::ipv6),
    ("a_scheduler_that_stays_away_ends_the_flows_that_wait_and_is_named", pod::lost),
    ("hosts_without_their_scheduler_say_how_it_is_started", pod::missing),
    ("a_pod_that_cannot_be_is_refused_with_its_place", pod::refused),
    ("hosts_of_two_sites_run_mlcc_over_border_switches", sites::bordered),
    ("a_border_switch_that_refuses_advice_says_so", sites::slow_lan),
    ("a_border_switch_marks_what_waits_at_its_ports", sites::marking),
    ("alpha_follows_the_sites_that_the_hosts_file_names", sites::alone_or_apart),
    ("sites_that_no_network_without_a_topology_has_are_refused", sites::refused),
    ("an_incast_queues_with_dctcp_and_with_zeropod", queueing::incast),
];

/// Both ways at once, and a flow that waits for another host's.
const PAIR: &str = "\
Nodes 2
Connections 3
Triggers 1
0->1 id 1 start 0 size 400000 recv_done_trigger 1
1->0 id 2 start 0 size 300000
1->0 id 3 trigger 1 size 5000
trigger id 1 oneshot
";

/// A process beside others on two cores may be away for longer than any timeout of a real network.
pub(crate) const PATIENT: [&str; 2] = ["--set", "loss.retries_max=64"];

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Two hosts joined by a memif, over the loopback for control.
pub(crate) fn over_memif(cm: &str) -> Files {
    let control = format!("control = \"127.0.0.1:{}\"", free_port());
    let socket = format!("socket=headrace-test-{}-{}", std::process::id(), free_port());
    Files::new(2, cm, None, |host| {
        let role = if host == 0 { "server" } else { "client" };
        let device = format!("net_memif0,role={role},id=0,{socket},socket-abstract=yes");
        format!("address = \"10.0.0.{}/24\"\ndevice = \"{device}\"\n{control}\n", host + 1)
    })
}

/// Hosts in namespaces on a bridge; `address(host)` is that of the device.
pub(crate) fn on_bridge(
    (hosts, mtu): (u32, u32),
    cm: &str,
    address: impl Fn(u32) -> String,
) -> Result<Files, String> {
    let lab = Lab::new(hosts, mtu)?;
    let control = Lab::control();
    Ok(Files::new(hosts, cm, Some(lab), |host| {
        let address = address(host);
        format!("address = \"{address}\"\ndevice = \"eth0\"\ncontrol = \"{control}\"\n")
    }))
}

pub(crate) fn v4(host: u32) -> String {
    format!("10.77.0.{}/24", host + 1)
}

pub(crate) fn v6(host: u32) -> String {
    format!("fd77::{}/64", host + 1)
}

/// The result, which all hosts must report alike.
pub(crate) fn same_story(ended: &[Ended]) -> Value {
    let codes: Vec<_> = ended.iter().map(|host| host.code).collect();
    assert!(codes.iter().all(|code| *code == Some(0)), "exit codes {codes:?}: {ended:#?}");
    let first = summary(&ended[0]);
    for other in &ended[1..] {
        let other = summary(other);
        for what in
            ["/flows", "/fct_us", "/completion_us", "/packets", "/bytes", "/counters", "/per_host"]
        {
            assert_eq!(other.pointer(what), first.pointer(what), "{what}");
        }
    }
    first
}

/// DCsim over a link without switches: no SIM and no segment is lost, and RTT_max follows from the
/// echoes of hosts that meet.
fn probing() -> Verdict {
    let files = over_memif(PAIR);
    let set = ["--transport", "dcsim", "--set", "mtu=4096"];
    let all = [0_u32, 1].map(|host| files.start(host, &[&PATIENT[..], &set].concat()));
    let ended = all.map(Running::wait);
    let summary = same_story(&ended);
    assert_eq!(summary["flows"]["finished"], 3);
    let dcsim = &summary["dcsim"];
    let count = |name: &str| dcsim["sims"][name].as_u64().unwrap();
    assert!(count("sent") >= 705_000 / 4096, "{dcsim}");
    assert_eq!(count("sent"), count("acked") + count("timed_out"), "{dcsim}");
    assert!(dcsim["sims"]["dropped"].is_null(), "no switch can be seen: {dcsim}");
    let measured = summary["per_host"][0]["base_rtt_max_us"].as_f64().unwrap();
    assert!(dcsim["rtt_max_us"].as_f64().unwrap() > measured, "{dcsim}");
    let said = &ended[0].err;
    for fitted in ["sched.dcsim.rtt_p is ", "sched.dcsim.rtt_max is paper: "] {
        assert!(said.contains(fitted), "{said}");
    }
    Passed
}

fn memif() -> Verdict {
    let files = over_memif(PAIR);
    files.begin_hosts_with("udp_port = 5001\n");
    let out = [0, 1].map(|host| files.path(&format!("out{host}")));
    let all = [0_u32, 1].map(|host| {
        let dir = out[host as usize].to_str().unwrap();
        files.start(host, &[&PATIENT[..], &["--out", dir]].concat())
    });
    let ended = all.map(Running::wait);
    let summary = same_story(&ended);
    assert_eq!(summary["flows"]["total"], 3);
    let manifest: Value =
        serde_json::from_str(&fs::read_to_string(out[0].join("manifest.json")).unwrap()).unwrap();
    let port = serde_json::json!({"key": "udp_port", "value": "5001", "source": "hosts file"});
    assert!(manifest["configuration"].as_array().unwrap().contains(&port), "{manifest:#}");
    let lines = out.map(|dir| flows(&dir));
    assert_eq!(lines[0], lines[1]);
    let at = |flow: usize, key: &str| lines[0][flow][key].as_f64().unwrap();
    assert!(at(2, "start_us") > at(0, "start_us"), "the third waits for the first");
    assert!(lines[0].iter().all(|line| line["delivered"] == line["size"]), "{lines:?}");
    let device = summary["per_host"][0]["device"].as_str().unwrap();
    assert!(device.starts_with("net_memif"), "{device}");
    assert!(summary["per_host"][1]["base_rtt_min_us"].as_f64().unwrap() > 0.0);
    let counted = |at: &Value| at["counters"]["data_placed"].as_u64().unwrap_or(0);
    let of_hosts: u64 = summary["per_host"].as_array().unwrap().iter().map(counted).sum();
    assert!(of_hosts > 0 && counted(&summary) == of_hosts, "{summary}");
    Passed
}

/// Every block is coded; packets that a busy machine delays for longer than the block timeout are
/// asked for.
fn coded() -> Verdict {
    let code = ["--ec", "8,2", "--set", "ec.base_rtt_min=0us"];
    let ended = over_memif(PAIR).run(&[&PATIENT[..], &code].concat());
    let summary = same_story(&ended);
    assert_eq!((&summary["flows"]["finished"], &summary["audit"]["ok"]), (&3.into(), &true.into()));
    assert!(summary["packets"]["parity"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!(summary["bytes"]["delivered"], 705_000);
    Passed
}

/// A message takes more time than the run has: nothing is delivered as a whole.
fn cut_short() -> Verdict {
    let files = over_memif("Nodes 2\nConnections 1\n0->1 id 1 start 0 size 2000000000\n");
    let out = [0, 1].map(|host| files.path(&format!("out{host}")));
    let all = [0_u32, 1].map(|host| {
        let dir = out[host as usize].to_str().unwrap();
        files.start(host, &[&PATIENT[..], &["--out", dir, "--set", "run.limit=200ms"]].concat())
    });
    let ended = all.map(Running::wait);
    assert!(ended.iter().all(|host| host.code == Some(1)), "{ended:#?}");
    let lines = out.map(|dir| flows(&dir));
    assert_eq!(lines[0], lines[1]);
    let at = |key: &str| lines[0][0][key].as_u64().unwrap();
    assert!(at("acked") > 0 && at("acked") <= at("delivered"), "{lines:?}");
    assert!(at("delivered") < at("size"), "{lines:?}");
    for host in ended {
        let summary: Value = serde_json::from_str(&host.out).unwrap();
        assert_eq!(summary["bytes"]["delivered"], at("delivered"), "{summary}");
        assert_eq!(summary["audit"]["findings"], serde_json::json!([]), "{summary}");
    }
    Passed
}

fn differing() -> Verdict {
    let files = over_memif(PAIR);
    let first = files.start(0, &["--set", "mtu=2048"]);
    let second = files.start(1, &["--set", "mtu=1024"]);
    for ended in [first.wait(), second.wait()] {
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.err.contains("setting mtu is 1024 on `h1`, 2048 on `h0`"), "{ended:?}");
    }
    let files = over_memif(PAIR);
    let hosts = [files.start(0, &[]), files.start(1, &["--udp-port", "5000"])];
    for ended in hosts.map(Running::wait) {
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.err.contains("setting udp_port is 5000 on `h1`, 4797 on `h0`"), "{ended:?}");
    }
    Passed
}

fn bridge() -> Verdict {
    // A ring in which every flow starts the next host's, and one big flow beside it.
    let cm = "Nodes 4\nConnections 5\nTriggers 3\n\
              0->1 id 1 start 0 size 50000 send_done_trigger 1\n\
              1->2 id 2 trigger 1 size 50000 send_done_trigger 2\n\
              2->3 id 3 trigger 2 size 50000 recv_done_trigger 3\n\
              3->0 id 4 trigger 3 size 50000\n\
              2->0 id 5 start 0 size 1000000\n\
              trigger id 1 oneshot\ntrigger id 2 oneshot\ntrigger id 3 oneshot\n";
    let files = match on_bridge((4, 9000), cm, v4) {
        Ok(files) => files,
        Err(reason) => return Skipped(reason),
    };
    let summary = same_story(&files.run(&PATIENT));
    let hosts = summary["per_host"].as_array().unwrap();
    assert_eq!(hosts.len(), 4);
    for host in hosts {
        assert!(host["device"].as_str().unwrap().starts_with("net_af_packet"), "{host}");
        // Peers asked for the host's MAC, and pinged it or were pinged.
        assert!(host["answers"].as_u64().unwrap() > 0, "{host}");
    }
    // The kernel sends on the same links.
    assert!(hosts.iter().any(|host| host["strays"].as_u64().unwrap() > 0), "{hosts:?}");
    Passed
}

fn ipv6() -> Verdict {
    let cm = "Nodes 3\nConnections 2\n1->0 start 0 size 200000\n2->0 start 100 size 200000\n";
    match on_bridge((3, 9000), cm, v6) {
        Ok(files) => {
            let summary = same_story(&files.run(&PATIENT));
            assert_eq!(summary["flows"]["total"], 2);
            Passed
        }
        Err(reason) => Skipped(reason),
    }
}

fn short_mtu() -> Verdict {
    let cm = "Nodes 2\nConnections 1\n0->1 start 0 size 10000\n";
    let files = match on_bridge((2, 1500), cm, v4) {
        Ok(files) => files,
        Err(reason) => return Skipped(reason),
    };
    let ended = files.run(&[]);
    for end in &ended {
        assert_eq!((end.code, end.out.as_str()), (Some(3), ""), "{end:?}");
        assert!(end.err.contains("do not reach h1 (10.77.0.2)"), "{end:?}");
        assert!(end.err.contains("--set mtu="), "{end:?}");
    }
    // The setting that the error advises works.
    let advised = [&PATIENT[..], &["--set", "mtu=1386"]].concat();
    same_story(&files.run(&advised));
    Passed
}

/// Other hosts go on waiting for the host, which may be started again with another device.
fn no_interface() -> Verdict {
    let control = format!("control = \"127.0.0.1:{}\"", free_port());
    let files = Files::new(2, PAIR, None, |host| {
        let address = format!("address = \"10.0.0.{}/24\"", host + 1);
        format!("{address}\ndevice = \"nosuchif{host}\"\n{control}\n")
    });
    let ended = files.start(1, &[]).wait();
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("hosts.toml:") && ended.err.contains("`nosuchif1`"), "{ended:?}");
    assert!(ended.err.contains("no interface") && !ended.err.contains("waits for"), "{ended:?}");
    Passed
}

fn absent() -> Verdict {
    let files = over_memif(PAIR);
    let ended = files.start(0, &["--set", "nic.patience=500ms"]).wait();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let named = ended.err.contains("host `h1` failed before the run: it did not connect");
    assert!(named && ended.err.contains("127.0.0.1:"), "{ended:?}");
    let ended = files.start(1, &["--set", "nic.patience=2s"]).wait();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.contains("`h0` failed") && ended.err.contains("cannot be reached"));
    assert!(ended.err.contains(" s: waits for host `h0` at 127.0.0.1:"), "{ended:?}");
    assert!(!ended.err.contains("0/3 flows"), "{ended:?}");
    Passed
}
