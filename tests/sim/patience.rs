//! Senders wait for what is slow: acknowledgements that are held for longer than a short path takes.

use testbed::workload::FlowSpec;
use transport::HostId;

use super::*;

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
