//! pHost and dcPIM at rates and lengths of packets that their papers do not have.

use experiments::workload::FlowSpec;
use transport::{HostId, Rate};

use super::*;

/// How much longer than its bound a flow between the farthest hosts takes that is alone for 300
/// round trips, of which dcPIM's first matching takes seven, and the end half an epoch.
fn slowdown_alone(transport: &str, gbps: u64, mtu: u64) -> f64 {
    let rate = Rate::from_gbps(gbps);
    // Two ways of two links of 900 ns each, and a full packet sent at each link.
    let rtt = Duration::from_ns(7200) + rate.time_for(Bytes(mtu + 64)) * 4;
    let size = rate.bytes_in(rtt * 300);
    let mut matrix = Matrix { nodes: 8, ..Matrix::default() };
    matrix.push_flow(FlowSpec::new(HostId(0), HostId(7), size)).unwrap();
    let mtu = mtu.to_string();
    let settings = [("transport", transport), ("mtu", mtu.as_str())];
    let summary = run(&settings, matrix, &format!("leaf-spine:4,2,2,{gbps}")).summary;
    assert_eq!(summary.packets.retransmitted, 0, "{transport} {gbps} {mtu}");
    slowdown(&summary)
}

#[test]
fn a_lone_flow_that_spends_tokens_fills_its_line_at_any_rate_and_mtu() {
    for transport in ["phost", "dcpim"] {
        for (gbps, mtu) in [1, 5, 10, 25, 50, 100]
            .into_iter()
            .flat_map(|gbps| [1460, 4096, 8960].map(|mtu| (gbps, mtu)))
            .chain([(400, 8960)])
        {
            let slowdown = slowdown_alone(transport, gbps, mtu);
            println!("{transport}, {gbps} Gb/s, {mtu} bytes: {slowdown:.4}");
            assert!(slowdown < 1.0 / 0.95, "{transport} {gbps} {mtu}: {slowdown}");
        }
    }
}

#[test]
fn tokens_are_no_more_than_the_narrowest_place_of_the_longest_path_takes() {
    // Sites 1 ms apart: a BDP of the line is ten times what the link between them holds.
    let mut topology = topology::by_name("two-dc:4,2,1ms").unwrap();
    topology.wan.as_mut().unwrap().gbps = 5;
    let mut matrix = Matrix { nodes: 32, ..Matrix::default() };
    matrix.push_flow(FlowSpec::new(HostId(0), HostId(31), Bytes(20_000_000))).unwrap();
    let plan = Plan::new(&draft(&[("transport", "phost")]), matrix, &topology).unwrap();
    let path = plan.path(HostId(0), HostId(31));
    let bdp = Rate::from_gbps(10).bytes_in(path.base_rtt);
    assert_eq!(path.bdp(), bdp);
    let rtt = plan.settings.sched_params.phost.rtt.unwrap();
    let window = plan.settings.line_rate.bytes_in(rtt).0;
    assert!(window.abs_diff(bdp.0) <= bdp.0 / 100, "{window} of {}", bdp.0);
}
