//! Erasure-coded messages over real devices: restored segments arrive intact and fewer are sent
//! again.

use experiments::measure::{Outcome, Summary};
use experiments::plan::{Origin, Plan};
use experiments::progress::Unwatched;
use experiments::workload::matrix::Start;
use experiments::workload::{FlowSpec, Matrix};
use experiments::{topology, virtual_time};
use transport::{Bytes, Duration, HostId, Stats};

use super::{Verdict, assert_whole, draft, matrix, plan, run, run_recorded, run_with_faults};

/// Every flow is coded.
const ALL: (&str, &str) = ("ec.base_rtt_min", "0us");

/// Everything that can happen to packets, on links of near hosts.
pub(super) fn faults() -> Verdict {
    let bursts = ("fault", "block-loss:0.02/0.01/0.005@fabric,block=10");
    let outcome = run_with_faults(&[("ec", "8,2"), ALL, bursts]);
    let Summary { drops, packets, ec, .. } = &outcome.summary;
    assert!(drops["burst_loss"] > 0 && drops["corrupt"] > 0, "{drops:?}");
    assert!(outcome.stats.duplicates > 0 && packets.parity > 0);
    assert!(ec.as_ref().unwrap().restored > 0);
    Verdict::Passed
}

/// The driver copies frames, in shapes of other lengths, and no block is whole.
pub(super) fn memif() -> Verdict {
    let settings = [
        ("vdev.pmd", "net_memif"),
        ("ec", "3,2"),
        ALL,
        ("mtu", "1500"),
        ("fault", "loss:0.03@all"),
    ];
    let matrix = matrix("permutation", 4, &[("size", "300001")]);
    let outcome = run(&plan(&settings, matrix, "leaf-spine:2,2,2"));
    assert_whole(&outcome);
    assert!(outcome.summary.ec.unwrap().restored > 0);
    Verdict::Passed
}

pub(super) fn record() -> Verdict {
    let counts = |stats: &Stats| [stats.parity_new, stats.restored];
    let settings = [("ec", "8,2"), ALL, ("fault", "loss:0.02@all")];
    assert!(run_recorded(&settings, counts).stats.restored > 0);
    Verdict::Passed
}

/// One flow between two datacentres: 20 ms more than inside, and a thousandth of the packets lost,
/// some of them together. The run without a code is simulated: a process has one run over
/// devices.
pub(super) fn two_datacentres() -> Verdict {
    let plan = |code| {
        let fault = ("fault", "block-loss:6.0e-3/1.5e-3/3.3e-4@wan,block=10");
        let mut draft = draft(&[("ec", code), fault]);
        draft.set_transport("uno", Origin::Set).unwrap();
        let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(2), Bytes(64 << 20)));
        Plan::new(&draft, matrix, &topology::by_name("two-dc:2,2,10ms,10").unwrap()).unwrap()
    };
    let plain = virtual_time::run(&plan("off"), &mut Unwatched).unwrap().summary.packets;
    let outcome = run(&plan("8,2"));
    assert_whole(&outcome);
    let Summary { packets, drops, ec, lateness, .. } = &outcome.summary;
    println!("without: {plain:?}");
    assert!(drops["burst_loss"] > 0 && ec.as_ref().unwrap().restored > 0);
    if lateness.as_ref().is_some_and(|lateness| !lateness.valid) {
        // Packets that came late count as lost: how many says nothing about the code.
        return Verdict::Skipped("this machine was too busy to compare retransmissions".to_owned());
    }
    assert!(plain.retransmitted > 4 && packets.retransmitted < plain.retransmitted / 2);
    Verdict::Passed
}

/// Four flows of 2 MB, one after the other, from each host of a site to one of the other, 2 ms away
/// and back, over links with `fault`; coded by loss with `settings`.
fn chosen_by_loss(fault: &str, settings: &[(&str, &str)]) -> Outcome {
    let mut draft = draft(&[&[("ec", "auto"), ("fault", fault)], settings].concat());
    draft.set_transport("uno", Origin::Set).unwrap();
    let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
    for (host, row) in (0..2).flat_map(|host| (0..4).map(move |row| (host, row))) {
        let flow = FlowSpec::new(HostId(host), HostId(host + 2), Bytes(2_000_000));
        let start = Start::At(Duration::from_ms(10 * row));
        matrix.push_flow(FlowSpec { start, ..flow }).unwrap();
    }
    let topology = topology::by_name("two-dc:2,2,1ms,10").unwrap();
    let outcome = run(&Plan::new(&draft, matrix, &topology).unwrap());
    assert_whole(&outcome);
    println!("{:?}", outcome.summary.counters);
    outcome
}

pub(super) fn by_loss() -> Verdict {
    // Where threads of a busy machine pause, segments are late or taken for lost as in full queues:
    // nothing is taken for a sign of these.
    let signs = [("ec.auto.queue", "2s"), ("ec.auto.marked", "1"), ("ec.auto.share", "1")];
    let Summary { packets, drops, ec, counters, .. } =
        chosen_by_loss("loss:0.01@wan", &signs).summary;
    assert!(drops["random_loss"] > 0 && ec.unwrap().restored > 0);
    // Parity of blocks that are whole before it is due does not leave.
    assert!(packets.parity > 0 && packets.parity <= 2 * counters["ec_auto_coded"]);
    Verdict::Passed
}

pub(super) fn without_loss() -> Verdict {
    let Outcome { summary, stats, .. } = chosen_by_loss("loss:0@wan", &[]);
    if stats.parity_new > 0 && stats.lost_by_sack + stats.lost_by_timeout > 0 {
        return Verdict::Skipped(
            "this machine paused, and segments were taken for lost".to_owned(),
        );
    }
    assert_eq!((stats.parity_new, summary.counters.get("ec_auto_coded")), (0, None));
    Verdict::Passed
}
