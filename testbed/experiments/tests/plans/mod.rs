//! Plans of a few flows, for tests of simulations.

use experiments::plan::{Draft, Origin, Plan};
use experiments::topology;
use experiments::workload::{FlowSpec, Matrix};

/// `flows` over the named topology, by a transport with some settings.
pub(crate) fn plan_of(
    network: &str,
    transport: &str,
    set: &[(&str, &str)],
    flows: impl Iterator<Item = FlowSpec>,
) -> Plan {
    let mut draft = Draft::default();
    draft.set_transport(transport, Origin::Set).unwrap();
    for (key, value) in set {
        draft.set(key, value, Origin::Set).unwrap();
    }
    let tree = topology::by_name(network).unwrap();
    let mut matrix = Matrix { nodes: tree.nodes, ..Matrix::default() };
    for flow in flows {
        matrix.push_flow(flow).unwrap();
    }
    Plan::new(&draft, matrix, &tree).unwrap()
}
