//! DCsim on slow networks, whose BDP is a few packets.
//!
//! Source: \[dcsim\] sec. 2.2 and 3.1: buffers for data hold what the SIMs of a full queue stand
//! for.

use experiments::workload::FlowSpec;
use transport::HostId;

use super::*;

//= dcsim#3.1
#[test]
fn ports_whose_buffer_nothing_sets_lose_no_data_at_any_rate_and_mtu() {
    for (gbps, mtu) in [(1, "4160"), (10, "4160"), (25, "1500"), (50, "4160"), (100, "8960")] {
        let mut matrix = Matrix { nodes: 8, ..Matrix::default() };
        for src in 0..3 {
            matrix.push_flow(FlowSpec::new(HostId(src), HostId(7), Bytes(3_000_000))).unwrap();
        }
        let settings = [("transport", "dcsim"), ("mtu", mtu)];
        let summary = run(&settings, matrix, &format!("leaf-spine:2,2,4,{gbps}")).summary;
        let packets = &summary.packets;
        let found = (packets.retransmitted, summary.drops.get("data_queue_full"));
        assert_eq!(found, (0, None), "{gbps} Gb/s, {mtu} bytes");
    }
}
