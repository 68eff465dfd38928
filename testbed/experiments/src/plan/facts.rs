//! Facts of a network that policies resolve their settings with.

use fabric::QdiscKind;
use transport::path::{NetworkFacts, ProbeFacts};
use transport::{Bytes, Duration};

use super::{Draft, zeropod};
use crate::topology::{FabricParams, FatTreeSpec};

/// Long enough that picoseconds do not count.
const MEGABYTE: Bytes = Bytes(1_000_000);

/// Facts of a network, beside its base RTTs, that policies resolve their settings with.
pub(super) fn of(draft: &Draft, topology: &FatTreeSpec, fabric: &FabricParams) -> NetworkFacts {
    let farthest = topology.levels().saturating_sub(1);
    let links = 2 * topology.tiers_via(farthest).len() + usize::from(topology.wan.is_some());
    let params = &draft.switch.qdiscs.dcsim;
    let (queue, bucket, overhead) = (params.queue, params.bucket, params.overhead);
    let idle = topology.base_rtt(Bytes::ZERO, Bytes::ZERO);
    let sending = topology.base_rtt(MEGABYTE, Bytes::ZERO) - idle;
    let at_one_rate = topology.tier[0].link_rate().time_for(MEGABYTE) * links as u64;
    #[expect(clippy::cast_possible_truncation, reason = "a ratio")]
    let stretch = (sending.as_us_f64() / at_one_rate.as_us_f64()) as f32;
    NetworkFacts {
        propagation_rtt: Some(idle),
        stretch: Some(stretch),
        hops: u16::try_from(links).ok(),
        line_rate: Some(topology.tier[0].link_rate()),
        wan_delay: topology.wan.map(|wan| Duration::from_ns(wan.latency_ns.into())),
        probes: (fabric.qdisc == QdiscKind::DcSim).then_some(ProbeFacts {
            queue,
            bucket,
            overhead,
        }),
        pod: zeropod::facts(draft, topology),
        ..NetworkFacts::default()
    }
}
