//! Nothing is faster than its bound. Matrices are small and random, with sizes that are no multiple
//! of a packet. Networks have one path or several, slow or fast links above hosts, one site or two.
//! Transports are with and without telemetry, coded, scheduled and sprayed. Flows start at time
//! zero or later, also by triggers.

use experiments::topology::FatTreeSpec;
use experiments::workload::FlowSpec;
use experiments::workload::matrix::{Start, TriggerKind};
use transport::{Duration, HostId};

use super::*;

const TRANSPORTS: [&str; 12] = [
    "smartt", "swift", "hpcc", "powertcp", "uno", "dcsim", "phost", "dcpim", "pfabric", "eqds",
    "roce", "ideal",
];

/// Networks by name, and the rate of their links above the lowest tier where it is another, Gb/s.
const NETWORKS: [(&str, Option<u32>); 8] = [
    ("leaf-spine:2,1,8", None),
    ("leaf-spine:2,1,4", Some(30)),
    ("leaf-spine:2,2,4", Some(20)),
    ("leaf-spine:4,3,4,50", None),
    ("leaf-spine:8,8,4,10", None),
    ("leaf-spine:2,1,4", Some(400)),
    ("dumbbell:8", None),
    ("two-dc:4,2,5us", None),
];

fn network(name: &str, above_gbps: Option<u32>) -> FatTreeSpec {
    let mut spec = topology::by_name(name).unwrap();
    if let Some(gbps) = above_gbps {
        spec.tier[1].downlink_mbps = gbps * 1000;
    }
    spec
}

/// A few flows of one byte to ten packets and a part of one, some to one host.
fn small_matrix(hosts: u32, mtu: u64, rng: &mut Rng) -> Matrix {
    let mut matrix = Matrix { nodes: hosts, ..Matrix::default() };
    let first = Duration::from_us(rng.below(2) * 700);
    let host = |rng: &mut Rng| HostId(u32::try_from(rng.below(hosts.into())).unwrap());
    let shared = host(rng);
    let trigger = matrix.push_trigger(TriggerKind::Oneshot).unwrap();
    let triggered = rng.chance(0.3);
    for n in 0..1 + rng.below(4) {
        let dst = if rng.chance(0.5) { shared } else { host(rng) };
        let src =
            HostId((dst.0 + 1 + u32::try_from(rng.below(u64::from(hosts) - 1)).unwrap()) % hosts);
        let most = mtu * (1 + rng.below(10));
        let size = 1 + rng.below(most);
        let mut flow = FlowSpec::new(src, dst, Bytes(size));
        flow.start = Start::At(first + Duration::from_ns(rng.below(2) * rng.below(3000)));
        match n {
            0 => flow.recv_done = Some(trigger),
            _ if triggered => flow.start = Start::On(trigger),
            _ => {}
        }
        matrix.push_flow(flow).unwrap();
    }
    matrix
}

#[test]
fn no_transport_beats_the_bounds_of_a_matrix_and_of_a_flow() {
    let mut rng = Rng::new(29);
    let (mut least, mut runs) = ([f64::MAX; 2], 0);
    let cases = std::env::var("BOUNDS").map_or(12, |text| text.parse::<u64>().unwrap());
    for case in 0..cases {
        for (name, above) in NETWORKS {
            let spec = network(name, above);
            let mtu = [256, 1460, 4096, 8960][usize::try_from(rng.below(4)).unwrap()];
            let matrix = small_matrix(spec.nodes, mtu, &mut rng);
            let transport = TRANSPORTS[usize::try_from(rng.below(12)).unwrap()];
            let message = ["none", "1000", "5000"][usize::try_from(rng.below(3)).unwrap()];
            let mtu = mtu.to_string();
            let settings = [
                ("transport", transport),
                ("mtu", &mtu),
                ("run.message", message),
                ("switch.int_room", "8"),
                ("switch.queue", "2MB"),
            ];
            // Its bits leave a switch before their packet is whole there.
            let is_fluid = transport == "ideal" && above == Some(400);
            // Some transports need other buffers for some lengths of packets.
            let Ok(plan) = Plan::new(&draft(&settings), matrix, &spec) else { continue };
            if is_fluid {
                continue;
            }
            runs += 1;
            let summary = virtual_time::run(&plan, &mut Unwatched).unwrap().summary;
            let what =
                format!("case {case}: {name} {above:?} {settings:?} {:?}", plan.matrix.flows);
            assert!(summary.is_success(), "{what}: {:?} {:?}", summary.flows, summary.audit);
            let found = [summary.slowdown.unwrap(), summary.fct_slowdown.min.unwrap()];
            for (least, found) in least.iter_mut().zip(found) {
                *least = least.min(found);
                assert!(found >= 1.0 - 1e-9, "{found}: {what}");
            }
        }
    }
    println!("least slowdown, fct_slowdown: {least:?}");
    assert!(runs * 4 > cases * 8 * 3, "{runs} runs");
    // Bounds that are met somewhere are no lower than they could be there.
    assert!(least.iter().all(|least| *least < 1.001), "{least:?}");
}
