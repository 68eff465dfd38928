//! Windows far above what a slow link holds, behind switches that trim: all flows finish.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use experiments::plan::{Draft, Origin, Plan};
use experiments::progress::Unwatched;
use experiments::topology::topo_file;
use experiments::virtual_time;
use experiments::workload::{FlowSpec, Matrix};
use transport::{Bytes, HostId};

/// Twelve hosts at 100 Gb/s, four at a ToR; each ToR has twelve links up of 1 Gb/s.
const SLOW_LINKS: &str = "Nodes 12\nTiers 2\nPodsize 12\n\
    Tier 0\nOversubscribed 66\nDownlink_speed_Gbps 100\nRadix_Down 4\nRadix_Up 6\n\
    Downlink_Latency_ns 5000\nSwitch_Latency_ns 600\n\
    Tier 1\nDownlink_speed_Gbps 1\nRadix_Down 6\nDownlink_Latency_ns 1\nSwitch_Latency_ns 50\n\
    Bundle 2\n";

#[test]
fn headers_of_refused_segments_leave_data_its_room_on_a_slow_link() {
    let topology = topo_file::read(SLOW_LINKS.as_bytes(), "slow links").unwrap();
    // Each of these fills a link with headers for ever where only the controller holds flows back.
    for flows in [6_u32, 8] {
        let mut matrix = Matrix { nodes: 12, ..Matrix::default() };
        for flow in 0..flows {
            let (src, dst) = (HostId(8 + flow % 4), HostId(flow % 8));
            matrix.push_flow(FlowSpec::new(src, dst, Bytes(340_900)));
        }
        let mut draft = Draft::default();
        draft.set_cc("fixed", Origin::Set).unwrap();
        draft.set_lb("ecmp", Origin::Set).unwrap();
        draft.set_trim(true, Origin::Set);
        for (key, value) in [("cc.fixed.bdps", "4"), ("mtu", "1500"), ("run.limit", "200ms")] {
            draft.set(key, value, Origin::Set).unwrap();
        }
        let plan = Plan::new(&draft, matrix, &topology).unwrap();
        let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
        let summary = &outcome.summary;
        assert!(summary.audit.ok, "{:?}", summary.audit.findings);
        let packets = &summary.packets;
        assert_eq!(summary.flows.finished, u64::from(flows), "{packets:?}");
    }
}
