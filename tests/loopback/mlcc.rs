//! MLCC over the soft switch: notes, telemetry and paced queues on real frames.

use experiments::measure::{Outcome, Summary};
use experiments::workload::matrix::Start;
use experiments::workload::{FlowSpec, Matrix};
use live::datapath::{Bench, BorderCase, DeviceKind};
use transport::{Bytes, Duration, HostId};

use super::{Origin, Plan, Verdict, assert_whole, draft, run, topology};

/// Four flows inside a site and four from the other into the same four hosts, as in \[mlcc\] fig.
/// 8, all of which arrive first at the same instant: sites are so many milliseconds apart.
fn receivers(size: u64, apart_ms: u64) -> Matrix {
    let one_way = Duration::from_us(1000 * apart_ms + 10);
    let mut matrix = Matrix { nodes: 32, ..Matrix::default() };
    for host in 0..4 {
        matrix.push_flow(FlowSpec::new(HostId(host), HostId(20 + host), Bytes(size)));
        let near = FlowSpec::new(HostId(16 + host), HostId(20 + host), Bytes(size));
        matrix.push_flow(FlowSpec { start: Start::At(one_way), ..near });
    }
    matrix
}

fn run_with(settings: &[(&str, &str)], size: u64, apart_ms: u64) -> Outcome {
    let mut draft = draft(settings);
    draft.set_transport("mlcc", Origin::Set).unwrap();
    let network = topology::by_name(&format!("two-dc-leaf:{apart_ms}ms,100,1,4")).unwrap();
    let outcome = run(&Plan::new(&draft, receivers(size, apart_ms), &network).unwrap());
    assert_whole(&outcome);
    outcome
}

pub(super) fn fair() -> Verdict {
    let summary = run_fair();
    // Late polls keep near hosts from their share; the run says so.
    let least = if summary.is_success() { 0.9 } else { 0.5 };
    let jain = summary.jain.unwrap();
    assert!(jain >= least, "{jain}");
    Verdict::Passed
}

fn run_fair() -> Summary {
    // Long enough that the first round trip across, in which far flows start blind, weighs little.
    let Outcome { summary, .. } = run_with(&[], 10_000_000, 1);
    let Summary { jain, mlcc, packets, drops, .. } = &summary;
    // A frame whose checksum a switch broke would be dropped.
    assert_eq!((packets.dropped, packets.retransmitted), (0, 0), "{drops:?}");
    let counts = mlcc.as_ref().unwrap();
    println!("Jain {jain:?}, {counts:?}");
    assert!(counts.switch_int > 100 && counts.advised > 1000, "{counts:?}");
    assert_eq!((counts.queues_peak, counts.pool_exhausted), (4, 0));
    assert_eq!(packets.originated, Some(counts.switch_int));
    summary
}

pub(super) fn faults() -> Verdict {
    // Nothing here is fast, so late polls do no harm.
    let settings = [
        ("vdev.time_scale", "150"),
        ("fault", "duplicate:0.02@all"),
        ("fault", "reorder:0.02@all,delay_us=3"),
        ("fault", "corrupt:0.005@all"),
    ];
    let outcome = run_with(&settings, 1_000_000, 1);
    let Summary { mlcc, drops, .. } = &outcome.summary;
    assert!(drops["corrupt"] > 0 && outcome.stats.duplicates > 0, "{drops:?}");
    assert!(mlcc.as_ref().unwrap().advised > 100);
    Verdict::Passed
}

/// The summary of eight flows from one site to the other, each of which has two border switches,
/// under `faults`. The run is slow enough that late polls do no harm.
fn two_borders(faults: &[(&str, &str)]) -> Summary {
    let mut matrix = Matrix { nodes: 32, ..Matrix::default() };
    for host in 0..8 {
        matrix.push_flow(FlowSpec::new(HostId(host * 2), HostId(16 + host), Bytes(6_000_000)));
    }
    let mut draft = draft(&[&[("vdev.time_scale", "150")], faults].concat());
    draft.set_transport("mlcc", Origin::Set).unwrap();
    let network = topology::by_name("two-dc-leaf:1ms,100,1,4,2").unwrap();
    let outcome = run(&Plan::new(&draft, matrix, &network).unwrap());
    assert_whole(&outcome);
    outcome.summary
}

/// Acknowledgements pass the border switch that has the queue of their flow.
pub(super) fn two_borders_work() -> Verdict {
    let Summary { mlcc, packets, .. } = two_borders(&[]);
    let counts = mlcc.unwrap();
    assert_eq!(packets.dropped, 0);
    assert!(counts.queues_peak > 1 && counts.switch_int > 100, "{counts:?}");
    assert!(counts.advised * 100 > packets.acks * 99, "{counts:?}, {packets:?}");
    Verdict::Passed
}

/// One of the receivers' border switches dies, and all flows end.
pub(super) fn border_dies() -> Verdict {
    let dead = two_borders(&[("fault", "crash@border:3,from_us=2000,until_us=9000000")]);
    assert!(dead.drops["link_down"] > 50, "{:?}", dead.drops);
    Verdict::Passed
}

/// `headrace bench dci`, with a small number of packets.
pub(super) fn measured() -> Verdict {
    let bench = Bench::start().unwrap_or_else(|error| panic!("{error}"));
    for (device, queues) in
        [(DeviceKind::Ring, 1), (DeviceKind::Ring, 1000), (DeviceKind::Memif, 10)]
    {
        let case = BorderCase { device, segment_bytes: 1500, queues, packets: 20_000 };
        let cost = bench.border(&case).unwrap_or_else(|error| panic!("{error}"));
        println!("{case:?}: {cost:?}");
        assert!(cost.packets >= 20_000 && cost.queues_peak == u64::from(queues), "{cost:?}");
        let stages = [cost.receive_ns, cost.switch_ns, cost.send_ns];
        assert!(stages.iter().all(|ns| *ns > 0.0), "{cost:?}");
        assert!((stages.iter().sum::<f64>() - cost.ns_per_packet).abs() < 1e-6, "{cost:?}");
    }
    Verdict::Passed
}
