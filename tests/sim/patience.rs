//! Senders wait for slow answers: queues deeper than timeouts are made for, and acknowledgements
//! that are held for longer than a short path takes. Bounds measured.

use experiments::workload::FlowSpec;
use experiments::workload::matrix::Start;
use transport::{Duration, HostId};

use super::*;

/// Eight hosts, links of 1 Gb/s.
const SMALL: &str = "leaf-spine:2,2,4,1";

/// Five hundred flows of nine segments come to one host three times as fast as its link takes them,
/// and wait in a queue for up to a hundred timeouts.
#[test]
fn behind_a_deep_queue_segments_are_not_sent_again_and_again() {
    let mut matrix = Matrix { nodes: 8, ..Matrix::default() };
    for n in 0..500 {
        let start = Start::At(Duration::from_us(25) * n);
        let src = HostId(1 + u32::try_from(n % 7).unwrap());
        let flow = FlowSpec::new(src, HostId(0), Bytes(9000));
        matrix.push_flow(FlowSpec { start, ..flow }).unwrap();
    }
    for cc in ["bbr", "dctcp", "smartt"] {
        for sched in ["round-robin", "credit"] {
            let settings = [("cc", cc), ("trim", "off"), ("sched", sched), ("mtu", "1000")];
            let settings = [&settings[..], &[("switch.queue", "1GiB")]].concat();
            let outcome = run(&settings, matrix.clone(), SMALL);
            let (slowdown, packets) = (slowdown(&outcome.summary), outcome.summary.packets);
            println!("{cc} {sched}: {slowdown:.3}, {packets:?}");
            assert!(slowdown < 1.5, "{cc} {sched}: {slowdown}");
            assert!(packets.retransmitted < packets.data_new / 2, "{cc} {sched}: {packets:?}");
        }
    }
}

/// Flows of one segment at a time between neighbours, in a network whose far hosts are so far that
/// acknowledgements are held for ten timeouts of the neighbours'.
#[test]
fn neighbours_whose_acknowledgements_are_held_do_not_give_each_other_up() {
    let mut matrix = Matrix { nodes: 256, ..Matrix::default() };
    matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(40_960))).unwrap();
    for ec in ["off", "48,16"] {
        let settings = [("cc", "fixed"), ("cc.fixed.bdps", "0"), ("ack_every", "64")];
        let coded = [("ec", ec), ("ec.base_rtt_min", "0us")];
        let outcome = run(&[&settings[..], &coded].concat(), matrix.clone(), "two-dc");
        assert_eq!(outcome.summary.packets.retransmitted, 0, "{ec}");
    }
}
