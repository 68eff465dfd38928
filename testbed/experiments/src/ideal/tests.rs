//! Cases computed by hand.

use transport::{Duration, HostId};

use super::*;
use crate::conductor::FlowRecord;
use crate::plan::{Draft, Origin};
use crate::progress::Unwatched;
use crate::topology;
use crate::virtual_time;
use crate::workload::matrix::Start;
use crate::workload::{FlowSpec, Matrix, cm};

const NS: u64 = 1000;
/// A packet of 1460 + 40 bytes over four links of 100 Gb/s and 1 us, without its first 120 ns.
const WAY: u64 = 4 * 1000 * NS + 3 * 120 * NS;
/// 40 bytes over four such links.
const BACK: u64 = 4 * (1000 * NS + 3200);

/// A pod of 16 hosts, four a ToR, with packets of 1460 + 40 bytes: ten take 1.2 us.
fn plan_of(matrix: Matrix, name: &str, settings: &[(&str, &str)]) -> Plan {
    let mut draft = Draft::default();
    draft.set_transport("ideal", Origin::Flag("transport")).unwrap();
    let sizes = [("mtu", "1460"), ("wire.data_overhead", "40"), ("wire.control", "40")];
    for (key, value) in sizes.iter().chain(settings) {
        draft.set(key, value, Origin::Set).unwrap();
    }
    Plan::new(&draft, matrix, &topology::by_name(name).unwrap()).unwrap()
}

fn outcome(plan: &Plan) -> Outcome {
    virtual_time::run(plan, &mut Unwatched).unwrap()
}

/// Flows of (source, destination, packets, start in ns): when each is delivered and acknowledged,
/// picoseconds from the run's beginning.
fn times(name: &str, hosts: u32, flows: &[(u32, u32, u64, u64)]) -> Vec<(u64, u64)> {
    let mut matrix = Matrix { nodes: hosts, ..Matrix::default() };
    for &(src, dst, packets, start_ns) in flows {
        let spec = FlowSpec::new(HostId(src), HostId(dst), Bytes(packets * 1460));
        let start = Start::At(Duration::from_ns(start_ns));
        matrix.push_flow(FlowSpec { start, ..spec });
    }
    let outcome = outcome(&plan_of(matrix, name, &[]));
    assert!(outcome.summary.is_success(), "{:?}", outcome.summary.audit);
    let ends = |record: &FlowRecord| (record.delivered_at.as_ps(), record.acked_at.as_ps());
    outcome.records.iter().map(ends).collect()
}

fn delivered(flows: &[(u32, u32, u64, u64)]) -> Vec<u64> {
    times("zeropod:8", 16, flows).into_iter().map(|(delivered, _)| delivered).collect()
}

#[test]
fn a_lone_flow_takes_its_line_and_the_way_of_a_packet() {
    let (delivered, acked) = times("zeropod:8", 16, &[(0, 4, 10, 0)])[0];
    assert_eq!(delivered, 1200 * NS + WAY);
    assert_eq!(acked, delivered + BACK);
    let plan = {
        let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(4), Bytes(14_600)));
        plan_of(matrix, "zeropod:8", &[])
    };
    assert_eq!(plan.fct_alone(HostId(0), HostId(4), Bytes(14_600)).as_ps(), acked);
    // Two links below one ToR.
    assert_eq!(delivered_one((0, 1, 10, 7)), 1207 * NS + 2 * 1000 * NS + 120 * NS);
}

fn delivered_one(flow: (u32, u32, u64, u64)) -> u64 {
    delivered(&[flow])[0]
}

#[test]
fn of_two_flows_to_one_receiver_the_shorter_one_is_first() {
    let ends = delivered(&[(0, 8, 20, 0), (4, 8, 10, 0)]);
    assert_eq!(ends, [3600 * NS + WAY, 1200 * NS + WAY]);
    // Of equally long ones, that of the first line of the matrix.
    let ends = delivered(&[(0, 8, 10, 0), (4, 8, 10, 0)]);
    assert_eq!(ends, [1200 * NS + WAY, 2400 * NS + WAY]);
}

#[test]
fn a_flow_is_pre_empted_by_one_that_is_shorter_than_what_it_has_left() {
    // 1.9 us are left when the flow of 1.2 us comes.
    let ends = delivered(&[(0, 8, 20, 0), (4, 8, 10, 500)]);
    assert_eq!(ends, [3600 * NS + WAY, 1700 * NS + WAY]);
    // 1.1 us are.
    let ends = delivered(&[(0, 8, 20, 0), (4, 8, 10, 1300)]);
    assert_eq!(ends, [2400 * NS + WAY, 3600 * NS + WAY]);
}

#[test]
fn pairs_that_share_no_line_send_at_once_and_a_host_both_ways() {
    let flows: Vec<_> = (0..16).map(|host| (host, (host + 4) % 16, 10, 0)).collect();
    assert_eq!(delivered(&flows), vec![1200 * NS + WAY; 16]);
}

#[test]
fn flows_that_share_too_few_links_above_take_turns_there() {
    // Six links of a packet's way lead to another pod, over one Core.
    let way = 6 * 1000 * NS + 5 * 120 * NS;
    let flows = [(0, 16, 20, 0), (4, 20, 10, 0), (8, 1, 10, 0)];
    let ends: Vec<_> = times("zeropod:8,2,1", 32, &flows).iter().map(|ends| ends.0).collect();
    assert_eq!(ends, [3600 * NS + way, 1200 * NS + way, 1200 * NS + WAY]);
}

#[test]
fn an_incast_is_done_when_the_bound_of_its_matrix_says() {
    let flows: Vec<_> = (1..16).map(|host| (host, 0, 69, 0)).collect();
    let last = delivered(&flows).into_iter().max().unwrap();
    // The senders at the receiver's own ToR, whose ways are shorter, are first in the matrix.
    assert_eq!(last, 15 * 69 * 120 * NS + WAY);
}

#[test]
fn a_flow_that_a_trigger_starts_begins_when_the_other_one_is_delivered() {
    let text = b"Nodes 16\nConnections 2\nTriggers 1\n\
        0->4 id 1 start 0 size 14600 recv_done_trigger 1\n\
        4->8 id 2 trigger 1 size 14600\n\
        trigger id 1 oneshot\n";
    let matrix = cm::read(&text[..], "t.cm", cm::StartUnit::Us).unwrap().matrix;
    let plan = plan_of(matrix, "zeropod:8", &[]);
    let records = outcome(&plan).records;
    assert_eq!(records[1].start, records[0].delivered_at);
    assert_eq!(records[1].delivered_at.as_ps(), 2 * (1200 * NS + WAY));
}

#[test]
fn a_run_that_ends_at_its_limit_has_unfinished_flows() {
    let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
    for packets in [10, 1000] {
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(4), Bytes(packets * 1460)));
    }
    let outcome = outcome(&plan_of(matrix, "zeropod:8", &[("run.limit", "20us")]));
    assert!(outcome.stopped && outcome.summary.audit.ok);
    assert_eq!((outcome.end, outcome.summary.utilisation), (Duration::from_us(20), None));
    assert_eq!((outcome.summary.flows.finished, outcome.summary.flows.total), (1, 2));
    assert_eq!(outcome.records[1].delivered_at, Instant::FAR_FUTURE);
}

#[test]
fn results_do_not_depend_on_threads_and_have_no_packets() {
    let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
    (1..9).for_each(|at| {
        matrix.push_flow(FlowSpec::new(
            HostId(at),
            HostId(at % 3 + 9),
            Bytes(5000 * u64::from(at)),
        ));
    });
    let [one, three] = ["1", "3"]
        .map(|threads| outcome(&plan_of(matrix.clone(), "zeropod:8", &[("sim.threads", threads)])));
    assert_eq!(one.records, three.records);
    assert!(one.adapted.is_empty() && three.adapted[0].key == "sim.threads");
    let summary = &one.summary;
    assert_eq!((&*summary.transport, &*summary.cc, &*summary.lb), ("ideal", "none", "none"));
    assert_eq!((summary.packets.data_new, summary.packets.hops), (0, None));
    assert_eq!(summary.bytes.delivered, 36 * 5000);
    assert!(summary.fct_slowdown.min.unwrap() >= 1.0);
}

#[test]
fn what_packets_show_is_refused() {
    let mut matrix = Matrix { nodes: 16, ..Matrix::default() };
    matrix.push_flow(FlowSpec::new(HostId(0), HostId(4), Bytes(1)));
    let plan = plan_of(matrix, "zeropod:8", &[]);
    let observe = Observe { why: true, ..Observe::default() };
    let refused = virtual_time::run_observed(&plan, &observe, &mut Unwatched).unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("--why") && refused.exit_code() == 2, "{said}");
}
