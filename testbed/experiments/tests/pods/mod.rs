//! Plans of flows in pods.

use experiments::plan::Plan;
use experiments::workload::FlowSpec;
use experiments::workload::matrix::Start;
use transport::{Bytes, Duration, HostId};

use crate::plans::plan_of;

/// A flow: source, destination, bytes, start in picoseconds.
pub(crate) type Flow = (u32, u32, u64, u64);

/// `flows` whose cells are all granted; cells without a grant have tests of their own.
pub(crate) fn plan(topology: &str, transport: &str, set: &[(&str, &str)], flows: &[Flow]) -> Plan {
    let set = [&[("sched.zeropod.optimistic", "0")], set].concat();
    let spec = |&(src, dst, size, start): &Flow| FlowSpec {
        start: Start::At(Duration::from_ps(start)),
        ..FlowSpec::new(HostId(src), HostId(dst), Bytes(size))
    };
    plan_of(topology, transport, &set, flows.iter().map(spec))
}
