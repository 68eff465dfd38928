//! Sequential ring all-to-all: in step i every host sends to its i-th neighbour, one flow at a
//! time.
//!
//! A host begins its next step when its flow is acknowledged (a oneshot trigger), or,
//! synchronously, when the flows of all hosts in this step are (a barrier). Every step alone is a
//! permutation.

use std::num::NonZeroU32;

use transport::{Bytes, HostId, Rng};

use super::matrix::{FLOWS_MAX, FlowSpec, Matrix, Start, TriggerKind};
use super::params::{Parameter, Params};
use super::{Workload, does_not_fit};
use crate::input::InputError;

/// The parameters of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Bytes of each flow, at least 1.
    pub size: Bytes,
    /// All hosts finish a step before any begins the next.
    pub synchronous: bool,
}

impl Ring {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "all-to-all in steps: step i sends to the i-th neighbour";
    /// The parameters that [`Ring::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "size", about: "bytes of each flow (64KiB)" },
        Parameter { name: "synchronous", about: "steps are separated by barriers (false)" },
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        Ok(Self {
            size: params.bytes("size", Bytes(65_536))?,
            synchronous: params.boolean("synchronous", false)?,
        })
    }
}

impl Workload for Ring {
    fn generate(&self, nodes: u32, _rng: &mut Rng) -> Result<Matrix, InputError> {
        let Some(count) = NonZeroU32::new(nodes).filter(|_| nodes > 1) else {
            return Err(does_not_fit(format!("{nodes} hosts"), "at least two"));
        };
        let pairs = u64::from(nodes) * u64::from(nodes - 1);
        if pairs > u64::from(FLOWS_MAX) {
            return Err(does_not_fit(format!("{pairs} flows"), "at most 10^8 flows; fewer hosts"));
        }
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        let mut waits_for = vec![None; nodes as usize];
        for step in 1..nodes {
            let is_last = step + 1 == nodes;
            let barrier = if self.synchronous && !is_last {
                matrix.push_trigger(TriggerKind::Barrier(count))
            } else {
                None
            };
            for src in 0..nodes {
                let mut flow = FlowSpec::new(HostId(src), HostId((src + step) % nodes), self.size);
                if let Some(trigger) = waits_for[src as usize] {
                    flow.start = Start::On(trigger);
                }
                flow.send_done = match barrier {
                    _ if is_last => None,
                    Some(barrier) => Some(barrier),
                    None => matrix.push_trigger(TriggerKind::Oneshot),
                };
                waits_for[src as usize] = flow.send_done;
                matrix.push_flow(flow);
            }
        }
        Ok(matrix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::triggers::Triggers;

    #[test]
    fn each_host_sends_its_flows_one_after_the_other() {
        let ring = Ring { size: Bytes(1), synchronous: false };
        let matrix = ring.generate(4, &mut Rng::new(1)).unwrap();
        assert_eq!((matrix.flows.len(), matrix.triggers.len()), (12, 8));
        let mut triggers = Triggers::new(&matrix);
        let first = triggers.start().to_vec();
        assert_eq!(first.len(), 4);
        let next = triggers.on_send_done(first[2]).to_vec();
        assert_eq!(next.len(), 1);
        let flow = matrix.flows[next[0].index()];
        assert_eq!((flow.src, flow.dst), (HostId(2), HostId(0)));
    }

    #[test]
    fn a_synchronous_ring_waits_for_the_slowest() {
        let ring = Ring { size: Bytes(1), synchronous: true };
        let matrix = ring.generate(4, &mut Rng::new(1)).unwrap();
        assert_eq!(matrix.triggers.len(), 2);
        let mut triggers = Triggers::new(&matrix);
        let first = triggers.start().to_vec();
        for flow in &first[..3] {
            assert!(triggers.on_send_done(*flow).is_empty());
        }
        assert_eq!(triggers.on_send_done(first[3]).len(), 4);
    }
}
