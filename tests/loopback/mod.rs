//! The cases of `dpdk_loopback`, each run in a process of its own.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "cases of a test harness")]

mod capture;
mod coded;
mod exact;
mod int;
mod mlcc;
mod telemetry;
mod zeropod;

use experiments::measure::{Outcome, Summary};
use experiments::plan::{Draft, Origin, Plan, RunError};
use experiments::progress::{Progress, Unwatched, Watch};
use experiments::topology;
use experiments::workload::{self, Matrix, Params};
use live::datapath::{self, Bench, DeviceKind, MESSAGE};
use live::vdev;
use serde_json::Value;
use transport::ec::BlockShape;
use transport::record::replay;
use transport::{Duration, Rng, Stats};

use system_tests::examples::with_examples;

pub(crate) use system_tests::cases::Verdict;

/// A name and what runs under it.
pub(crate) type Case = (&'static str, fn() -> Verdict);

/// Every case.
pub(crate) const CASES: &[Case] = &[
    ("incast_15_to_1_over_net_ring_is_delivered_and_verified", incast),
    ("lossless_switches_pause_hosts_and_drop_nothing", lossless),
    ("programs_of_switches_make_and_end_packets_among_plain_switches", programs),
    ("programs_of_switches_do_the_same_to_the_same_octets_in_sim_and_vdev", exact::examples),
    ("border_switches_send_the_same_octets_in_sim_and_vdev", exact::borders),
    ("the_scheduler_of_a_pod_sends_the_same_octets_in_sim_and_vdev", exact::pod),
    ("switches_write_telemetry_into_frames_and_leave_payloads_intact", int::written),
    ("telemetry_survives_copies_reordering_and_corruption_of_frames", int::written_under_faults),
    ("a_recorded_run_with_telemetry_replays_bit_for_bit", int::recorded),
    ("border_switches_share_a_site_fairly_between_near_and_far_messages", mlcc::fair),
    ("border_switches_survive_what_happens_to_frames", mlcc::faults),
    ("both_directions_of_a_flow_pass_the_same_of_two_border_switches", mlcc::two_borders_work),
    ("flows_go_on_when_one_of_two_border_switches_dies", mlcc::border_dies),
    ("an_all_to_all_of_dcsim_loses_probes_and_no_data", dcsim),
    ("hosts_of_a_pod_send_in_slots_and_nothing_collides", zeropod::all_to_all),
    ("hosts_of_a_pod_that_ask_on_change_send_in_slots_and_nothing_collides", zeropod::on_change),
    ("cells_inside_one_of_several_pods_wait_for_no_timeout", zeropod::in_one_of_several),
    ("a_backup_takes_over_from_a_scheduler_that_is_killed_while_hosts_wait", zeropod::taken_over),
    ("permutation_of_16_hosts_over_net_ring_is_delivered_and_verified", permutation),
    ("loss_reordering_duplication_and_corruption_leave_payloads_intact", faults),
    ("coded_messages_survive_everything_that_happens_to_packets", coded::faults),
    ("coded_messages_over_net_memif_are_delivered_and_verified", coded::memif),
    ("a_recorded_run_of_coded_messages_replays_bit_for_bit", coded::record),
    ("between_datacentres_20_ms_apart_a_code_saves_retransmissions", coded::two_datacentres),
    ("far_messages_over_links_that_lose_are_coded_by_loss_and_arrive_intact", coded::by_loss),
    ("far_messages_over_links_that_lose_nothing_are_not_coded_by_loss", coded::without_loss),
    ("two_hosts_are_enough", two_hosts),
    ("thirty_two_hosts_have_a_device_each", thirty_two_hosts),
    ("odd_numbers_of_hosts_and_workers_work", odd_hosts),
    ("four_hosts_over_net_memif_are_delivered_and_verified", memif),
    ("two_hosts_over_net_tap_are_delivered_with_a_payload_that_fits", tap),
    ("net_null_sends_and_is_honest_about_what_is_unfinished", null),
    ("a_recorded_run_replays_bit_for_bit", record),
    ("a_run_that_is_stopped_leaves_no_buffer_behind", stopped),
    ("samples_are_taken_and_triggers_start_flows", sampled_triggers),
    ("without_hugepages_a_run_is_the_same", without_hugepages),
    ("buffers_of_short_frames_fill_pages_of_ordinary_memory_and_have_them", short_frames),
    ("every_measured_device_carries_segments_and_acknowledgements", measured),
    ("a_measured_border_switch_has_a_queue_for_each_flow", mlcc::measured),
    ("a_measured_pod_scheduler_serves_pods_of_all_sizes", zeropod::measured),
    ("metrics_are_served_while_a_run_goes_on", telemetry::scraped),
    ("dpdk_telemetry_answers_while_a_run_goes_on", telemetry::asked),
    ("a_capture_holds_every_frame_of_a_run", capture::whole),
    ("a_capture_keeps_its_limits", capture::limited),
    ("too_many_hosts_are_refused_with_a_way_out", too_many_hosts),
];

fn measured() -> Verdict {
    let bench = Bench::start().unwrap_or_else(|error| panic!("{error}"));
    for (device, segment_bytes) in DeviceKind::ALL.into_iter().flat_map(|d| [(d, 256), (d, 4096)]) {
        let case = datapath::Case {
            device,
            segment_bytes,
            message_bytes: MESSAGE,
            segments: 30_000,
            attach: true,
            ack_every: 1,
            code: (segment_bytes == 4096).then(BlockShape::default),
            transport: ((device, segment_bytes) == (DeviceKind::Ring, 256)).then_some("dcsim"),
        };
        let cost = bench.measure(&case).unwrap_or_else(|error| panic!("{error}"));
        println!("{case:?}: {cost:?}");
        assert!(cost.segments >= 30_000 && cost.ns_per_segment > 0.0 && cost.observed_ns > 0.0);
        // Everything but a scheduler's break is acknowledged at once.
        assert!(cost.retransmitted < cost.segments / 10);
        assert_eq!(cost.attached, device != DeviceKind::Null && segment_bytes > 512);
        assert_eq!(cost.parity > 0, case.code.is_some());
        let staged: f64 = cost.stages.iter().map(|(_, ns)| ns).sum();
        assert!(staged > 0.0 && cost.stages.iter().all(|(_, ns)| *ns >= 0.0));
    }
    Verdict::Passed
}

fn matrix(kind: &str, nodes: u32, params: &[(&str, &str)]) -> Matrix {
    let workload = workload::by_name(kind, &Params::from_pairs(params.to_vec())).unwrap();
    workload.generate(nodes, &mut Rng::new(1)).unwrap()
}

fn draft(settings: &[(&str, &str)]) -> Draft {
    let mut draft = Draft::default();
    for (key, value) in settings {
        draft.set(key, value, Origin::Set).unwrap_or_else(|error| panic!("{error}"));
    }
    draft
}

fn plan(settings: &[(&str, &str)], matrix: Matrix, topology: &str) -> Plan {
    Plan::new(&draft(settings), matrix, &topology::by_name(topology).unwrap()).unwrap()
}

fn run(plan: &Plan) -> Outcome {
    let outcome = vdev::run(plan, &mut Unwatched).unwrap_or_else(|error| panic!("{error}"));
    show(&outcome);
    outcome
}

fn show(outcome: &Outcome) {
    let Summary { flows, completion_us, ideal_us, packets, drops, lateness, .. } = &outcome.summary;
    println!("{:?}", outcome.stats);
    println!("{flows:?} completion {completion_us:?} us, ideal {ideal_us} us");
    println!("{packets:?} {drops:?}\n{lateness:?}\n{:?}", outcome.adapted);
}

/// Checks that everything arrived, verified, and that the books balance. Late polls are allowed
/// here: a machine may be busy, which the run then reports.
fn assert_whole(outcome: &Outcome) {
    let summary = &outcome.summary;
    assert_eq!(summary.audit.findings, [""; 0]);
    assert_eq!(summary.flows.finished, summary.flows.total);
    assert_eq!(summary.bytes.delivered, summary.bytes.offered);
    assert_eq!(summary.world, "vdev");
    assert!(summary.lateness.is_some() && summary.time_scale >= 1.0);
    assert!(!outcome.stopped);
}

fn incast() -> Verdict {
    let matrix = matrix("incast", 16, &[("degree", "15"), ("size", "512KiB")]);
    let outcome = run(&plan(&[], matrix, "paper-testbed"));
    assert_whole(&outcome);
    let Summary { counters, packets, .. } = &outcome.summary;
    assert_eq!(counters.get("data_new"), Some(&packets.data_new), "{counters:?}");
    let slowdown = outcome.summary.slowdown.unwrap();
    let most = if outcome.summary.is_success() { 1.5 } else { f64::INFINITY };
    assert!((1.0..most).contains(&slowdown), "{slowdown}");
    Verdict::Passed
}

fn lossless() -> Verdict {
    let mut draft = draft(&[("switch.pfc.xoff", "32KiB")]);
    draft.set_transport("roce", Origin::Set).unwrap();
    let matrix = matrix("incast", 16, &[("degree", "15"), ("size", "256KiB")]);
    let topology = topology::by_name("paper-testbed").unwrap();
    let outcome = run(&Plan::new(&draft, matrix, &topology).unwrap());
    assert_whole(&outcome);
    assert_eq!(outcome.summary.packets.dropped, 0);
    assert!(outcome.summary.pfc.unwrap().pauses > 0);
    Verdict::Passed
}

/// All four classes through the soft switch. SIMs are lost where ports are full, and sent again.
fn dcsim() -> Verdict {
    let mut draft = draft(&[("switch.dcsim.queue", "2")]);
    draft.set_transport("dcsim", Origin::Set).unwrap();
    let matrix = matrix("all-to-all", 8, &[("size", "256KiB"), ("window", "0")]);
    let topology = topology::by_name("paper-testbed").unwrap();
    let outcome = run(&Plan::new(&draft, matrix, &topology).unwrap());
    assert_whole(&outcome);
    let Summary { drops, dcsim, lateness, .. } = &outcome.summary;
    let (dcsim, lateness) = (dcsim.unwrap(), lateness.unwrap());
    println!("{dcsim:?} {lateness:?}");
    assert!(!drops.contains_key("data_queue_full"), "{drops:?}");
    assert!(dcsim.sims.dropped > Some(0) && dcsim.sims.timed_out > 0 && dcsim.sims.forged == 0);
    assert!(dcsim.sims.sent > dcsim.sims.acked && dcsim.sims.acked >= 56 * 64);
    assert!(dcsim.departure_error_ns.max > 0.0, "some DATA waits for its host's line, or its poll");
    // A wait for the line, often a slot long, says nothing of the run.
    let late = dcsim.departure_lateness_ns.p99 >= dcsim.slot_ns;
    assert!(dcsim.slot_ns > 0.0 && lateness.late_departures == late, "{dcsim:?}");
    Verdict::Passed
}

fn programs() -> Verdict {
    let matrix = matrix("permutation", 16, &[("size", "1MiB")]);
    let draft = draft(&[("fault", "duplicate:0.01@all")]);
    let draft = with_examples(draft, "example@tor:0,example@tor:2,pfc@agg:1");
    let topology = topology::by_name("paper-testbed").unwrap();
    let outcome = run(&Plan::new(&draft, matrix, &topology).unwrap());
    assert_whole(&outcome);
    let packets = &outcome.summary.packets;
    assert!(packets.originated > Some(20) && packets.consumed > Some(20), "{packets:?}");
    assert!(outcome.summary.pfc.is_some());
    Verdict::Passed
}

fn permutation() -> Verdict {
    let matrix = matrix("permutation", 16, &[("size", "2MiB")]);
    let outcome = run(&plan(&[], matrix, "paper-testbed"));
    assert_whole(&outcome);
    assert!(outcome.summary.slowdown.unwrap() >= 1.0);
    Verdict::Passed
}

/// Runs a permutation of 16 hosts with these settings and everything that happens to packets one by
/// one.
fn run_with_faults(settings: &[(&str, &str)]) -> Outcome {
    let faults = [
        ("fault", "loss:0.01@all"),
        ("fault", "reorder:0.02@all,delay_us=3"),
        ("fault", "duplicate:0.01@all"),
        ("fault", "corrupt:0.01@all"),
    ];
    let matrix = matrix("permutation", 16, &[("size", "512KiB")]);
    let outcome = run(&plan(&[settings, &faults].concat(), matrix, "paper-testbed"));
    assert_whole(&outcome);
    outcome
}

fn faults() -> Verdict {
    let outcome = run_with_faults(&[]);
    let summary = &outcome.summary;
    assert!(
        summary.drops["random_loss"] > 0 && summary.drops["corrupt"] > 0,
        "{:?}",
        summary.drops
    );
    assert!(outcome.stats.duplicates > 0 && summary.packets.retransmitted > 0);
    Verdict::Passed
}

fn two_hosts() -> Verdict {
    let matrix = matrix("permutation", 2, &[("size", "1MiB")]);
    assert_whole(&run(&plan(&[], matrix, "dumbbell:1")));
    Verdict::Passed
}

fn thirty_two_hosts() -> Verdict {
    let matrix = matrix("permutation", 32, &[("size", "64KiB")]);
    assert_whole(&run(&plan(&[], matrix, "leaf-spine:8,4,4")));
    Verdict::Passed
}

fn odd_hosts() -> Verdict {
    let matrix = matrix("permutation", 7, &[("size", "300000")]);
    assert_whole(&run(&plan(&[("vdev.workers", "3")], matrix, "leaf-spine:7,2,1")));
    Verdict::Passed
}

fn memif() -> Verdict {
    let matrix = matrix("permutation", 4, &[("size", "512KiB")]);
    assert_whole(&run(&plan(&[("vdev.pmd", "net_memif")], matrix, "leaf-spine:2,2,2")));
    Verdict::Passed
}

fn tap() -> Verdict {
    let matrix = matrix("permutation", 2, &[("size", "64KiB")]);
    let plan = plan(&[("vdev.pmd", "net_tap")], matrix, "dumbbell:1");
    match vdev::run(&plan, &mut Unwatched) {
        Ok(outcome) => {
            show(&outcome);
            assert_whole(&outcome);
            assert!(outcome.adapted.iter().any(|adapted| adapted.key == "mtu"));
            Verdict::Passed
        }
        // Only what this machine does not allow may be missing.
        Err(error @ RunError::Environment(_)) => {
            assert_eq!(error.exit_code(), 3);
            Verdict::Skipped(error.to_string())
        }
        Err(error) => panic!("{error}"),
    }
}

fn null() -> Verdict {
    let matrix = matrix("permutation", 4, &[("size", "1MiB")]);
    let outcome = run(&plan(&[("vdev.pmd", "net_null")], matrix, "leaf-spine:2,2,2"));
    let summary = &outcome.summary;
    assert_eq!((summary.flows.finished, summary.bytes.delivered), (0, 0));
    assert!(summary.packets.data_new >= 4 && !summary.is_success());
    assert_eq!(summary.audit.findings, [""; 0]);
    Verdict::Passed
}

/// Runs an incast of four hosts with these settings; their recordings replay, and have together the
/// counts of the run.
fn run_recorded(settings: &[(&str, &str)], counts: impl Fn(&Stats) -> [u64; 2]) -> Outcome {
    let matrix = matrix("incast", 4, &[("degree", "3"), ("size", "256KiB")]);
    let settings = [&[("vdev.record", "on")], settings].concat();
    let outcome = run(&plan(&settings, matrix, "leaf-spine:2,2,2"));
    assert_whole(&outcome);
    assert_eq!(outcome.recordings.len(), 4);
    let mut sums = [0; 2];
    for bytes in &outcome.recordings {
        let report = replay(bytes).unwrap_or_else(|error| panic!("{error}"));
        let both = sums.iter_mut().zip(counts(&report.stats));
        both.for_each(|(sum, count)| *sum += count);
    }
    assert_eq!(sums, counts(&outcome.stats));
    outcome
}

fn record() -> Verdict {
    let counts = |stats: &Stats| [stats.data_new, stats.data_placed];
    let outcome = run_recorded(&[("fault", "loss:0.01@all")], counts);
    let mut damaged = outcome.recordings[1].clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    assert!(replay(&damaged).is_err(), "a changed bit goes unnoticed");
    Verdict::Passed
}

/// Stops a run as soon as something was delivered.
struct Impatient;

impl Watch for Impatient {
    fn goes_on(&mut self, progress: &Progress) -> bool {
        progress.hops < 1000
    }
}

fn stopped() -> Verdict {
    let matrix = matrix("permutation", 8, &[("size", "64MiB")]);
    let plan = plan(&[], matrix, "leaf-spine:4,2,2");
    let outcome = vdev::run(&plan, &mut Impatient).unwrap();
    show(&outcome);
    assert!(outcome.stopped && outcome.summary.flows.finished < 8);
    assert_eq!(outcome.summary.audit.findings, [""; 0]);
    assert_says_what_arrived(&plan, &outcome);
    Verdict::Passed
}

/// Flows of a run that was cut short have the bytes that have arrived and that were acknowledged,
/// in the lines of flows.jsonl and together.
fn assert_says_what_arrived(plan: &Plan, outcome: &Outcome) {
    let mut text = Vec::new();
    outcome.write_flows(plan, 0, &mut text).unwrap();
    let lines = std::str::from_utf8(&text).unwrap().lines();
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let sum = |key: &str| lines.iter().map(|line| line[key].as_u64().unwrap()).sum::<u64>();
    let bytes = outcome.summary.bytes;
    assert!(sum("delivered") > 0 && sum("acked") > 0, "{lines:?}");
    assert!(sum("acked") <= sum("delivered"), "{lines:?}");
    assert_eq!(sum("delivered"), bytes.delivered, "{lines:?}");
    assert!(bytes.delivered <= bytes.placed && bytes.placed < bytes.offered, "{bytes:?}");
}

fn sampled_triggers() -> Verdict {
    use experiments::workload::FlowSpec;
    use experiments::workload::matrix::{Start, TriggerKind};
    use transport::{Bytes, HostId};
    let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
    let trigger = matrix.push_trigger(TriggerKind::Oneshot).unwrap();
    let first = FlowSpec::new(HostId(0), HostId(3), Bytes(200_000));
    let second = FlowSpec::new(HostId(3), HostId(1), Bytes(1));
    matrix.push_flow(FlowSpec { recv_done: Some(trigger), ..first });
    matrix.push_flow(FlowSpec { start: Start::On(trigger), ..second });
    let outcome = run(&plan(&[("sampling.interval", "5us")], matrix, "leaf-spine:2,2,2"));
    assert_whole(&outcome);
    assert!(outcome.records[1].start >= outcome.records[0].delivered_at);
    assert!(outcome.series.len() >= 2);
    let steps = outcome.series.windows(2).map(|pair| pair[1].t_us - pair[0].t_us);
    let steps: Vec<f64> = steps.collect();
    // The last sample is of the end of the run.
    let (last, steps) = steps.split_last().unwrap();
    assert!(steps.iter().all(|step| (step - 5.0).abs() < 1e-6), "{steps:?}");
    assert!(*last > 0.0 && *last < 5.0 + 1e-6, "{last}");
    Verdict::Passed
}

fn without_hugepages() -> Verdict {
    let matrix = matrix("permutation", 4, &[("size", "256KiB")]);
    assert_whole(&run(&plan(&[("vdev.hugepages", "off")], matrix, "leaf-spine:2,2,2")));
    Verdict::Passed
}

fn short_frames() -> Verdict {
    let matrix = matrix("permutation", 4, &[("size", "64KiB")]);
    let settings = [("vdev.hugepages", "off"), ("mtu", "1000")];
    assert_whole(&run(&plan(&settings, matrix, "two-dc:2,3,1ms")));
    Verdict::Passed
}

fn too_many_hosts() -> Verdict {
    let refused = |settings: &[(&str, &str)], topology: &str| {
        let plan = plan(settings, matrix("permutation", 2, &[("size", "1KiB")]), topology);
        let error = vdev::run(&plan, &mut Unwatched).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    };
    assert!(refused(&[], "ft128-1os").contains("2 to 32"));
    let memif = refused(&[("vdev.pmd", "net_memif")], "leaf-spine:17,1,1");
    assert!(memif.contains("2 to 16") && memif.contains("--world sim"), "{memif}");
    let limited = plan(
        &[("run.limit", "200us")],
        matrix("permutation", 2, &[("size", "64MiB")]),
        "dumbbell:1",
    );
    let outcome = run(&limited);
    assert!(outcome.stopped && outcome.end >= Duration::from_us(200));
    assert_says_what_arrived(&limited, &outcome);
    Verdict::Passed
}
