//! Tests of a pod whose scheduler fails: a backup takes over, or the scheduler restarts. At
//! whatever instant that happens, all flows finish, no packet meets another, and no host that waits
//! is without grants for longer than a bound.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failing test panics")]
#![allow(clippy::cast_possible_truncation, reason = "numbers of a few hosts")]

use experiments::measure::Outcome;
use experiments::plan::{Draft, Origin, Plan, RunError};
use experiments::progress::Unwatched;
use experiments::scenario::FaultSpec;
use experiments::topology::FatTree;
use experiments::workload::{FlowSpec, Matrix};
use experiments::{topology, virtual_time};
use transport::sched::zeropod::Zeropod;
use transport::sched::zeropod::timing::{ASK_EVERY, Timing};
use transport::{Bytes, Duration, HostId, Instant, Rng};

/// Runs with other instants for the faults: `POD_FAILOVERS=1000` for the whole sweep.
fn cases() -> u64 {
    let set = std::env::var("POD_FAILOVERS").ok().and_then(|text| text.parse().ok());
    set.unwrap_or(16)
}

fn faulty(topology: &str, matrix: &Matrix, faults: &[String]) -> Result<Plan, RunError> {
    let mut draft = Draft::default();
    draft.set_transport("zeropod", Origin::Set).unwrap();
    for fault in faults {
        draft.add_fault(fault.parse::<FaultSpec>().unwrap(), Origin::Set);
    }
    Plan::new(&draft, matrix.clone(), &topology::by_name(topology).unwrap())
}

/// Flows of many sizes between random hosts, which start within 100 us.
fn flows(hosts: u32, count: u32, rng: &mut Rng) -> Matrix {
    let mut matrix = Matrix { nodes: hosts, ..Matrix::default() };
    for _ in 0..count {
        let src = rng.below(hosts.into()) as u32;
        let dst = (src + 1 + rng.below(u64::from(hosts) - 1) as u32) % hosts;
        let doublings = 9 + rng.below(9);
        let size = 1 + rng.below(1 << doublings);
        let start = experiments::workload::matrix::Start::At(Duration::from_ns(rng.below(100_000)));
        let spec = FlowSpec { start, ..FlowSpec::new(HostId(src), HostId(dst), Bytes(size)) };
        matrix.push_flow(spec).unwrap();
    }
    matrix
}

/// One flow from each host to the next one of its pod, all of which can send at once.
fn ring(hosts: u32, rng: &mut Rng) -> Matrix {
    let (mut matrix, pod) = (Matrix { nodes: hosts, ..Matrix::default() }, hosts.min(16));
    for src in 0..hosts {
        let size = 1 + rng.below(1 << 20);
        let start = experiments::workload::matrix::Start::At(Duration::from_ns(rng.below(100_000)));
        let to = HostId(src / pod * pod + (src + 1) % pod);
        let spec = FlowSpec { start, ..FlowSpec::new(HostId(src), to, Bytes(size)) };
        matrix.push_flow(spec).unwrap();
    }
    matrix
}

fn run(topology: &str, matrix: &Matrix, faults: &[String]) -> Outcome {
    let plan = faulty(topology, matrix, faults).unwrap_or_else(|error| panic!("{error}"));
    let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
    let summary = &outcome.summary;
    assert!(summary.audit.ok, "{faults:?}: {:?}", summary.audit);
    assert_eq!(summary.flows.finished, matrix.flows.len() as u64, "{faults:?}");
    assert_eq!(summary.scheduler.as_ref().unwrap().collisions, 0, "{faults:?}");
    outcome
}

fn timing(topology: &str) -> Timing {
    let plan = faulty(topology, &ring(4, &mut Rng::new(0)), &[]).unwrap();
    let config = &plan.host_configs().unwrap()[0];
    *Zeropod::new(&config.sched_setup(HostId(0), Rng::new(0))).timing()
}

/// The longest that a host may be without grants where one scheduler fails, microseconds: 2 (D + 3)
/// epochs, one more because hosts ask every second epoch and so may ask the backup an epoch after
/// their patience is over, and the start of the backup, until the request counts and two epochs
/// more (`Timing::fence`).
fn silence_max(topology: &str) -> f64 {
    let timing = timing(topology);
    let start = ASK_EVERY - 1 + timing.to_decision + 2;
    (timing.epoch * (2 * (timing.request_to_data() + 3) + start)).as_us_f64()
}

/// Kills, restarts and cuts of schedulers at random instants, at most `most` in all; one scheduler
/// lives again before it fails once more. The last cuts end.
fn random_faults(pods: u32, backed: bool, most: u64, rng: &mut Rng) -> Vec<String> {
    let mut faults = Vec::new();
    let mut free = vec![0.0_f64; 2 * pods as usize];
    for _ in 0..=rng.below(most) {
        let pod = rng.below(pods.into()) as u32;
        let backup = backed && rng.below(2) == 1;
        let free = &mut free[2 * pod as usize + usize::from(backup)];
        let at = *free + rng.below(120_000_000) as f64 / 1e6;
        let doublings = 14 + rng.below(15);
        let until = at + 1.0 + rng.below(1 << doublings) as f64 / 1e6;
        *free = until + 1.0;
        let name = format!("{}:{pod}", if backup { "backup" } else { "scheduler" });
        match rng.below(3) {
            0 => faults.push(format!("restart@{name},from_us={at}")),
            1 => faults.push(format!("kill@{name},from_us={at},until_us={until}")),
            _ => faults.push(format!("partition@{name},from_us={at},until_us={until}")),
        }
    }
    faults
}

#[test]
fn a_scheduler_that_is_killed_at_any_instant_is_replaced_by_its_backup() {
    let mut longest: f64 = 0.0;
    for case in 0..cases() {
        let mut rng = Rng::new(case);
        let topologies = ["zeropod-ha:4", "zeropod-ha:8", "zeropod-ha:8,2,4"];
        let topology = topologies[rng.below(3) as usize];
        let hosts = topology::by_name(topology).unwrap().nodes;
        let alone = case % 2 == 0;
        let matrix = if alone { ring(hosts, &mut rng) } else { flows(hosts, 40, &mut rng) };
        let at = rng.below(120_000_000) as f64 / 1e6;
        let outcome = run(topology, &matrix, &[format!("kill@scheduler:0,from_us={at}")]);
        let pods = outcome.summary.scheduler.as_ref().unwrap();
        assert!(pods.term <= 2, "case {case}: {pods:?}");
        // Where hosts do not wait for each other as well.
        if alone {
            let bound = silence_max(topology);
            assert!(pods.outage_us <= bound, "case {case}: {} of {bound} us", pods.outage_us);
            longest = longest.max(pods.outage_us);
        }
    }
    // Some were killed while hosts waited.
    println!("longest silence {longest} us");
    assert!(longest > 0.45 * silence_max("zeropod-ha:8"), "{longest}");
}

/// Two flows from each host of two pods: one across and one inside.
fn across_and_inside(rng: &mut Rng) -> Matrix {
    let mut matrix = Matrix { nodes: 32, ..Matrix::default() };
    for src in 0..32 {
        let across = (src + 16 + rng.below(16) as u32) % 32;
        let inside = src / 16 * 16 + (src + 1 + rng.below(15) as u32) % 16;
        for dst in [across, inside].into_iter().filter(|dst| *dst != src) {
            let size = Bytes(1 + rng.below(1 << 18));
            matrix.push_flow(FlowSpec::new(HostId(src), HostId(dst), size)).unwrap();
        }
    }
    matrix
}

/// Flows from all hosts of the first pod to each of some of the second. Cores ask the first pod's
/// scheduler for nothing, and have reports for it alone.
fn incasts_across(receivers: u32) -> Matrix {
    let mut matrix = Matrix { nodes: 32, ..Matrix::default() };
    for (src, dst) in (0..16).flat_map(|src| (0..receivers).map(move |dst| (src, 16 + dst))) {
        matrix.push_flow(FlowSpec::new(HostId(src), HostId(dst), Bytes(100_000))).unwrap();
    }
    matrix
}

fn longest(outcome: &Outcome) -> Duration {
    outcome.records.iter().filter_map(|flow| flow.fct()).max().unwrap()
}

/// Flows of several pods, inside and across, when the scheduler of the first pod is killed at any
/// instant. Receipts die with it. Cores repeat theirs, and what nothing can report is sent again at
/// once, so no flow waits for its timeout of 20 ms.
#[test]
fn no_flow_of_several_pods_waits_for_a_timeout_when_a_scheduler_is_killed() {
    for case in 0..cases() {
        let mut rng = Rng::new(7000 + case);
        let matrix = across_and_inside(&mut rng);
        let at = rng.below(200_000_000) as f64 / 1e6;
        let name = if case % 4 == 3 { "backup" } else { "scheduler" };
        let outcome = run("zeropod-ha:8,2,4", &matrix, &[format!("kill@{name}:0,from_us={at}")]);
        let longest = longest(&outcome);
        assert!(longest < Duration::from_ms(2), "case {case}, {at} us: {longest:?}");
    }
}

/// Restarts, and outages in which nothing of a pod answers for half a millisecond.
#[test]
fn no_flow_of_several_pods_waits_for_a_timeout_when_a_scheduler_comes_back() {
    let cases = [
        ("zeropod:8,2,4", "restart@scheduler:0,from_us=50"),
        ("zeropod:8,2,4", "kill@scheduler:0,from_us=50,until_us=550"),
        ("zeropod:8,2,4", "kill@scheduler:1,from_us=50,until_us=550"),
        ("zeropod-ha:8,2,4", "restart@scheduler:0,from_us=50"),
        ("zeropod-ha:8,2,4", BOTH_FAIL),
        ("zeropod-ha:8,2,4", THREE_FAIL),
    ];
    let matrices = [across_and_inside(&mut Rng::new(1)), incasts_across(2), incasts_across(16)];
    for ((topology, faults), matrix) in
        cases.iter().flat_map(|case| matrices.iter().map(move |it| (case, it)))
    {
        let faults: Vec<String> = faults.split(' ').map(String::from).collect();
        let outcome = run(topology, matrix, &faults);
        let (longest, flows) = (longest(&outcome), matrix.flows.len());
        assert!(longest < Duration::from_ms(4), "{topology}, {faults:?}, {flows}: {longest:?}");
        assert!(outcome.summary.scheduler.unwrap().term > 1, "{topology}, {faults:?}, {flows}");
    }
}

const BOTH_FAIL: &str =
    "kill@scheduler:0,from_us=60,until_us=550 kill@backup:0,from_us=50,until_us=650";

/// Cells of which nothing can report any more are to be sent again while no scheduler of their
/// hosts' pod answers: Cores keep that for the next one.
const THREE_FAIL: &str = "kill@scheduler:0,from_us=50,until_us=550 \
                          kill@backup:0,from_us=50,until_us=650 kill@scheduler:1,from_us=50";

/// A scheduler without a backup that begins anew, is away for some time or is cut off, whole or by
/// one of its links: of such kinds one at random, how long it lasts, and by how much more it may
/// delay a flow, microseconds. A cut lasts for `least` at least. The first four links are to ToRs.
fn absence(pods: u32, least: f64, rng: &mut Rng) -> (String, f64, f64) {
    let pod = rng.below(pods.into());
    let from = rng.below(150_000_000) as f64 / 1e6;
    let (doublings, kind) = (14 + rng.below(16), rng.below(4));
    let least = if kind < 2 { 0.1 } else { least };
    let long = least + rng.below(1 << doublings) as f64 / 1e6;
    let times = format!("from_us={from},until_us={}", from + long);
    match kind {
        0 => (format!("restart@scheduler:{pod},from_us={from}"), 0.0, 1000.0),
        1 => (format!("kill@scheduler:{pod},{times}"), long, 1000.0),
        2 => (format!("partition@scheduler:{pod},{times}"), long, 1000.0),
        _ => (format!("partition@scheduler:{pod}:{},{times}", rng.below(8)), long, 1500.0),
    }
}

/// Whether something is left to ask for or not, what a scheduler lost while it was away is made up
/// for soon after it is there again. So no flow waits for its timeout of 20 ms. Each cut is so
/// long that an answer is missing.
#[test]
fn no_flow_waits_for_a_timeout_where_a_scheduler_without_a_backup_was_away() {
    let mut most: f64 = 0.0;
    for case in 0..4 * cases() {
        let mut rng = Rng::new(9000 + case);
        let (topology, pods) =
            [("zeropod:8,2,4", 2), ("zeropod:8,3,5", 3), ("zeropod:8", 1)][rng.below(3) as usize];
        let hosts = 16 * pods;
        let matrix = match rng.below(4) {
            // Nothing but the fault makes any host ask for more.
            0 => {
                let mut matrix = Matrix { nodes: hosts, ..Matrix::default() };
                let flow = FlowSpec::new(HostId(0), HostId(hosts - 1), Bytes(100_000));
                matrix.push_flow(flow).unwrap();
                matrix
            }
            1 if pods == 2 => across_and_inside(&mut rng),
            2 if pods == 2 => incasts_across(2),
            _ => flows(hosts, 60, &mut rng),
        };
        let took = |faults: &[String]| longest(&run(topology, &matrix, faults)).as_us_f64();
        let timing = timing(topology);
        let notices = timing.epoch * (2 * timing.request_to_data() + 2);
        let (fault, long, bound) = absence(pods, notices.as_us_f64(), &mut rng);
        let more = took(std::slice::from_ref(&fault)) - took(&[]) - long;
        println!("case {case}, {topology}: {fault} costs {more} us");
        assert!(more < bound, "case {case}, {topology}: {fault} costs {more} us");
        most = most.max(more);
    }
    println!("at most {most} us more than the absence");
}

/// A Core may hand a report over late in a cut, and get an answer soon behind it that left before.
#[test]
fn reports_that_were_lost_late_in_a_cut_of_one_link_are_repeated() {
    let mut lone = Matrix { nodes: 32, ..Matrix::default() };
    lone.push_flow(FlowSpec::new(HostId(0), HostId(19), Bytes(100_000))).unwrap();
    let mut incast = Matrix { nodes: 32, ..Matrix::default() };
    for src in 0..12 {
        incast.push_flow(FlowSpec::new(HostId(src), HostId(16), Bytes(1_000_000))).unwrap();
    }
    for (matrix, fault) in [
        (&incast, "partition@scheduler:0:7,from_us=35.884,until_us=103.001"),
        (&incast, "partition@scheduler:0:4,from_us=12.723,until_us=76.022"),
        (&lone, "partition@scheduler:0:5,from_us=19.548,until_us=57.724"),
    ] {
        let took = |faults: &[String]| longest(&run("zeropod:8,2,4", matrix, faults)).as_us_f64();
        let (more, long) = (took(&[fault.to_owned()]) - took(&[]), 67.2);
        println!("{fault} costs {more} us");
        assert!(more < long + 1500.0, "{fault} costs {more} us");
    }
}

/// What no receipt can name any more is sent again, but a receiver that is gone for good gets no
/// storm of that: the flow is given up after its timeouts.
#[test]
fn a_flow_of_several_pods_to_a_receiver_that_is_gone_is_given_up_after_few_packets() {
    for (src, dst, fault) in [(0, 3, "down@tor:0:down:3"), (0, 19, "down@tor:4:down:3")] {
        let mut matrix = Matrix { nodes: 32, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(src), HostId(dst), Bytes(100_000))).unwrap();
        let plan = faulty("zeropod:8,2,4", &matrix, &[fault.to_owned()]).unwrap();
        let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
        let again = outcome.summary.packets.retransmitted;
        println!("{src} to {dst}: {again} packets again");
        assert!(outcome.summary.audit.ok && outcome.records[0].failed, "{src} to {dst}");
        assert!(again < 1000, "{src} to {dst}: {again} packets again");
    }
}

/// The restart is the last thing that happens in the pod of the sender: without an announcement
/// nothing would report what has been delivered in the other pod.
#[test]
fn a_scheduler_without_a_backup_that_comes_back_announces_its_term() {
    let mut matrix = Matrix { nodes: 32, ..Matrix::default() };
    matrix.push_flow(FlowSpec::new(HostId(0), HostId(16), Bytes(100_000))).unwrap();
    for (fault, back) in [
        ("restart@scheduler:0,from_us=55", 55.0),
        ("kill@scheduler:0,from_us=55,until_us=100", 100.0),
        ("kill@scheduler:0,from_us=40,until_us=900", 900.0),
    ] {
        let outcome = run("zeropod:8,2,4", &matrix, &[fault.to_owned()]);
        let took = longest(&outcome).as_us_f64();
        assert!((back..back + 60.0).contains(&took), "{fault}: {took} us");
        assert_eq!(outcome.summary.scheduler.unwrap().term, 3, "{fault}");
    }
}

/// Hosts that have had no answer before their scheduler is gone ask anew as soon as it says that it
/// is back, and do not wait for their next repetition, which comes later and later.
#[test]
fn hosts_that_have_had_no_answer_ask_anew_when_their_scheduler_comes_back() {
    for (topology, hosts) in [("zeropod:8", 16), ("zeropod:8,2,4", 32)] {
        let mut matrix = Matrix { nodes: hosts, ..Matrix::default() };
        for src in 0..hosts {
            let flow = FlowSpec::new(HostId(src), HostId((src + 5) % hosts), Bytes(50_000));
            matrix.push_flow(flow).unwrap();
        }
        let took = |faults: &[String]| longest(&run(topology, &matrix, faults)).as_us_f64();
        let base = took(&[]);
        for long in [200.0, 500.0, 900.0] {
            let fault = format!("kill@scheduler:0,from_us=6,until_us={}", 6.0 + long);
            let more = took(std::slice::from_ref(&fault)) - base - long;
            assert!(more < 60.0, "{topology}: {fault} costs {more} us");
        }
    }
}

/// `outage_us` is about schedulers that do not answer. A demand that waits for others is none.
#[test]
fn a_run_without_faults_has_no_outage() {
    for topology in ["zeropod:8", "zeropod-ha:8", "zeropod:8,2,4", "zeropod-ha:8,2,4"] {
        let hosts = topology::by_name(topology).unwrap().nodes;
        let mut matrix = flows(hosts, 200, &mut Rng::new(5));
        for src in 1..hosts {
            matrix.push_flow(FlowSpec::new(HostId(src), HostId(0), Bytes(100_000))).unwrap();
        }
        let outcome = run(topology, &matrix, &[]);
        assert_eq!(outcome.summary.scheduler.unwrap().outage_us, 0.0, "{topology}");
    }
}

/// A host asks for something new every 20 us, so some host asks soon after the scheduler is back.
#[test]
fn an_outage_is_as_long_as_the_time_without_a_scheduler() {
    let mut matrix = ring(16, &mut Rng::new(9));
    for at in 0..100_u64 {
        let start = experiments::workload::matrix::Start::At(Duration::from_us(20 * at));
        let to = HostId(1 + (at % 15) as u32);
        matrix.push_flow(FlowSpec { start, ..FlowSpec::new(HostId(0), to, Bytes(600)) }).unwrap();
    }
    for (from, until) in [(50, 550), (300, 1300)] {
        let kill = format!("kill@scheduler:0,from_us={from},until_us={until}");
        let outage = run("zeropod:8", &matrix, &[kill]).summary.scheduler.unwrap().outage_us;
        // A total is repeated after 21 us, and its answer is due after another 21. The term of the
        // scheduler that is back grants from its fence on.
        let took = f64::from(until - from);
        assert!((took - 60.0..took + 60.0).contains(&outage), "{outage} of {took} us");
    }
}

/// Where pods have a backup, each host is to get answers, whether it asks for something or not.
#[test]
fn an_outage_while_no_host_asks_for_anything_counts_too() {
    let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
    for start in [0, 400] {
        let start = experiments::workload::matrix::Start::At(Duration::from_us(start));
        let flow = FlowSpec::new(HostId(0), HostId(9), Bytes(5000));
        matrix.push_flow(FlowSpec { start, ..flow }).unwrap();
    }
    let faults = ["kill@scheduler:0,from_us=100".to_owned()];
    let pods = run("zeropod-ha:8", &matrix, &faults).summary.scheduler.unwrap();
    assert!(pods.term == 2 && pods.outage_us > 20.0, "{pods:?}");
    assert!(pods.outage_us <= silence_max("zeropod-ha:8"), "{pods:?}");
}

/// Hosts report nothing to a scheduler of what an earlier one granted.
#[test]
fn a_backup_that_takes_over_refuses_nothing() {
    let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
    for src in 0..16 {
        let to = HostId((src + 5) % 16);
        matrix.push_flow(FlowSpec::new(HostId(src), to, Bytes(1_000_000))).unwrap();
    }
    for at in [30, 50, 70] {
        let outcome = run("zeropod-ha:8", &matrix, &[format!("kill@scheduler:0,from_us={at}")]);
        let pods = outcome.summary.scheduler.unwrap();
        assert_eq!((pods.term, pods.refusals.len()), (2, 0), "{at} us: {pods:?}");
    }
}

#[test]
fn schedulers_that_fail_at_random_instants_leave_no_flow_behind_and_no_cells_meet() {
    for case in 0..cases() {
        let mut rng = Rng::new(1000 + case);
        let (topology, pods) =
            [("zeropod-ha:8", 1), ("zeropod:8", 1), ("zeropod-ha:8,2,4", 2)][rng.below(3) as usize];
        let backed = topology.starts_with("zeropod-ha");
        let hosts = topology::by_name(topology).unwrap().nodes;
        let matrix = flows(hosts, 40, &mut rng);
        let faults = random_faults(pods, backed, 4, &mut rng);
        run(topology, &matrix, &faults);
    }
}

/// Cells of two schedulers that grant at once would meet. One that is cut off has stopped when
/// hosts turn to the other one, or stops when these say so.
#[test]
fn a_scheduler_of_pods_with_cores_that_is_cut_off_stops_before_its_backup_grants() {
    for case in 0..cases() / 2 {
        let mut rng = Rng::new(3000 + case);
        let matrix = flows(32, 60, &mut rng);
        let at = rng.below(100_000_000) as f64 / 1e6;
        let until = at + 10.0 + rng.below(40_000_000) as f64 / 1e6;
        let cut = |pod| format!("partition@scheduler:{pod},from_us={at},until_us={until}");
        run("zeropod-ha:8,2,4", &matrix, &[cut(0), cut(1)]);
    }
}

/// Cuts of links between schedulers and switches at random instants, so that some hosts reach one
/// scheduler only, others the other one only or neither. All links work in the end.
fn random_partition(topology: &str, pods: u32, rng: &mut Rng) -> Vec<String> {
    let tree = FatTree::new(topology::by_name(topology).unwrap()).unwrap();
    let mut faults = Vec::new();
    let links = tree.spec().tors_per_pod() + tree.spec().aggs_per_pod();
    let at = rng.below(100_000_000) as f64 / 1e6;
    // Links that are cut at once, and others.
    let at_once = rng.below(2) == 0;
    for pod in 0..pods {
        for link in 0..links {
            for end in ["scheduler", "backup"] {
                if rng.below(2) == 0 {
                    continue;
                }
                let from = if at_once { at } else { rng.below(120_000_000) as f64 / 1e6 };
                let doublings = 20 + rng.below(9);
                let until = from + 1.0 + rng.below(1 << doublings) as f64 / 1e6;
                faults
                    .push(format!("partition@{end}:{pod}:{link},from_us={from},until_us={until}"));
            }
        }
    }
    faults
}

/// Where some hosts reach one scheduler and others the other one, both serve. What they grant does
/// not meet, and when links work again all hosts gather at one of them.
#[test]
fn hosts_that_reach_different_schedulers_never_meet_and_gather_again() {
    let mut terms = 0;
    for case in 0..2 * cases() {
        let mut rng = Rng::new(5000 + case);
        let (topology, pods) = [("zeropod-ha:4", 1), ("zeropod-ha:8", 1), ("zeropod-ha:8,2,4", 2)]
            [rng.below(3) as usize];
        let hosts = topology::by_name(topology).unwrap().nodes;
        let matrix =
            if case % 2 == 0 { ring(hosts, &mut rng) } else { flows(hosts, 100, &mut rng) };
        let mut faults = random_partition(topology, pods, &mut rng);
        if rng.below(4) == 0 {
            let at = rng.below(120_000_000) as f64 / 1e6;
            faults.push(format!("restart@scheduler:0,from_us={at}"));
        }
        let outcome = run(topology, &matrix, &faults);
        terms = outcome.summary.scheduler.unwrap().term.max(terms);
    }
    assert!(terms > 2, "hosts changed their scheduler no more than once: {terms}");
}

/// Two halves of a pod, each with a scheduler of its own, go on: flows inside of each half end
/// before the links work again, those between the halves after that.
#[test]
fn each_half_of_a_pod_goes_on_with_the_scheduler_that_it_reaches() {
    let cut = |end: &str, tor: u32| format!("partition@{end}:0:{tor},from_us=30,until_us=1500");
    let faults = [cut("scheduler", 0), cut("scheduler", 1), cut("backup", 2), cut("backup", 3)];
    // Of 4 ToRs with 4 hosts each.
    let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
    for src in 0..16 {
        for to in [src / 8 * 8 + (src + 3) % 8, (src + 8) % 16] {
            matrix.push_flow(FlowSpec::new(HostId(src), HostId(to), Bytes(400_000))).unwrap();
        }
    }
    let outcome = run("zeropod-ha:8", &matrix, &faults);
    for (flow, record) in matrix.flows.iter().zip(&outcome.records) {
        let took = record.delivered_at.since(Instant::ZERO).as_us_f64();
        let inside = flow.src.0 / 8 == flow.dst.0 / 8;
        assert!(if inside { took < 500.0 } else { took > 1500.0 }, "{flow:?}: {took} us");
        assert!(took < 2200.0, "{flow:?}: {took} us");
    }
}

#[test]
fn hosts_without_any_scheduler_wait_until_one_is_back() {
    let lengths = [20.0, 200.0, 340.0, 700.0, 2000.0];
    for (topology, pods, lengths) in
        [("zeropod-ha:8", 1, &lengths[..]), ("zeropod-ha:8,2,4", 2, &lengths[1..3])]
    {
        for &long in lengths {
            let matrix = flows(16 * pods, 40, &mut Rng::new(9));
            let fault =
                |kind, name, until: f64| format!("{kind}@{name}:0,from_us=30,until_us={until}");
            for kind in ["partition", "kill"] {
                for first in ["scheduler", "backup"] {
                    let second = if first == "backup" { "scheduler" } else { "backup" };
                    let back = fault(kind, first, 30.0 + long);
                    // The other one is back much later.
                    let faults = [back, fault(kind, second, 20_000.0)];
                    let outcome = run(topology, &matrix, &faults);
                    let end = outcome.summary.completion_us.unwrap();
                    assert!(end < 3.0 * long + 800.0, "{topology}: {faults:?}: {end} us");
                }
            }
        }
    }
}

#[test]
fn each_scheduler_may_fail_in_turn() {
    let matrix = flows(16, 200, &mut Rng::new(5));
    let faults = [
        "kill@scheduler:0,from_us=20,until_us=60",
        "kill@backup:0,from_us=150",
        "partition@backup:0,from_us=100,until_us=101",
    ];
    let outcome = run("zeropod-ha:8", &matrix, &faults.map(str::to_owned));
    let pods = outcome.summary.scheduler.unwrap();
    assert_eq!(pods.term, 3, "{pods:?}");
}

#[test]
fn pods_with_cores_are_taken_over_too() {
    let matrix = flows(32, 100, &mut Rng::new(6));
    let fault = "kill@scheduler:1,from_us=50".to_owned();
    let outcome = run("zeropod-ha:8,2,4", &matrix, &[fault]);
    assert_eq!(outcome.summary.scheduler.unwrap().term, 2);
}

#[test]
fn a_backup_that_is_not_needed_delays_no_granted_cell() {
    let matrix = flows(16, 60, &mut Rng::new(7));
    // With a backup there are more requests, which say which flows are short, and more answers,
    // which cut cells without a grant off. Granted cells leave when they leave without it.
    let mut draft = Draft::default();
    draft.set_transport("zeropod", Origin::Set).unwrap();
    for key in ["sched.zeropod.top_k", "sched.zeropod.optimistic"] {
        draft.set(key, "0", Origin::Set).unwrap();
    }
    let [alone, backed] = ["zeropod:8", "zeropod-ha:8"].map(|topology| {
        let plan = Plan::new(&draft, matrix.clone(), &topology::by_name(topology).unwrap());
        let outcome = virtual_time::run(&plan.unwrap(), &mut Unwatched).unwrap();
        assert_eq!(outcome.summary.scheduler.as_ref().unwrap().term, 1);
        outcome.records.iter().map(|record| record.delivered_at).collect::<Vec<_>>()
    });
    assert_eq!(alone, backed);
}

#[test]
fn faults_that_name_no_scheduler_are_refused() {
    let matrix = flows(16, 2, &mut Rng::new(8));
    for (topology, faults, words) in [
        ("zeropod:8", &["kill@backup:0"][..], &["kill@backup:0", "backup 0", "none"][..]),
        ("zeropod:8", &["kill@scheduler:1"], &["scheduler 1", "the only one is 0"]),
        ("zeropod:8", &["partition@scheduler:0:8"], &["link of that scheduler 8", "0 to 7"]),
        ("zeropod:8", &["partition@backup:0"], &["help:", "zeropod-ha:K"]),
        ("ft128-1os", &["kill@scheduler:0"], &["scheduler 0", "none", "help:", "zeropod:K"]),
        ("zeropod:8", &["loss:0.1@host:99"], &["host 99", "0 to 15", "help: name one"]),
        (
            "zeropod:8",
            &["kill@scheduler:0,from_us=5", "kill@scheduler:0,from_us=9"],
            &["from_us=9", "a scheduler that runs", "an earlier fault"],
        ),
    ] {
        let faults: Vec<_> = faults.iter().map(|fault| (*fault).to_owned()).collect();
        let mut draft = Draft::default();
        if topology.starts_with("zeropod") {
            draft.set_transport("zeropod", Origin::Set).unwrap();
        }
        faults.iter().for_each(|fault| draft.add_fault(fault.parse().unwrap(), Origin::Set));
        let tree = topology::by_name(topology).unwrap();
        let plan = Plan::new(&draft, matrix.clone(), &tree);
        let said = plan.map_or_else(|error| error.to_string(), |_| String::new());
        words.iter().for_each(|word| assert!(said.contains(word), "{faults:?}: {said}"));
    }
    for (fault, words) in [
        ("kill@tor:0", &["`tor:0` of `kill`", "kill@scheduler:POD"][..]),
        ("kill", &["`all` of `kill`"]),
        ("kill@scheduler:0:2", &["`scheduler:0:2` of `kill`", "kill@scheduler:POD"]),
        ("partition@host:3", &["`host:3` of `partition`"]),
        ("restart@scheduler:0,until_us=9", &["`until_us` on `restart`"]),
        ("kill:0.5@scheduler:0", &["`rate` on `kill`"]),
    ] {
        let error = fault.parse::<FaultSpec>().unwrap_err();
        let said = format!("{error} {}", error.help);
        words.iter().for_each(|word| assert!(said.contains(word), "{fault}: {said}"));
    }
}
